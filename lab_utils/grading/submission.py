"""A submission as it was handed in, held against what was handed out.

It reads notebooks (and sources, whose solutions are the submission then) and says which cell is
what. A learner may have edited, moved, doubled or deleted any of them; nothing here trusts them.

    Lab, _ ── used by ──▶ statements that ask the lab ── bind, change ──▶ names ── used by ──▶ …
    answers, a learner's own statements ── use ──▶ names ── bound by ──▶ statements ── use ──▶ …

What was handed out and no answer uses need not run to be graded, nor what asks the lab to show
something; all else of a learner's own runs, as nobody can tell what it is for.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, Final

from lab_utils.folders import FURTHER
from lab_utils.grading.cases import LABS, Exercise, exercises
from lab_utils.grading.notebook import (
    NotASubmission,
    grade_id,
    handed_in_notebook,
    instructor_notebook,
    lab_of,
    learner_notebook,
    read_source,
    sources,
)

# No lab has 6,000 characters. What has more than this runs as it is, and is not read: to parse it
# would hold up all other gradings (one `import a.a.a…` of 180,000 characters for 17 s).
CODE_MAX: Final = 50_000
# Each statement is looked at by itself.
STATEMENTS_MAX: Final = 8_000
# Folders in which nothing is handed in: JupyterLab's copies, and notebooks without exercises.
# What JupyterLab and macOS put beside a learner's files.
SKIPPED: Final = {".ipynb_checkpoints", "__MACOSX", FURTHER}
APPLE_DOUBLE: Final = "._"

# Who asks for one of these may use or change any name.
DYNAMIC: Final = frozenset((
    "globals", "locals", "vars", "exec", "eval", "compile", "setattr", "delattr", "__import__",
    "importlib", "builtins", "__builtins__", "gc",
))  # fmt: skip
# What has one of these words may leave a file, a variable of the environment, or what SQL names.
LEAVING: Final = frozenset((
    "open", "write", "write_text", "write_bytes", "writefile", "file", "dump", "save", "to_csv",
    "to_json", "to_parquet", "to_pickle", "environ", "system", "getoutput", "bash", "sh", "script",
    "subprocess", "register", "sql", "createTempView", "createOrReplaceTempView",
))  # fmt: skip
# Through one of these a cell has the lab, or what a cell before it made or showed with the lab.
WITH_LAB: Final = ("Lab", "SparkSession", "In", "Out", "_", "__", "___")
# A cell in which IPython finds a magic asks for it: any word of its text may be a name then.
CALL_OF_A_MAGIC: Final = "get_ipython"
WORD: Final = re.compile(r"[^\W\d]\w*+")
BUILTINS: Final = frozenset(dir(builtins))
# What Python raises of a text that is none of its own, or that has too much in it.
UNREADABLE: Final = (SyntaxError, ValueError, RuntimeError, MemoryError)
# What is called with a value and leaves it as it is.
HARMLESS: Final = frozenset((
    "print", "len", "repr", "str", "sorted", "sum", "min", "max", "type", "display", "list", "set",
    "dict", "tuple",
))  # fmt: skip
# The argument of the lab's verbs that is performed; without a name it is in one of a mapping.
PERFORMED: Final = ("workload", None)
# A line that gives a name a value.
GIVES: Final = re.compile(
    r"(?m)^(?:async +)?(?:def|class) ++(\w++)|^(\w++)[ \t]*+(?::[^=\n]*+)?=(?!=)"
)
# Stands for the verdict in a cell that goes on with it: whatever it is asked, it has passed.
HAS_PASSED: Final = (
    "type('Verdict', (), {'status': 'PASS', 'points': 0, '__getattr__': lambda it, _: it,"
    " '__call__': lambda it, *_, **__: it})()"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its text, the items it answers or the one it checks, and if it binds names."""

    source: str
    answers: tuple[str, ...] = ()
    checks: str | None = None
    binds: bool = False

    @property
    def runs(self) -> bool:
        """Is it more than a check, whose part the grader takes?"""
        return bool(self.answers) or self.binds or not self.checks


@dataclass(frozen=True, slots=True)
class Submission:
    """The code cells of a submission, in order, and its exercises."""

    path: Path
    lab: str
    exercises: tuple[Exercise, ...]
    cells: tuple[Cell, ...]
    handed_out: tuple[Cell, ...]

    def answer_cell(self, item: str) -> int | None:
        """Where the answer of an item is; the last one, if a learner doubled the cell."""
        return self._last(lambda cell: item in cell.answers)

    def is_answered(self, item: str) -> bool:
        """Is the cell of this answer there, and not as it was handed out?"""
        answer = self.answer_cell(item)
        handed_out = [cell.source for cell in self.handed_out if item in cell.answers]
        return answer is not None and [self.cells[answer].source] != handed_out

    def due_after(self, position: int) -> list[Exercise]:
        """The exercises of which this is the last cell: they are examined when it has run."""
        return [each for each in self.exercises if position == self._last_cell(each.item)]

    def _last_cell(self, item: str) -> int | None:
        return self._last(lambda cell: item in (*cell.answers, cell.checks))

    def notes(self, item: str) -> tuple[str, ...]:
        """What a teacher may want to know of the item's check cell; it never changes a grade."""
        wanted = [cell.source for cell in self.handed_out if cell.checks == item]
        found = [cell.source for cell in self.cells if cell.checks == item]
        if not found:
            return ("The check cell is missing; the grader's own examination stands in its place.",)
        if found != wanted:
            return ("The check cell was edited; the grader's own examination stands in its place.",)
        return ()

    def needed(self) -> Submission:
        """The same submission, without the statements that only ask the lab for something.

        All others of a learner's own run, and what they and the answers use of what was handed
        out. Where an answer rests on the lab, or a name may be found by its text, all stays: what
        the lab says depends on all that was done with it.
        """
        whole_text = "\n".join(cell.source for cell in self.cells)
        statements = whole_text.count("\n") + whole_text.count(";")
        if len(whole_text) > CODE_MAX or statements > STATEMENTS_MAX:
            return self
        known = {text for cell in self.handed_out for text, _ in _statements(cell.source)}
        cells = [*enumerate(self.cells)]
        pieces = [it for at, cell in cells if cell.runs for it in _pieces(at, cell, known)]
        all_of_it = [*pieces, *_pass_on(pieces)]
        makers, users = _by_name(all_of_it, "makes"), _by_name(all_of_it, "loads")
        with_lab = _reached(WITH_LAB, users, "makes")
        rests_on = _reached((each.answer for each in self.exercises), makers, "loads")
        kept = (each.always and each.leaves for each in with_lab)
        if rests_on & with_lab or any(kept) or any(each.is_dynamic for each in pieces):
            return self
        runs = {each for each in pieces if each.always and each not in with_lab} | rests_on
        runs |= _reached((name for each in runs for name in each.loads), makers, "loads")
        texts: dict[int, list[str]] = {}
        for piece in filter(runs.__contains__, pieces):
            texts.setdefault(piece.position, []).append(piece.source)
        whole = texts.keys() - {each.position for each in pieces if each not in runs}
        return replace(self, cells=tuple(
            cell if at in whole or not cell.runs
            else replace(cell, source="\n".join(texts.get(at, [])))
            for at, cell in cells
        ))  # fmt: skip

    def _last(self, wanted: Any) -> int | None:
        found = [position for position, cell in enumerate(self.cells) if wanted(cell)]
        return found[-1] if found else None


@dataclass(eq=False)
class _Piece:
    """A statement of a cell, or a cell that is no Python: the names of the notebook in it.

    changes  those whose attributes or elements it sets, or whose methods it calls
    sets     of these, those that it sets an attribute or an element of
    given    those that it calls something with, but for the lab and what only shows
    defines  the function or class that it defines, if it does
    makes    those whose values it may decide: see _pass_on()
    always   is it of an answer, or a learner's own?
    leaves   may it leave something that is found again without a name, as a file?
    """

    position: int
    source: str
    always: bool
    binds: Set[str] = frozenset()
    loads: Set[str] = frozenset()
    changes: Set[str] = frozenset()
    sets: Set[str] = frozenset()
    given: Set[str] = frozenset()
    is_import: bool = False
    defines: str = ""
    leaves: bool = False
    makes: Set[str] = frozenset()

    @property
    def is_dynamic(self) -> bool:
        """May it use or change what nobody sees in its text? Nothing handed out does."""
        return self.always and bool(self.loads & DYNAMIC)


def read_submission(path: Path, labs: Path = LABS) -> Submission:
    """Read a notebook or a source; raises NotASubmission with the reason."""
    found = sources(labs)
    if path.suffix == ".py":
        lab = _known(path, lab_of(path.stem), found)
        notebook = instructor_notebook(read_source(path), lab, exercises(lab, labs))
    else:
        notebook = handed_in_notebook(path)
        lab = _known(path, _lab(notebook, path), found)
    items = exercises(lab, labs)
    handed_out = learner_notebook(read_source(found[lab]), lab, items)
    before = known_cells(handed_out.cells, items)
    cells = known_cells(notebook.cells, items, before)
    return Submission(path, lab, items, cells, before)


def submissions(paths: Sequence[Path]) -> list[Path]:
    """The files to grade: those named, and the notebooks below each folder, sorted."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += [each for each in files_below(path) if each.suffix.lower() == ".ipynb"]
        else:
            files.append(path)
    return list(dict.fromkeys(files))


def files_below(folder: Path) -> list[Path]:
    """Whatever may have been handed in: links and the like, too, which are refused by name."""
    below = sorted(it for it in folder.rglob("*") if it.is_symlink() or not it.is_dir())
    return [
        each for each in below
        if not SKIPPED & set(each.relative_to(folder).parts)
        and not each.name.startswith(APPLE_DOUBLE)
    ]  # fmt: skip


def _lab(notebook: Any, path: Path) -> str | None:
    """The lab that the notebook says it is of, in its metadata or else by its name."""
    said = notebook.metadata.get("delivery_lab")
    lab = said.get("lab") if isinstance(said, dict) else None
    return lab if isinstance(lab, str) else lab_of(path.stem)


def _pieces(position: int, cell: Cell, handed_out: Set[str]) -> list[_Piece]:
    """The statements of a cell; what is no Python is one, if its reader is told why, or none.

    What Python runs and is too deep to be looked at is one, too.
    """
    python, pieces = "", []
    try:
        python = _python(cell.source, one_look=True)
        for text, statement in _statements(python):
            binds, loads = names_of(symtable.symtable(text, "cell", "exec"))
            if CALL_OF_A_MAGIC in loads:
                binds, loads = (each | set(WORD.findall(text)) for each in (binds, loads))
            sets = set(_set_on(statement))
            changed = sets | set(_changed(statement))
            loads |= binds & changed
            piece = _Piece(
                position,
                text,
                always=text not in handed_out or bool(cell.answers),
                binds=binds,
                loads=loads,
                changes=loads & changed,
                sets=loads & sets,
                given=loads & set(_given(statement)),
                is_import=isinstance(statement, ast.Import | ast.ImportFrom),
                defines=_defined(statement),
                leaves=not LEAVING.isdisjoint(WORD.findall(text)),
            )
            pieces.append(piece)
    except UNREADABLE as error:
        may_run = CALL_OF_A_MAGIC in python or not isinstance(error, SyntaxError)
        words = set(WORD.findall(python or cell.source)) if may_run else set[str]()
        whole = _Piece(position, cell.source, always=True, binds=words, loads=words, leaves=True)
        return [whole] if cell.answers or words else []
    return pieces


def _pass_on(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Say of each piece which names it may decide: it binds them, or what it calls may change them.

    A module is the same for all, until something is set in it. A function that is called may change
    what its body does, not itself; but what is bound together may share. So a statement leads to
    the calls of all that it names, and these to further calls; they are returned as pieces, whose
    names have brackets.
    """
    imported = {name for each in pieces if each.is_import for name in each.binds}
    defined = {each.defines for each in pieces}
    calls = []
    for each in pieces:
        called = {f"{name}()" for name in each.loads}
        more = each.binds - {each.defines} if each.defines else each.given - defined
        more = (more | each.changes) - imported - BUILTINS | each.sets
        names = {f"{name}()" for name in each.binds}
        if not each.is_import:
            shared = each.binds if len(names) > 1 and not each.defines else set()
            calls.append(replace(each, loads=names, makes=more | called | shared))
        each.makes = each.binds | more | (set() if each.defines else called)
    return calls


def _by_name(pieces: Iterable[_Piece], names: str) -> dict[str, list[_Piece]]:
    found: dict[str, list[_Piece]] = {}
    for piece in pieces:
        for name in getattr(piece, names):
            found.setdefault(name, []).append(piece)
    return found


def _reached(names: Iterable[str], by_name: dict[str, list[_Piece]], then: str) -> set[_Piece]:
    """The pieces to which names lead, by what `by_name` has of each, and then by their names."""
    left, seen, found = [*names], set[str](), set[_Piece]()
    while left:
        if (name := left.pop()) not in seen:
            seen.add(name)
            for piece in by_name.get(name, ()):
                if piece not in found:
                    found.add(piece)
                    left += getattr(piece, then)
    return found


def _python(text: str, *, one_look: bool = False) -> str:
    """The text of a cell as Python, in which magics are calls of IPython's.

    IPython looks at all of a cell for each magic in it. For a learner's own, `one_look` is enough:
    its first magic is such a call then, and with one it may do anything.
    """
    try:
        ast.parse(text)
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        manager: Any = TransformerManager()  # type: ignore[no-untyped-call]
        if one_look:
            manager.do_token_transforms = lambda lines: manager.do_one_token_transform(lines)[1]
        return str(manager.transform_cell(text))
    return text


def _statements(source: str) -> list[tuple[str, ast.stmt]]:
    return [(ast.unparse(statement), statement) for statement in ast.parse(source).body]


def names_of(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """Which names of the notebook a cell binds, and which it uses, in its functions, too."""
    is_top = table.get_type() == "module"
    binds, loads = set(), set()
    for symbol in table.get_symbols():
        if is_top or symbol.is_global():
            if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                binds.add(symbol.get_name())
            if symbol.is_referenced():
                loads.add(symbol.get_name())
    for child in table.get_children():
        inner_binds, inner_loads = names_of(child)
        binds |= inner_binds
        loads |= inner_loads
    return binds, loads


def _set_on(tree: ast.AST) -> Iterator[str]:
    """The names of whose values an attribute or an element is set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield _root(node)


def _changed(tree: ast.AST) -> Iterator[str]:
    """The names of whose values a method is called.

    And those that are deleted, set anew from the values that they have, or given another name: a
    place in a list, or that of an argument.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield _root(node.func)
        elif isinstance(node, ast.AugAssign):
            yield _root(node.target)
        elif isinstance(node, ast.Assign):
            yield from _held(node.value)
        elif isinstance(node, ast.ClassDef):  # a base may know its subclasses
            yield from map(_root, (*node.bases, *(it.value for it in node.keywords)))
        elif isinstance(node, ast.FunctionDef):
            yield from map(_root, node.decorator_list)
        elif isinstance(node, ast.arguments):
            yield from (name for it in (*node.defaults, *node.kw_defaults) for name in _held(it))
        elif isinstance(node, ast.Delete):
            yield from map(_root, node.targets)


def _held(value: ast.AST | None) -> Iterator[str]:
    """The names whose values this value is, or holds as they are."""
    match value:
        case ast.List(parts) | ast.Tuple(parts) | ast.Set(parts) | ast.Dict(_, parts):
            yield from (name for part in parts for name in _held(part))
        case ast.AST() if not isinstance(value, ast.Call):
            yield _root(value)


def _given(tree: ast.AST) -> Iterator[str]:
    """The names that something is called with; of what goes to the lab, what it performs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (root := _root(node.func)) not in HARMLESS:
            of_lab = root == "lab"
            named = [it.value for it in node.keywords if not of_lab or it.arg in PERFORMED]
            for given in (*node.args[: 1 if of_lab else None], *named):
                yield from (it.id for it in ast.walk(given) if isinstance(it, ast.Name))


def _defined(statement: ast.stmt) -> str:
    """The name that a statement gives to a function or a class; empty if it does more than that."""
    match statement:
        case ast.FunctionDef(decorator_list=[_, *_]) | ast.ClassDef(decorator_list=[_, *_]):
            return ""
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            return name
        case ast.Assign([ast.Name(name)], ast.Lambda()):
            return name
    return ""


def _root(node: ast.AST) -> str:
    """The name whose value a.b[0].c() may be a part of; empty if there is none, as for f(x).c()."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return ""
    return node.id if isinstance(node, ast.Name) else ""


def _known(path: Path, lab: str | None, found: Any) -> str:
    if lab is None or lab not in found:
        labs = ", ".join(sorted(filter(None, found)))
        raise NotASubmission(f"{path.name} is no notebook of a lab of this course ({labs}).")
    return lab


def known_cells(
    given: Iterable[Any], items: Sequence[Exercise], before: Sequence[Cell] = ()
) -> tuple[Cell, ...]:
    """The code cells of a notebook's, each with the item that it answers or checks.

    A cell is known by its metadata, or by its id. Where an item has none that is known, because a
    tool has stripped them or the cell was typed anew, or only one that is as it was `before` or
    does not bind the answer's name, for somebody has answered in a new one, it is the last that
    does; of the checks the one that calls the check and does nothing else. In others there is no
    such call: where it is graded there are no checks, and it would raise.
    """
    answers = {grade_id("answer", each.item): each.item for each in items}
    checks = {grade_id("check", each.item): each.item for each in items}
    cells = []
    for cell in given:
        if cell.get("cell_type") == "code":
            name = name_of(cell, answers.keys() | checks.keys())
            answered = (answers[name],) if name in answers else ()
            cells.append(Cell(cell.source, answered, checks.get(name)))
    is_read = sum(len(cell.source) for cell in cells) <= CODE_MAX
    bound = [_bound(cell.source, is_read=is_read) for cell in cells]
    cells = [replace(cell, binds=bool(it)) for cell, it in zip(cells, bound, strict=True)]
    for each in items:
        binding = [at for at, names in enumerate(bound) if each.answer in names]
        blank = {cell.source for cell in before if each.item in cell.answers}
        where = [at for at in binding if cells[at].checks]  # it may stand where it is checked
        if {cells[at].source for at in binding if each.item in cells[at].answers} <= blank:
            where = where or binding[-1:]
        for at in where:
            all_of_it = dict.fromkeys((*cells[at].answers, each.item))
            cells[at] = replace(cells[at], answers=tuple(all_of_it))
        if not any(cell.checks == each.item for cell in cells):
            cells = _with_check(cells, each.item)
    calling = [each.runs and ".check" in each.source for each in cells]
    if sum(len(each.source) for each in compress(cells, calling)) > CODE_MAX:
        return tuple(cells)
    known = {each.item for each in items}
    return tuple(
        replace(each, source=_unchecked(each.source, known)) if calls else each
        for each, calls in zip(cells, calling, strict=True)
    )


class _Unchecked(ast.NodeTransformer):
    """Takes out each call of a lab's check: a method of `lab`, or one that names an item.

    A statement is None then. What the cell goes on with has passed, and shows nothing.
    """

    def __init__(self, items: Set[str]) -> None:
        self.items = items
        self.found = False

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if self._is_check(node.value):
            return ast.Expr(ast.Constant(None))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(ast.Attribute(_, attr), [*_, ast.Constant(str(code)) as text]) if (
                attr in ("run_line_magic", "run_cell_magic")
            ):
                text.value = _unchecked(code, self.items)
                self.found |= text.value != code
        return self._passed(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._passed(node)

    def _passed(self, node: ast.AST) -> ast.AST:
        if self._is_check(node):
            return ast.parse(HAS_PASSED, mode="eval").body
        return self.generic_visit(node)

    def _is_check(self, node: ast.AST) -> bool:
        match node:
            case ast.Attribute(ast.Name("lab"), "check", ast.Load()) | ast.Call(
                ast.Attribute(ast.Name("lab"), "check")
            ):
                is_check = True
            case ast.Call(ast.Attribute(_, "check"), [ast.Constant(str(item)), *_]):
                is_check = item in self.items
            case _:
                is_check = False
        self.found |= is_check
        return is_check


def _unchecked(source: str, items: Set[str]) -> str:
    """The text of a cell without checks; as it is, if it has none or cannot be read."""
    without = _Unchecked(items)
    # What is no Python will not run, and its reader is told why.
    with suppress(*UNREADABLE):
        tree = without.visit(ast.parse(_python(source, one_look=True)))
        return ast.unparse(tree) if without.found else source
    return source


def _bound(source: str, *, is_read: bool) -> Set[str]:
    """The names of the notebook that a cell binds; by its lines where these are not Python."""
    if is_read and not source.startswith("%%"):
        with suppress(*UNREADABLE):
            return names_of(symtable.symtable(_python(source, one_look=True), "cell", "exec"))[0]
    return {name for found in GIVES.findall(source) for name in found}


def _with_check(cells: list[Cell], item: str) -> list[Cell]:
    """The cells, of which the last that calls this check, and is nothing else, is the check's."""
    # Possessive: a line of a million blanks would be tried from each of them.
    calls = re.compile(rf"""\s*+lab\.check\(\s*+["']{re.escape(item)}["'][^\n]*+\s*+\Z""")
    for at, cell in reversed([*enumerate(cells)]):
        if not (cell.answers or cell.checks) and calls.match(cell.source):
            return [*cells[:at], replace(cell, checks=item), *cells[at + 1 :]]
    return cells


def name_of(cell: Any, known: Set[str]) -> str:
    """The grade_id of a cell, or its id if that is one; empty if it is none of those known."""
    graded = cell.get("metadata", {}).get("nbgrader")
    name = graded.get("grade_id") if isinstance(graded, dict) else cell.get("id")
    return name if isinstance(name, str) and name in known else ""
