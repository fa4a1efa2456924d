"""Contracts: what a configuration promises. Found and forbidden are two things.

    configuration ──▶ for each finding: must, may or must not, the setting that decides, a reason

A contract is data. A finding that must not happen breaks the promise that it is registered with;
one that may happen names the setting that allows it. Settings are librdkafka's, with its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lab_utils.audit.selections import RULES

MUST: Final = "must"
MAY: Final = "may"
MUST_NOT: Final = "must not"

# What a clause says of a finding that happened; views/findings_table.py knows "breach" too.
JUDGEMENTS: Final = {MUST: "required", MAY: "allowed", MUST_NOT: "breach"}

# Not a setting: whether the run's brokers lost their power. Nothing but a second replica helps.
POWER_CUT: Final = "power cut"

# librdkafka's defaults (CONFIGURATION.md of 2.16) of the settings that decide a clause.
DEFAULTS: Final = {
    "acks": "-1",
    "replicas": "",
    "power cut": "false",
    "unclean.leader.election.enable": "false",
    "auto.offset.reset": "largest",
    "enable.auto.commit": "true",
    "enable.auto.offset.store": "true",
    "enable.idempotence": "false",
    "isolation.level": "read_committed",
    "max.in.flight": "1000000",
    "message.timeout.ms": "300000",
    "retries": "2147483647",
    "retry.backoff.ms": "100",
    "transaction.timeout.ms": "60000",
}
ALIASES: Final = {
    "request.required.acks": "acks",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "message.send.max.retries": "retries",
    "delivery.timeout.ms": "message.timeout.ms",
}


@dataclass(frozen=True, slots=True)
class Clause:
    """What one finding is under one configuration.

    rule        must, may or must not happen
    allowed_by  the setting that allows or requires it; None if it is forbidden, or if nothing
                a client can set would forbid it
    reason      one sentence
    """

    finding: str
    rule: str
    allowed_by: str | None
    reason: str

    @property
    def judgement(self) -> str:
        """What this clause says of a finding that happened: required, allowed or breach."""
        return JUDGEMENTS[self.rule]


@dataclass(frozen=True, slots=True)
class Exemption:
    """One reason why a finding is no breach, and when it holds.

    source  where Kafka, librdkafka or a measurement says so; the claim of the course it belongs to
    """

    finding: str
    holds: Callable[[Mapping[str, str]], bool]
    setting: str | None
    reason: str
    source: str
    rule: str = MAY


def _is(setting: str, *values: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda given: given[setting] in values


def _always(_: Mapping[str, str]) -> bool:
    return True


def _has(setting: str) -> Callable[[Mapping[str, str]], bool]:
    return lambda given: setting in given


def _resends(given: Mapping[str, str]) -> bool:
    """May the client send a batch again that the broker cannot recognise?"""
    return given["enable.idempotence"] == "false" and given["retries"] != "0"


def _commits_what_it_handed_out(given: Mapping[str, str]) -> bool:
    """Does a timer commit offsets that were stored before the program saw the record?"""
    return given["enable.auto.commit"] == given["enable.auto.offset.store"] == "true"


# The first exemption that holds is the one that is named.
EXEMPTIONS: Final = (
    Exemption(
        "lost-write", _is("acks", "0"), "acks",
        "With acks=0 an ack says that the record left the client, and no more.",
        "claims A1",
    ),
    Exemption(
        "lost-write", _is("acks", "1"), "acks",
        "With acks=1 the leader answers before any follower has the record.",
        "claims A1",
    ),
    Exemption(
        "lost-write",
        lambda given: given["replicas"] == "1" and given[POWER_CUT] == "true",
        "replicas",
        "With one replica an ack is as good as that broker's page cache.",
        "claims B3, Kafka design, replication",
    ),
    Exemption(
        "lost-write", _is("unclean.leader.election.enable", "true"),
        "unclean.leader.election.enable",
        "A replica that was not in sync may lead, and then what it lacks is gone.",
        "claims C7, KIP-966",
    ),
    Exemption(
        "inconsistent-offsets", _is("acks", "0", "1"), "acks",
        "The offset was the leader's own; the next leader gave it to another order.",
        "claims B2",
    ),
    Exemption(
        "inconsistent-offsets", _is("unclean.leader.election.enable", "true"),
        "unclean.leader.election.enable",
        "The new leader had not been in sync, and gave the offset to another order.",
        "claims C7, KIP-966",
    ),
    Exemption(
        "invisible-ack", _is("acks", "0", "1"), "acks",
        "The leader answered for itself; readers wait until enough replicas are in sync.",
        "claims C4, measured",
    ),
    Exemption(
        "unseen", _is("auto.offset.reset", "largest", "latest", "end"), "auto.offset.reset",
        "A new group begins at the end of the log and skips what is there already.",
        "KIP-1327",
    ),
    Exemption(
        "unseen", _always, None,
        "It may still be delivered: what is lost and what is late look alike to a consumer.",
        "Jepsen's Kafka checker",
    ),
    Exemption(
        "duplicate", _resends, "enable.idempotence",
        "A batch that is sent again carries no key by which the broker could recognise it.",
        "claims A5, librdkafka INTRODUCTION",
    ),
    Exemption(
        "duplicate-delivery", _is("enable.auto.commit", "true"), "enable.auto.commit",
        "Offsets are committed on a timer; what came after the last commit is delivered again.",
        "librdkafka INTRODUCTION, at-least-once processing",
    ),
    Exemption(
        "duplicate-delivery", _always, "enable.auto.commit",
        "What was delivered and not yet committed is delivered again to whoever reads on.",
        "Kafka design, message delivery semantics",
    ),
    Exemption(
        "phantom", _always, "message.timeout.ms",
        "An error report ends the client's patience; a request that is on its way is stored.",
        "librdkafka INTRODUCTION, timed out in flight",
    ),
    Exemption(
        "nonmonotonic-send",
        lambda given: _resends(given) and given["max.in.flight"] != "1",
        "max.in.flight",
        "A later batch was accepted while an earlier one was refused and waited for its retry.",
        "claims D7, librdkafka INTRODUCTION, reordering",
    ),
    Exemption(
        "nonmonotonic-send", _resends, "retry.backoff.ms",
        "After an error response this client sends the next order before it retries the first.",
        "claims D7, measured",
    ),
    Exemption(
        "unavailable", _always, "acks",
        "The service refused what it could not keep, and said so: nothing was lost unseen.",
        "Kafka design, replication",
        rule=MUST,
    ),
    Exemption(
        "aborted-read", _is("isolation.level", "read_uncommitted"), "isolation.level",
        "A reader that asks for everything is given what was aborted, too.",
        "claims E3, Kafka consumer configuration",
    ),
    Exemption(
        "precommitted-read", _is("isolation.level", "read_uncommitted"), "isolation.level",
        "A reader that asks for everything does not wait for a commit.",
        "claims E3, Kafka consumer configuration",
    ),
    Exemption(
        "skipped-processing", _is("auto.offset.reset", "largest", "latest", "end"),
        "auto.offset.reset",
        "Where the group has no bookmark it begins at the end and skips what is there already.",
        "claims F6, KIP-1327",
    ),
    Exemption(
        "skipped-processing", _commits_what_it_handed_out, "enable.auto.commit",
        "The client commits what it has handed out, whether or not the work is done.",
        "claims F4, librdkafka INTRODUCTION, at-least-once processing",
    ),
    Exemption(
        "skipped-processing", _always, "enable.auto.commit",
        "The program sets the bookmark, and set it before the work was done.",
        "claims F2, Kafka design, message delivery semantics",
    ),
    Exemption(
        "duplicate-effect", _always, "enable.auto.commit",
        "What was done and not yet committed is done again by whoever reads on.",
        "claims F3, G5, Kafka design, message delivery semantics",
    ),
    Exemption(
        "write-cycle", _always, None,
        "Transactions are atomic to readers; their writes are not kept apart from each other.",
        "Jepsen, Bufstream 0.1.0: Kafka transactions allow G0",
    ),
    Exemption(
        "stuck-lso", _has("transactional.id"), "transaction.timeout.ms",
        "An open transaction holds back what is behind it, until it ends or its time is up.",
        "claims E5, KIP-98",
    ),
)  # fmt: skip

# Not a question of configuration: the value was handed to produce() more than once.
SENT_AGAIN: Final = Clause(
    "duplicate",
    MAY,
    "sending it twice",
    "The program called produce() for it more than once; to Kafka these are two records.",
)
PROVES_NOTHING: Final = "proves nothing"


def effective(given: Mapping[str, str]) -> dict[str, str]:
    """A client's settings with librdkafka's defaults, aliases and spellings resolved.

    >>> effective({"acks": "all", "enable.idempotence": "True"})["max.in.flight"]
    '5'
    """
    named = {ALIASES.get(name, name): str(value).strip().lower() for name, value in given.items()}
    settings = DEFAULTS | named
    if settings["acks"] == "all":
        settings["acks"] = "-1"
    if "transactional.id" in settings:
        settings["enable.idempotence"] = "true"
    if settings["enable.idempotence"] == "true" and "max.in.flight" not in named:
        settings["max.in.flight"] = "5"  # librdkafka lowers it by itself
    return settings


def clause(finding: str, configurations: Iterable[Mapping[str, str]]) -> Clause:
    """What these clients' configurations say of a finding; the one that allows most decides.

    A client that is not known has the defaults.
    """
    for given in map(effective, configurations or [{}]):
        for exemption in EXEMPTIONS:
            if exemption.finding == finding and exemption.holds(given):
                return Clause(finding, exemption.rule, _shown(exemption, given), exemption.reason)
    return Clause(finding, MUST_NOT, None, RULES[finding].promise)


def contract(given: Mapping[str, str]) -> dict[str, Clause]:
    """The whole contract of one configuration: a clause for each finding."""
    return {name: clause(name, [given]) for name, rule in RULES.items() if rule.promise}


def _shown(exemption: Exemption, given: Mapping[str, str]) -> str | None:
    """The setting as a learner would write it."""
    if exemption.setting is None:
        return None
    value = given[exemption.setting]
    return f"{exemption.setting}={'all' if (exemption.setting, value) == ('acks', '-1') else value}"
