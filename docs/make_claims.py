"""Makes the tables of docs/claims.md of docs/claims.toml, and of what its tests showed.

    .venv/bin/python -m docs.make_claims          # the pages, of what was seen last
    .venv/bin/python -m docs.make_claims --run    # runs the tests first: six minutes

labs/Claims.md is what a learner is handed out: a heading for each claim, which a report card opens.
tests/test_claims.py fails when a page is not what this makes, and when a test was not seen.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from confluent_kafka import libversion, version

from lab_utils import folders
from lab_utils.machine.jars import locked

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "claims.toml"
PAGE = ROOT / "docs" / "claims.md"
LEARNERS_PAGE = ROOT / "labs" / "Claims.md"
SEEN = ROOT / "docs" / "claims_seen.json"
SIDES = ("shows", "refutes")  # the tests of a claim: where it holds, and where it does not
NOT_SEEN = "not seen"
GROUPS = {
    "A": "Guarantees",
    "B": "Producer durability and acks",
    "C": "Replication and the ISR",
    "D": "The idempotent producer and order",
    "E": "Transactions",
    "F": "Consumer offsets",
    "G": "End to end",
}
# The texts that the statements were taken from.
SOURCES = {
    "S0": "幂等生产者和事务生产者是一回事吗",
    "S1": "kafka05-幂等",
    "S2": "Kafka消息交付语义",
    "S3": "如何配置Kafka无消息丢失",
    "S4": "Kafka生产者详解(下)",
}
COLUMNS = (
    "id", "claim", "kind", "source", "holds", "lab and run", "finding", "decided by", "note",
)  # fmt: skip
READERS = "c"  # after a source: a question of its readers, and the answer there
# What a statement is called that is not simply true any more, in the order of the page.
OUTDATED = {"no": "does not hold", "not since": "no longer holds", "half": "holds in part"}
FIRST = "## What older texts say and is not simply true today"

LEARNERS_HEAD = """\
# Claims

What common texts say of delivery in Kafka, and what the runs of the labs show of it. The tests that
decide each claim are in `docs/claims.md` of the lab's repository."""

UNSEEN = {"failure", "error", "skipped"}  # what a case has in a report that did not pass
FURTHER = f"{folders.FURTHER}."  # before a run that a further notebook makes
Claims = dict[str, dict[str, Any]]


def read_claims() -> Claims:
    """The claims by id: as they stand in the table, with whether each holds, by what was seen."""
    passed = read_seen()["passed"]
    return {name: it | {"holds": holds(it, passed)} for name, it in _table().items()}


def read_seen() -> dict[str, Any]:
    """What ran: the versions, and how many cases of each test passed."""
    seen: dict[str, Any] = json.loads(SEEN.read_text(encoding="utf-8"))
    return seen


def deciding(claim: dict[str, Any], *sides: str) -> list[str]:
    """The tests of a claim, of the one side, of the other, or of both."""
    return [test for side in sides or SIDES for test in claim.get(side, ())]


def holds(claim: dict[str, Any], passed: Iterable[str]) -> str:
    """Whether it holds: by the tests of which side passed.

    >>> holds({"shows": ["a"], "refutes": ["b"]}, {"a", "b"}), holds({"refutes": ["b"]}, {"b"})
    ('half', 'no')
    >>> holds({"shows": ["a"]}, {"a"}), holds({"shows": ["a"]}, {})
    ('yes', 'not seen')
    """
    if not deciding(claim) or {*deciding(claim)} - {*passed}:
        return NOT_SEEN
    if "open" in claim:
        return str(claim["open"])
    if "until" in claim:
        return f"not since {claim['until']}"
    return {"shows": "yes", "refutes": "no", "shows refutes": "half"}[
        " ".join(side for side in SIDES if claim.get(side))
    ]


def page(claims: Claims, seen: dict[str, Any]) -> str:
    """The page with these sections below what it says of all claims."""
    head = PAGE.read_text(encoding="utf-8").partition(FIRST)[0]
    parts = _outdated(claims, seen), _groups(claims, seen), _samples(claims), _sources(claims)
    return head + "\n".join(line for part in parts for line in part) + "\n"


def learners_page(claims: Claims) -> str:
    """The page that a learner opens from a report card: its links are those of the labs' folder."""
    parts = [LEARNERS_HEAD]
    for letter, title in GROUPS.items():
        parts.append(f"## {letter}. {title}")
        for name, claim in claims.items():
            if name.startswith(letter):
                runs = _runs(claim["lab"], claim["run"]).replace("../labs/", "")
                said = f"**Holds: {claim['holds']}.** {claim.get('note', '')}".rstrip()
                parts += [f"### {name}", f"*{claim['claim']}*", said, f"Runs: {runs}"]
    return "\n\n".join(parts) + "\n"


def versions() -> str:
    """What is at hand here, as the page says it."""
    (kafka,) = (it for it in locked("kafka") if ":kafka_2.13:" in it.coordinate)
    client = f"librdkafka {libversion()[0]} (confluent-kafka {version()})"
    return f"Kafka {kafka.coordinate.rpartition(':')[2]} and {client}"


def run_tests(named: Iterable[str]) -> dict[str, int]:
    """Runs these tests: how many cases of each passed, for those of which all cases did."""
    tests = sorted(set(named))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        every_tier = ["-m", ""]
        command = [ROOT / "lab", "test", *every_tier, f"--junitxml={report}", *tests]
        subprocess.run(command, cwd=ROOT, check=False)
        cases = [*ElementTree.parse(report).iter("testcase")]  # noqa: S314 - of this very run
    return counted(tests, {_id(case): not {it.tag for it in case} & UNSEEN for case in cases})


def counted(tests: Iterable[str], cases: dict[str, bool]) -> dict[str, int]:
    """How many cases each test has, without those of which one did not pass, or none ran.

    >>> counted(["t", "t[a]", "u"], {"t[a]": True, "t[b]": False, "u": True})
    {'t[a]': 1, 'u': 1}
    """
    of = {test: [ok for case, ok in cases.items() if case == test or case.startswith(f"{test}[")]
          for test in tests}  # fmt: skip
    return {test: len(ended) for test, ended in of.items() if ended and all(ended)}


def _id(case: ElementTree.Element) -> str:
    """The case of a report as pytest names it on the command line; @ and its group are xdist's."""
    name = re.sub(r"@[^@\]]*$", "", case.attrib["name"])
    return f"{case.attrib['classname'].replace('.', '/')}.py::{name}"


def kinds(claim: dict[str, Any]) -> list[str]:
    """What it is: a statement of a text or of ours, a code sample, a question of readers.

    >>> kinds({"source": ["S0", "S0c"]}), kinds({"source": []})
    (['statement', 'question'], ['statement'])
    """
    asked = [source.endswith(READERS) for source in claim["source"]]
    found = {
        "statement": not asked or not all(asked),
        "sample": "sample" in claim,
        "question": any(asked),
    }
    return [kind for kind, is_one in found.items() if is_one]


def lab_source(lab: str) -> Path:
    """Where a lab is written down; raises ValueError if it is not there once."""
    (found,) = sorted((ROOT / "labs" / "source").glob(f"{lab}_*.py"))
    return found


def further_source(lab: str, run: str) -> Path:
    """The further notebook of a lab with this run; raises ValueError if it is not in one."""
    folder = ROOT / "labs" / "source" / "further"
    (found,) = (
        path
        for path in sorted(folder.glob(f"{lab}_*.py"))
        if re.search(
            rf"^{run} = |^def {run}\(|\.{run}\(", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    return found


def _table() -> Claims:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def _outdated(claims: Claims, seen: dict[str, Any]) -> Iterator[str]:
    yield FIRST
    yield ""
    yield f"What all {len(seen['passed'])} tests showed with {seen['versions']}:"
    yield ""
    for beginning, verdict in OUTDATED.items():
        for name, claim in claims.items():
            if re.fullmatch(rf"{beginning}( [\d.]+)?", claim["holds"]):
                yield f"- {name} {verdict}: *{claim['claim']}* {claim['note']}"


def _begun(title: str, *columns: str) -> list[str]:
    """A section that is a table, up to its first row."""
    return ["", f"## {title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _groups(claims: Claims, seen: dict[str, Any]) -> Iterator[str]:
    for letter, title in GROUPS.items():
        yield from _begun(f"{letter}. {title}", *COLUMNS)
        for name, claim in claims.items():
            if name.startswith(letter):
                yield _row(name, claim, seen["passed"])


def _samples(claims: Claims) -> Iterator[str]:
    """What the texts show, with the run of a lab that answers each sample."""
    yield from _begun("Code samples", "sample", "of", "source", "holds", "lab and run")
    for name, claim in claims.items():
        if "sample" not in claim:
            continue
        cells = (
            f"`{claim['sample']}`",
            name,
            " ".join(claim["source"]),
            claim["holds"],
            _runs(claim["lab"], claim["run"]),
        )
        yield f"| {' | '.join(cells)} |"


def _sources(claims: Claims) -> Iterator[str]:
    """What each text says and what its readers ask, by the ids of the statements."""
    yield from _begun("By source", "source", "text", "it says", "its readers ask")
    for source, title in SOURCES.items():
        said, asked = (
            " ".join(name for name, claim in claims.items() if which in claim["source"])
            for which in (source, source + READERS)
        )
        yield f"| {source} | {title} | {said} | {asked} |"
    own = " ".join(name for name, claim in claims.items() if not claim["source"])
    yield f"| | none: the labs came to it | {own} | |"


def _row(name: str, claim: dict[str, Any], passed: dict[str, int]) -> str:
    cells = (
        name,
        claim["claim"],
        ", ".join(kinds(claim)),
        " ".join(claim["source"]),
        claim["holds"],
        _runs(claim["lab"], claim["run"]),
        _finding(claim["finding"]),
        "<br>".join(_decided_by(claim, passed)),
        claim.get("note", ""),
    )
    return f"| {' | '.join(cells)} |"


def _runs(lab: str, runs: list[str]) -> str:
    """The runs with the notebooks that they are in; `further.spread` is in a further one."""
    places: dict[str, list[str]] = {}
    for run in runs:
        name = run.removeprefix(FURTHER)
        path = f"further/{further_source(lab, name).stem}" if name != run else lab_source(lab).stem
        title = f"{lab}, further" if name != run else lab
        places.setdefault(f"[{title}](../labs/{path}.ipynb)", []).append(f"`{name}`")
    return "; ".join(f"{place}: {', '.join(names)}" for place, names in places.items())


def _finding(name: str) -> str:
    return name if name == "none" else f"[{name}](findings.md#{name.lower()})"


def _decided_by(claim: dict[str, Any], passed: dict[str, int]) -> Iterator[str]:
    """Its tests; where some show that it holds and some that it does not, which do which."""
    for side, said in zip(SIDES, ("holds", "does not"), strict=True):
        told = f"{said}: " if claim["holds"] == "half" else ""
        yield from (told + _test(test, passed.get(test, 0)) for test in deciding(claim, side))


def _test(test: str, cases: int) -> str:
    path, function, case = split_test(test)
    which = f": {case}" if case else f", {cases} cases" if cases > 1 else ""
    return f"[{Path(path).stem}](../{path}) `{function}`{which}"


def split_test(test: str) -> tuple[str, str, str]:
    """Path, function and case of a test; the case is "" where all of them decide.

    >>> split_test("tests/test_labs.py::test_solutions[03]")
    ('tests/test_labs.py', 'test_solutions', '03')
    """
    found = re.fullmatch(r"(.+\.py)::(\w+)(?:\[(.+)\])?", test)
    if found is None:
        raise ValueError(f"a test is named path::function or path::function[case]; got {test!r}.")
    return found[1], found[2], found[3] or ""


def main() -> None:
    """Make the page; with --run, run the tests first and keep what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--run", action="store_true", help="run the tests that the table names")
    if parser.parse_args().run:
        named = [test for claim in _table().values() for test in deciding(claim)]
        seen = {"versions": versions(), "passed": run_tests(named)}
        SEEN.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
    claims = read_claims()
    PAGE.write_text(page(claims, read_seen()), encoding="utf-8")
    LEARNERS_PAGE.write_text(learners_page(claims), encoding="utf-8")
    if left := [name for name, claim in claims.items() if claim["holds"] == NOT_SEEN]:
        sys.exit(f"Not decided, for a test of theirs was not seen to pass: {', '.join(left)}.")


if __name__ == "__main__":
    main()
