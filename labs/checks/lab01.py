"""The checks of lab 01: What did the acknowledgement promise?"""

from collections import Counter

from lab_utils.audit.contracts import ALLOWED, clause
from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    acked,
    and_more,
    low_acks,
    names_what_became,
    nothing_else_is_stored,
    rows_equal,
)
from lab_utils.ledger.events import NOT_DELIVERED
from lab_utils.ledger.history import carried
from lab_utils.proxy.faults import (
    cut_link,
    delay_response,
    drop_request,
    kill_broker,
    power_cut,
    refuse,
)

# An error of the broker that says: this record was not stored.
REFUSED = "INVALID_RECORD"


def with_acks(acks):
    """The lab's workload: one order at a time, with these acks."""

    def send(run):
        producer = run.producer({"acks": acks})
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()

    return send


# A leader that was cut off for long is alone in the ISR. With this floor the others may still be
# elected when it dies (ELR), and what it acked alone is lost; else nobody leads until it is back.
FLOOR = {"min.insync.replicas": 2}


# The leader is cut off from its followers, acks as many orders as acks=1 lets it, and dies.
LEADER_DIES = (cut_link(1, 2), cut_link(1, 3), kill_broker(1, api="Produce", nth=3))
# The leader is cut off when it has answered, and dies with the next order in its hands.
DIES_IN_BETWEEN = (
    cut_link(1, 2, api="Produce", nth=1),
    cut_link(1, 3, api="Produce", nth=1),
    kill_broker(1, api="Produce", nth=2, when="received"),
)


def matrix(name, acks, faults, **conditions):
    """One cell of the matrix of 01.1: its name is the key of the answer."""
    return Trial(
        name=name, faults=faults, orders=3, brokers=3, workload=with_acks(acks), **conditions
    )


def all_have_the_third(run):
    """Each order with acks=1, but the third: when it is acked, all have it and those before it."""
    settings = {"acks": "1"}, {"acks": "all"}
    producers = [run.producer(each) for each in settings]
    for number, order in enumerate(run.orders):
        producer = producers[number == 2]
        producer.produce(run.topic, order, partition=0)
        producer.flush()


def acked_alone(many):
    """The first order is refused; a leader that is cut off acks so many with acks=1, and dies.

    It has acked others before, which are safe. The next one acks as many: they have their offsets.
    The last link that is cut is that of the followers, and costs nothing.
    """
    faults = (
        refuse("Produce", error=REFUSED),
        cut_link(1, 2, api="Produce", nth=3),
        cut_link(1, 3, api="Produce", nth=3),
        kill_broker(1, api="Produce", nth=3 + many),
        cut_link(2, 3, api="Produce", nth=5, when="received"),
    )
    return Trial(
        name="the leader dies", faults=faults, orders=3 + 2 * many, brokers=3,
        topic_config=FLOOR, workload=all_have_the_third,
    )  # fmt: skip


def lost(evidence):
    """The acked orders that are not in the log."""
    return {row.value for row in evidence.history.lost}


def truth(evidence):
    """What may be said of each order, from the wire: acked, failed or unknown."""
    words = {}
    for order in evidence.history.orders.values():
        if order.exchanges and order.topic.endswith("-orders"):
            said = order.exchanges[-1].response
            is_unknown = said is None or said.fate in ("held", *NOT_DELIVERED)
            words[order.value] = "unknown" if is_unknown else "failed" if said.error else "acked"
    return words


def sorted_by_learner(evidence):
    """The learner's words, which the workload wrote to the topic `words`."""
    rows = [row for row in evidence.log if row.topic.endswith("-words")]
    values = [row.value or "" for row in rows]  # a record may have none
    return dict(reversed(value.split(" ", 1)) for value in values if " " in value)


def the_words_are_right(_, evidence):
    """Is each order in the topic `words` with the word that is true of it?"""
    said, right = sorted_by_learner(evidence), truth(evidence)
    missing = [order for order in evidence.orders if order not in said]
    if missing:
        return f"order {missing[0]} has no word{and_more(missing)}."
    wrong = [order for order, word in right.items() if said.get(order) != word]
    if not wrong:
        return None
    return f"order {wrong[0]} is sorted as {said[wrong[0]]}, and {right[wrong[0]]} is true of it."


def sent_again(evidence):
    """What the trial lacks if an order was sent again: its first report is not the last of it."""
    requests = [row for row in evidence.requests() if row.topic.endswith("-orders")]
    sent = Counter(value for row in requests for value in carried(row))
    again = next((order for order in evidence.orders if sent[order] > 1), None)
    return None if again is None else f"order {again} was sent again after its report"


def said_instead(word, of):
    """Did the learner say this word of an order of which the other is true?"""

    def is_made(_, evidence):
        said = sorted_by_learner(evidence)
        return any(said.get(order) == word for order, is_ in truth(evidence).items() if is_ == of)

    return is_made


def report_kinds(refused, late):
    """One order is refused by the broker for good, and the answer of one comes too late."""
    return Trial(
        name="a refusal and a late answer",
        faults=(
            refuse("Produce", nth=refused, topic="orders", error=REFUSED),
            delay_response("Produce", nth=late, topic="orders", by_ms=4000),
        ),
        orders=6,
        brokers=3,
        topics=("words",),
        assumes=sent_again,
    )


def nothing_acked_is_lost(_, evidence):
    """Is each order in the log of which the client was told that it is?"""
    gone = evidence.history.told_stored - set(evidence.stored)
    if not gone:
        return None
    return f"{len(gone)} acked orders are not in the log: {', '.join(sorted(gone)[:3])}."


def nearly_all_are_stored(_, evidence):
    """Are at least 95 % of the orders in the log?"""
    stored = len(set(evidence.stored) & set(evidence.orders))
    if stored >= 0.95 * len(evidence.orders):
        return None
    return f"only {stored} of {len(evidence.orders)} orders are in the log."


def every_in_sync_replica_is_asked(_, evidence):
    """Does each request ask for all in-sync replicas? With less, a loss is a matter of luck."""
    low = low_acks(evidence)
    return f"requests asked for acks={low[0]}: what is acked may be lost." if low else None


def survive(first, second):
    """Two runs in which the leader dies; in the first it is alone before, as far as acks=1 goes.

    The moments are those at which the leader has received something: who flushes once at the end
    has sent everything before the first answer. In the second it has answered a certain order, not
    so many requests: a program may send one order until the leader is dead. The clients are
    patient: how long it takes until another broker leads is chance, and on a slow machine longer
    than the lab's 15 s.
    """
    return (
        Trial(
            name="the leader dies cut off",
            faults=(
                cut_link(1, 2, api="Produce", nth=first + 1, when="received"),
                cut_link(1, 3, api="Produce", nth=first + 1, when="received"),
                kill_broker(1, api="Produce", nth=first + 2, when="received"),
            ),
            orders=8,
            brokers=3,
            patient=True,
            topic_config={"min.insync.replicas": 2},
        ),
        Trial(
            name="the leader dies after an answer",
            faults=(kill_broker(1, api="Produce", value=str(second - 1)),),
            orders=8,
            brokers=3,
            patient=True,
        ),
    )


def says(word, of=None):
    """Does the answer say this of the trial that the verdict is about, or of this trial alone?"""
    return lambda answer, seen: (
        answer.get(seen.trial.name) == word and of in (None, seen.trial.name)
    )


SYSTEMS = ("room temperature", "web shop log", "payments")


def may_lose(choice):
    """May an acked record be lost with this choice?"""
    return clause("lost-write", [{"acks": str(choice["acks"])}]).judgement == ALLOWED


def first_choice(answer, may):
    """The first system of which the answer is not true, if its choice may lose, or may not."""
    wrong = (it for it in SYSTEMS if answer[it]["may_lose"] is not may_lose(answer[it]))
    first = next(wrong, None)
    return first if first and may_lose(answer[first]) is may else None


def promise_is_kept(answer, _):
    """Does each choice of acks keep the promise that stands beside it?"""
    for system in SYSTEMS:
        choice = answer.get(system)
        if not isinstance(choice, dict) or not {"acks", "may_lose"} <= set(choice):
            return f"{system!r} needs both `acks` and `may_lose`."
        if str(choice["acks"]) not in ("0", "1", "all", "-1"):
            return f"{system!r}: acks is 0, 1 or all; yours is {choice['acks']!r}."
        may = may_lose(choice)
        if choice["may_lose"] is not may:
            return f"{system!r}: with acks={choice['acks']} an acked record " + (
                "may be lost." if may else "may not be lost."
            )
    if str(answer["payments"]["acks"]) not in ("all", "-1"):
        return "'payments': nobody accepts that a payment was acked and is gone."
    return None


EXERCISES = {
    "01.1": Exercise(
        title="What became of the acked orders?",
        points=4,
        kind="value",
        answer="answer_1",
        public=(
            matrix("acks=0, a request is lost", "0", (drop_request("Produce", nth=2),)),
            matrix("acks=1, the leader dies", "1", LEADER_DIES, topic_config=FLOOR, patient=True),
            matrix("acks=all, the leader dies", "all", DIES_IN_BETWEEN, patient=True),
            matrix(
                "one replica, kill -9", "1", (kill_broker(1, api="Produce", nth=3),), replicas=1
            ),
            matrix(
                "one replica, power cut", "1", (power_cut(1, api="Produce", nth=3),), replicas=1
            ),
        ),
        rules=(names_what_became(lambda seen: Counter(seen.stored)),),
        mistakes={
            "acked means flushed": Mistake(
                is_made=says("once", of="one replica, power cut"),
                likely="you took an ack for a record on the disk; it is in the page cache.",
                look="Look at killed.log, and at dark.log.",
            ),
            "kill means loss": Mistake(
                is_made=says("lost", of="one replica, kill -9"),
                likely="SIGKILL ends the process, and the page cache belongs to the system.",
                look="Look at killed.log.",
            ),
            "all is one": Mistake(
                is_made=says("lost", of="acks=all, the leader dies"),
                likely="with acks=all the leader had not answered what the followers did not have.",
                look="Look at everybody.timeline(): what was acked before the leader died?",
            ),
            "sent again is stored again": Mistake(
                is_made=says("twice", of="acks=all, the leader dies"),
                likely="the copy that the dead leader had was on no other broker.",
                look="Look at everybody.log: how often is the second order there?",
            ),
            "a report is a record": Mistake(
                is_made=says("once", of="acks=0, a request is lost"),
                likely="with acks=0 a report says that the record has left the client.",
                look="Look at silent.timeline(): what became of the second request?",
            ),
            "one ack is enough": Mistake(
                is_made=says("once", of="acks=1, the leader dies"),
                likely="the leader had the records alone when it answered, and then it died.",
                look="Look at one.replicas(): who leads next, and what does it have?",
            ),
            "acked is sent again": Mistake(
                is_made=says("twice"),
                likely="a client sends nothing again that it has reported as acked.",
                look="Look for the report of each order: does a request of that order follow it?",
            ),
        },
        blank='Fill in "once", "lost" or "twice" for each of the five.',
    ),
    "01.2": Exercise(
        title="Sort the reports",
        points=4,
        kind="workload",
        answer="send_and_sort",
        public=(report_kinds(refused=2, late=4),),
        unseen=drawn(lambda place: [report_kinds(*place.sample(range(1, 7), 2))]),
        rules=(the_words_are_right,),
        mistakes={
            "every error is a failure": Mistake(
                is_made=said_instead("failed", of="unknown"),
                likely="a report of _MSG_TIMED_OUT does not rule out that the record is stored.",
                look="Look at lab 00: late.log, and the word that was true of order 3.",
            ),
            "every error is unknown": Mistake(
                is_made=said_instead("unknown", of="failed"),
                likely="a broker that refuses a record has decided: it is not stored.",
                look="Look at the error of that report: did the client say it, or the broker?",
            ),
            "no word at all": Mistake(
                is_made=lambda _, seen: not sorted_by_learner(seen),
                likely="your callback puts nothing into `words`.",
                look="Begin with the reports that have no error: words[order] = ...",
            ),
            "no error is looked at": Mistake(
                is_made=lambda _, seen: set(sorted_by_learner(seen).values()) == {"acked"},
                likely="your callback calls every report a success.",
                look="Look at the first argument of the callback.",
            ),
        },
        passed=lambda _, evidence: (
            f"{len(evidence[0].orders)} reports in {len(set(truth(evidence[0]).values()))} kinds, "
            "each with the word that is true of it."
        ),
    ),
    "01.3": Exercise(
        title="Find the acked orders that are gone",
        points=4,
        kind="query",
        answer="acked_and_gone",
        public=(acked_alone(2),),
        unseen=drawn(lambda place: [acked_alone(place.choice((1, 3)))]),
        rules=(rows_equal(lambda seen: [{"value": each} for each in sorted(lost(seen))]),),
        mistakes={
            "sent, and not acked": Mistake(
                is_made=lambda _, seen: {*seen.column("value")} - acked(seen),
                likely="your query returns an order that no report calls a success.",
                look="Look at the kinds of events that the client wrote of that order.",
            ),
            "everything acked": Mistake(
                is_made=lambda _, seen: len(seen.column("value")) == len(acked(seen)),
                likely="your query returns every acked order, also those in the log.",
                look="Look at the events with source 'log' and kind 'record'.",
            ),
            "all that the dead leader acked": Mistake(
                is_made=lambda _, seen: {*seen.column("value")} & {*seen.stored},
                likely="your query returns an acked order that is in the log.",
                look="Look at whether the followers had that order before the links were cut.",
            ),
            "since the last cut": Mistake(
                is_made=lambda _, seen: seen.returned and {*seen.column("value")} < lost(seen),
                likely="one of the orders that are gone is not in your result.",
                look="Look at which orders the log does not hold, whenever they were acked.",
            ),
            "by offset": Mistake(
                is_made=lambda _, seen: not seen.returned,
                likely="every offset that was acked is in use: another order has it now.",
                look="Look at the record at offset 2. Which order's ack named that offset first?",
            ),
        },
    ),
    "01.4": Exercise(
        title="Lose nothing that was acked",
        points=6,
        kind="workload",
        answer="send_safely",
        public=survive(3, 4),
        unseen=drawn(lambda place: survive(place.randint(2, 6), place.randint(2, 6))),
        rules=(
            nothing_else_is_stored,
            nothing_acked_is_lost,
            nearly_all_are_stored,
            every_in_sync_replica_is_asked,
        ),
        mistakes={
            "acks too low": Mistake(
                is_made=lambda _, seen: low_acks(seen),
                likely="your requests do not ask for every in-sync replica.",
                look="Look at detail.acks of the Produce requests.",
            ),
            "gave up too early": Mistake(
                is_made=lambda _, seen: len(set(seen.stored)) < 0.95 * len(seen.orders),
                likely="a new leader needs two seconds here, and your producer did not wait.",
                look="Look at message.timeout.ms and retries, and at what you wait for at the end.",
            ),
        },
        blank="Look at what the last line of the workload waits for, and whether it is there.",
    ),
    "01.5": Exercise(
        title="Choose for three systems",
        points=2,
        kind="value",
        answer="answer_5",
        public=(Trial(name="a calm run", orders=1, brokers=3, workload=with_acks("all")),),
        rules=(promise_is_kept,),
        mistakes={
            "promises too much": Mistake(
                is_made=lambda answer, _: first_choice(answer, may=True) is not None,
                likely="that choice does not wait until a second broker has the record.",
                look="Look at 01.1: which of its runs with this `acks` lost an acked order?",
            ),
            "promises too little": Mistake(
                is_made=lambda answer, _: first_choice(answer, may=False) is not None,
                likely="with that choice every in-sync replica has an acked record.",
                look="Look at 01.1: what became of the acked orders when a leader died so?",
            ),
            "payments may be lost": Mistake(
                is_made=lambda answer, _: str(answer["payments"]["acks"]) in ("0", "1"),
                likely="what you say of that choice is true, and for payments it is not enough.",
                look="Look at 01.1: with which `acks` was no acked order lost when a leader died?",
            ),
        },
        passed=lambda _, __: "each choice keeps the promise beside it.",
        blank='Fill in `acks` ("0", "1" or "all") and `may_lose` (True or False) for each system.',
    ),
}
