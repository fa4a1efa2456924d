"""Findings beside the contract: what happened, and whether this configuration allows it.

It brings the few rows that are findings out of Spark, and never the events.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit.contracts import (
    ALLOWED,
    BREACH,
    EXEMPTIONS,
    OF_GROUPS,
    OUTLIVED,
    REQUIRED,
    UNMARKED,
    Clause,
    clause,
)
from lab_utils.audit.contracts.defaults import (
    FLUSHED,
    NONE_WAS_LEFT,
    POSITIONS_CHANGED,
    POWER_CUT,
    RECORDS_DELETED,
    SUCCEEDED,
    TOPIC_DELETED,
    UNKNOWN,
    effective,
)
from lab_utils.audit.declared import COUNTS, EXTREMES, TOPIC, alternatives, foreign, misspelt
from lab_utils.audit.finding import FINDING_COLUMNS, RULES, Prefilter, found_by
from lab_utils.audit.findings.isolation import PASSED_OVER, VISIBLE
from lab_utils.audit.findings.producing import UNRECORDED
from lab_utils.audit.findings.replication import STALE
from lab_utils.audit.kept_plans import ANEW, Plans
from lab_utils.audit.prefilter import prefiltering
from lab_utils.audit.session import is_large, kept_plans
from lab_utils.audit.survey import PLACINGS, UNKNOWN_GROUP, Survey, survey
from lab_utils.ledger.acts import ANY, Acts, at_once, held, in_time, none_was_left
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from lab_utils.ledger.topics import TopicFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Judgement = tuple[str, str | None, str | None]
JUDGED_SCHEMA: Final = "judgement STRING, allowed_by STRING, reason STRING"
# What a judgement depends on: findings that agree in these have the same.
CASE: Final = ("run", "finding", "topic", "partition", "actor", "circumstances")
# A finding that the configuration decides, in a ledger that has none.
UNDECIDED: Final = "undecided"
# What is inconclusive: no setting allows or forbids it.
PROVES_NOTHING: Final = "proves nothing"
BY_WEIGHT: Final = (PROVES_NOTHING, REQUIRED, ALLOWED, UNDECIDED, BREACH)
UNSEEN: Final = (
    "The configuration of the {role} decides, and this ledger has none. Say it in a file: "
    "./lab audit --contract FILE."
)
MISSPELT: Final = (
    "The configuration of the {role} decides, and a setting of it has a name or a value that it "
    "cannot have: {names}. Correct it in the event."
)
FOREIGN: Final = (
    "The configuration of the {role} decides, and what it leaves out has the default of its "
    "library, which is not known here: {names}. Record these settings in created."
)
UNSENT: Final = (
    "Nobody recorded how often it was sent: a copy that Kafka made cannot be told from a second "
    "send."
)
LAST_SEEN_BEFORE: Final = (
    "Nobody knows where the high watermark was when the last in sync was left alone: it was seen "
    "before, or another broker led. Record the watermark after each decision of the controller."
)
# Findings that an assignment or a seek explains.
SINCE_PLACED: Final = ("nonmonotonic-poll", "poll-skip")
UNPLACED: Final = (
    "Nobody recorded when {actor} was assigned a partition or moved: a rebalance cannot be told "
    "from a step back or a gap. Record assigned, revoked and sought."
)
# What a client of a role does, whether or not it was recorded.
DOES: Final = {"producer": ("sent", "acked", "failed", "unknown"), "consumer": ("delivered",)}
# Findings about a sequence that only one client of a name has.
IN_SEQUENCE: Final = ("nonmonotonic-send", *SINCE_PLACED)
SEVERAL: Final = (
    "The ledger has several {role}s under the name {actor}, and nobody can say which of them did "
    "what. Record each under an actor of its own."
)
# Findings about what the log lacks or hides, and about what a consumer was not given.
IN_THE_LOG: Final = ("lost-write", "inconsistent-offsets", "torn-transaction")
# Those that the log alone shows: what happened after it was read explains none of them.
LOST: Final = ("lost-write", "torn-transaction", "hanging-transaction")
NOT_GIVEN: Final = ("unseen", "poll-skip", "skipped-processing")
# Those that a position decides which somebody else may have committed.
OF_POSITIONS: Final = (*dict(OF_GROUPS), "lost-commit")
# Findings that compare the key and the value of events of several kinds.
OF_ONE_ORDER: Final = ("lost-write", "inconsistent-offsets", "unseen")
# And those that a topic's settings may allow.
OF_TOPICS: Final = {it.finding for it in EXEMPTIONS if it.setting in TOPIC}
# How a log that does its duty may have lost an order.
GONE: Final = ("superseded", "deleted")
UNREAD: Final = (
    "Nobody read the log to its end, and it may lose an acked order ({why}): what is gone cannot "
    "be told from what was passed over. Record what the log holds, and its end."
)
UNREAD_SINCE: Final = (
    "The topic is compacted, and its log was read before the group had been given all: what "
    "compaction had taken away by then cannot be told from what was passed over. Read the log last."
)
UNTOLD: Final = (
    "A producer may use transactions here, and nobody recorded which: an aborted order is passed "
    "over as it should be. Record the transaction of what is sent, or what is visible."
)
IN_BACKGROUND: Final = (
    "A member of the group commits in the background (enable.auto.commit), and nobody recorded "
    "what: a lower position may have been the last. Record committed for these, too."
)
MOVED_SINCE: Final = (
    "A program of the group moved after it had committed that, and may have committed a lower "
    "position that nobody recorded."
)
BEGAN_UNSEEN: Final = (
    "Nobody recorded when this consumer was assigned the partition, or where to it was moved. "
    "Record assigned and sought."
)
OFFSETS_LOST: Final = (
    "A broker lost its power, and nobody recorded how the topic of the positions is replicated, "
    "__consumer_offsets: a power cut may have taken the last one."
)
STRANGE_COMMIT: Final = (
    "A client whose group.id nobody recorded committed a position of this partition, and its group "
    "may be this one. Record created for each client that commits."
)
HALF_READ: Final = (
    "Only a read_committed reader was at the log, and it is not given what was aborted. Record "
    "what a read_uncommitted one finds there."
)
UNLIKE: Final = (
    "In this topic each {named} has a {column}, and no {nameless} has one: nobody can say which of "
    "them are about one order. Record its key and value in each event of an order, or no key."
)
READ_MEANWHILE: Final = (
    "The log has an older record of the key of this tombstone, and compaction takes that first: it "
    "may have come while the log was read. Read it once more, from its beginning."
)
NO_ELR: Final = (
    "Each replica in sync lost its power, and nobody recorded whether another one was eligible to "
    "lead (KIP-966, since Kafka 4.1). Record elr beside isr."
)
NOT_TOLD: Final = (
    "Nobody recorded who committed the position: a program, or with its transaction, which was "
    "aborted and must not count. Record committed and txn_offsets_sent."
)
STRANGER: Final = (
    "The open transaction is of a producer that this ledger does not have: nobody can say when it "
    "ends. Record that client."
)


def judged_run(folder: Path) -> list[dict[str, Any]]:
    """The same as judged_findings(), of the ledger in a run's folder."""
    with kept_plans(folder) as (events, plans):
        return judged_findings(events, plans)


def judged_findings(events: DataFrame, plans: Plans = ANEW) -> list[dict[str, Any]]:
    """One row for each finding: FINDING_COLUMNS, judgement, allowed_by and reason."""
    # A lab's run is small: in one partition nothing is shuffled, and the query takes half the time.
    events = events if is_large() else events.coalesce(1)
    seen = survey(events, plans)
    with _prefilter() as prefilter:
        rows = plans.rows(found_by(RULES.values(), events, seen, prefilter))
    of_runs = seen.by_run()
    found = [judged(row.asDict(), of_runs[row["run"]]) for row in rows]
    return sorted(found, key=_place)


def write_judged(events: DataFrame, place: str) -> None:
    """The same as Parquet files at `place`, of a ledger whose findings are too many for a list."""
    seen = survey(events)
    with _prefilter() as prefilter:
        found = found_by(RULES.values(), events, seen, prefilter).cache()
        _with_judgements(found, events, seen).write.mode("overwrite").parquet(place)
        found.unpersist()  # While what it is made of has its names.


def _with_judgements(found: DataFrame, events: DataFrame, seen: Survey) -> DataFrame:
    cases = [row.asDict() for row in found.select(*CASE).distinct().collect()]
    of_runs = seen.by_run()
    rows = [
        tuple(case[name] for name in CASE) + _judgement(case, of_runs[case["run"]])
        for case in cases
    ]
    schema = ", ".join(f"{name} {FINDING_COLUMNS[name]}" for name in CASE)
    clauses = events.sparkSession.createDataFrame(rows, f"{schema}, {JUDGED_SCHEMA}")
    same = [found[name].eqNullSafe(clauses[name]) for name in CASE]
    return found.join(clauses, same).select(
        *(found[name] for name in FINDING_COLUMNS),
        *(clauses[name] for name in ("judgement", "allowed_by", "reason")),
    )


def _prefilter() -> AbstractContextManager[Prefilter | None]:
    return prefiltering() if is_large() else nullcontext()


def rehearse() -> None:
    """Judge a ledger of three events, so that the first real one does not wait for classes."""
    columns: dict[str, Any] = {"run": "00-a", "topic": "orders", "partition": 0, "value": "0"}
    ledger = [
        Event(source="client", actor="producer-1", kind="sent", **columns),
        Event(source="client", actor="producer-1", kind="acked", offset=0, **columns),
        Event(source="log", actor="reader", kind="record", offset=0, **columns),
    ]
    with tempfile.TemporaryDirectory(prefix="lab-rehearsal-") as folder:
        write_ledger(Path(folder), ledger)
        judged_run(Path(folder))


def judged(found: Mapping[str, Any], seen: Survey) -> dict[str, Any]:
    """One finding with its judgement."""
    judgement, allowed_by, reason = _judgement(found, seen)
    said = {"judgement": judgement, "allowed_by": allowed_by}
    return {**found, **said, "reason": reason or found["evidence"]}


def _judgement(found: Mapping[str, Any], seen: Survey) -> Judgement:
    """The judgement of a case, what allows it, and why; the evidence itself if that is None.

    Of topics whose settings were changed those decide that allow most, as for clients: nobody can
    say which of them held when it happened.
    """
    run, name = found["run"], found["topic"]
    of_it = [(run, name)] if name is not None else [it for it in seen.topics if it[0] == run]
    judged = [_judged_as_set(found, seen)]
    for key in of_it:
        topic = seen.topics.get(key, TopicFacts())
        for life in reversed(topic.lives[:-1]):
            before = {**seen.topics, key: replace(topic, settings=life)}
            judged.append(_judged_as_set(found, replace(seen, topics=before)))
    return min(judged, key=lambda it: BY_WEIGHT.index(it[0]))


def _judged_as_set(found: Mapping[str, Any], seen: Survey) -> Judgement:
    """The same under the settings that the topics had at last."""
    if found["finding"] == "inconclusive":
        return PROVES_NOTHING, None, None
    circumstances = found["circumstances"] or ()
    known, configurations = _known(found, seen), _those_of(found, seen)
    if found["topic"] is None and found["finding"] in UNMARKED:  # any topic may have lost a marker
        topics = [topic for run, topic in seen.topics if run == found["run"]]
        configurations = [_of_topic({**found, "topic": it}, seen) for it in topics]
    doubtful = {
        name: meant for it in configurations for name, meant in misspelt(it) if meant not in TOPIC
    }
    them = list(_in_doubt(configurations, doubtful)) if doubtful else [configurations]
    them = [each for it in them for each in alternatives(it)]
    if not configurations or _unrecorded(found, seen):
        them = [[*each, it] for each in them for it in _possible(known)]
    possible = [clause(found["finding"], it, circumstances) for it in them]
    decided = possible[0]
    if decided.judgement == BREACH and (lacking := _lacking(found, seen)):
        return UNDECIDED, None, lacking
    lost = [{**it, NONE_WAS_LEFT: "true"} for it in them[0] if it.get(NONE_WAS_LEFT) == UNKNOWN]
    is_open = lost and clause(found["finding"], lost, circumstances).judgement != BREACH
    if decided.judgement == BREACH and is_open:
        return UNDECIDED, None, NO_ELR
    if strange := _strange_by(decided, found, seen):
        return UNDECIDED, None, MISSPELT.format(role="topic", names=", ".join(sorted(strange)))
    if len({it.judgement for it in possible}) > 1:
        others = {it for it in map(foreign, configurations) if it}
        why = MISSPELT if doubtful else FOREIGN if others else UNSEEN
        names = ", ".join(sorted(doubtful or others))
        return UNDECIDED, None, why.format(role=RULES[found["finding"]].role, names=names)
    is_one = doubtful or len({it.allowed_by for it in possible}) == 1
    was_seen = (configurations and is_one) or str(decided.allowed_by).partition("=")[0] in known
    return decided.judgement, decided.allowed_by if was_seen else None, decided.reason


def _lacking(found: Mapping[str, Any], seen: Survey) -> str | None:
    """What the ledger lacks to call a finding a breach; None if it lacks nothing."""
    if UNRECORDED in (found["circumstances"] or ()):
        return UNSENT
    if OUTLIVED in (found["circumstances"] or ()):
        return READ_MEANWHILE
    if STALE in (found["circumstances"] or ()):
        return LAST_SEEN_BEFORE
    if found["finding"] in SINCE_PLACED and not seen.says(found["run"], found["actor"], PLACINGS):
        return UNPLACED.format(actor=found["actor"])
    compares = found["finding"] in OF_ONE_ORDER or PASSED_OVER in (found["circumstances"] or ())
    if compares and (unlike := _unlike(found, _topic(found, seen))):
        return UNLIKE.format(**unlike)
    if found["finding"] in IN_THE_LOG and _is_half_read(found, seen):
        return HALF_READ
    if found["finding"] == "aborted-output":
        return NOT_TOLD
    if found["finding"] == "stuck-lso":
        return STRANGER
    if found["finding"] in NOT_GIVEN and (gone := _rightly_not_given(found, seen)):
        return gone
    if found["finding"] in OF_POSITIONS and _may_be_committed(found, seen):
        return STRANGE_COMMIT
    if found["finding"] == "lost-commit" and (why := _not_recorded(found, seen)):
        return why
    role = RULES[found["finding"]].role
    if found["finding"] in IN_SEQUENCE and seen.are_several(found["run"], found["actor"], role):
        return SEVERAL.format(role=role, actor=found["actor"])
    return None


def _strange(topic: TopicFacts) -> dict[str, str]:
    """The settings of a topic that say nothing, each with the one that was probably meant."""
    return {name: meant for name, meant in misspelt(topic.settings) if meant in TOPIC}


def _strange_by(decided: Clause, found: Mapping[str, Any], seen: Survey) -> Iterable[str]:
    """Settings of a finding's topic that say nothing, if its judgement may rest on one of them.

    A breach may rest on any; else it is the one that allows it, or one by which that decides: a
    floor is no higher than the replicas, and no power cut takes what was flushed.
    """
    strange = _strange(_topic(found, seen))
    setting = str(decided.allowed_by).partition("=")[0]
    decisive = (*COUNTS, FLUSHED) if setting in COUNTS else (setting,)
    may_forbid = decided.judgement == BREACH and found["finding"] in OF_TOPICS
    return strange if may_forbid or set(decisive) & set(strange.values()) else ()


def _unlike(found: Mapping[str, Any], topic: TopicFacts) -> Mapping[str, str] | None:
    """A kind whose events all have a key, or a value, and one of whose events none has one.

    What was sent is one of the two, if it was recorded: of other kinds some may be missing. What
    consumers were given decides nothing of what the log lacks, and what others were given nothing
    of what one group was not.
    """
    everybody = dict(topic.named.get(None, {}))
    everybody.pop("delivered", None)
    named = {actor: it for actor, it in topic.named.items() if actor is not None}
    views: list[dict[str, Counter[str]]] = [everybody]
    views += ({it: its[it] for it in ("sent", "acked") if it in its} for its in named.values())
    theirs = str(found["actor"]).split(", ") if found["finding"] == "unseen" else named
    if found["finding"] != "lost-write":
        views += [
            {**everybody, f"delivered of {it}": named[it]["delivered"]}
            for it in theirs if "delivered" in named.get(it, ())
        ]  # fmt: skip
    for kinds in views:
        for column in ("key", "value"):
            all_have = [kind for kind, it in kinds.items() if it[column] == it["every"]]
            none_has = [kind for kind, it in kinds.items() if not it[column]]
            is_known = "sent" not in kinds or "sent" in (*all_have, *none_has)
            if all_have and none_has and is_known:
                return {"named": max(all_have), "column": column, "nameless": min(none_has)}
    return None


def _rightly_not_given(found: Mapping[str, Any], seen: Survey) -> str | None:
    """Why nobody can say that a consumer should have been given this order; None if that is so."""
    topic = _topic(found, seen)
    producers = [_of_topic(found, seen) | it for _, it in seen.lives(found["run"], "producer")]
    are_told = bool(producers) and not _strangers(found["run"], seen, "producer")
    settings = [*producers, *(() if are_told else _possible(_known(found, seen)))]
    is_trimmed = any(("trims", found["run"], it) in seen.since for it in (found["topic"], None))
    may_be = [each for them in alternatives(settings) for each in them]
    loses = "DeleteRecords" if is_trimmed else clause("lost-write", may_be, GONE).allowed_by
    if found["finding"] == "unseen" and not topic.all_drained and loses:
        return UNREAD.format(
            why=loses if are_told or is_trimmed else "nobody recorded how its producer is set"
        )
    given = [it.get(found["partition"], (0, 0, -ANY))[2] for it in topic.given.values()]
    at = found["run"], found["topic"], found["partition"]
    read = [min(times) for it, times in seen.readings.items() if it[:3] == at and times]
    read += [end.at_ns for end in [topic.ends.get(at[2])] if end]
    if topic.is_compacted and max(given, default=-ANY) > min(read, default=ANY):
        return UNREAD_SINCE
    readers = map(effective, _those_of(found, seen) or [{}])
    tells = topic.is_transactional or topic.producer_ids is not None  # its batches were recorded
    is_kept_back = any(it["isolation.level"] == "read_committed" for it in readers)
    return UNTOLD if is_kept_back and not tells and not _are_plain(found, seen) else None


def _may_be_committed(found: Mapping[str, Any], seen: Survey) -> bool:
    """Did a client of which nobody knows the group commit a position of a finding's partition?"""
    own = {seen.group(found["run"], name) for name in str(found["actor"] or "").split(", ")}
    return any(
        group.startswith(UNKNOWN_GROUP) and found["partition"] in positions
        for group, positions in _topic(found, seen).told.items() if group not in own
    )  # fmt: skip


def _not_recorded(found: Mapping[str, Any], seen: Survey) -> str | None:
    """What may have set a group back, and nobody would have recorded it; None if nothing may."""
    why = found["circumstances"]
    if "unplaced" in why:
        return BEGAN_UNSEEN
    if any((what, run) == ("power_cut", found["run"]) for what, run, _ in seen.since):
        return OFFSETS_LOST
    members = map(effective, _those_of(found, seen) or [{}])
    commits = any(it["enable.auto.commit"] == "true" for it in members)
    if commits or _unrecorded(found, seen):
        return IN_BACKGROUND
    return MOVED_SINCE if "moved" in why else None


def _are_plain(found: Mapping[str, Any], seen: Survey) -> bool:
    """Are there producers, each recorded, and none with transactions among them?

    Those who wrote to a finding's topic, if each who was acked there says what it sent; else all.
    """
    run, said = found["run"], _topic(found, seen).said_by
    lives, strangers = seen.lives(run, "producer"), _strangers(run, seen, "producer")
    writers = {actor for kind in DOES["producer"] for actor in said[kind]}
    if not writers or not said["acked"] <= said["sent"]:
        writers = strangers.union(actor for actor, _ in lives)
    has_transactions = any("transactional.id" in it for actor, it in lives if actor in writers)
    return bool(writers) and not strangers & writers and not has_transactions


def _strangers(run: str, seen: Survey, role: str) -> set[str | None]:
    """The clients of a run that did what this role does, and whose settings nobody recorded."""
    did = {
        actor for of, source, actor, kind in seen.counts
        if (of, source) == (run, "client") and kind in DOES[role]
    }  # fmt: skip
    return did - {actor for actor, _ in seen.lives(run, role)}


def _unrecorded(found: Mapping[str, Any], seen: Survey) -> bool:
    """Does a finding name a client of its role whose settings nobody recorded?"""
    strangers = _strangers(found["run"], seen, RULES[found["finding"]].role)
    return not strangers.isdisjoint(str(found["actor"]).split(", "))


def _topic(found: Mapping[str, Any], seen: Survey) -> TopicFacts:
    """What is known of the topic of a finding; nothing, if it has none."""
    return seen.topics.get((found["run"], found["topic"])) or TopicFacts()


def _is_half_read(found: Mapping[str, Any], seen: Survey) -> bool:
    """May the log hold what was aborted, and was nobody there who is given that?

    A reader that is set to read_committed is not, whatever it calls what it is given. Where nothing
    was found in the topic itself, the readers of the others count: they are the same.
    """
    run, said = found["run"], _topic(found, seen).said_by
    if not said.keys() & {"record", "visible"}:
        said = {kind: seen.actors(run, kind) for kind in ("record", "visible")}
    visible, readers = bool(said.get("visible")), said.get("record", set())
    if not visible and not readers:  # nobody was given anything: who came to the end?
        readers = seen.actors(run, "end")
    committed = {
        actor for actor, it in seen.lives(run, "consumer")
        if effective(it)["isolation.level"] == "read_committed"
    }  # fmt: skip
    is_half = visible != bool(readers) and readers <= committed
    return is_half and not _are_plain(found, seen)


def _possible(known: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """Configurations of a client that nobody recorded, each with what is known of it."""
    return [
        {**known, **it} for it in EXTREMES
        if all(known.get(name, value) == value for name, value in it.items())
    ]  # fmt: skip


def _in_doubt(
    configurations: Sequence[Mapping[str, str]], doubtful: Mapping[str, str]
) -> Iterator[list[Mapping[str, str]]]:
    """Configurations without the settings that are in doubt, and with what these may say."""
    told = [
        {name: text for name, text in it.items() if name not in doubtful} for it in configurations
    ]
    for extreme in EXTREMES:
        may_be = {name: text for name, text in extreme.items() if name in doubtful.values()}
        if may_be or not extreme:
            yield [may_be | it for it in told]


def _known(found: Mapping[str, Any], seen: Survey) -> Mapping[str, str]:
    """What holds for each client of a finding: its topic's settings, and what the log says."""
    topic, known = _topic(found, seen), _of_topic(found, seen)
    if topic.are_idempotent is not None:
        known["enable.idempotence"] = topic.are_idempotent
        known |= {"acks": "all"} if topic.are_idempotent == "true" else {}  # it needs that
    return known


def _those_of(found: Mapping[str, Any], seen: Survey) -> Sequence[Mapping[str, str]]:
    """The configurations of the clients that a finding names, or of all in that role.

    Of one that it names and nobody recorded nothing is known, whatever others were set to. Each is
    on top of the settings of the finding's own topic. A client that was created again with others
    has both: a finding may be of what it did before.
    """
    given = _of_topic(found, seen) | {SUCCEEDED: str(_is_succeeded(found, seen))}
    if VISIBLE in (found["circumstances"] or ()):
        return [given]  # it asks for read_committed, as by default
    role = RULES[found["finding"]].role
    in_role = seen.lives(found["run"], role)
    names = str(found["actor"] or "").split(", ")
    theirs = [it for it in in_role if it[0] in names]
    if not theirs and not _unrecorded(found, seen):
        theirs = in_role
    return [given | settings for _, settings in theirs]


def _number(broker: str | None) -> str:
    """The number of a broker by its name, as broker-1; empty where that has none, or several."""
    found = re.fullmatch(r"\D*(\d+)", str(broker))
    return found[1] if found else ""


def _is_succeeded(found: Mapping[str, Any], seen: Survey) -> bool:
    """Was a consumer of the group that a finding names created more than once, or another one?"""
    run, names = found["run"], str(found["actor"] or "").split(", ")
    groups = {seen.group(run, name) for name in names}
    consumers = (actor for actor, _ in seen.lives(run, "consumer"))
    return sum(seen.group(run, actor) in groups for actor in consumers) > 1


def _of_topic(found: Mapping[str, Any], seen: Survey) -> dict[str, str]:
    """The settings of a finding's topic, how many brokers lost power, what was administered.

    Only what was done before anybody last looked explains what they saw, and was not over when it
    was first sent to.
    """
    run, name = found["run"], found["topic"]
    topic = _topic(found, seen)
    until = topic.last_look(is_of_log=found["finding"] in LOST)
    until = ANY if found["finding"] == "lost-commit" else until  # The broker was asked at the end.
    # A transaction that hangs may be of before.
    first = -ANY if found["finding"] == "hanging-transaction" else topic.first_send
    past = in_time(seen.since, seen.over, run, first, until)
    done = {
        what for (what, _, it), times in past.items() if times and it in (name, None)
    }  # fmt: skip
    strange = _strange(topic)
    return {
        **{name: text for name, text in topic.settings.items() if name not in strange},
        **_power_cuts(past, topic, found["partition"]),
        TOPIC_DELETED: str("deletes" in done),
        RECORDS_DELETED: str("trims" in done),
        POSITIONS_CHANGED: str(bool(done & {"forgets", "repositions"})),
    }


def _power_cuts(past: Acts, topic: TopicFacts, partition: int | None) -> dict[str, str]:
    """How many brokers had no power at one time, and was none left? Nothing if each had it.

    Where the ledger says who held the replicas then, only their power counts.
    """
    decided = topic.decided(partition) or [[]]
    cuts: dict[str, list[int]] = defaultdict(list)
    for (what, _, actor), times in past.items():
        number = _number(actor)
        if what == "power_cut" and (of := [it for it in times if held(number, it, decided)]):
            cuts[number or str(actor)] += of
    if not cuts:
        return {}
    left = [none_was_left(it, cuts) for it in decided]
    return {
        POWER_CUT: str(max(at_once(it, cuts) for it in decided)),
        NONE_WAS_LEFT: "true" if True in left else UNKNOWN if None in left else "false",
    }


def _place(found: Mapping[str, Any]) -> tuple[Any, ...]:
    """Findings by run and name, then by place; what is missing comes first."""
    given = [found[name] for name in ("run", "finding", "topic", "partition", "value", "evidence")]
    return tuple((each is not None, 0 if each is None else each) for each in given)
