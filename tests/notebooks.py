"""The labs' notebooks, executed as Jupyter executes them: in a kernel, cell by cell."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import (
    instructor_notebook,
    lab_of,
    learner_notebook,
    notebook_text,
    read_source,
)

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = {
    lab: path
    for path in sorted((ROOT / "labs" / "source").glob("*.py"))
    if (lab := lab_of(path.stem))
}
CELL_S: Final = 120

# What lab.check has said so far, as the notebook's own kernel holds it.
VERDICTS: Final = """
import json
print(json.dumps({item: [it.status, it.points, it.hint]
                  for item, it in lab._verdicts.items()}))
"""


def source_notebook(lab: str) -> Any:
    """The notebook of a lab with its solutions."""
    return instructor_notebook(read_source(SOURCES[lab]), lab, exercises(lab))


def blank_notebook(lab: str) -> Any:
    """The notebook of a lab as it is handed out."""
    return learner_notebook(read_source(SOURCES[lab]), lab, exercises(lab))


def without_demonstrations(notebook: Any) -> Any:
    """The same notebook, less the cells that neither define nor answer nor check anything."""
    notebook.cells = [it for it in notebook.cells if _is_needed(it)]
    return notebook


def _is_needed(cell: Any) -> bool:
    if cell.cell_type != "code" or "nbgrader" in cell.metadata:
        return True
    return any(isinstance(node, DEFINITIONS) for node in ast.parse(cell.source).body)


def write(notebook: Any, path: Path) -> Path:
    """Write a notebook as a file that can be handed in."""
    path.write_text(notebook_text(notebook), encoding="utf-8")
    return path


def solutions(lab: str) -> dict[str, Any]:
    """The lab's own answers by the name of the answer, and the functions of its cells."""
    names: dict[str, Any] = {}
    for cell in source_notebook(lab).cells:
        if cell.cell_type == "code":
            nodes = ast.parse(cell.source).body
            if not cell.metadata.get("nbgrader", {}).get("solution"):
                nodes = [it for it in nodes if isinstance(it, DEFINITIONS)]
            exec(compile(ast.Module(nodes, []), cell.id, "exec"), names)
    return names


DEFINITIONS: Final = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Shown:
    """What one run over all cells has shown.

    troubles   each error and each text on stderr, with its cell
    verdicts   item -> status, points, hint
    """

    troubles: list[str]
    verdicts: dict[str, tuple[str, int, str | None]]

    @property
    def points(self) -> int:
        """The points of all checks."""
        return sum(points for _, points, _ in self.verdicts.values())


class OpenNotebook:
    """A notebook in a running kernel."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run_all(self) -> Shown:
        """Run every cell from the top, whatever the cells before it did."""
        troubles = [it for position in self._code() for it in self._run(position)]
        told = nbformat.v4.new_code_cell(VERDICTS)
        self._client.nb.cells.append(told)
        self._client.execute_cell(told, len(self._client.nb.cells) - 1)
        self._client.nb.cells.pop()
        verdicts = {item: tuple(it) for item, it in json.loads(told.outputs[0].text).items()}
        return Shown(troubles, verdicts)

    def run_until(self, check: str) -> None:
        """Run the cells above the first that holds this text."""
        for position in self._code():
            if check in self._client.nb.cells[position].source:
                return
            self._run(position)

    def _code(self) -> Iterator[int]:
        cells = self._client.nb.cells
        return (number for number, cell in enumerate(cells) if cell.cell_type == "code")

    def _run(self, position: int) -> list[str]:
        cell = self._client.nb.cells[position]
        self._client.execute_cell(cell, position)
        place = f"{cell.id} {cell.source.splitlines()[0]!r}: "
        return [place + text for output in cell.outputs if (text := _trouble(output))]


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
