"""The findings on Spark: the literal histories, and equality with the oracle on random ones."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lab_utils.audit.finding import RULES, found_by
from lab_utils.audit.findings.cycles import ANOMALIES
from lab_utils.audit.judged import judged as judge
from lab_utils.audit.judged import judged_findings, write_judged
from lab_utils.audit.ledgers import Ledger, listed, read
from lab_utils.audit.prefilter import KNOWN, PREFILTERS, prefiltering
from lab_utils.audit.report import unsaid
from lab_utils.audit.session import read_events, spark
from lab_utils.audit.survey import Survey, kinds_of, survey
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from tests.audit.cases import CASES
from tests.audit.judged_cases import JUDGED
from tests.audit.random_histories import MODULES, history
from tests.histories import (
    acked,
    created,
    delivered,
    in_run,
    log,
    placed,
    position,
    sent,
    stop,
)
from tests.oracle import Found, oracle
from tests.oracle_facts import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.kafka

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-finding.md"
EACH = [
    (module, finding, name)
    for module, findings in CASES.items()
    for finding, cases in findings.items()
    for name in cases
]
# How many histories of a module are drawn here, and in each job of the tier `long`.
SOME, MANY = 100, 400
# Of these runs a clock tells that moves with every sixth event, and what is found in the polls that
# share a time; to meet that by chance takes more of them.
COARSE, OF_THEM = "consuming: coarse-", 200
IN_POLLS = {"nonmonotonic-poll", "poll-skip"}
JUDGED_RUN, NONSENSE = "judged: ", "nonsense: "
FoundByRun = dict[str, Counter[Found]]


def timed(run: str, rows: list[Event]) -> list[Event]:
    """A history as its run, with the times that its clock tells."""
    tick = 6 if run.startswith(COARSE) else 1
    return [replace(row, at_ns=row.at_ns // tick) for row in in_run(run, rows)]


def is_asked(run: str, finding: str) -> bool:
    """Is this finding of the run's module, and one that its clock can tell?"""
    is_told = finding in IN_POLLS or not run.startswith(COARSE)
    return is_told and RULES[finding].family == module_of(run)


def spark_findings(
    folder: Path,
    runs: Mapping[str, list[Event]],
    names: Collection[str] = RULES,
    *,
    is_prefiltered: bool = False,
) -> FoundByRun:
    """What the queries of a run's module find in it, in the words of the oracle; in one job."""
    write_ledger(folder, [row for run, rows in runs.items() for row in timed(run, rows)])
    events = read_events(folder)
    rules, seen = [RULES[name] for name in names], survey(events)
    with prefiltering() if is_prefiltered else nullcontext() as prefilter:
        return in_words(found_by(rules, events, seen, prefilter).collect(), seen)


def in_words(rows: Iterable[Any], seen: Survey) -> FoundByRun:
    """Findings of a run's module, by run, in the words of the oracle.

    What the survey of that run alone would not ask for is not found there.
    """
    found: FoundByRun = defaultdict(Counter)
    kinds = {run: set(kinds_of(alone)) for run, alone in seen.by_run().items()}
    for row in rows:
        if not is_asked(row["run"], row["finding"]):
            continue
        parts = RULES[row["finding"]].parts
        if not any(part.can_answer(kinds[row["run"]]) for part in parts):
            continue
        at = None if row["offsets"] is None else tuple(row["offsets"])
        # Of a circle the oracle says that there is one, and not who is in it.
        actor = None if row["finding"] in ANOMALIES else row["actor"]
        why = tuple(row["circumstances"] or ())
        each = row["finding"], row["topic"], row["partition"], row["value"], at, actor, why
        found[row["run"]][each] += 1
    return found


def module_of(run: str) -> str:
    return run.partition(":")[0]


def drawn(module: str, chance: int = 0, number: int = SOME) -> dict[str, list[Event]]:
    """Random histories of a module; others for each `chance`."""
    return named(f"{module}: run-", module, chance, number)


def named(prefix: str, module: str, chance: int, number: int) -> dict[str, list[Event]]:
    """Random histories of a module as runs whose names begin so."""
    them = (history(module, f"{chance} {at}") for at in range(number))
    return {f"{prefix}{at}": rows for at, rows in enumerate(them) if rows}


def literal(each: Iterable[tuple[str, str, str]]) -> dict[str, list[Event]]:
    """The histories of these cases as runs: `module: finding: name: 0`, the smallest, and so on."""
    return {
        f"{module}: {finding}: {name}: {which}": rows
        for module, finding, name in each
        for which, rows in enumerate(CASES[module][finding][name])
    }


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Event]]:
    """The literal histories, and random ones."""
    coarse = named(COARSE, "consuming", 0, OF_THEM)
    return reduce(lambda some, module: some | drawn(module), CASES, literal(EACH) | coarse)


def spoiled(event: Event, chance: Random) -> dict[str, Any]:
    """An event with a column, or a part of its detail, that its program got wrong or left out."""
    columns = asdict(event)
    name = chance.choice(("topic", "partition", "offset", "value", "records", "at_ns", "actor"))
    spoilt = chance.choice((None, "", "é", -(2**63), 2**63 - 1, 2**44, 5, True, ["x"]))
    # Two equal events of one time would be a copy, and the whole ledger is refused.
    is_time = name == "at_ns" and isinstance(spoilt, int)
    columns[name] = 2**44 + event.at_ns if is_time else spoilt
    if event.detail:
        texts = (None, "", "x", "-1", "3.5", "9" * 30, "[]", '["orders-0"]', '["orders-0:x"]')
        columns["detail"] = event.detail | {chance.choice([*event.detail]): chance.choice(texts)}
    return columns


@pytest.fixture(scope="module")
def nonsense(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """Random histories, of whose events three of ten are spoiled, as an audit reads them."""
    chance, folder = Random(0), tmp_path_factory.mktemp("nonsense")
    runs = {
        f"{NONSENSE}{module} {at}": history(module, at) for module in MODULES for at in range(8)
    }
    rows = [row for run, drawn in runs.items() for row in in_run(run, drawn)]
    lines = (spoiled(row, chance) if chance.random() < 0.3 else asdict(row) for row in rows)
    (folder / "it.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return read(spark(), listed(spark(), [str(folder)]), f"file://{folder}/compacted")


@pytest.fixture(scope="module")
def events(
    runs: dict[str, list[Event]], nonsense: Ledger, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """All of these, and those with a judgement, as one ledger; in Parquet, as it is often read."""
    folder = tmp_path_factory.mktemp("histories")
    those = {f"{JUDGED_RUN}{name}": rows for name, (rows, *_) in JUDGED.items()}
    write_ledger(folder, [row for run, rows in (runs | those).items() for row in timed(run, rows)])
    events = read_events(folder).unionByName(nonsense.events)
    events.coalesce(1).write.parquet(f"{folder}/compacted")
    return spark().read.parquet(f"{folder}/compacted")


@pytest.fixture(scope="module")
def judged(events: DataFrame) -> list[dict[str, Any]]:
    """What Spark finds in each history: planned once, for all."""
    return judged_findings(events)


@pytest.fixture(scope="module")
def found(judged: list[dict[str, Any]], events: DataFrame) -> FoundByRun:
    """The same in the words of the oracle."""
    return in_words(judged, survey(events))


def expected_in(runs: Mapping[str, list[Event]]) -> FoundByRun:
    found = {run: oracle(timed(run, rows), module_of(run)) for run, rows in runs.items()}
    return {
        run: Counter({it: times for it, times in those.items() if is_asked(run, it[0])})
        for run, those in found.items()
    }


def assert_same(runs: Mapping[str, list[Event]], expected: FoundByRun, seen: FoundByRun) -> None:
    """The findings are the same, or the smallest history where they differ is shown."""
    differ = [run for run in runs if expected[run] != seen.get(run, Counter())]
    smallest = min(differ, key=lambda run: len(runs[run]), default="")
    assert [] == differ, (smallest, runs[smallest], expected[smallest], seen.get(smallest))


@pytest.mark.parametrize(("module", "finding", "name"), EACH)
def test_literal_histories(module: str, finding: str, name: str, found: FoundByRun) -> None:
    """The smallest history has the finding and its near misses have not, all as the oracle says."""
    for which, rows in enumerate(CASES[module][finding][name]):
        seen = found.get(f"{module}: {finding}: {name}: {which}", Counter())
        assert oracle(in_run("", rows), module) == seen, which
        assert (which == 0) == (finding in {each[0] for each in seen}), which


def test_spark_equals_the_oracle(runs: dict[str, list[Event]], found: FoundByRun) -> None:
    """On random histories Spark finds what the oracle finds, no more and no less."""
    expected = expected_in(runs)
    for module in CASES:
        # Chance alone would seldom meet the rarest finding of these.
        is_met = module in ("isolation", "replication")
        theirs = f"{module}: " if is_met else f"{module}: run-"
        met = {each[0] for run, rows in expected.items() if run.startswith(theirs) for each in rows}
        assert CASES[module].keys() == met

    assert_same(runs, expected, found)


def test_behind_a_prefilter(tmp_path: Path) -> None:
    """As over a large ledger: of each finding that it knows its smallest history and near misses.

    Random ones come to it in the tier `long`, where others of its kind are asked of all events.
    """
    runs = literal(each for each in EACH if each[1] in KNOWN)
    known = {
        run: Counter({it: times for it, times in rows.items() if it[0] in KNOWN})
        for run, rows in expected_in(runs).items()
    }
    assert_same(runs, known, spark_findings(tmp_path, runs, KNOWN, is_prefiltered=True))


def test_a_coarse_clock_tells_less(runs: dict[str, list[Event]]) -> None:
    """What is equal of the runs that it tells of is not what a fine one would tell of them."""
    coarse = [run for run in runs if run.startswith(COARSE)]
    less = expected_in({run: runs[run] for run in coarse})
    fine = expected_in({run.replace(COARSE, "consuming: run-"): runs[run] for run in coarse})

    assert any(less.values())
    assert [*less.values()] != [
        Counter({it: times for it, times in those.items() if it[0] in IN_POLLS})
        for those in fine.values()
    ]


def test_no_suspects(tmp_path: Path) -> None:
    """A prefilter that finds no suspects is asked like any other; nothing is found."""
    calm = [sent("1"), acked("1", 0), delivered("1", 0), *log("1")]

    parts = [(rule.name, part.facts) for rule in RULES.values() for part in rule.parts]
    asked = {facts: name for name, facts in parts if facts in PREFILTERS}

    assert {} == spark_findings(
        tmp_path, {"producing: calm": calm}, asked.values(), is_prefiltered=True
    )


def test_a_prefilter_keeps_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has put into Spark's memory is there while it is used, and gone afterwards."""
    frame, kept = type(spark().range(1)), []
    named = frame.createTempView
    monkeypatch.setattr(
        frame, "createTempView", lambda it, name: (kept.append(it), named(it, name))
    )
    write_ledger(tmp_path, in_run("producing: lost", [sent("1"), acked("1", 0), *log()]))
    events = read_events(tmp_path)
    with prefiltering() as prefilter:
        found_by(RULES.values(), events, survey(events), prefilter)
        kept = [each for each in kept if each.storageLevel.useMemory]
        assert kept

    assert not any(each.storageLevel.useMemory for each in kept)


def test_what_spark_has_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefilter's names end with it; no plan is asked for after that, which Spark may forget."""
    write_ledger(tmp_path / "ledger", in_run("r", [sent("1"), acked("1", 0), *log()]))
    events = read_events(tmp_path / "ledger")
    monkeypatch.setattr("lab_utils.audit.judged.is_large", lambda: True)
    spark().conf.set("spark.connect.session.planCache.enabled", "false")
    try:
        write_judged(events, str(tmp_path / "findings"))
    finally:
        spark().conf.unset("spark.connect.session.planCache.enabled")

    found = spark().read.parquet(str(tmp_path / "findings"))
    assert ["lost-write"] == [row.finding for row in found.collect()]


def test_the_prefilter_knows_each_finding() -> None:
    """One about orders or places that it does not know would cost a large ledger all of them."""
    filtered = {
        part.name for rule in RULES.values() for part in rule.parts if part.facts in PREFILTERS
    }

    assert filtered == KNOWN


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chance", range(1, 11))
def test_spark_equals_the_oracle_on_many(chance: int, tmp_path: Path) -> None:
    """20,000 histories of other seeds, 2,000 in one job, every second job through the prefilter."""
    runs = reduce(lambda some, module: some | drawn(module, chance, MANY), CASES, {})
    seen = spark_findings(tmp_path, runs, is_prefiltered=bool(chance % 2))

    assert_same(runs, expected_in(runs), seen)


@pytest.fixture
def page() -> Iterator[dict[str, Any]]:
    """What the code of the page defines, in its sequence; the finding is gone afterwards."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    yield names
    del RULES["sent-again"]


def test_adding_a_finding(page: dict[str, Any], tmp_path: Path) -> None:
    """The finding of the page has its smallest history, not its near miss, and its oracle agrees.

    The producer without retries is allowed nothing, and the page's exemption is for the other.
    """
    ((name, cases),) = page["SENT_AGAIN"].items()
    ((smallest, near_miss),) = cases.values()
    plain, keyed = (
        created("producer-1", role="producer", retries=retries) for retries in ("0", "5")
    )
    runs = {"00-a": [plain, *smallest], "00-b": [plain, *near_miss], "00-c": [keyed, *smallest]}
    write_ledger(tmp_path, [row for run, rows in runs.items() for row in in_run(run, rows)])
    events = read_events(tmp_path)
    seen = survey(events)
    rows = found_by([RULES[name]], events, seen).collect()
    judged = [judge(row.asDict(), seen) for row in rows]

    assert {run: list(page["sent_again_in_python"](Run(rows))) for run, rows in runs.items()} == {
        run: [
            (row.finding, row.topic, row.partition, row.value, None, row.actor, ())
            for row in rows
            if row.run == run
        ]
        for run in runs
    }
    assert [("00-a", "breach"), ("00-c", "breach")] == [
        (row["run"], row["judgement"]) for row in judged
    ]
    assert {RULES[name].promise} == {row["reason"] for row in judged}


def test_each_is_judged(judged: list[dict[str, Any]]) -> None:
    """Each history has this judgement of this finding, and what allows it."""
    seen = {(row["run"], row["finding"]): (row["judgement"], row["allowed_by"]) for row in judged}

    for name, (_, finding, *expected) in JUDGED.items():
        assert tuple(expected) == seen.get((f"{JUDGED_RUN}{name}", finding)), name


def test_nonsense_ends_no_audit(nonsense: Ledger, judged: list[dict[str, Any]]) -> None:
    """What cannot be judged is left out with its reason, and the rest of the ledger is judged."""
    assert 0 < nonsense.rejected.counts.total() < nonsense.events.count() / 2
    assert any(row["run"].startswith(NONSENSE) for row in judged)


def test_a_position_may_expire(tmp_path: Path) -> None:
    """A group that did nothing for a week may begin anew: the broker may have forgotten it."""
    latest = {"role": "consumer", "group__id": "a", "auto__offset__reset": "latest"}
    start = [created("consumer-1", enable__auto__commit="false", **latest), placed("assigned")]
    left = [created("producer-1", role="producer"), *start, delivered("0", 0), acked("1", 1)]
    left = [*left, position(1)]
    runs = {
        run: [
            replace(row, at_ns=row.at_ns + (at >= len(left)) * days * 24 * 3600 * 10**9)
            for at, row in enumerate(
                in_run(run, [*left, *start, delivered("2", 2), *log("0", "1", "2")])
            )
        ]
        for run, days in (("six-days", 6), ("a-week", 7))
    }
    write_ledger(tmp_path, [row for rows in runs.values() for row in rows])
    unseen = {
        row["run"]: row
        for row in judged_findings(read_events(tmp_path)) if row["finding"] == "unseen"
    }  # fmt: skip

    assert [unseen[run]["judgement"] for run in runs] == ["breach", "allowed"]
    for run, rows in runs.items():
        assert [it[-1] for it in oracle(rows, "producing") if it[0] == "unseen"] == [
            (*unseen[run]["circumstances"],)
        ]


def test_an_empty_log_was_read(tmp_path: Path) -> None:
    """Who came to the end of a log, and found nothing, has read it."""
    acks = [sent("1"), acked("1", 0)]
    runs = {
        "read": [*acks, *log()],
        "by a read_committed reader": [*acks, stop(0, 0)],
        "not to its end": [*acks, *log(drained=False)],
    }
    write_ledger(tmp_path, [row for run, rows in runs.items() for row in in_run(run, rows)])
    said = [it for it in unsaid(read_events(tmp_path)) if "The log was not read back" in it]

    assert [it.partition(":")[0] for it in said] == ["1 of 3 runs"]
