"""The notebook format: from labs/source/*.py to notebooks, one for learners, one with solutions.

A further notebook, labs/source/further/*.py, has no exercises: it is the same for all.

A source is jupytext py:percent. Two options of a cell marker are ours: `answer="03.2"` for the
cell that holds an answer, `check="03.2"` for the one that checks it. They become nbgrader's
metadata (schema version 3), with the points of labs/checks. Nothing here reads or runs a kernel.

    ### BEGIN SOLUTION … ### END SOLUTION            becomes `# YOUR CODE (about N lines)`
    ### BEGIN HIDDEN TESTS … ### END HIDDEN TESTS    is left out

A source may hold its own checks, so that an incident is one file; `part` says what a cell is of:

    part="checks"   its checks alone
    part="shared"   these, and the notebook
    part="tests"    neither: its wrong answers, for the tests

The markers are nbgrader's. A learner's cell always runs: where the comment alone would leave a
hole in the syntax `...` fills it, and a name that only the solution made is bound to `...`.
"""

from __future__ import annotations

import ast
import difflib
import errno
import json
import os
import re
import stat
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from lab_utils.errors import BadArgument, LabError
from lab_utils.folders import FURTHER
from lab_utils.grading.cases import Exercise, checks_path, exercises, held_by_sources

_grammar = sys.modules.get("rfc3987_syntax")
# jsonschema, which nbformat loads, would build the grammar of international addresses: two seconds
# of processor time for a format that no notebook has.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # an import of it now fails
try:
    import jupytext
    import nbformat
    from nbformat import NotebookNode
finally:
    del sys.modules["rfc3987_syntax"]
    if _grammar is not None:
        sys.modules["rfc3987_syntax"] = _grammar


BYTES_MAX: Final = 50_000_000
# Objects and lists in its JSON: each takes half a kilobyte of the grader, whatever is in it.
PARTS_MAX: Final = 1_000_000
# More values than any notebook has: 22 million in one list held up all other gradings for 17 s.
COMMAS_MAX: Final = 5_000_000
# A lab has a tenth of it. Some looks at cells are for each pair of them.
CELLS_MAX: Final = 1_000

SCHEMA_VERSION: Final = 3
_nodes: Any = nbformat.v4  # it has no types
KERNEL: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}
CellText: TypeAlias = Callable[[str], str]
SOURCE_NAME: Final = re.compile(r"^(\d\d)_[a-z0-9_]+$")
SOLUTION: Final = "SOLUTION"
IN_NO_NOTEBOOK: Final = ("checks", "tests")
MARKER: Final = re.compile(r"^\s*### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\s*$")
# A cell that starts a broker or Spark, or that checks an answer, takes longer than nbgrader's 30 s.
CONFIGURATION: Final = """c = get_config()
c.CourseDirectory.course_id = "kafka"
c.Execute.timeout = 300
"""


class NotASubmission(LabError):
    """A file is not a notebook of this course; it cannot be graded."""


def lab_of(name: str) -> str | None:
    """The lab that a source or notebook belongs to by its file name, as "03"; None for others.

    >>> lab_of("03_why_twice"), lab_of("notes")
    ('03', None)
    """
    match = SOURCE_NAME.match(name)
    return match[1] if match else None


def grade_id(role: str, item: str) -> str:
    """The id of a graded cell; nbgrader allows no dot in it.

    >>> grade_id("check", "03.2")
    'check-03-2'
    """
    return f"{role}-{item.replace('.', '-')}"


def learner_notebook(source: str, lab: str, exercises: Sequence[Exercise]) -> NotebookNode:
    """The notebook that is handed out: holes in place of solutions, no outputs."""
    return _notebook(source, lab, exercises, for_learner)


def instructor_notebook(source: str, lab: str, exercises: Sequence[Exercise]) -> NotebookNode:
    """The notebook with its solutions in place; it must get full points."""
    return _notebook(source, lab, exercises, without_markers)


def further_notebook(source: Path) -> NotebookNode:
    """A further notebook, which has no exercises and counts as no submission of its lab."""
    return _notebook(read_source(source), f"{FURTHER}/{lab_of(source.stem)}", (), for_learner)


def further_sources(labs: Path) -> list[Path]:
    """The sources of the further notebooks."""
    return sorted((labs / "source" / FURTHER).glob("[0-9][0-9]_*.py"))


def notebook_text(notebook: NotebookNode) -> str:
    """The notebook as the text of its file; equal notebooks are equal bytes."""
    return str(_nodes.writes(notebook)).rstrip("\n") + "\n"


def handed_in_notebook(path: Path) -> NotebookNode:
    """The notebook in a file of anybody's; raises NotASubmission with the reason."""
    try:
        notebook = _converted(_bounded(_text(path)))
        if len(notebook.cells) > CELLS_MAX:
            raise NotASubmission(
                f"the notebook has {len(notebook.cells):,} cells, and {CELLS_MAX:,} are the limit."
            )
        for cell in notebook.cells:
            if not isinstance(cell.get("source"), str):
                raise NotASubmission("a cell of the notebook has no text.")
    except NotASubmission:
        raise
    except OSError as error:
        raise NotASubmission(f"the file cannot be read: {error.strerror}.") from error
    except Exception as error:  # nbformat raises whatever the JSON leads it to
        raise NotASubmission(f"the file is not a notebook ({type(error).__name__}).") from error
    return notebook


def _text(path: Path) -> str:
    """The text of a regular file, in any encoding of Unicode; raises NotASubmission or OSError.

    A link may lead to another's notebook, and a pipe or a device has no end.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        number = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise NotASubmission("the file is a link. Hand in the notebook itself.") from None
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise NotASubmission("the file is no regular file, but a pipe, a device or the like.")
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise NotASubmission(f"the file has more than {BYTES_MAX:,} bytes.")
    return content.decode(json.detect_encoding(content))


def _bounded(text: str) -> str:
    """The text, if its JSON has no more parts than there is memory for; raises NotASubmission."""
    for what, signs, most in (("braces", "{[", PARTS_MAX), ("commas", ",", COMMAS_MAX)):
        if (parts := sum(map(text.count, signs))) > most:
            raise NotASubmission(f"the file has {parts:,} {what}, and {most:,} are the limit.")
    return text


def _converted(text: str) -> NotebookNode:
    """The notebook of a file's text; raises whatever its JSON leads nbformat to.

    It is not validated: that takes minutes for a file with many parts, and refuses nothing.
    """
    read: Any = nbformat
    notebook: NotebookNode = read.convert(read.reader.reads(text), 4)
    return notebook


def sources(labs: Path) -> dict[str | None, Path]:
    """The sources of the labs, by lab; None is one whose name tells of none."""
    return {lab_of(path.stem): path for path in sorted((labs / "source").glob("*.py"))}


def read_source(path: Path) -> str:
    """The text of a source file."""
    return path.read_text(encoding="utf-8")


def part(source: str, *names: str) -> list[str]:
    """The cells of a source that are of these parts."""
    return [it.source for it in _read(source) if it.metadata.get("part") in names]


@cache  # a source is read for its notebook, its checks and its tests
def _read(source: str) -> tuple[NotebookNode, ...]:
    return tuple(jupytext.reads(source, fmt="py:percent").cells)


def _notebook(
    source: str, lab: str, exercises: Sequence[Exercise], cell_text: CellText
) -> NotebookNode:
    cells = [it for it in _read(source) if it.metadata.get("part") not in IN_NO_NOTEBOOK]
    _require_match(cells, exercises)
    points = {each.item: each.points for each in exercises}
    notebook: NotebookNode = _nodes.new_notebook(
        metadata={
            "delivery_lab": {"lab": lab},
            "kernelspec": dict(KERNEL),
            "language_info": {"name": "python"},
        }
    )
    notebook.cells = [
        _cell(cell, position, points, cell_text) for position, cell in enumerate(cells)
    ]
    nbformat.validate(notebook)
    return notebook


def _cell(cell: Any, position: int, points: dict[str, int], cell_text: CellText) -> Any:
    if cell.cell_type != "code":
        return _nodes.new_markdown_cell(cell.source, id=f"cell-{position:02d}")
    graded = _nbgrader(cell.metadata, points)
    return _nodes.new_code_cell(
        cell_text(cell.source),
        id=graded["grade_id"] if graded else f"cell-{position:02d}",
        metadata={"nbgrader": graded} if graded else {},
    )


def _nbgrader(options: dict[str, Any], points: dict[str, int]) -> dict[str, Any]:
    """The nbgrader metadata of a graded cell, else nothing."""
    every = {"cell_type": "code", "schema_version": SCHEMA_VERSION, "task": False}
    if "answer" in options:
        name = grade_id("answer", options["answer"])
        return every | {"grade": False, "grade_id": name, "locked": False, "solution": True}
    if "check" in options:
        item = options["check"]
        graded = {"grade": True, "grade_id": grade_id("check", item), "points": points[item]}
        return every | graded | {"locked": True, "solution": False}
    return {}


def _require_match(cells: Sequence[NotebookNode], exercises: Sequence[Exercise]) -> None:
    """Hold the cells of a source against the exercises of its checks; name all that differ."""
    answers = [cell.metadata["answer"] for cell in cells if "answer" in cell.metadata]
    checks = {cell.metadata["check"]: cell.source for cell in cells
              if "check" in cell.metadata}  # fmt: skip
    items = [each.item for each in exercises]
    wrong = [
        f"the cells marked {role} are {found}, the exercises {items}."
        for role, found in (("answer", answers), ("check", list(checks)))
        if found != items
    ]
    for each in exercises:
        call = f'lab.check("{each.item}", {each.answer}'
        if each.item in checks and call not in checks[each.item]:
            wrong.append(f"the check cell of {each.item} does not hold `{call})`.")
    wrong += [
        f"a solution stands outside of an answer cell: {cell.source[:40]!r}."
        for cell in cells
        if has_solution(cell.source) and "answer" not in cell.metadata
    ]
    if wrong:
        raise BadArgument("the source and labs/checks do not agree: " + " ".join(wrong))


def has_solution(cell: str) -> bool:
    """Does the cell hold a solution?"""
    return any(match[2] == SOLUTION for match in map(MARKER.match, cell.splitlines()) if match)


def without_markers(cell: str) -> str:
    """The instructor's cell as code: everything is kept but the marker lines."""
    return "\n".join(line for line in cell.splitlines() if not MARKER.match(line))


def for_learner(cell: str) -> str:
    """The learner's cell: solutions become holes, hidden tests are left out."""
    outside = "\n".join(_replaced(cell, lambda _: []))
    already_bound = _names(outside)
    comment_only = "\n".join(_replaced(cell, lambda lines: _hole(lines, already_bound)))
    if _parses(comment_only):
        return comment_only
    return "\n".join(
        _replaced(cell, lambda lines: [*_hole(lines, already_bound), _indent(lines) + "..."])
    )


def _replaced(cell: str, hole: Callable[[list[str]], list[str]]) -> Iterable[str]:
    """The lines of a cell, with each solution given to `hole` and hidden tests left out."""
    region: list[str] = []
    inside = ""
    for line in cell.splitlines():
        marker = MARKER.match(line)
        if marker is None:
            if inside:
                region.append(line)
            else:
                yield line
            continue
        expected = ("END", inside) if inside else ("BEGIN", marker[2])
        if (marker[1], marker[2]) != expected:
            raise BadArgument(f"{line.strip()!r} stands where ### {' '.join(expected)} must be.")
        if marker[1] == "END" and inside == SOLUTION:
            yield from hole(region)
        region, inside = [], "" if marker[1] == "END" else marker[2]
    if inside:
        raise BadArgument(f"### BEGIN {inside} has no ### END {inside}.")


def _hole(solution: list[str], already_bound: set[str]) -> list[str]:
    """A comment with the size of the solution, and a harmless value for each name it made."""
    indent = _indent(solution)
    size = sum(1 for line in solution if line.strip() and not line.strip().startswith("#"))
    comment = f"{indent}# YOUR CODE (about {size} line{'' if size == 1 else 's'})"
    names = _names(textwrap.dedent("\n".join(solution))) if not indent else set()
    return [comment, *(f"{name} = ..." for name in sorted(names - already_bound))]


def _indent(lines: list[str]) -> str:
    first = next((line for line in lines if line.strip()), "")
    return first[: len(first) - len(first.lstrip())]


def _parses(cell: str) -> bool:
    try:
        ast.parse(cell)
    except SyntaxError:
        return False
    return True


def _names(code: str) -> set[str]:
    """The names that code binds at its top level; none if it is no code on its own."""
    if not _parses(code):
        return set()
    symbols = symtable.symtable(code, "cell", "exec").get_symbols()
    return {it.get_name() for it in symbols if it.is_assigned() and not it.is_imported()}


def build_labs(
    labs: Path, only: Sequence[str] = (), *, write: bool = True
) -> list[tuple[Path, str]]:
    """Build the learners' notebooks; returns each file that differed, with the difference as text.

    `only` names labs, as "03"; none is all of them. Without `write`, nothing is changed. A
    notebook without a source (`without_source`) is left as it is: it may be somebody's work.
    """
    changed = []
    for path, text in sorted(_built(labs, only)):
        difference = _difference(path, text)
        if difference:
            changed.append((path, difference))
            if write:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    return changed


def write_checks(labs: Path) -> list[Path]:
    """Write the checks that sources hold to labs/checks, for a seat that gets no sources."""
    written = []
    for lab, (_, text) in held_by_sources(labs).items():
        written.append(checks_path(lab, labs))
        written[-1].write_text(text, encoding="utf-8")
    return written


def build_for_nbgrader(labs: Path, course: Path, only: Sequence[str] = ()) -> list[Path]:
    """Write the notebooks with marked solutions where nbgrader looks: source/labNN/ of a course.

    A course without a configuration gets one.
    """
    written = []
    configuration = course / "nbgrader_config.py"
    if not configuration.exists():
        course.mkdir(parents=True, exist_ok=True)
        configuration.write_text(CONFIGURATION, encoding="utf-8")
        written.append(configuration)
    for lab, source in _chosen(labs, only).items():
        path = course / "source" / f"lab{lab}" / f"{source.stem}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = _notebook(read_source(source), lab, exercises(lab, labs), lambda cell: cell)
        path.write_text(notebook_text(notebook), encoding="utf-8")
        written.append(path)
    return written


def _chosen(labs: Path, only: Sequence[str]) -> dict[str, Path]:
    """The sources of these labs, or of all of them, by lab."""
    known = sources(labs)
    unknown = [lab for lab in only if lab not in known]
    if unknown or None in known:
        wrong = unknown or [str(known[None].name)]
        raise BadArgument(
            f"{', '.join(wrong)}: no such lab in {labs / 'source'}, where files are named "
            f"NN_title.py. There are: {', '.join(sorted(filter(None, known)))}."
        )
    return {lab: path for lab, path in known.items() if lab and lab in (only or known)}


def _built(labs: Path, only: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """The notebooks of these labs; without `only` also those that belong to no one lab."""
    for lab, source in _chosen(labs, only).items():
        notebook = learner_notebook(read_source(source), lab, exercises(lab, labs))
        yield labs / f"{source.stem}.ipynb", notebook_text(notebook)
    for source in further_sources(labs):
        if not only or lab_of(source.stem) in only:
            yield labs / FURTHER / f"{source.stem}.ipynb", notebook_text(further_notebook(source))


def _difference(path: Path, text: str) -> str:
    """A unified diff from the file to what it should be; empty if they are equal."""
    now = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = difflib.unified_diff(
        now.splitlines(keepends=True),
        text.splitlines(keepends=True),
        fromfile=path.name,
        tofile=f"{path.name} as its source says",
    )
    return "".join(lines)


def without_source(labs: Path) -> list[Path]:
    """The numbered notebooks that no source in labs/source makes."""
    return [
        path
        for folder, known in (
            (labs, sources(labs).values()),
            (labs / FURTHER, further_sources(labs)),
        )
        for path in sorted(folder.glob("*.ipynb"))
        if lab_of(path.stem) and path.stem not in {source.stem for source in known}
    ]
