"""The table of claims: complete, made by its script, and naming nothing that is not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import nbformat
from confluent_kafka import libversion, version

from docs.make_claims import (
    FURTHER,
    PAGE,
    SOURCES,
    TABLE,
    VERSIONS,
    further_source,
    kinds,
    lab_source,
    page,
    read_claims,
    split_test,
)
from lab_utils.audit.finding import RULES
from lab_utils.machine.jars import locked

ROOT: Final = Path(__file__).parents[1]
COUNTS: Final = {"A": 11, "B": 12, "C": 12, "D": 11, "E": 23, "F": 13, "G": 13}
IDS: Final = [
    name for group, most in COUNTS.items() for name in (f"{group}{n}" for n in range(1, most + 1))
]
COLUMNS: Final = {"claim", "source", "holds", "lab", "run", "finding", "test"}
CLAIMS: Final = read_claims()
HOLDS: Final = {"yes", "no", "half", "a choice", "measure it", "not since 3.7"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def cells(lab: str, run: str) -> tuple[str, ...]:
    """The code cells of the notebook in which the page looks for this run."""
    name = run.removeprefix(FURTHER)
    source = lab_source(lab) if name == run else further_source(lab, name)
    path = ROOT / "labs" / source.relative_to(ROOT / "labs" / "source").with_suffix(".ipynb")
    notebook = nbformat.read(path, nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
    return tuple(cell.source for cell in notebook.cells if cell.cell_type == "code")


def names(code: str) -> set[str]:
    """What a cell calls a run: a name, a workload, a method of the lab, an exercise."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found |= {node.func.attr, *(it.value for it in node.args if isinstance(it, ast.Constant)
                                        and node.func.attr == "check")}  # fmt: skip
    return found


def each(column: str) -> Iterator[tuple[str, str]]:
    """The id of a claim with each text of a column."""
    for name, claim in CLAIMS.items():
        given = claim[column]
        yield from ((name, it) for it in (given if isinstance(given, list) else [given]))


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {it.name: it for it in tree(path).body if isinstance(it, ast.FunctionDef)}


def texts(path: Path) -> set[str]:
    """The constants of a module as text: the ids of its cases are among them."""
    found = (it.value for it in ast.walk(tree(path)) if isinstance(it, ast.Constant))
    return set(map(str, found))


def test_the_page_is_what_the_script_makes() -> None:
    """`python -m docs.make_claims` changes nothing."""
    assert page(CLAIMS) == PAGE.read_text(encoding="utf-8")


def test_the_page_names_the_versions_at_hand() -> None:
    """What it says of Kafka, of the client and of its library is what the tests run with."""
    (kafka,) = (it for it in locked("kafka") if ":kafka_2.13:" in it.coordinate)

    assert VERSIONS == (
        f"Kafka {kafka.coordinate.rpartition(':')[2]} and librdkafka {libversion()[0]} "
        f"(confluent-kafka {version()})"
    )


def test_every_claim_is_there_once() -> None:
    """A1 to G13, in this order; TOML itself refuses a second one of a name."""
    assert IDS == list(CLAIMS)


def test_rows() -> None:
    """A row has each column, a verdict that is known, and a note where the claim does not hold."""
    wrong = [
        name
        for name, claim in CLAIMS.items()
        if set(claim) - {"note", "sample"} != COLUMNS
        or claim["holds"] not in HOLDS
        or not (claim["run"] and claim["test"])
        or not ("note" in claim or claim["holds"] == "yes")
    ]

    assert [] == wrong


def test_sources() -> None:
    """Each is a text that the page names, or a question of its readers."""
    assert {*SOURCES, "S0c", "S3c"} == {source for _, source in each("source")}


def test_runs() -> None:
    """Each run is in a cell of its notebook: as a name, as a workload, or as an exercise."""
    missing = [
        f"{name}: {run} in lab {lab}"
        for name, run in each("run")
        for lab in [CLAIMS[name]["lab"]]
        if not any(run.removeprefix(FURTHER) in names(code) for code in cells(lab, run))
    ]

    assert [] == missing


def test_kinds() -> None:
    """Each row is a statement, or a question of readers; some have a sample, and each is listed."""
    listed = PAGE.read_text(encoding="utf-8").partition("## Code samples")[2].partition("##")[0]
    samples = [(f"`{it['sample']}`", name) for name, it in CLAIMS.items() if "sample" in it]

    assert [] == [name for name, it in CLAIMS.items() if not {*kinds(it)} - {"sample"}]
    assert samples == [tuple(it.split(" | ")[:2]) for it in re.findall(r"^\| (`.+)", listed, re.M)]
    assert {"statement", "sample", "question"} == {
        it for row in CLAIMS.values() for it in kinds(row)
    }


def test_findings() -> None:
    """Each finding has a contract, or there is none."""
    assert [] == [it for it in each("finding") if it[1] not in {*RULES, "none"}]


def test_tests() -> None:
    """Each test that is named exists, and so does the case of it."""
    missing = [f"{name}: {test}" for name, test in each("test") if not exists(*split_test(test))]

    assert [] == missing


def exists(path: str, function: str, case: str) -> bool:
    """Is there such a test? A case is a lab, or a text of the module; one case is made of two."""
    module = ROOT / path
    if not module.is_file() or function not in functions(module):
        return False
    if path == "tests/test_labs.py":
        return not case or bool([*ROOT.glob(f"labs/source/{case}_*.py"),
                                 *ROOT.glob(f"labs/source/further/{case}.py")])  # fmt: skip
    made = {f"{fault} {api}" for fault in names_in(module) for api in ("EndTxn", "Produce")}
    return not case or case in texts(module) | made


def names_in(path: Path) -> set[str]:
    """The functions that a module imports: its cases may be called after them."""
    imports = (it for it in tree(path).body if isinstance(it, ast.ImportFrom))
    return {alias.name for it in imports for alias in it.names}


def test_no_claim_rests_on_a_picture() -> None:
    """What decides a claim is a broker, a lab or the audit, and not a drawing."""
    assert [] == [it for it in each("test") if it[1].startswith(("tests/views/", "tests/browser/"))]


def test_lab_of_a_run() -> None:
    """A claim names the lab by its number, and the lab has a source."""
    labs: dict[str, Any] = {lab: lab_source(lab).stem for _, lab in each("lab")}

    assert {"01", "02", "03", "04", "05", "06", "08", "76"} == set(labs)


def test_the_table_is_plain() -> None:
    """No claim or note ends with a cell border, and each is a sentence."""
    said = [*each("claim"), *((name, it["note"]) for name, it in CLAIMS.items() if "note" in it)]

    assert [] == [it for it in said if "|" in it[1] or it[1][-1] not in ".?"]
    assert TABLE.is_file()
