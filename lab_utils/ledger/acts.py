"""What was done to brokers, topics and consumers, as SQL and by time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

# An offset, or a time, that is after any other.
ANY: Final = 2**62

# What was done, in which run, to which topic or broker.
Act = tuple[str, str, str | None]
Acts = Mapping[Act, Sequence[int]]

# A request that the broker was sent.
ASKED: Final = "source = 'wire' AND kind = 'request' AND fate IS DISTINCT FROM 'dropped'"
# One that it refused as a whole. After other errors it may have been done: a time-out, or one of a
# controller, a coordinator or a leader that was replaced while it waited for the others.
REFUSED: Final = (
    "source = 'wire' AND kind = 'response' AND fate IS DISTINCT FROM 'replaced'"
    " AND detail['in_part'] IS DISTINCT FROM 'true' AND (endswith(error, '_AUTHORIZATION_FAILED')"
    " OR error IN ('UNKNOWN_TOPIC_OR_PARTITION', 'UNKNOWN_TOPIC_ID', 'INVALID_TOPIC_EXCEPTION',"
    " 'TOPIC_DELETION_DISABLED', 'INVALID_REQUEST', 'INVALID_GROUP_ID', 'GROUP_ID_NOT_FOUND',"
    " 'NON_EMPTY_GROUP', 'GROUP_SUBSCRIBED_TO_TOPIC', 'UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION',"
    " 'STALE_MEMBER_EPOCH', 'FENCED_INSTANCE_ID', 'REBALANCE_IN_PROGRESS',"
    " 'OFFSET_METADATA_TOO_LARGE', 'THROTTLING_QUOTA_EXCEEDED', 'POLICY_VIOLATION',"
    " 'OFFSET_OUT_OF_RANGE', 'COORDINATOR_LOAD_IN_PROGRESS', 'UNSUPPORTED_VERSION'))"
)
DELETES: Final = "api = 'DeleteTopics'"
FORGETS: Final = "api IN ('DeleteGroups', 'OffsetDelete')"
REPOSITIONS: Final = "(api IN ('OffsetCommit', 'TxnOffsetCommit') AND detail['outside'] = 'true')"
COMMITS: Final = (
    "api IN ('OffsetCommit', 'TxnOffsetCommit') AND detail['outside'] IS DISTINCT FROM 'true'"
)
ASKED_FOR: Final = {"deletes": DELETES, "forgets": FORGETS, "repositions": REPOSITIONS,
                    "trims": "api = 'DeleteRecords'"}  # fmt: skip
# What an administrator asked for or was refused: STRUCT<what, at_ns, is_refused>, NULL of others.
ADMINISTERED: Final = (
    f"if({ASKED} OR {REFUSED}, CASE "
    + " ".join(
        f"WHEN {api} THEN struct('{what}' AS what, at_ns, kind = 'response' AS is_refused)"
        for what, api in ASKED_FOR.items()
    )
    + " END, NULL)"
)
# A broker lost its power; and by what all that may take away what a log has is over for whatever is
# sent later: a broker has started again, or the topic was created anew.
TURNS: Final = (
    "(kind = 'power_cut' OR source = 'broker' AND kind = 'started'"
    " OR source = 'wire' AND kind = 'response' AND api = 'CreateTopics' AND error IS NULL"
    " AND fate IS DISTINCT FROM 'replaced')"
)


# When an order was first sent, by whom, and since when an event tells of it: NULL if who was acked
# did not say what it sent.
OF_ORDER: Final = "OVER (PARTITION BY run, topic, key, value)"
SENDS: Final = (
    f"min(if(kind = 'sent', at_ns, NULL)) {OF_ORDER} AS sent_at_ns",
    f"collect_set(if(kind = 'sent', actor, NULL)) {OF_ORDER} AS senders",
)
SINCE: Final = (
    "if(sent_at_ns IS NULL OR kind = 'acked' AND NOT array_contains(senders, actor), NULL,"
    " least(sent_at_ns, at_ns)) AS since"
)
# What is told of a place, each with that; where nothing was over it decides nothing.
HEARD: Final = (
    "collect_set(if(kind IN ('record', 'visible', 'processed'), NULL, struct(key, value, since)))"
    " AS heard"
)
NOT_HEARD: Final = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: STRING, since: BIGINT>>) AS heard"


def beside(keys: str) -> str:
    """What the same consumer was given before: an offset, NULL since it was placed, as SQL.

    So it is since one of its `starts`: what a consumer that starts again is given begins at the
    bookmark. And so it is while the partition is taken from it: who says that and not that it was
    assigned again may be given what had been fetched before, or does not say where it begins.
    What it was given at one time, as of a coarse clock, has the sequence of its offsets; if it was
    placed at that time, too, nobody knows which of it was given before that.
    """
    window = f"OVER (PARTITION BY {keys} ORDER BY at_ns, kind = 'delivered', offset)"
    started = "array_max(filter(starts, x -> x <= at_ns))"  # greatest() leaves out what is NULL
    taken = f"max(if(kind IN ('revoked', 'lost'), at_ns, NULL)) {window}"
    given = f"greatest({started}, max(if(kind IN ('assigned', 'sought'), at_ns, NULL)) {window})"
    return (
        f"if(lag(at_ns) {window} <= greatest({given}, {taken}) OR {taken} > coalesce({given}, -1L),"
        f" NULL, lag(offset) {window}) AS earlier"
    )


def not_refused(asked: Iterable[int], refused: Iterable[int]) -> list[int]:
    """When something was asked for, without what was refused.

    Each refusal takes back the last request before it; the first one, if the clocks have none.
    """
    left = sorted(asked)
    for at in sorted(refused):
        del left[(place := max(bisect_right(left, at) - 1, 0)) : place + 1]
    return left


def restored(since: Acts, over: Acts) -> dict[tuple[str, str | None], int]:
    """When all that may take a log away was over: in a run (None), or of one of its topics.

    That is ANY if a broker that lost its power has not started since, or a topic that was deleted
    was not created again. What is sent later none of them can take away.
    """
    found: dict[tuple[str, str | None], int] = {}
    for (what, run, of), times in since.items():
        if what not in ("power_cut", "deletes"):
            continue
        ends = (
            min((it for it in over.get((what, run, of), ()) if it > at), default=ANY)
            for at in times
        )
        where = run, of if what == "deletes" else None
        found[where] = max([found.get(where, -ANY), *ends])
    return found


def in_time(since: Acts, over: Acts, run: str, first: int, until: int) -> Acts:
    """What was done in a run by `until`, and was not over when its topic was first sent to.

    A group whose positions are deleted begins anew: that is over at once.
    """
    return {
        key: [
            at for at in times
            if (key[0] != "forgets" or first <= at) and at <= until
            and not any(at < it < first for it in over.get(key, ()))
        ]
        for key, times in since.items() if key[1] == run
    }  # fmt: skip


class Decision(NamedTuple):
    """What the controller decided about a partition; brokers are numbers as text.

    eligible  who may lead though it is not in sync, as it has all that was committed; None if
              nobody recorded that
    """

    at_ns: int
    in_sync: frozenset[str]
    eligible: frozenset[str] | None
    replicas: frozenset[str]


def decided(at_ns: int, isr: str | None, elr: str | None, replicas: str | None) -> Decision:
    """A decision as an event has it."""
    in_sync, eligible, held = (
        frozenset(re.findall(r"\d+", it or "")) for it in (isr, elr, replicas)
    )
    return Decision(at_ns, in_sync, None if elr is None else eligible, held)


def at_once(decisions: Iterable[Decision], without_power: Mapping[str, Sequence[int]]) -> int:
    """How many brokers, at most, had lost their power at one time, and were not in sync again?

    A broker that comes back without what was in its page cache is taken out of the ISR, and when it
    is in sync again it has all that its leader has. One that never left it may lead without that.
    """
    ordered = sorted(decisions, key=lambda it: it.at_ns)

    def back(broker: str, at: int) -> int:
        later = [it for it in ordered if it.at_ns > at]
        out = next((it.at_ns for it in later if broker not in it.in_sync), ANY)
        return next((it.at_ns for it in later if it.at_ns > out and broker in it.in_sync), ANY)

    lost = [(broker, at, back(broker, at)) for broker, times in without_power.items()
            for at in times]  # fmt: skip
    return max(
        (
            len({broker for broker, since, until in lost if since <= at < until})
            for _, at, _ in lost
        ),
        default=0,
    )


def held(broker: str, at: int, partitions: Iterable[Iterable[Decision]]) -> bool:
    """Did this broker hold a replica of one of these partitions then?

    It may have where it has no number, and where nobody recorded who did.
    """
    told = [
        sorted((it for it in decisions if it.replicas), key=lambda it: it.at_ns)
        for decisions in partitions
    ]
    in_force = [
        ([it for it in decisions if it.at_ns <= at] or decisions[:1])[-1:] for decisions in told
    ]
    is_known = broker and any(told)
    return not is_known or any(broker in it.replicas for each in in_force for it in each)


def none_was_left(
    decisions: Iterable[Decision], without_power: Mapping[str, Sequence[int]]
) -> bool | None:
    """Did each broker that could lead lose its power before the controller decided again?

    Then the first that is back leads, without what was in its page cache. None if each in sync
    did, and nobody recorded whether others were eligible.
    """
    answers: list[bool | None] = [False]
    ordered = sorted(decisions, key=lambda it: it.at_ns)
    for one, following in pairwise([*ordered, Decision(ANY, *[frozenset[str]()] * 3)]):
        lost = {
            broker for broker, times in without_power.items()
            if any(one.at_ns <= at <= following.at_ns for at in times)
        }  # fmt: skip
        if one.in_sync and one.in_sync <= lost:
            answers.append(None if one.eligible is None else one.eligible <= lost)
    return True if True in answers else None if None in answers else False
