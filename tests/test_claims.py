"""The table of claims: complete, made by its script, and naming nothing that is not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import nbformat

from docs.make_claims import (
    FURTHER,
    LEARNERS_PAGE,
    NOT_SEEN,
    PAGE,
    SOURCES,
    TABLE,
    deciding,
    further_source,
    kinds,
    lab_source,
    learners_page,
    page,
    read_claims,
    read_seen,
    split_test,
    versions,
)
from lab_utils.audit.finding import RULES

ROOT: Final = Path(__file__).parents[1]
COUNTS: Final = {"A": 11, "B": 12, "C": 12, "D": 11, "E": 23, "F": 13, "G": 13}
IDS: Final = [f"{group}{n}" for group, most in COUNTS.items() for n in range(1, most + 1)]
COLUMNS: Final = {"claim", "source", "holds", "lab", "run", "finding"}
OTHERS: Final = {"note", "sample", "shows", "refutes", "open", "until"}
CLAIMS: Final = read_claims()
TESTS: Final = {test for claim in CLAIMS.values() for test in deciding(claim)}


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


@cache
def functions(path: Path) -> set[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {it.name for it in body if isinstance(it, ast.FunctionDef)}


def test_the_page_is_what_the_script_makes() -> None:
    """`python -m docs.make_claims` changes nothing."""
    assert page(CLAIMS, read_seen()) == PAGE.read_text(encoding="utf-8")
    assert learners_page(CLAIMS) == LEARNERS_PAGE.read_text(encoding="utf-8")


def test_every_test_was_seen_to_pass() -> None:
    """With what is at hand here; if not: `python -m docs.make_claims --run`.

    What Kafka and its client do by themselves changes with them: those tests are in `long`.
    """
    seen = read_seen()

    assert (versions(), TESTS) == (seen["versions"], {*seen["passed"]})


def test_every_claim_is_there_once() -> None:
    """A1 to G13, in this order, as many as the page says, and each with a heading for learners."""
    assert IDS == list(CLAIMS)
    assert IDS == re.findall(r"^### (.+)", LEARNERS_PAGE.read_text(encoding="utf-8"), re.M)
    assert f"This page lists {len(IDS)} statements" in PAGE.read_text(encoding="utf-8")


def test_rows() -> None:
    """A row has each column, a verdict that was seen, and a note where the claim does not hold."""
    wrong = [
        name
        for name, claim in CLAIMS.items()
        if set(claim) - OTHERS != COLUMNS
        or claim["holds"] == NOT_SEEN
        or claim.get("open", "a choice") not in ("a choice", "measure it")
        or ("until" in claim and "shows" in claim)
        or not (claim["run"] and ("note" in claim or claim["holds"] == "yes"))
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
    """Each test that is named is still there; its cases were, when it was seen to pass."""
    named = {(path, function) for path, function, _ in map(split_test, TESTS)}

    assert set() == {it for it in named if it[1] not in functions(ROOT / it[0])}


def test_no_claim_rests_on_a_picture() -> None:
    """What decides a claim is a broker, a lab or the audit, and not a drawing."""
    assert set() == {it for it in TESTS if it.startswith(("tests/views/", "tests/browser/"))}


def test_the_table_is_plain() -> None:
    """No claim or note ends with a cell border, and each is a sentence."""
    said = [*each("claim"), *((name, it["note"]) for name, it in CLAIMS.items() if "note" in it)]

    assert [] == [it for it in said if "|" in it[1] or it[1][-1] not in ".?"]
    assert TABLE.is_file()
