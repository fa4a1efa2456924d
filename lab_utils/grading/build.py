"""The build: labs/*.ipynb from labs/source/*.py, and whether they are what the sources say."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab_utils.errors import BadArgument
from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import (
    lab_of,
    learner_notebook,
    marked_notebook,
    notebook_text,
    read_source,
)

# A cell that starts a broker or Spark, or that checks an answer, takes longer than nbgrader's 30 s.
CONFIGURATION: Final = """c = get_config()
c.CourseDirectory.course_id = "kafka"
c.Execute.timeout = 300
"""


def build_labs(
    labs: Path, only: Sequence[str] = (), *, write: bool = True
) -> list[tuple[Path, str]]:
    """Build the learners' notebooks; return each that differed with the difference as text.

    `only` names labs, as "03"; none is all of them. Without `write`, nothing is changed. A
    notebook without a source (`without_source`) is left as it is: it may be somebody's work.
    """
    changed = []
    for path, text in sorted(_notebooks(labs, _chosen(labs, only)).items()):
        difference = _difference(path, text)
        if difference:
            changed.append((path, difference))
            if write:
                path.write_text(text, encoding="utf-8")
    return changed


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
    for source in _chosen(labs, only):
        lab = lab_of(source.stem) or ""
        path = course / "source" / f"lab{lab}" / f"{source.stem}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = marked_notebook(read_source(source), lab, exercises(lab, labs))
        path.write_text(notebook_text(notebook), encoding="utf-8")
        written.append(path)
    return written


def _chosen(labs: Path, only: Sequence[str]) -> list[Path]:
    sources = sorted((labs / "source").glob("*.py"))
    known = {lab_of(path.stem): path for path in sources}
    unknown = [lab for lab in only if lab not in known]
    if unknown or None in known:
        wrong = unknown or [str(known[None].name)]
        raise BadArgument(
            f"{', '.join(wrong)}: no such lab in {labs / 'source'}, where files are named "
            f"NN_title.py. There are: {', '.join(sorted(filter(None, known)))}."
        )
    return [known[lab] for lab in only] if only else sources


def _notebooks(labs: Path, sources: Sequence[Path]) -> dict[Path, str]:
    built = {}
    for source in sources:
        lab = lab_of(source.stem) or ""
        notebook = learner_notebook(read_source(source), lab, exercises(lab, labs))
        built[labs / f"{source.stem}.ipynb"] = notebook_text(notebook)
    return built


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
    sources = {path.stem for path in (labs / "source").glob("*.py")}
    return [path for path in sorted(labs.glob("*.ipynb"))
            if lab_of(path.stem) and path.stem not in sources]  # fmt: skip
