"""The checks of lab 72; ./lab build makes them of its source."""

import random
import uuid
from dataclasses import replace

from lab_utils.grading.cases import Exercise, Mistake, Trial
from lab_utils.grading.rules import (
    answer_equals,
    final,
    missing,
    not_once,
    nothing_else_is_stored,
    repeated,
)
from lab_utils.proxy.faults import crash_client


def billing(run):
    """A transactional producer; the name is new, so that no two instances disturb each other."""
    name = f"{run.topic}-billing-{uuid.uuid4()}"
    producer = run.producer({"transactional.id": name, "transaction.timeout.ms": 900000})
    producer.init_transactions()
    return producer


def found(run):
    """The program as it is found."""
    producer = billing(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        producer.begin_transaction()
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()


def killed(name, point, nth):
    """A run whose program is killed at this point, and started again."""
    return Trial(
        name=name,
        faults=(crash_client(point, nth=nth),),
        orders=6,
        filled=True,
        topics=("invoices",),
    )


def elsewhere(nonce):
    """The two at places drawn from the nonce; of two commits in a batch, after the first."""
    place = random.Random(nonce)
    return (
        killed("killed in a transaction", "after_ack", 2 * place.randint(1, 3)),
        killed("killed after one", "after_commit", place.choice([1, 3])),
    )


def hidden(evidence):
    """The orders that no read_committed reader is given."""
    return missing(evidence, final(evidence, "invoices"))


def twice(evidence):
    """The orders that it is given more than once."""
    return repeated(evidence, final(evidence, "invoices"))


def names(evidence):
    """The transactional ids that were taken over in this run."""
    return {row.detail["transactional_id"] for row in evidence.requests("InitProducerId")}


def cause(evidence):
    """Which transaction is open, and what it hides, from the log and the coordinator's own."""
    states = {row.producer_id: row for row in evidence.rows if row.kind == "transaction"}
    left = next(row for row in states.values() if row.detail["state"] == "Ongoing")
    given = next(
        row for row in evidence.rows
        if (row.kind, row.api, row.producer_id) == ("response", "InitProducerId", left.producer_id)
    )  # fmt: skip
    end = next(
        row for row in evidence.rows if row.kind == "end" and row.topic == f"{row.run}-invoices"
    )
    return {
        "stuck_at": int(end.detail["last_stable"]),
        "hidden": " ".join(hidden(evidence)),
        "end": end.offset,
        "left_open_by": given.actor,
        "minutes": int(left.detail["timeout_ms"]) // 60000,
    }


def each_can_be_read_once(_, evidence):
    """Is a read_committed reader given each order in invoices exactly once?"""
    return not_once(evidence, final(evidence, "invoices"), "invoice", " that can be read")


EXERCISES = (
    Exercise(
        item="72.1",
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(replace(killed("the incident", "after_ack", 4), workload=found),),
        rules=(answer_equals(cause),),
        mistakes=(
            Mistake(
                name="the one that runs",
                is_made=lambda answer, _: answer["left_open_by"] == "producer-11",
                likely="the producer of today has ended all that it began.",
                look="Look for Ongoing in the diary, and at whose name stands there.",
            ),
            Mistake(
                name="only its own",
                is_made=lambda answer, _: answer["hidden"] == "2 3",
                likely="what comes after an open transaction waits, too, also if it is committed.",
                look="Look at what the reader is given of the offsets after the open transaction.",
            ),
            Mistake(
                name="what was read",
                is_made=lambda answer, _: answer["stuck_at"] == 2,
                likely="that is a marker, and a reader gets past it.",
                look="Look at the first record of the open transaction.",
            ),
            Mistake(
                name="counted records",
                is_made=lambda answer, _: answer["end"] in (6, 8, 10),
                likely="a marker takes an offset, too.",
                look="Look at the offset of the last marker.",
            ),
            Mistake(
                name="the default",
                is_made=lambda answer, _: answer["minutes"] == 1,
                likely="the program set its own time-out.",
                look="Look at the function that makes the producer.",
            ),
        ),
        blank="Fill in all five; the picture and the diary have them.",
    ),
    Exercise(
        item="72.2",
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=(
            killed("killed in a transaction", "after_ack", 4),
            killed("killed after one", "after_commit", 1),
        ),
        unseen=elsewhere,
        rules=(nothing_else_is_stored, each_can_be_read_once),
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
                likely="without a transaction nothing is hidden, and nothing is undone either.",
                look="Look at the batch in which the program was killed.",
            ),
            Mistake(
                name="nobody's successor",
                is_made=lambda _, seen: bool(hidden(seen)) and len(names(seen)) > 1,
                likely="the new process did not end what its predecessor had left open.",
                look="Look at the names in the InitProducerId requests before and after the kill.",
            ),
            Mistake(
                name="the bookmark first",
                is_made=lambda _, seen: bool(hidden(seen)) and bool(seen.requests("OffsetCommit")),
                likely="the bookmark was past a batch whose transaction was not committed.",
                look="Look at what is committed before EndTxn.",
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
