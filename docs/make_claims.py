"""Makes docs/claims.md from docs/claims.toml: each claim, its run, its finding and its test.

    .venv/bin/python -m docs.make_claims

tests/test_claims.py fails when the page is not what this makes of the table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab_utils import folders

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "claims.toml"
PAGE = ROOT / "docs" / "claims.md"
VERSIONS = "Kafka 4.3.1 and librdkafka 2.16.0 (confluent-kafka 2.16.1)"
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
OUTDATED = {
    "no": "does not hold",
    "not since": "no longer holds",
    "half": "holds in part",
}

FURTHER = f"{folders.FURTHER}."  # before a run that a further notebook makes
Claims = dict[str, dict[str, Any]]


def read_claims() -> Claims:
    """The claims as they stand in the table, by id."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def page(claims: Claims) -> str:
    """The whole page as Markdown."""
    parts = _head(claims), _groups(claims), _samples(claims), _sources(claims)
    return "\n".join(line for part in parts for line in part) + "\n"


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


def _head(claims: Claims) -> Iterator[str]:
    yield "# Claims"
    yield ""
    yield (
        f"This page lists {len(claims)} statements about delivery in Kafka, as common texts make "
        f"them: {len(_of(claims, 'sample'))} with a sample of code or settings, and "
        f"{len(_of(claims, 'question'))} that readers of those texts ask about. Each row names the "
        "run of a lab that causes it, the finding that is asked for, and the tests that decide it "
        f"on a real broker or in the audit. *Holds* says what {VERSIONS} did; a run was not made "
        "to agree with a text. Where texts and broker differ, the broker is right."
    )
    yield ""
    yield "What older texts say and is not simply true today:"
    yield ""
    for beginning, verdict in OUTDATED.items():
        for name, claim in claims.items():
            if _is(claim["holds"], beginning):
                yield f"- {name} {verdict}: *{claim['claim']}* {claim['note']}"
    yield ""
    yield (
        "A finding of [findings.md](findings.md) decides a claim by being there or by not being "
        "there; *none* means that the log, the wire or a reader decides. A run is named as in the "
        "lab's source, by its workload where it has no name of its own; `02.4` is an exercise. "
        "Tests in [test_labs.py](../tests/test_labs.py) execute and grade the whole lab. What a "
        "note says of Java or of other versions was not run by these tests."
    )
    yield ""
    yield "The page is made from `docs/claims.toml` by `docs/make_claims.py`."


def _of(claims: Claims, kind: str) -> Claims:
    """The claims that are of this kind."""
    return {name: claim for name, claim in claims.items() if kind in kinds(claim)}


def _is(holds: str, beginning: str) -> bool:
    return holds == beginning or (beginning == "not since" and holds.startswith(beginning))


def _begun(title: str, *columns: str) -> list[str]:
    """A section that is a table, up to its first row."""
    return ["", f"## {title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _groups(claims: Claims) -> Iterator[str]:
    for letter, title in GROUPS.items():
        yield from _begun(f"{letter}. {title}", *COLUMNS)
        for name, claim in claims.items():
            if name.startswith(letter):
                yield _row(name, claim)


def _samples(claims: Claims) -> Iterator[str]:
    """What the texts show, with the run of a lab that answers each sample."""
    yield from _begun("Code samples", "sample", "of", "source", "holds", "lab and run")
    for name, claim in _of(claims, "sample").items():
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


def _row(name: str, claim: dict[str, Any]) -> str:
    cells = (
        name,
        claim["claim"],
        ", ".join(kinds(claim)),
        " ".join(claim["source"]),
        claim["holds"],
        _runs(claim["lab"], claim["run"]),
        _finding(claim["finding"]),
        "<br>".join(map(_test, claim["test"])),
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


def _test(test: str) -> str:
    path, function, case = split_test(test)
    which = f": {case}" if case else ""
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


if __name__ == "__main__":
    PAGE.write_text(page(read_claims()), encoding="utf-8")
