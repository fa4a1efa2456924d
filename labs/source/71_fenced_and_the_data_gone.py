# %% [markdown]
# # Incident: fenced, and the data gone
#
# Finance calls: two invoices are missing. No process has died, and the lag is 0.
#
# 18 minutes · one broker · 7 points · builds on labs 04 and 06

# %% part="checks"
from dataclasses import replace

from confluent_kafka import KafkaException

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    FENCED,
    answer_equals,
    answers,
    billed_twice,
    each_has_one,
    invoices,
    nothing_else_is_stored,
    unbilled,
)
from lab_utils.proxy.faults import crash_client, refuse, stall_client

# %%
from confluent_kafka import KafkaException, TopicPartition
from lab_utils import Lab, stall_client
lab = Lab("71")

# %% [markdown]
# ## What the person on call has
#
# | what | what it says |
# |---|---|
# | consumer lag of the group | 0 |
# | restarts | none |
# | the program's log | one line: `a producer was replaced` |
# | invoices | fewer than orders |
#
# The program reads orders, two at a time, and writes their invoices in a transaction. At the time of
# the log line, the machine had stopped for a while, as virtual machines do when they are moved. All
# times are shorter here: `transaction.timeout.ms` is two seconds, where the default is a minute.
#
# ## The program, as it is found

# %% part="shared"
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

# %%
incident = lab.run(found, orders=8, filled=True, topics=["invoices"], until_stable=True,
                   faults=[stall_client("after_send", nth=6, for_ms=3000)])
incident.in_and_out("invoices")

# %%
incident.timeline(apis=["InitProducerId", "Produce", "EndTxn", "OffsetCommit"])

# %%
incident.transactions()

# %% [markdown]
# ## 71.1 The cause (3 points)
#
# - `gone`: the orders without an invoice, as in `"0 1"`
# - `request`: the request whose answer told the program that it is fenced, by its name on the wire
# - `error`: the error in that answer
# - `ended_by`: who aborted the transaction, `"program"` or `"coordinator"`
# - `bookmark`: the offset that the program committed next

# %% answer="71.1"
answer_1 = {"gone": ..., "request": ..., "error": ..., "ended_by": ..., "bookmark": ...}
### BEGIN SOLUTION
answer_1 = {"gone": "4 5", "request": "EndTxn", "error": "INVALID_PRODUCER_EPOCH",
            "ended_by": "coordinator", "bookmark": 6}
### END SOLUTION

# %% check="71.1"
lab.check("71.1", answer_1)

# %% [markdown]
# ## 71.2 The repair (4 points)
#
# Change `found` so that each order has exactly one invoice, to a `read_committed` reader. A longer
# time-out makes this incident rarer, and repairs nothing. The check stops the program in a transaction,
# has it fenced at a commit, and kills it after two others. The grader does so at other places.

# %% answer="71.2"
### BEGIN SOLUTION
def repaired(run):
    producer = billing(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        try:
            producer.begin_transaction()
            for message in batch:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
            offsets = [TopicPartition(run.topic, 0, batch[-1].offset() + 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()
        except KafkaException:
            producer = billing(run)
            consumer.seek(TopicPartition(run.topic, 0, batch[0].offset()))
### END SOLUTION

# %% check="71.2"
lab.check("71.2", repaired)

# %% [markdown]
# ## What this does not cover
#
# An error that only asks for an abort needs no new producer: lab 04 tells them apart. librdkafka speaks
# the first version of the transaction protocol. A client that speaks the second (KIP-890) has a new epoch
# after each transaction.

# %%
lab.score()

# %%
lab.close()

# %% part="checks"
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


def killed(*orders):
    """The process is killed when a commit about an order has been answered; so is the next one."""
    faults = tuple(crash_client("after_commit", value=order) for order in orders)
    return Trial(name="killed", faults=faults, **BILLED)


def elsewhere(place):
    """The three at places drawn from the nonce: in the first half of the orders and the second."""
    one, other = place.sample((place.randint(1, 2), place.randint(3, 4)), 2)
    return fenced(one), stopped(2 * other), killed(place.choice("02"), place.choice("46"))


def told(evidence):
    """The answers that fenced a producer, oldest first."""
    return [row for row in answers(evidence) if row.error in FENCED]


def cause(evidence):
    """What became of whose transaction, from the wire and the log."""
    first = told(evidence)[0]
    ends = [row.detail["committed"] for row in evidence.requests("EndTxn")]
    later = [row for row in evidence.requests("OffsetCommit") if row.at_ns > first.at_ns]
    return {
        "gone": " ".join(unbilled(evidence)),
        "request": first.api,
        "error": first.error,
        "ended_by": "program" if "False" in ends else "coordinator",
        "bookmark": later[0].offset,
    }


def goes_on(evidence):
    """Did a transaction begin after the program had been fenced?"""
    begun = [row.at_ns for row in evidence.requests("AddPartitionsToTxn")]
    return not told(evidence) or max(begun) > told(evidence)[0].at_ns


EXERCISES = {
    "71.1": Exercise(
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(replace(stopped(6), workload=found),),
        rules=(answer_equals(cause),),
        mistakes={
            "the program aborted": Mistake(
                is_made=lambda answer, _: answer["ended_by"] == "program",
                likely="the program never asked for an abort.",
                look="Look at what each EndTxn asks for: incident.transactions() has it.",
            ),
            "all that followed": Mistake(
                is_made=lambda answer, _: len(answer["gone"].split()) > 2,
                likely="what came later has its invoices, from another producer.",
                look='Look at incident.in_and_out("invoices").',
            ),
            "in the log": Mistake(
                is_made=lambda answer, _: answer["gone"] == "",
                likely="a record in the log is no invoice yet: its transaction was aborted.",
                look="Look at which rows of the log are visible.",
            ),
            "the client's word": Mistake(
                is_made=lambda answer, _: answer["error"] == "_FENCED",
                likely="that is what the client made of it; the wire has the broker's word.",
                look="Look at the answer in the timeline.",
            ),
            "another request": Mistake(
                is_made=lambda answer, seen: answer["request"] != told(seen)[0].api,
                likely="the answer to that request did not say that the producer is fenced.",
                look="Look at each answer with an error, and at what the program does after it.",
            ),
            "another bookmark": Mistake(
                is_made=lambda answer, seen: answer["bookmark"] != cause(seen)["bookmark"],
                likely="the program did not know that its batch was gone.",
                look="Look at the first OffsetCommit after the error.",
            ),
        },
        blank="Fill in all five; the three pictures have them.",
    ),
    "71.2": Exercise(
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=(fenced(2), stopped(4), killed("2", "4")),
        unseen=drawn(elsewhere),
        rules=(nothing_else_is_stored, each_has_one("invoice", invoices)),
        mistakes={
            "nothing is billed": Mistake(
                is_made=lambda _, seen: not seen.stored,
                likely="the orders were there to be read, and there is no invoice.",
                look="Look at what the loop does with each batch.",
            ),
            "no transaction": Mistake(
                is_made=lambda _, seen: not seen.requests("EndTxn"),
                likely="without a transaction, an invoice counts before its bookmark does.",
                look="Look at what a process finds that is killed between the two.",
            ),
            "gave up": Mistake(
                is_made=lambda _, seen: bool(unbilled(seen)) and not goes_on(seen),
                likely="after the error, no further transaction was begun.",
                look="Look at who takes part in the timeline after the error.",
            ),
            "a longer time-out": Mistake(
                is_made=lambda _, seen: seen.trial.name == "stopped" and not told(seen),
                likely="this time nobody was fenced; the next time somebody is.",
                look="Look at the trial whose commit was refused at once.",
            ),
            "the bookmark went on": Mistake(
                is_made=lambda _, seen: bool(unbilled(seen)) and bool(seen.requests("OffsetCommit")),
                likely="a bookmark was committed past a batch whose transaction was not.",
                look="Look at the OffsetCommit after the failed EndTxn.",
            ),
            "not rewound": Mistake(
                is_made=lambda _, seen: bool(unbilled(seen)),
                likely="the transaction took its bookmark back, and the consumer went on.",
                look="Look at where the consumer stands after the error.",
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
    right = {"gone": "4 5", "request": "EndTxn", "error": "INVALID_PRODUCER_EPOCH",
             "ended_by": "coordinator", "bookmark": 6}
    return f"answer_1 = {right | other!r}"

NEW = "            producer = billing(run)\n"
SEEK = "            consumer.seek(TopicPartition(run.topic, 0, batch[0].offset()))\n"
SEND = "            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())\n"
COMMIT = "            producer.commit_transaction()\n"
FIRST = "            consumer.commit(offsets=offsets, asynchronous=False)\n"
BOOKMARK = "consumer.commit(asynchronous=False)\n"
EXCEPT = "        except KafkaException:\n"
LONGER = """
def billing(run):
    producer = run.producer({"transactional.id": f"{run.topic}-billing", "transaction.timeout.ms": 60000})
    producer.init_transactions()
    return producer
"""
PLAIN = """
def repaired(run):
    producer = run.producer({"acks": "all", "enable.idempotence": True})
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        consumer.commit(asynchronous=False)
"""
AGAIN = """
def repaired(run):
    producer = billing(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        while True:
            try:
                producer.begin_transaction()
                for message in batch:
                    producer.produce(run.topics["invoices"], message.value(), partition=0)
                producer.flush()
                offsets = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
                producer.commit_transaction()
                break
            except KafkaException:
                producer = billing(run)
"""
NEW_CONSUMER = changed((SEEK, "            consumer.close()\n            return repaired(run)\n"))
LOOP = "    for batch in run.batches(consumer, size=2):\n"
JUNK = "        for _ in range(3 * (batch[0].offset() == 0)):\n            consumer.commit(offsets=[TopicPartition(run.topic, 0, 0)], asynchronous=False)\n"
WRONG = (
    ("71.1", "the program aborted", answer(ended_by="program")),
    ("71.1", "all that followed", answer(gone="4 5 6 7")),
    ("71.1", "in the log", answer(gone="")),
    ("71.1", "the client's word", answer(error="_FENCED")),
    ("71.1", "another request", answer(request="Produce")),
    # goes back to the batch, and leaps to the end
    ("71.1", "another bookmark", answer(bookmark=4)),
    ("71.1", "another bookmark", answer(bookmark=8)),
    # as it is found
    ("71.2", "the bookmark went on", "repaired = found"),
    # commits the bookmark first
    ("71.2", "the bookmark went on", changed((SEND, FIRST))),
    ("71.2", "a longer time-out", LONGER + changed((SEEK, ""))),
    ("71.2", "a longer time-out", LONGER + changed((SEND, ""), (SEEK, 12 * " " + BOOKMARK), (COMMIT, COMMIT + 12 * " " + BOOKMARK))),
    ("71.2", "not rewound", changed((SEEK, ""))),
    # goes back to the last order of the batch
    ("71.2", "not rewound", changed(("batch[0].offset()", "batch[-1].offset()"))),
    ("71.2", "gave up", changed((NEW, ""), (SEEK, "            return\n"))),
    # keeps the fenced producer, for which nothing can be begun
    ("71.2", "gave up", changed((NEW, ""), (SEEK, "            continue\n"))),
    ("71.2", "two commits", changed((SEND, ""), (COMMIT, COMMIT + 12 * " " + BOOKMARK))),
    # with commits of no order before the first
    ("71.2", "two commits", changed((SEND, ""), (COMMIT, COMMIT + 12 * " " + BOOKMARK), (LOOP, LOOP + JUNK))),
    # in the last two batches alone
    ("71.2", "two commits", changed((SEND, "            if batch[0].offset() < 4:\n    " + SEND), (COMMIT, COMMIT + "            if batch[0].offset() >= 4:\n" + 16 * " " + BOOKMARK))),
    # the bookmark of a batch is in the next transaction
    ("71.2", "one short", changed(("batch[-1].offset() + 1", "batch[0].offset()"))),
    ("71.2", "one short", changed(("batch[-1].offset() + 1", "batch[-1].offset()"))),
    ("71.2", "no transaction", PLAIN),
    ("71.2", "nothing is billed", changed(('producer.produce(run.topics["invoices"], message.value(), partition=0)', "pass"))),
)
# The batch is repeated in place; everything is begun anew, consumer and all.
RIGHT = {
    ("71.2", "right, too: the batch is repeated in place"): AGAIN,
    ("71.2", "right, too: everything is begun anew"): NEW_CONSUMER,
}
