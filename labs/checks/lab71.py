"""The checks of lab 71; ./lab build makes them of its source."""

import random
from dataclasses import replace

from confluent_kafka import KafkaException

from lab_utils.grading.cases import Exercise, Mistake, Trial
from lab_utils.grading.rules import (
    FENCED,
    answer_equals,
    answers,
    final,
    missing,
    not_once,
    nothing_else_is_stored,
    repeated,
)
from lab_utils.proxy.faults import crash_client, refuse, stall_client


def billing(run):
    """A transactional producer; it ends what a predecessor of its name left open."""
    times = {"transaction.timeout.ms": 2000, "socket.timeout.ms": 1900}
    producer = run.producer({"transactional.id": f"{run.topic}-billing"} | times)
    producer.init_transactions(30)
    return producer


def found(run):
    """The program as it is found."""
    producer = billing(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        try:
            producer.begin_transaction()
            for message in batch:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
            producer.commit_transaction()
        except KafkaException:
            producer = billing(run)  # and says in its log: a producer was replaced
        consumer.commit(asynchronous=False)


BILLED = {"orders": 8, "filled": True, "topics": ("invoices",), "until_stable": True}
# Longer than transaction.timeout.ms: the coordinator looks every 200 ms.
STOPPED_MS = 3000


def stopped(nth):
    """The machine stops when the program has handed over its nth invoice."""
    fault = stall_client("after_send", nth=nth, for_ms=STOPPED_MS)
    return Trial(name="stopped", faults=(fault,), **BILLED)


def fenced(nth):
    """The coordinator refuses the nth commit: the name has another owner."""
    fault = refuse("EndTxn", nth=nth, error="PRODUCER_FENCED")
    return Trial(name="fenced", faults=(fault,), **BILLED)


def killed(nth):
    """The process is killed when its nth commit has been answered."""
    return Trial(name="killed", faults=(crash_client("after_commit", nth=nth),), **BILLED)


def elsewhere(nonce):
    """The three at places drawn from the nonce; of two commits in a batch, after the first."""
    place = random.Random(nonce)
    return (
        fenced(place.randint(1, 4)),
        stopped(2 * place.randint(1, 4)),
        killed(place.choice([1, 3])),
    )


def lost(evidence):
    """The orders without an invoice."""
    return missing(evidence, final(evidence, "invoices"))


def told(evidence):
    """The answers that fenced a producer, oldest first."""
    return [row for row in answers(evidence) if row.error in FENCED]


def cause(evidence):
    """What became of whose transaction, from the wire and the log."""
    first = told(evidence)[0]
    ends = [row.detail["committed"] for row in evidence.requests("EndTxn")]
    later = [row for row in evidence.requests("OffsetCommit") if row.at_ns > first.at_ns]
    return {
        "gone": " ".join(lost(evidence)),
        "request": first.api,
        "error": first.error,
        "ended_by": "program" if "False" in ends else "coordinator",
        "bookmark": later[0].offset,
    }


def each_has_one_invoice(_, evidence):
    """Is each order in invoices exactly once, to a read_committed reader?"""
    return not_once(evidence, final(evidence, "invoices"), "invoice")


def goes_on(evidence):
    """Did a transaction begin after the program had been fenced?"""
    begun = [row.at_ns for row in evidence.requests("AddPartitionsToTxn")]
    return not told(evidence) or max(begun) > told(evidence)[0].at_ns


def twice(evidence):
    """The orders with more than one invoice."""
    return repeated(evidence, final(evidence, "invoices"))


EXERCISES = (
    Exercise(
        item="71.1",
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(replace(stopped(6), workload=found),),
        rules=(answer_equals(cause),),
        mistakes=(
            Mistake(
                name="the program aborted",
                is_made=lambda answer, _: answer["ended_by"] == "program",
                likely="the program never asked for an abort.",
                look="Look at the EndTxn requests in the timeline: what do they ask for?",
            ),
            Mistake(
                name="all that followed",
                is_made=lambda answer, _: len(answer["gone"].split()) > 2,
                likely="what came later has its invoices, from another producer.",
                look='Look at incident.in_and_out("invoices").',
            ),
            Mistake(
                name="in the log",
                is_made=lambda answer, _: answer["gone"] == "",
                likely="a record in the log is no invoice yet: its transaction was aborted.",
                look="Look at which rows of the log are visible.",
            ),
            Mistake(
                name="the client's word",
                is_made=lambda answer, _: answer["error"] == "_FENCED",
                likely="that is what the client made of it; the wire has the broker's word.",
                look="Look at the answer in the timeline.",
            ),
            Mistake(
                name="back to the batch",
                is_made=lambda answer, _: answer["bookmark"] == 4,
                likely="the program did not know that its batch was gone.",
                look="Look at the first OffsetCommit after the error.",
            ),
        ),
        blank="Fill in all five; the timeline has each of them.",
    ),
    Exercise(
        item="71.2",
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=(fenced(2), stopped(4), killed(3)),
        unseen=elsewhere,
        rules=(nothing_else_is_stored, each_has_one_invoice),
        mistakes=(
            Mistake(
                name="nothing is billed",
                is_made=lambda _, seen: not seen.stored,
                likely="the orders were there to be read, and there is no invoice.",
                look="Look at what the loop does with each batch.",
            ),
            Mistake(
                name="no transaction",
                is_made=lambda _, seen: not seen.requests("EndTxn"),
                likely="without a transaction, an invoice counts before its bookmark does.",
                look="Look at what a process finds that is killed between the two.",
            ),
            Mistake(
                name="gave up",
                is_made=lambda _, seen: bool(lost(seen)) and not goes_on(seen),
                likely="after the error, no further transaction was begun.",
                look="Look at who takes part in the timeline after the error.",
            ),
            Mistake(
                name="a longer time-out",
                is_made=lambda _, seen: seen.trial.name == "stopped" and not told(seen),
                likely="this time nobody was fenced; the next time somebody is.",
                look="Look at the trial whose commit was refused at once.",
            ),
            Mistake(
                name="the bookmark went on",
                is_made=lambda _, seen: bool(lost(seen)) and bool(seen.requests("OffsetCommit")),
                likely="a bookmark was committed past a batch whose transaction was not.",
                look="Look at the OffsetCommit after the failed EndTxn.",
            ),
            Mistake(
                name="not rewound",
                is_made=lambda _, seen: bool(lost(seen)),
                likely="the transaction took its bookmark back, and the consumer went on.",
                look="Look at where the consumer stands after the error.",
            ),
            Mistake(
                name="two commits",
                is_made=lambda _, seen: bool(twice(seen)) and bool(seen.requests("OffsetCommit")),
                likely="invoices and bookmark were committed one after the other.",
                look="Look at what happens to a process that is killed between the two.",
            ),
            Mistake(
                name="one short",
                is_made=lambda _, seen: bool(twice(seen)),
                likely="a bookmark names the next order to read, and this one names another.",
                look="Look at the offsets in TxnOffsetCommit, and at the last order of the batch.",
            ),
        ),
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
)
