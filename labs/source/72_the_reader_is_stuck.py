# %% [markdown]
# # Incident: the reader is stuck, and its lag grows
#
# The warehouse gets no invoices any more. Its reader runs, polls and reports no error.
#
# 18 minutes · one broker · 7 points · builds on labs 04 and 06

# %% part="checks"
import uuid
from dataclasses import replace

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    answer_equals,
    billed_twice,
    committed_by_then,
    each_has_one,
    invoices,
    nothing_else_is_stored,
    taken_back_by_another,
    unbilled,
)
from lab_utils.proxy.faults import crash_client

# %%
import uuid
from confluent_kafka import TopicPartition
from lab_utils import Lab, crash_client
from sqlalchemy import text
lab = Lab("72")

# %% [markdown]
# ## What the person on call has
#
# | what | what it says |
# |---|---|
# | the warehouse's reader (`read_committed`) | no error, no record, lag growing |
# | the billing program | killed once by a deployment, started again; since then all is well |
# | end of the topic `invoices` | grows |
#
# A restart of the reader changes nothing. The billing program reads orders, two at a time, and writes
# their invoices in a transaction.
#
# ## The program, as it is found

# %% part="shared"
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

# %%
incident = lab.run(found, orders=6, filled=True, topics=["invoices"],
                   faults=[crash_client("after_ack", nth=4)])
incident.in_and_out("invoices")

# %%
incident.transactions()

# %%
incident.diary()

# %% [markdown]
# ## 72.1 The cause (3 points)
#
# - `stuck_at`: the offset in `invoices` that the reader does not get past
# - `hidden`: the orders whose invoices it is not given, as in `"0 1"`
# - `end`: the offset at which the log of `invoices` ends
# - `left_open_by`: the client whose transaction nobody has ended, as in `"consumer-1"`
# - `minutes`: after how many minutes the coordinator would have ended it

# %% answer="72.1"
answer_1 = {"stuck_at": ..., "hidden": ..., "end": ..., "left_open_by": ..., "minutes": ...}
### BEGIN SOLUTION
answer_1 = {"stuck_at": 3, "hidden": "2 3 4 5", "end": 11, "left_open_by": "producer-1", "minutes": 15}
### END SOLUTION

# %% check="72.1"
lab.check("72.1", answer_1)

# %% [markdown]
# ## 72.2 The repair (4 points)
#
# The reader is right: it hands records out in the sequence of their offsets, and whether these count is
# not decided (claim E5). So the repair is the writer's. After a kill and a restart, a `read_committed`
# reader must have each invoice exactly once, and must not wait for a time-out. The check kills the
# program within a transaction, and, in another run, after two. The grader does so at other places.

# %% answer="72.2"
### BEGIN SOLUTION
def repaired(run):
    producer = run.producer({"transactional.id": f"{run.topic}-billing"})
    producer.init_transactions()
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
### END SOLUTION

# %% check="72.2"
lab.check("72.2", repaired)

# %% [markdown]
# ## What this does not cover
#
# - If the program is killed with its offsets in the transaction, its own successor waits, too (KIP-447).
# - The reader that is stuck now waits until the time-out, or until somebody takes the old name over. A
#   transaction that no coordinator knows any more never ends: `kafka-transactions.sh` aborts it (KIP-664).
# - A shorter time-out ends the wait sooner, and fences a program that is slow: incident 71.

# %%
lab.score()

# %%
lab.close()

# %% part="checks"
def killed(name, *deaths):
    """A run whose processes are killed so, each one at the next."""
    return Trial(
        name=name,
        faults=deaths,
        orders=6,
        filled=True,
        topics=("invoices",),
        assumes=killed_at_work,
    )


def killed_at_work(evidence):
    """What a run lacks if its processes were not killed at the work that is examined."""
    return taken_back_by_another(evidence) or committed_by_then(evidence)


def places(nth, order):
    """Killed in the transaction of the nth invoice, and in the last; after an order's, and so.

    So who is careful in its first life alone is killed in the second, too.
    """
    return (
        killed(
            "killed in a transaction",
            crash_client("after_ack", nth=nth),
            crash_client("after_ack", value="5"),
        ),
        killed(
            "killed after one",
            crash_client("after_commit", value=order),
            crash_client("after_commit", value="4"),
        ),
    )


def elsewhere(place):
    """The two at places drawn from the nonce."""
    # Not in a first transaction: whose is left open has committed one.
    return places(place.randint(3, 4), place.choice("02"))


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
        "hidden": " ".join(unbilled(evidence)),
        "end": end.offset,
        "left_open_by": given.actor,
        "minutes": int(left.detail["timeout_ms"]) // 60000,
    }


EXERCISES = {
    "72.1": Exercise(
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(
            replace(
                killed("the incident", crash_client("after_ack", nth=4)),
                workload=found,
                assumes=None,
            ),
        ),
        rules=(answer_equals(cause),),
        mistakes={
            "the one that runs": Mistake(
                is_made=lambda answer, _: answer["left_open_by"] == "producer-11",
                likely="the producer of today has ended all that it began.",
                look="Look for Ongoing in the diary, and at whose name stands there.",
            ),
            "only its own": Mistake(
                is_made=lambda answer, _: answer["hidden"] == "2 3",
                likely="what comes after an open transaction waits, too, also if it is committed.",
                look="Look at what the reader is given of the offsets after the open transaction.",
            ),
            "what was read": Mistake(
                is_made=lambda answer, _: answer["stuck_at"] == 2,
                likely="that is a marker, and a reader gets past it.",
                look="Look at the first record of the open transaction.",
            ),
            "counted records": Mistake(
                is_made=lambda answer, _: answer["end"] in (6, 8, 10),
                likely="a marker takes an offset, too.",
                look="Look at the offset of the last marker.",
            ),
            "the default": Mistake(
                is_made=lambda answer, _: answer["minutes"] == 1,
                likely="the program set its own time-out.",
                look="Look at the function that makes the producer.",
            ),
        },
        blank="Fill in all five; the picture and the diary have them.",
    ),
    "72.2": Exercise(
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=places(4, "0"),
        unseen=drawn(elsewhere),
        rules=(
            nothing_else_is_stored,
            each_has_one("invoice", invoices, " that can be read"),
        ),
        mistakes={
            "nothing is billed": Mistake(
                is_made=lambda _, seen: not seen.stored,
                likely="the orders were there to be read, and there is no invoice.",
                look="Look at what the loop does with each batch.",
            ),
            "no transaction": Mistake(
                is_made=lambda _, seen: not seen.requests("EndTxn"),
                likely="without a transaction nothing is hidden, and nothing is undone either.",
                look="Look at the batch in which the program was killed.",
            ),
            "nobody's successor": Mistake(
                is_made=lambda _, seen: bool(unbilled(seen)) and len(names(seen)) > 1,
                likely="the new process did not end what its predecessor had left open.",
                look="Look at the names in the InitProducerId requests before and after the kill.",
            ),
            "the bookmark first": Mistake(
                is_made=lambda _, seen: bool(unbilled(seen)) and bool(seen.requests("OffsetCommit")),
                likely="the bookmark was past a batch whose transaction was not committed.",
                look="Look at what is committed before EndTxn.",
            ),
            "two commits": Mistake(
                is_made=lambda _, seen: bool(billed_twice(seen)) and bool(seen.requests("OffsetCommit")),
                likely="invoices and bookmark were committed one after the other.",
                look="Look at what happens to a process that is killed between the two.",
            ),
            "one short": Mistake(
                is_made=lambda _, seen: bool(billed_twice(seen)),
                likely="a bookmark names the next order to read, and this one names another.",
                look="Look at the offsets in TxnOffsetCommit, and at the last order of the batch.",
            ),
        },
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
}

# %% part="tests"
def answer(**other):
    right = {"stuck_at": 3, "hidden": "2 3 4 5", "end": 11, "left_open_by": "producer-1", "minutes": 15}
    return f"answer_1 = {right | other!r}"

NAME = 'f"{run.topic}-billing"'
INIT = "    producer.init_transactions()\n"
BEGIN = "        producer.begin_transaction()\n"
SEND = "        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())\n"
COMMIT = "        producer.commit_transaction()\n"
BOOKMARK = "        consumer.commit(offsets=offsets, asynchronous=False)\n"
POSITION = "consumer.position(consumer.assignment())"
TRANSACTIONAL = '{"transactional.id": f"{run.topic}-billing"}'
PLAIN = ((TRANSACTIONAL, '{"enable.idempotence": True}'), (INIT, ""), (BEGIN, ""), (COMMIT, ""))
EACH_ITS_OWN = """
def repaired(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        name = f"{run.topic}-%s"
        producer = run.producer({"transactional.id": name})
        producer.init_transactions()
        producer.begin_transaction()
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()
"""
FINALLY = """
def repaired(run):
    producer = billing(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        producer.begin_transaction()
        is_committed = False
        try:
            for message in batch:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
            producer.flush()
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()
            is_committed = True
        finally:
            if not is_committed:
                producer.abort_transaction()
"""
LIST_OF_NAMES = """    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS names (name TEXT)"))
        left = connection.execute(text("SELECT name FROM names")).scalars().all()
    for name in left:
        run.producer({"transactional.id": name}).init_transactions()
    mine = f"{run.topic}-{uuid.uuid4()}"
    with database.begin() as connection:
        connection.execute(text("INSERT INTO names VALUES (:name)"), {"name": mine})
    producer = run.producer({"transactional.id": mine})
"""
MADE = '    producer = run.producer({"transactional.id": f"{run.topic}-billing"})\n'
LOOP = "    for batch in run.batches(consumer, size=2):\n"
JUNK = "        for _ in range(3 * (batch[0].offset() == 0)):\n            consumer.commit(offsets=[TopicPartition(run.topic, 0, 0)], asynchronous=False)\n"
WRONG = (
    ("72.1", "the one that runs", answer(left_open_by="producer-11")),
    ("72.1", "only its own", answer(hidden="2 3")),
    ("72.1", "what was read", answer(stuck_at=2)),
    ("72.1", "counted records", answer(end=8)),
    ("72.1", "the default", answer(minutes=1)),
    # as it is found
    ("72.2", "nobody's successor", "repaired = found"),
    # a shorter time-out under a new name
    ("72.2", "nobody's successor", changed((TRANSACTIONAL, '{"transactional.id": f"{run.topic}-{uuid.uuid4()}", "transaction.timeout.ms": 60000}'))),
    # a name for each start, for each process, for each batch
    ("72.2", "nobody's successor", changed((NAME, 'f"{run.topic}-{run.attempt}"'))),
    ("72.2", "nobody's successor", "import os" + chr(10) + changed((NAME, 'f"{run.topic}-{os.getpid()}"'))),
    ("72.2", "nobody's successor", EACH_ITS_OWN % "{uuid.uuid4()}"),
    # nobody who is killed comes to a finally
    ("72.2", "nobody's successor", FINALLY),
    ("72.2", "no transaction", changed(*PLAIN, (SEND, BOOKMARK))),
    ("72.2", "no transaction", changed(*PLAIN, (SEND, ""), ("        for message", "        consumer.commit(asynchronous=False)\n        for message"))),
    ("72.2", "the bookmark first", changed((SEND, ""), (BEGIN, "        consumer.commit(asynchronous=False)\n" + BEGIN))),
    ("72.2", "two commits", changed((SEND, ""), (COMMIT, COMMIT + BOOKMARK))),
    # with commits of no order before the first
    ("72.2", "two commits", changed((SEND, ""), (COMMIT, COMMIT + BOOKMARK), (LOOP, LOOP + JUNK))),
    # in the last batch alone
    ("72.2", "two commits", changed((SEND, "        if batch[0].offset() < 4:\n    " + SEND), (COMMIT, COMMIT + "        if batch[0].offset() >= 4:\n    " + BOOKMARK))),
    ("72.2", "one short", changed((POSITION, "[TopicPartition(run.topic, 0, batch[-1].offset())]"))),
    ("72.2", "one short", changed((POSITION, "[TopicPartition(run.topic, 0, batch[0].offset())]"))),
    ("72.2", "nothing is billed", changed(('producer.produce(run.topics["invoices"], message.value(), partition=0)', "pass"))),
)
RIGHT = {
    ("72.2", "right, too: each batch has a name, and always the same"): EACH_ITS_OWN % "{batch[0].offset()}",
    ("72.2", "right, too: the names of before are in a database, and taken over"): changed((MADE, LIST_OF_NAMES)),
}
