"""The marked regions of a source cell, and what a learner is given in their place.

    ### BEGIN SOLUTION … ### END SOLUTION            becomes `# YOUR CODE (about N lines)`
    ### BEGIN HIDDEN TESTS … ### END HIDDEN TESTS    is left out

The markers are nbgrader's. A learner's cell always runs: where the comment alone would leave a
hole in the syntax `...` fills it, and a name that only the solution made is bound to `...`.
It is all text in, text out.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Final

from lab_utils.errors import BadArgument

SOLUTION: Final = "SOLUTION"
HIDDEN_TESTS: Final = "HIDDEN TESTS"
MARKER: Final = re.compile(r"^\s*### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\s*$")


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
    bound: set[str] = set()
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            bound.add(statement.name)
        elif isinstance(statement, ast.Assign):
            bound |= {each.id for target in statement.targets for each in ast.walk(target)
                      if isinstance(each, ast.Name)}  # fmt: skip
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            bound.add(statement.target.id)
    return bound
