"""Slips: ordinary mistakes in a solution, drawn from a seed.

Each is an edit of the syntax tree, of the kind that a tired learner makes: a line is missing or
there twice, two lines are exchanged, a number is another, a name is mistyped, an argument is
missing, a condition is the wrong way round, a function ends early.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

Slip = tuple[str, Callable[[], None]]
# Lines that people add to a function that does not work.
STRAY: Final = (
    "return", "raise ValueError('it did not work')", "print(run)", "import sys\nsys.exit()",
    "sys.exit(3)", "exit()", "input('go on?')", "time.sleep(1000)", "while True:\n    pass",
    "run.orders = []", "run.topic = 'orders'", "del run", "run = None", "assert False",
    "raise KeyboardInterrupt", "lab.run(print, orders=1)", "run.producer().flush()",
    "run.consumer().close()", "import pandas", "1 / 0", "yield",
    "open('notes.txt', 'w').write('x')",
)  # fmt: skip
NUMBERS: Final = (-1, 0, 1, 2, 3, 7, 1000, 0.5, 10**12)
TEXTS: Final = ("", "None", "ü", "produce", "0", "a text with blanks", "x" * 300)
OTHERS: Final[dict[type[ast.AST], type[Any]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def slipped(source: str, draw: random.Random, count: int) -> tuple[str, list[str]]:
    """A cell with so many slips, and what they are."""
    tree = ast.parse(source)
    made = []
    for _ in range(count):
        found = list(_slips(tree, draw))
        if not found:
            break
        kind = draw.choice(sorted({name.split(":")[0] for name, _ in found}))
        name, apply = draw.choice([it for it in found if it[0].split(":")[0] == kind])
        apply()
        made.append(name)
    return ast.unparse(ast.fix_missing_locations(tree)), made


def _slips(tree: ast.Module, draw: random.Random) -> Iterator[Slip]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            lines = getattr(node, name, None)
            if isinstance(lines, list):
                yield from _of_lines(lines, draw, is_top=node is tree)
        yield from _of_an_expression(node, draw)


def _of_lines(lines: list[ast.stmt], draw: random.Random, *, is_top: bool) -> Iterator[Slip]:
    for place, line in enumerate(lines):
        text = ast.unparse(line).splitlines()[0][:60]
        if len(lines) > 1:
            yield f"left out: {text}", lambda place=place: lines.pop(place)  # type: ignore[misc]
        yield f"twice: {text}", lambda it=line, at=place: lines.insert(at, it)  # type: ignore[misc]
        if place:
            yield f"exchanged: {text}", lambda at=place: _exchange(lines, at)  # type: ignore[misc]
        if not is_top:
            stray = draw.choice(STRAY)
            given = ast.parse(stray).body
            yield (
                f"stray: {stray}",
                lambda at=place, given=given: lines.__setitem__(slice(at, at), given),  # type: ignore[misc]
            )


def _exchange(lines: list[ast.stmt], at: int) -> None:
    lines[at - 1], lines[at] = lines[at], lines[at - 1]


def _of_an_expression(node: ast.AST, draw: random.Random) -> Iterator[Slip]:
    set_to = lambda name, value: lambda: setattr(node, name, value)  # noqa: E731
    match node:
        case ast.Constant(value=bool() as value):
            yield f"wrong way: {value}", set_to("value", not value)
        case ast.Constant(value=int() | float() as value):
            yield f"number: {value}", set_to("value", draw.choice(NUMBERS))
        case ast.Constant(value=str() as value):
            yield f"text: {value[:40]!r}", set_to("value", draw.choice((*TEXTS, value[:-1])))
        case ast.Name(id=name, ctx=ast.Load()):
            yield f"mistyped: {name}", set_to("id", draw.choice((f"{name}s", name[:-1] or "x")))
            yield f"another: {name}", set_to("id", draw.choice(("run", "None", "print", "int")))
        case ast.Attribute(attr=name):
            yield f"attribute: {name}", set_to("attr", draw.choice((f"{name}s", name[:-1] or "x")))
        case ast.Call(args=args, keywords=keywords):
            for given in (args, keywords):
                for place in range(len(given)):
                    yield (
                        f"forgotten: {ast.unparse(given[place])[:40]}",
                        lambda given=given, at=place: given.pop(at),  # type: ignore[misc]
                    )
            yield "not called: ", lambda: _not_called(node)
        case ast.Dict(keys=keys, values=values) if keys:
            place = draw.randrange(len(keys))
            yield f"forgotten: {ast.unparse(values[place])[:40]}", lambda: _forget(node, place)
        case ast.Compare(ops=[operator]) if type(operator) in OTHERS:
            yield f"wrong way: {ast.unparse(node)[:40]}", set_to("ops", [OTHERS[type(operator)]()])
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in OTHERS:
            yield f"wrong way: {ast.unparse(node)[:40]}", set_to("op", OTHERS[type(operator)]())
        case ast.Return(value=ast.expr()):
            yield "returned: nothing", set_to("value", None)


def _not_called(node: ast.Call) -> None:
    node.func = ast.Name("id", ast.Load())
    node.args, node.keywords = node.args[:1] or [ast.Constant(0)], []


def _forget(node: ast.Dict, place: int) -> None:
    del node.keys[place], node.values[place]
