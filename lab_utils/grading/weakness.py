"""Why a trial proves nothing, whatever it shows.

A trial assumes that its fault met the work that is examined, that a process was killed in the
middle of its work, and that the log was read to its end. Each is read from what the witnesses
wrote: a program may spend a fault on a request that means nothing, or die before it has begun.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from lab_utils.audit.report import counted
from lab_utils.grading.cases import Evidence
from lab_utils.grading.rules import after_crash, missing
from lab_utils.ledger.events import NOT_DELIVERED, Event
from lab_utils.ledger.history import carried, released_ns
from lab_utils.proxy.faults import ClientFault

# What a broker says of an honest request at a bad moment: the client sends it again. With any other
# error the request was one that no broker would take.
SENT_AGAIN: Final = (
    "CONCURRENT_TRANSACTIONS", "FENCED_LEADER_EPOCH", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT", "UNKNOWN_LEADER_EPOCH",
)  # fmt: skip
ACKS: Final = ("0", "1", "-1")
# Faults under which an error in the answer is the broker's own word on the request.
LEAVE_THE_ANSWER: Final = ("delay_response", "drop_request", "drop_response")
COMMITS: Final = ("EndTxn", "OffsetCommit")
FIRED_MAX: Final = 50  # of a fault that fires again and again; each is held against all requests
# What a fault may meet of a transaction; offsets alone carry no order.
OF_A_TRANSACTION: Final = ("EndTxn", "AddOffsetsToTxn", "TxnOffsetCommit")


def weakness(each: Evidence) -> str | None:
    """Why this trial proves nothing; None if it does not."""
    if each.trouble:
        return f"the evidence is not whole: {each.trouble[0].rstrip('.')}."
    if each.history.is_unproven:
        return f"the fault never fired, so this run proves nothing.{_batched(each)}"
    if was_spent(each):
        return "the fault met no request that the broker would take for an order of this run, so " \
               "this run proves nothing."  # fmt: skip
    kills = [it for it in each.trial.faults if type(it).__name__ == "crash_client"]
    if left := kills[len(each.crashes) :]:
        rare = _committed_at_once(each) if len(kills) > 2 else ""  # each at a later commit
        return f"no process came to {_times(left[0])}, to be killed there, so this run proves " \
               f"nothing.{_past_the_sink(each, left[0]) or rare}"  # fmt: skip
    # Else another member takes over. Who ends with orders left has given up, and that is seen.
    is_restarted = each.trial.members == 1
    has_given_up = not each.trial.filled and missing(each, Counter(each.stored))
    if kills and is_restarted and not after_crash(each) and not has_given_up:
        return "the process was not seen to start again after it was killed, so this run proves " \
               "nothing."  # fmt: skip
    if not each.requests("Fetch" if each.trial.filled else "Produce"):
        return "nothing was sent or read, so this run proves nothing."
    if name := hung(each):
        return f"{name} found its group's coordinator and asked it for nothing, so this run " \
               "proves nothing."  # fmt: skip
    if not each.history.is_drained:
        return "the log could not be read to its end, so nothing can be said to be missing."
    return None


def _times(fault: ClientFault) -> str:
    """The point of a fault, and how often a process has to come there."""
    if fault.value is not None and fault.nth == 1:
        return f"{fault.at} with order {fault.value}"
    return f"{fault.at} {counted(fault.nth, 'time')}"


def _past_the_sink(each: Evidence, fault: ClientFault) -> str:
    """What to do where effects are written, and no connection that the lab knows has written."""
    is_of_sink = "_db_" in fault.at and each.history.effects
    return " Only the connections of run.database() come to its points." if is_of_sink else ""


def _batched(each: Evidence) -> str:
    """What to do where fewer requests than orders cross the wire, and a fault waits for a later."""
    most = max((row.records or 0 for row in each.requests()), default=0)
    if most < 2:
        return _committed_at_once(each)
    return f" It waits for a request by its number, and one of yours carried {most} records: " \
           "batch.num.messages must be 1, as run.producer() has it."  # fmt: skip


def _committed_at_once(each: Evidence) -> str:
    """What to do where a commit is about so many orders that none comes later."""
    ends = defaultdict[tuple[object, ...], set[int]](set)
    for row in each.requests("OffsetCommit", "TxnOffsetCommit"):
        ends[_place(row)].add(row.offset or 0)
    gaps = (end - begin for its in ends.values() for begin, end in pairwise(sorted({0, *its})))
    if (most := max(gaps, default=0)) <= 2:
        return ""
    return f" One of your commits was about {most} orders, and so there were too few. Commit " \
           "after two orders at most."  # fmt: skip


def hung(each: Evidence) -> str | None:
    """The consumer that found its coordinator and then asked for nothing, until the run was over.

    librdkafka 2.16 did so by itself in 3 of 677 runs, on a machine with load 20 to 45. A program
    that ends as soon as it has begun looks alike, and proves as little.
    """
    last_crash_ns = max((row.at_ns for row in each.crashes), default=0)
    found = {
        row.actor
        for row in each.history.of("wire", "response")
        if row.api == "FindCoordinator" and not row.error and row.at_ns > last_crash_ns
        and row.actor.startswith("consumer-")
    }  # fmt: skip
    asked = {
        row.actor for row in each.history.of("wire", "request")
        if row.api not in ("ApiVersions", "Metadata", "FindCoordinator")
    }  # fmt: skip
    return min(found - asked, default=None)


def killed_early(each: Evidence) -> str | None:
    """Why a run that broke no rule proves nothing all the same; None if it proves what it shows.

    Who is killed before the work that the trial assumes has less to survive. What it loses even
    so, it loses by its own doing.
    """
    assumed = each.trial.assumes
    missing = next(iter(each.unmet), None) or (assumed(each) if assumed else None)
    return f"{missing}, so this run proves nothing." if missing else None


def seen_in_part(each: Evidence) -> bool:
    """Did the witnesses run out of time, for the log or for what a process had done?

    Each waits for so long and no longer. On a machine that stood still meanwhile the same program
    proves more the next time; who has done nothing proves as little then.
    """
    return bool(killed_early(each)) or not each.history.is_drained


def was_spent(each: Evidence) -> bool:
    """Has a fault fired, and at no request that was about an order of the run?"""
    hits: dict[str, list[bool]] = {}
    for row in each.faults("fired"):
        if row.correlation_id is None:
            continue
        hit = hits.setdefault(row.detail.get("fault", ""), [])
        if len(hit) < FIRED_MAX and True not in hit:
            met = all(
                any(_is_about_an_order(each, request, row) for request in frame)
                for frame in _met(each, row)
            )
            hit.append(met)
    return any(not any(met) for met in hits.values())


def _met(each: Evidence, fired: Event) -> list[list[Event]]:
    """The request that a fault fired at, as its events, one for each partition.

    They are several only where a client gives one correlation id to several requests.
    """
    connection = fired.detail.get("connection")
    frames: dict[int, list[Event]] = {}
    for row in each.requests(fired.api or ""):
        if row.correlation_id == fired.correlation_id and connection in (
            None, row.detail.get("connection")
        ):  # fmt: skip
            frames.setdefault(row.at_ns, []).append(row)
    return list(frames.values()) or [[]]


def _is_about_an_order(each: Evidence, request: Event, fired: Event) -> bool:
    if _is_fenced(each, request):
        return False
    if request.api in OF_A_TRANSACTION:
        is_a_commit = request.detail.get("committed") in (None, "True")
        if not is_a_commit or not _has_produced(each, request):
            return False
    if request.topic is not None and not request.topic.startswith(f"{request.run}-"):
        return False
    if request.api != "Produce":
        return True
    is_order = _has_an_order(each, request)
    answers = _answers(each, request) if fired.actor in LEAVE_THE_ANSWER else []
    refused = any(row.error and row.error not in SENT_AGAIN for row in answers)
    means_it = request.detail.get("acks") in ACKS and not _is_needless(each, request, fired)
    return bool(request.records) and is_order and means_it and not refused


def _has_produced(each: Evidence, request: Event) -> bool:
    """Is the producer that ends a transaction, or gives it offsets, one that writes orders?

    Records may cross the wire after the offsets that wait for them, or never, if these were refused
    and the program gave up: then nobody has produced, and nobody else is the one who should have.
    """
    written = [
        row for row in each.requests()
        if (row.topic or "").startswith(f"{row.run}-") and _has_an_order(each, row)
    ]  # fmt: skip
    own = [row for row in written if row.producer_id == request.producer_id]
    if request.api == "EndTxn":
        begun_ns = _last_end_ns(each, request)
        return any(begun_ns < row.at_ns <= request.at_ns for row in own)
    return bool(own) or not written


def _last_end_ns(each: Evidence, request: Event) -> int:
    """When the transaction before was ended; one whose end is asked for again is still the same."""
    answers = _all_answers(each)
    ends = [
        row.at_ns for row in each.requests("EndTxn")
        if row.producer_id == request.producer_id and row.at_ns < request.at_ns
        and any(not it.error and it.fate not in NOT_DELIVERED for it in answers[_asked(row)])
    ]  # fmt: skip
    return max(ends, default=0)


def _has_an_order(each: Evidence, request: Event) -> bool:
    """What could not be read has none: orders are small, and what is compressed is not examined."""
    return not set(each.orders).isdisjoint(carried(request))


def _is_needless(each: Evidence, request: Event, fired: Event) -> bool:
    """Was this batch, which the broker knows by its sequence number, on its way already, unharmed?

    Its sender has been told so, was yet to be told, or has hung up; that one does rightly whom an
    earlier fault lets wait. A client sends nothing twice over one connection without an answer.
    """
    if request.producer_id is None or request.producer_id < 0:
        return False
    others = (row for row in each.faults("fired") if row.actor != fired.actor)
    is_unharmed = all(row.at_ns >= request.at_ns for row in others)
    closed = each.history.of("wire", "closed") if is_unharmed else []
    hung_up = {row.detail.get("connection") for row in closed if row.detail.get("by") == "client"}
    all_answers = _all_answers(each)
    for before in each.requests():
        if before.at_ns < request.at_ns and _batch(before) == _batch(request):
            answers = [
                row for row in all_answers[_asked(before)] if _place(row) == _place(request)
            ]  # fmt: skip
            connection = before.detail.get("connection")
            # An answer to who has hung up reaches nobody.
            is_left = connection in hung_up and all(row.fate in NOT_DELIVERED for row in answers)
            is_left |= connection == request.detail.get("connection") and not answers
            is_told = any(_tells(row, request) for row in answers)
            if is_told or (is_left and before.fate == "forwarded"):
                return True
    return False


def _tells(answer: Event, request: Event) -> bool:
    """Does the sender learn that it is stored? A late answer comes before, or to nobody."""
    is_late = answer.fate == "held" and answer.at_ns < request.at_ns
    return answer.error is None and (answer.fate == "forwarded" or is_late)


def _place(row: Event) -> tuple[object, ...]:
    return row.topic, row.partition


def _batch(row: Event) -> tuple[object, ...]:
    """What the broker knows a batch of an idempotent producer by."""
    return row.topic, row.partition, row.producer_id, row.producer_epoch, row.sequence


def _answers(each: Evidence, request: Event) -> list[Event]:
    return _all_answers(each)[_asked(request)]


def _all_answers(each: Evidence) -> Mapping[tuple[object, ...], list[Event]]:
    """The answers to each request; who asks for them one by one looks at all for each."""
    found = defaultdict[tuple[object, ...], list[Event]](list)
    for row in each.history.of("wire", "response"):
        found[_asked(row)].append(row)
    return found


def _asked(row: Event) -> tuple[object, ...]:
    """What a request and its answers have in common."""
    return row.api, row.correlation_id, row.detail.get("connection")


def _is_fenced(each: Evidence, request: Event) -> bool:
    """Did the request carry an epoch that was not the latest of its producer id any more?"""
    if request.producer_id is None or request.producer_id < 0:
        return False
    given = [
        row.producer_epoch
        for row in each.history.of("wire", "response")
        if (row.api, row.producer_id) == ("InitProducerId", request.producer_id)
        and row.at_ns < request.at_ns
    ]
    return not given or (request.producer_epoch or 0) < max(it or 0 for it in given)


def gone_on(each: Evidence) -> str | None:
    """What a trial lacks if a process had committed an order when it came to a point before that.

    It says itself where it is, and who says it late loses nothing. Past the commit of a transaction
    is who has committed the order with another API, too; past its request, who has the answer.
    """
    begun_ns = 0
    for crash in each.crashes:
        point, order = crash.detail.get("point"), crash.detail.get("value")
        commits = _commits(each, order, begun_ns, crash.at_ns)
        if point == "while_committing":
            answers = _answers(each, commits[-1]) if commits else []
            has_gone_on = any(
                row.fate not in NOT_DELIVERED and released_ns(row) < crash.at_ns for row in answers
            )
        else:
            rightly = 1 if point == "after_commit" else 0
            has_gone_on = order is not None and len({row.api for row in commits}) > rightly
        if has_gone_on:
            what = f"order {order}" if order else "its batch"
            how = " and ".join(sorted({row.api or "" for row in commits}))
            return f"the program had committed {what} with {how} when it came to {point}"
        begun_ns = crash.at_ns
    return None


def _commits(each: Evidence, order: str | None, since_ns: int, until_ns: int) -> list[Event]:
    """The requests in this time that commit an order, or any, as a bookmark or as a record."""
    place = next((row for row in each.given if row.value == order), None)
    found, in_transaction = [], defaultdict[object, bool](bool)
    for row in each.history.of("wire", "request"):
        if not since_ns < row.at_ns < until_ns:
            continue
        is_past = row.offset is not None and (
            place is None or (_place(row) == _place(place) and row.offset > (place.offset or 0))
        )
        # One about several partitions may be past it at any of them.
        if row.api == "OffsetCommit" and (is_past or row.topic is None):
            found.append(row)
        elif row.api in ("Produce", "TxnOffsetCommit"):
            is_about = is_past if row.api != "Produce" else order is None or order in carried(row)
            in_transaction[row.producer_id] |= is_about
        elif row.api == "EndTxn" and in_transaction.pop(row.producer_id, False):
            found += [row] * (row.detail.get("committed") == "True")
    return found


def not_done(fault: ClientFault, rows: Sequence[Event], *, writes: bool) -> str | None:
    """What a process that is to be killed at a point has not yet done; None if it has done it.

    rows     what its witnesses saw since it was started
    writes   does the work of this run leave records in a further topic?

    Points are told by the process itself; the wire says whether there is anything behind them: of
    one order if the fault is about one.
    """
    done = _done(rows, fault.value)
    least = {
        # What was taken by its number may be sent later; of an order it is asked.
        "after_send": ("sent", "were sent", fault.nth - (fault.value is None)),
        "after_ack": ("acked", "were acked", fault.nth),
        "after_poll": ("fetches", "fetches were answered", 1),
        "before_process": ("acked", "were acked", writes * (fault.nth - 1)),
        "after_process": ("acked", "were acked", writes * fault.nth),
        "before_commit": ("acked", "were acked", writes * fault.nth),
        "while_committing": ("asked", "commits were asked for", fault.nth),
        "after_commit": ("commits", "commits were answered", fault.nth),
        "after_send_offsets": ("offsets", "offsets were taken into a transaction", fault.nth),
        "after_db_write": ("fetches", "fetches were answered", 1),
        "before_db_commit": ("fetches", "fetches were answered", 1),
        "after_db_commit": ("fetches", "fetches were answered", 1),
    }
    name, words, wanted = least[fault.at]
    if done[name] >= wanted:
        return None
    return f"a process came to {_times(fault)}, and {done[name]} {words}, not {wanted}"


def _done(rows: Iterable[Event], order: str | None) -> dict[str, int]:
    """What has crossed the wire, counted: records, of one order if it is given, and answers."""
    crossed = dict.fromkeys(("sent", "acked", "fetches", "asked", "commits", "offsets"), 0)
    open_requests: dict[tuple[object, ...], int] = {}
    for row in rows:
        if row.source != "wire" or row.kind not in ("request", "response"):
            continue
        place = (row.detail.get("connection"), row.correlation_id, row.topic, row.partition)
        is_request = row.kind == "request"
        if row.api == "Produce" and is_request:
            records = row.records or 0 if order is None else carried(row).count(order)
            crossed["sent"] += records
            open_requests[place] = records
        elif row.api == "Produce" and row.error is None:
            crossed["acked"] += open_requests.pop(place, 0)
        elif row.api in COMMITS and is_request:
            open_requests[place] = row.detail.get("committed") != "False"  # an abort is no commit
            crossed["asked"] += open_requests[place]
        elif row.api in COMMITS and row.error is None:
            crossed["commits"] += open_requests.pop(place, 0)
        elif row.api == "TxnOffsetCommit" and not is_request:
            crossed["offsets"] += row.error is None
        elif row.api == "Fetch" and not is_request:
            crossed["fetches"] += 1
    return crossed
