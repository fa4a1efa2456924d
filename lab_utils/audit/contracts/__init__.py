"""Contracts: what a configuration promises. Found and forbidden are two things.

    configuration ──▶ for each finding: required, allowed or a breach, what decides it, why

A contract is data. A finding that must not happen breaks the promise that it is registered with;
one that may happen names the setting that allows it. Settings are librdkafka's, with its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lab_utils.audit.contracts.defaults import (
    FLUSHED,
    JAVA_NAMES,
    NONE_WAS_LEFT,
    POSITIONS_CHANGED,
    POWER_CUT,
    RECORDS_DELETED,
    SUCCEEDED,
    TOPIC_DELETED,
    UNCLEAN,
    effective,
)
from lab_utils.audit.finding import RULES

# What a finding that happened is: it must happen, it may, or it must not.
REQUIRED: Final = "required"
ALLOWED: Final = "allowed"
BREACH: Final = "breach"


@dataclass(frozen=True, slots=True)
class Clause:
    """What one finding is under one configuration.

    judgement   REQUIRED, ALLOWED or BREACH
    allowed_by  the setting that allows or requires it; None if it is forbidden, or if nothing
                a client can set would forbid it
    reason      one sentence
    """

    judgement: str
    allowed_by: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Exemption:
    """One reason why a finding is no breach, and when it holds.

    source  where Kafka, librdkafka or a measurement says so; the claim of the course it belongs to
    when    a circumstance of the finding without which the exemption does not hold
    unless  one with which it does not
    """

    finding: str
    holds: Callable[[Mapping[str, str]], bool]
    setting: str | None
    reason: str
    source: str
    judgement: str = ALLOWED
    when: str | None = None
    unless: str | None = None


def _is(setting: str, *values: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda given: given[setting] in values


def _always(_: Mapping[str, str]) -> bool:
    return True


def _loses_power(given: Mapping[str, str]) -> bool:
    """Did as many brokers lose their power as must have a record before it is acked?

    Not what they have on their disks: each of them flushes a record before it says that it has it.
    """
    if given.get(FLUSHED) == "1":
        return False
    floor = int(given["min.insync.replicas"])
    return int(given[POWER_CUT]) >= max(1, min(floor, int(given["replicas"] or floor)))


def _none_was_left(given: Mapping[str, str]) -> bool:
    """Did each broker that could lead lose its power, and what it had not flushed?"""
    return given.get(FLUSHED) != "1" and given[NONE_WAS_LEFT] == "true"


def _expires_by(setting: str, default: str = "-1") -> Callable[[Mapping[str, str]], bool]:
    """Does this setting of the topic limit its log, and did nobody delete records before that?"""
    return lambda given: (
        given[RECORDS_DELETED] != "true"
        and given.get(setting, default) != "-1"
        and "delete" in given["cleanup.policy"]
    )


def _is_cut(given: Mapping[str, str]) -> bool:
    """Does something move the start of the log? Kafka keeps records for a week by default."""
    return given[RECORDS_DELETED] == "true" or _expires_by("retention.ms", "604800000")(given)


def _compacts(given: Mapping[str, str]) -> bool:
    return "compact" in given["cleanup.policy"]


def _resends(given: Mapping[str, str]) -> bool:
    """May the client send a batch again that the broker cannot recognise?"""
    return given["enable.idempotence"] == "false" and given["retries"] != "0"


def _commits_what_it_handed_out(given: Mapping[str, str]) -> bool:
    """Does a timer commit offsets that were stored before the program saw the record?"""
    return given["enable.auto.commit"] == given["enable.auto.offset.store"] == "true"


def _passes_on_what_it_handed_out(given: Mapping[str, str]) -> bool:
    """May a member have died with what its group goes on behind, before it wrote that down?"""
    return given[SUCCEEDED] == "true" and _commits_what_it_handed_out(given)


# A tombstone is gone, and the log has an older record of its key: no compaction does that.
OUTLIVED: Final = "outlived"

# What follows where a log loses its end.
CUT_OFF: Final = (
    "lost-write", "inconsistent-offsets", "nonmonotonic-poll", "poll-skip", "unseen",
)  # fmt: skip

# What follows where it loses the marker of a transaction: nothing ends it, or the next marker does.
UNMARKED: Final = ("hanging-transaction", "torn-transaction", "aborted-read")

# Findings about what a group was not given, and when a log that lost its end explains them.
OF_GROUPS: Final = (("unseen", None), ("skipped-processing", "sent past"))
# What no power cut took away: it was sent, or began, when all were over, or it always stood there.
SPARED: Final = {"unseen": "stood"}
LOSING: Final = (*((name, None) for name in (*CUT_OFF, *UNMARKED)), *OF_GROUPS[1:])

STILL_TO_COME: Final = (
    "It may still be delivered: what is lost and what is late look alike to a consumer."
)

# The first exemption that holds is the one that is named.
EXEMPTIONS: Final = (
    *(
        Exemption(
            name, _is(TOPIC_DELETED, "true"), None,
            "The topic was deleted in this run: what it held is gone, its offsets begin again.",
            "Kafka Admin.deleteTopics",
            unless="sent since",
        )
        for name in CUT_OFF
        if name != "unseen"
    ),
    # What a consumer is given all in sync have: then it is no matter for whom the ack did not wait.
    *(
        Exemption("lost-write", _is("acks", acks), "acks", reason, "claims A1", unless="read")
        for acks, reason in (
            ("0", "With acks=0 an ack says that the record left the client, and no more."),
            ("1", "With acks=1 the leader answers before any follower has the record."),
        )
    ),
    # Who was given something of the partition has begun, and not at an end that is after the order.
    Exemption("unseen", _always, None, STILL_TO_COME, "Jepsen's Kafka checker", when="late"),
    *(
        exemption
        for name in ("unseen", "skipped-processing")
        for exemption in (
            Exemption(
                name, _always, None,
                "The program itself chose where to begin.",
                "KafkaConsumer.seek and assign",
                when="sought",
            ),
            Exemption(
                name, _always, None,
                "The program committed a position after it, and its group went on from there.",
                "KafkaConsumer.commitSync",
                when="ahead",
            ),
        )
    ),
    *(
        Exemption(name, holds, "auto.offset.reset", reason, source, when=when, unless="resumed")
        for name, when in (
            ("unseen", "passed"), ("unseen", "not begun"), ("poll-skip", "deleted"),
            ("skipped-processing", "not given"),
        )
        for holds, reason, source in (
            (_is("auto.offset.reset", "largest", "latest", "end"),
             "A group without a position, or whose position the log has lost, begins at the end"
             " and skips what is there already.",
             "claims F6, KIP-1327"),
            (lambda given: given["auto.offset.reset"].startswith("by_duration:"),
             "A group without a position, or whose position the log has lost, begins so long ago"
             " and skips what is older.",
             "KIP-1106"),
        )
    ),
    Exemption("unseen", _always, None, STILL_TO_COME, "Jepsen's Kafka checker", when="not begun"),
    *(
        Exemption(
            name, _passes_on_what_it_handed_out, "enable.auto.commit",
            "The client commits what it has handed out; what a member had in hand when it died, its"
            " successor is not given.",
            "claims F4, librdkafka INTRODUCTION, at-least-once processing",
            when=when,
        )
        for name, when in (
            ("unseen", "passed"), ("unseen", "resumed"), ("skipped-processing", "not given"),
        )
    ),
    *(
        Exemption(
            name, _is(TOPIC_DELETED, "true"), None,
            "The topic was deleted in this run, and with it the positions of its groups.",
            "Kafka Admin.deleteTopics",
            when=when,
        )
        for name, when in (*OF_GROUPS, ("lost-commit", None))
    ),
    *(
        Exemption(
            name, _is(POSITIONS_CHANGED, "true"), None,
            "An administrator changed or deleted positions of groups in this run.",
            "Kafka Admin.alterConsumerGroupOffsets, deleteConsumerGroups",
            when=when,
        )
        for name, when in (
            ("unseen", None), ("lost-commit", None), ("skipped-processing", "not given"),
        )
    ),
    Exemption(
        "lost-commit", _always, None,
        "The broker deletes the positions of a group that has had no member for a week.",
        "KIP-211",
        when="expired",
    ),
    Exemption(
        "lost-commit", _always, "auto.offset.reset",
        "The position may be after the end of the log: there the consumer is reset.",
        "Kafka consumer configuration, auto.offset.reset",
        when="past the end",
    ),
    *(
        Exemption(
            name, holds, setting, reason, source,
            when=when, unless=SPARED.get(name, "sent since"),
        )
        for holds, setting, reason, source in (
            (lambda given: given["replicas"] == "1" and _loses_power(given), "replicas",
             "The only replica lost its power, and with it what was in its page cache.",
             "claims B3, Kafka design, replication"),
            (_loses_power, "min.insync.replicas",
             "As many brokers lost power as had to have the record; it was in their page caches.",
             "claims B3, Kafka design, replication"),
            (_none_was_left, None,
             "Each broker that could lead lost its power, though as many had the record when it was"
             " acked: it was in their page caches, and the first that is back leads.",
             "KIP-966: the last replica standing"),
        )
        for name, when in LOSING
    ),
    *(
        Exemption(
            name, _is(UNCLEAN, "true"), UNCLEAN,
            "The new leader lacked the marker of a transaction: nothing ends it, or the marker of "
            "the next one does.",
            "KIP-664, KIP-966; apache/kafka#22937",
        )
        for name in UNMARKED
    ),
    Exemption(
        "lost-write", _is(UNCLEAN, "true"), UNCLEAN,
        "A replica that was not in sync may become the leader, and what it lacks is then gone.",
        "claims C7, KIP-966",
    ),
    Exemption(
        "lost-write", _compacts, "cleanup.policy",
        "A compacted topic keeps only the last record of each key, a tombstone not for ever, and"
        " nothing without a key.",
        "Kafka design, log compaction",
        when="superseded", unless=OUTLIVED,
    ),
    *(
        Exemption(
            "lost-write", _expires_by(setting), setting,
            "The topic limits its log by age or size: what is older is deleted, read or not.",
            "Kafka topic configuration, retention.ms and retention.bytes",
            when="deleted",
        )
        for setting in ("retention.ms", "retention.bytes")
    ),
    Exemption(
        "lost-write", _is_cut, None,
        "The log now begins after it: retention or an administrator (DeleteRecords) deleted it.",
        "Kafka topic configuration, retention.ms; Admin.deleteRecords",
        when="deleted",
    ),
    Exemption(
        "inconsistent-offsets", _compacts, "cleanup.policy",
        "A compacted topic keeps the last record of each key; other offsets stay empty.",
        "Kafka design, log compaction",
        when="superseded", unless=OUTLIVED,
    ),
    Exemption(
        "inconsistent-offsets", _is("acks", "0", "1"), "acks",
        "Only the leader had the order there; the next leader gave the offset to another order.",
        "claims B2",
        when="acked alone",
    ),
    Exemption(
        "inconsistent-offsets", _is(UNCLEAN, "true"), UNCLEAN,
        "The new leader had not been in sync, and gave the offset to another order.",
        "claims C7, KIP-966",
    ),
    Exemption(
        "invisible-ack", _is("acks", "0", "1"), "acks",
        "The leader answered for itself; readers wait until enough replicas are in sync.",
        "claims C4, measured",
    ),
    *(
        Exemption(
            name, _is(UNCLEAN, "true"), UNCLEAN,
            "The new leader lacked what had been read there: other records took the offsets, or "
            "the consumer was reset.",
            "KIP-101, KIP-966",
            when=when,
        )
        for name, when in (
            *OF_GROUPS, ("nonmonotonic-poll", None), ("poll-skip", None), ("lost-commit", "began"),
        )
    ),
    Exemption(
        "duplicate", _always, "aborting and sending again",
        "Its transaction was aborted, and it was sent again: only a read_uncommitted reader is "
        "given all of its copies.",
        "Kafka consumer configuration, isolation.level",
        when="aborted",
    ),
    Exemption(
        "duplicate", _always, "sending it twice",
        "The program called produce() for it more than once; to Kafka these are two records.",
        "KIP-98: the producer id and the sequence are the identity of a record",
        when="sent again",
    ),
    Exemption(
        "duplicate", _resends, "enable.idempotence",
        "Without idempotence the broker cannot recognise a batch that is sent again.",
        "claims A5, librdkafka INTRODUCTION",
    ),
    Exemption(
        "duplicate-delivery", _always, None,
        "The program itself chose where to read.",
        "KafkaConsumer.seek and assign",
        when="sought",
    ),
    Exemption(
        "duplicate-delivery", _is("enable.auto.commit", "true"), "enable.auto.commit",
        "Offsets are committed on a timer; what came after the last commit is delivered again.",
        "librdkafka INTRODUCTION, at-least-once processing",
    ),
    Exemption(
        "duplicate-delivery", _always, "enable.auto.commit",
        "A consumer that starts, or is assigned the partition anew, begins at the bookmark, if the "
        "broker still has one: what comes after it is delivered again.",
        "Kafka design, message delivery semantics; KIP-211",
    ),
    Exemption(
        "phantom", _always, "message.timeout.ms",
        "After an error the client waits no longer, but what it had sent may still be stored.",
        "librdkafka INTRODUCTION, timed out in flight",
        when="was on its way",
    ),
    Exemption(
        "nonmonotonic-send",
        lambda given: _resends(given) and given["max.in.flight"] != "1",
        "max.in.flight",
        "A later batch was accepted while an earlier one was refused and waited for its retry.",
        "claims D7, librdkafka INTRODUCTION, reordering",
    ),
    Exemption(
        # Java's client sends nothing to a partition whose first batch waits for its retry.
        "nonmonotonic-send", lambda given: _resends(given) and given["library"] != "java",
        "retry.backoff.ms",
        "After an error response librdkafka sends the next order before it retries the first.",
        "claims D7, measured",
    ),
    Exemption(
        "nonmonotonic-send", _is("enable.idempotence", "false"), "enable.idempotence",
        "An order that was not acked may still have been on its way when the next one was stored.",
        "librdkafka INTRODUCTION, timed out in flight; reordering",
        when="not acked",
    ),
    Exemption(
        "unavailable", _always, "acks",
        "The service refused what it could not keep, and said so: nothing was lost unseen.",
        "Kafka design, replication",
        judgement=REQUIRED,
    ),
    Exemption(
        "aborted-read", _is("isolation.level", "read_uncommitted"), "isolation.level",
        "A read_uncommitted reader is given what was aborted, too.",
        "claims E3, Kafka consumer configuration",
    ),
    Exemption(
        "precommitted-read", _is("isolation.level", "read_uncommitted"), "isolation.level",
        "A read_uncommitted reader does not wait for a commit.",
        "claims E3, Kafka consumer configuration",
    ),
    Exemption(
        "aborted-output", _is("enable.auto.commit", "true"), "enable.auto.commit",
        "The client commits what it has handed out, whatever became of the output.",
        "claims F4, Kafka consumer configuration", when="bookmark alone",
    ),
    Exemption(
        "aborted-output", _always, "not rewinding after the abort",
        "An abort takes the output back and leaves the consumer where it is: the program "
        "must rewind.",
        "Kafka design, using transactions; KIP-447",
        unless="bookmark alone",
    ),
    Exemption(
        "skipped-processing", _always, None,
        "The program set the bookmark past what the group was given.",
        "claims F2, Kafka design, message delivery semantics",
        when="not given", unless="sent past",
    ),
    Exemption(
        "skipped-processing", _commits_what_it_handed_out, "enable.auto.commit",
        "The client commits what it has handed out, whether or not the work is done.",
        "claims F4, librdkafka INTRODUCTION, at-least-once processing",
        when="given",
    ),
    Exemption(
        "skipped-processing", _always, "enable.auto.commit",
        "The program set the bookmark before the work was done.",
        "claims F2, Kafka design, message delivery semantics",
        unless="sent past",
    ),
    Exemption(
        "duplicate-effect", _always, None,
        "The program did the work again for what it was given once.",
        "the ledger's own events: processed more often than delivered",
        when="given once",
    ),
    Exemption(
        "duplicate-effect", _always, None,
        "The program itself chose where to read, and did the work again.",
        "KafkaConsumer.seek and assign",
        when="sought",
    ),
    Exemption(
        "duplicate-effect", _always, "enable.auto.commit",
        "A consumer that starts, or is assigned the partition anew, begins at the bookmark, if the "
        "broker still has one: the work for what comes after it is done again.",
        "claims F3, G5, Kafka design, message delivery semantics",
    ),
    *(
        Exemption(
            name, _always, None,
            "Transactions are atomic for readers; they are not kept apart from each other.",
            "Jepsen, Bufstream 0.1.0: Kafka transactions allow G0",
        )
        for name in ("G0", "G1c", "G2")
    ),
    Exemption(
        "stuck-lso", lambda given: "transactional.id" in given, "transaction.timeout.ms",
        "An open transaction holds back what is after it, until it ends or times out.",
        "claims E5, KIP-98",
    ),
)  # fmt: skip

# What a finding of this kind usually is, where none is at hand.
ALWAYS_MET: Final = ("was on its way", "not begun", "acked alone")


def clause(
    finding: str,
    configurations: Iterable[Mapping[str, str]],
    circumstances: Collection[str] | None = None,
) -> Clause:
    """What these clients' configurations say of a finding; the one that allows most decides.

    A client that is not known has the defaults. `circumstances` are those of one finding; without
    them the clause is about what the configuration allows at all.
    """
    for given in map(effective, configurations or [{}]):
        for exemption in EXEMPTIONS:
            if exemption.finding != finding or not exemption.holds(given):
                continue
            if _is_met(exemption, circumstances):
                return Clause(exemption.judgement, _shown(exemption, given), exemption.reason)
    return Clause(BREACH, None, RULES[finding].promise)


def _is_met(exemption: Exemption, circumstances: Collection[str] | None) -> bool:
    """Does an exemption apply? One for a circumstance says nothing of the configuration."""
    known = ALWAYS_MET if circumstances is None else circumstances
    return exemption.unless not in known and (exemption.when is None or exemption.when in known)


def _shown(exemption: Exemption, given: Mapping[str, str]) -> str | None:
    """The setting as a learner would write it."""
    if exemption.setting is None:
        return None
    if exemption.setting not in given:
        return exemption.setting  # what a program does
    value = given[exemption.setting]
    its = JAVA_NAMES if given["library"] == "java" else {}
    name = its.get(exemption.setting, exemption.setting)
    return f"{name}={'all' if (name, value) == ('acks', '-1') else value}"
