"""The labs' notebooks, executed: in a kernel as Jupyter executes them, or in this process."""

from __future__ import annotations

import ast
import json
import linecache
import os
import symtable
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

import nbformat
from IPython.core.formatters import DisplayFormatter
from nbclient import NotebookClient

from lab_utils.grading.cases import LABS, exercises
from lab_utils.grading.notebook import (
    further_notebook,
    further_sources,
    instructor_notebook,
    learner_notebook,
    read_source,
    sources,
)
from lab_utils.grading.submission import names_of

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = {lab: path for lab, path in sources(LABS).items() if lab}
# The notebooks without exercises, by the stem of their source.
FURTHER: Final = {path.stem: path for path in further_sources(LABS)}
CELL_S: Final = 300  # a report card is twelve runs
DEFINITIONS: Final = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)

# What lab.check has said so far, as the notebook's own kernel holds it.
VERDICTS: Final = """
import json
print(json.dumps({item: [it.status, it.points, it.hint] for item, it in lab._verdicts.items()}))
"""

# What the audit finds in each run that has a name.
FINDINGS: Final = """
import json
from lab_utils.audit.judged import judged_run
from lab_utils.run import Run
print(json.dumps({name: sorted({it["finding"] for it in judged_run(run.folder)})
                  for name, run in globals().items() if isinstance(run, Run) and name[0] != "_"}))
"""


def source_notebook(lab: str, labs: Path = LABS) -> Any:
    """The notebook of a lab with its solutions."""
    return deepcopy(_made(instructor_notebook, lab, labs))


def blank_notebook(lab: str, labs: Path = LABS) -> Any:
    """The notebook of a lab as it is handed out."""
    return deepcopy(_made(learner_notebook, lab, labs))


@cache  # no test changes a source and asks again
def _made(make: Callable[..., Any], lab: str, labs: Path) -> Any:
    (source,) = (labs / "source").glob(f"{lab}_*.py")
    return make(read_source(source), lab, exercises(lab, labs))


def answers_in(notebook: Any) -> dict[str, Any]:
    """The answers of a notebook by the name of the answer, and the functions of its cells."""
    names: dict[str, Any] = {}
    for cell in code_cells(notebook):
        nodes = ast.parse(cell.source).body
        if not cell.metadata.get("nbgrader", {}).get("solution"):
            nodes = [it for it in nodes if isinstance(it, DEFINITIONS)]
        execute(nodes, cell.source, names)
    return names


@cache
def solutions(lab: str) -> dict[str, Any]:
    """The answers of a lab's source, and the functions of its cells, by name."""
    return answers_in(source_notebook(lab))


@cache
def further(name: str) -> dict[str, Any]:
    """The functions of a further notebook, by name."""
    return answers_in(further_notebook(FURTHER[name]))


def code_cells(notebook: Any) -> list[Any]:
    """The cells that hold code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def execute(nodes: list[ast.stmt], text: str, names: dict[str, Any]) -> None:
    """Execute statements of a text that can be read again, as that of a file can.

    The file's name follows from the text. One that followed from the notebook's id() was given to
    another text when the notebook was gone, and a function then had the source of another.
    """
    name = file_name(text)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(ast.Module(nodes, []), name, "exec"), names)


def file_name(text: str) -> str:
    """The name under which a text can be read again."""
    return f"<text {hash(text):x}>"


def run_here(cells: list[Any]) -> dict[str, Any]:
    """Execute cells in this process, and show the last value of each; return all names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        nodes = ast.parse(cell.source).body
        last = nodes.pop() if nodes and isinstance(nodes[-1], ast.Expr) else None
        execute(nodes, cell.source, names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), file_name(cell.source), "eval"), names)
            DisplayFormatter().format(value)
    return names


def cells_of_answers(notebook: Any) -> list[Any]:
    """The cells that answer, that show what an answer does, and all that these need."""
    cells = code_cells(notebook)
    tables = (symtable.symtable(cell.source, cell.id, "exec") for cell in cells)
    made, used = zip(*map(names_of, tables), strict=True)
    chosen, touched = set[int](), set[str]()
    for number, cell in enumerate(cells):
        touched -= made[number]
        if "nbgrader" in cell.metadata or used[number] & touched:
            chosen.add(number)
            touched |= made[number]
    wanted = set[str]()
    for number in reversed(range(len(cells))):
        if number in chosen or made[number] & wanted:
            chosen.add(number)
            wanted = wanted - made[number] | used[number]
    return [cells[number] for number in sorted(chosen)]


class OpenNotebook:
    """A notebook in a running kernel."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run_all(self) -> list[str]:
        """Run every cell from the top; return each error and each text on stderr, with its cell."""
        troubles = []
        for position, cell in enumerate(self._client.nb.cells):
            if cell.cell_type == "code":
                self._client.execute_cell(cell, position)
                place = f"{cell.id} {cell.source.splitlines()[0]!r}: "
                troubles += [place + text for it in cell.outputs if (text := _trouble(it))]
        return troubles

    def verdicts(self) -> dict[str, tuple[str, int, str | None]]:
        """What lab.check has said so far: item -> status, points, hint."""
        return {item: tuple(it) for item, it in self._told(VERDICTS).items()}

    def findings(self) -> dict[str, str]:
        """The findings of each run that has a name and any, as one text."""
        return {run: " ".join(found) for run, found in self._told(FINDINGS).items() if found}

    def _told(self, code: str) -> Any:
        """What a cell prints that is not the notebook's own, read as JSON."""
        cell, cells = nbformat.v4.new_code_cell(code), self._client.nb.cells
        cells.append(cell)
        self._client.execute_cell(cell, len(cells) - 1)
        cells.pop()
        return json.loads("".join(it.text for it in cell.outputs if it.output_type == "stream"))


def _trouble(output: Any) -> str | None:
    if output.output_type == "error":
        return str(output.evalue)
    return str(output.text) if output.get("name") == "stderr" else None


@contextmanager
def kernel(notebook: Any) -> Iterator[OpenNotebook]:
    """A kernel for this notebook; it is gone afterwards, and its lab's stage may stay."""
    client = NotebookClient(notebook, timeout=CELL_S, allow_errors=True)
    with client.setup_kernel(env=dict(os.environ)):
        yield OpenNotebook(client)
