# %% [markdown]
# # All or nothing: who decides?
#
# An order and its invoice belong together: both or neither. A program writes them to two topics. It
# may fail in between, or another program may take its place. Who decides?
#
# 60 minutes · one broker · 25 points · builds on lab 03
#
# ## Try it first
#
# Each choice makes a real run on the broker. The arrow keys step through it. After which choices can
# a reader get order 1 without order 2, although both are in one transaction?

# %%
from confluent_kafka import KafkaException
from lab_utils import Lab, refuse
lab = Lab("04")

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - A **transaction** is what a producer writes between *begin* and *commit* or *abort*. It needs a
#   `transactional.id`, the name of its program.
# - A **marker** is a record that the broker writes at the end of a transaction: COMMIT or ABORT.
# - The **last stable offset** (LSO) is the offset of the first record of a partition's oldest open
#   transaction. If none is open, it is the high watermark (lab 02), here the end of the partition.
# - The **isolation level** belongs to the reader. With `read_uncommitted` it gets every record. With
#   `read_committed` it gets, below the last stable offset, what is committed and what was never in a
#   transaction.
# - The **coordinator** is the broker that keeps the diary of a `transactional.id`: a log of the states
#   of its transactions. With the request **EndTxn** a client asks it to commit or to abort.
#
# ## Commit, abort, commit
#
# Each order goes to three partitions, in a transaction of its own. The second transaction is aborted.
# What will each partition hold, and what will a `read_committed` reader get? Write the values
# partition by partition, the invoices last.

# %%
def commit_abort_commit(run):
    producer = run.producer({"transactional.id": run.topic})  # a name that no other run has
    producer.init_transactions()
    for order in run.orders:
        producer.begin_transaction()
        for topic, partition in (run.topic, 0), (run.topic, 1), (run.topics["invoices"], 0):
            producer.produce(topic, order, partition=partition)
        producer.flush()  # an abort drops unsent records
        if order == "1":
            producer.abort_transaction()
        else:
            producer.commit_transaction()

guess = lab.predict(log="0 ... 0 ... 0 ...", visible="0 ... 0 ... 0 ...", because="...")

# %%
three = lab.run(commit_abort_commit, orders=3, partitions=2, topics=["invoices"])
guess.compare(three)

# %%
three.transactions()

# %% [markdown]
# An abort removes nothing: order 1 is in all three partitions, with an ABORT marker after it. A marker
# has an offset of its own.
#
# ## 04.1 Who is given what? (4 points)
#
# This program also writes plain orders, and does not end its last transaction. Which orders does each
# isolation level get, by offset? Answer with two texts like `"0 1"`.

# %%
def mixed(run):
    producer, plain = run.producer({"transactional.id": run.topic}), run.producer()
    producer.init_transactions()
    def write(client, order):
        client.produce(run.topic, order, partition=0)
        client.flush()  # so offsets follow this sequence
    write(plain, run.orders[0])
    producer.begin_transaction()
    write(producer, run.orders[1])
    write(plain, run.orders[2])
    producer.abort_transaction()
    producer.begin_transaction()
    write(producer, run.orders[3])
    producer.commit_transaction()
    producer.begin_transaction()
    write(producer, run.orders[4])
    write(plain, run.orders[5])  # and the program is over

# %% answer="04.1"
answer_1 = {"read_uncommitted": ..., "read_committed": ...}
### BEGIN SOLUTION
answer_1 = {"read_uncommitted": "0 1 2 3 4 5", "read_committed": "0 2 3"}
### END SOLUTION

# %% check="04.1"
lab.check("04.1", answer_1)

# %%
hidden = lab.run(mixed, orders=6)
hidden.transactions()

# %% [markdown]
# Order 5 was never in a transaction, and still no `read_committed` reader gets it. Every record at or
# after the last stable offset waits until the coordinator ends the open transaction
# (`transaction.timeout.ms`). The default level is `read_committed` in librdkafka, and
# `read_uncommitted` in the Java consumer.¹
#
# ## 04.2 Commit, abort or stop (6 points)
#
# Some errors reach the program, as a `KafkaException`. Its `args[0]` says what to do:
#
# - `.txn_requires_abort()`: abort the transaction, then repeat all of it. Do so each time.
# - `.fatal()`: stop. This producer can never write again, and a new one would take the name from its
#   present owner.
# - `.retriable()`: call the same method again. No such error comes in this check.
# - If none of them returns true, stop, too.
#
# Write each order and its invoice, both or neither. If you must stop, return.

# %%
def send_both(run, producer, order):
    producer.begin_transaction()
    producer.produce(run.topic, order, partition=0)
    producer.produce(run.topics["invoices"], order, partition=0)
    producer.commit_transaction()

# %% answer="04.2"
def send_each(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    for order in run.orders:
        ### BEGIN SOLUTION
        done = False
        while not done:
            try:
                send_both(run, producer, order)
                done = True
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    return
                producer.abort_transaction()
        ### END SOLUTION

# %%
refused = refuse("Produce", nth=2, topic="invoices", error="INVALID_RECORD")
lab.run(send_each, orders=4, topics=["invoices"], faults=[refused]).visible

# %% check="04.2"
lab.check("04.2", send_each)

# %% [markdown]
# ## The diary
#
# Who decides? The coordinator first writes each step into the topic `__transaction_state`, then takes
# it. Kafka's own tool reads that topic.

# %%
three.diary()

# %% [markdown]
# *Ongoing* names the partitions. When the client asks for the end, the coordinator writes
# *PrepareCommit* or *PrepareAbort*: now the end is decided. Then it writes the markers, and last
# *CompleteCommit* or *CompleteAbort*.
#
# ## 04.3 Read like read_committed (5 points)
#
# Write a query over the log that returns the records that a `read_committed` reader may get: columns
# `topic`, `partition`, `offset`, `value`. Decide as the broker does; the check leaves out the
# `visible` events. A transactional record is decided by the **next marker of its producer id** in its
# partition. In each partition, stop before the first record of an open transaction. `log_of` returns
# each record with its next marker.

# %%
from pyspark.sql import Window, functions as F

def log_of(events):
    place = ["topic", "partition"]
    log = events.where("source = 'log' AND kind IN ('batch', 'record', 'marker')").selectExpr(
        *place, "offset", "kind", "value", "producer_id", "detail['type'] AS marker",
        "detail['transactional'] IS NOT NULL AS transactional")
    so_far = Window.partitionBy(*place).orderBy("offset", "kind")  # a batch, then its records
    batch = F.expr("IF(kind = 'record', NULL, struct(producer_id, transactional))")
    log = log.withColumn("batch", F.last(batch, ignorenulls=True).over(so_far))
    ahead = Window.partitionBy(*place, "batch.producer_id").orderBy(F.desc("offset"))
    next_marker = F.last("marker", ignorenulls=True).over(ahead).alias("next_marker")
    columns = [*place, "offset", "value", "batch.transactional", next_marker]
    return log.select("kind", *columns).where("kind = 'record'").drop("kind")

log_of(hidden.events()).orderBy("offset")

# %% answer="04.3"
def visible_records(events):
    ### BEGIN SOLUTION
    log = log_of(events)
    open_ones = log.where("transactional AND next_marker IS NULL")
    stable = open_ones.groupBy("topic", "partition").agg(F.min("offset").alias("stop"))
    decided = log.where("NOT transactional OR next_marker = 'COMMIT'")
    given = decided.join(stable, ["topic", "partition"], "left")
    return given.where("stop IS NULL OR offset < stop").select(
        "topic", "partition", "offset", "value")
    ### END SOLUTION

# %%
visible_records(hidden.events())

# %% check="04.3"
lab.check("04.3", visible_records)

# %% [markdown]
# ## Two programs, one name
#
# Program A has an open transaction and is slow. Someone thinks that A is dead, and starts B with the
# same `transactional.id`. Then A goes on. Order 0 is A's, order 1 is B's. Predict what is visible.

# %%
def two_of_a_name(run):
    a, b = (run.producer({"transactional.id": run.topic}) for _ in range(2))
    for producer, order in zip((a, b), run.orders):
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # so A's order is stored
    b.commit_transaction()
    a.commit_transaction()

guess = lab.predict(visible="...", because="...")

# %%
zombie = lab.run(two_of_a_name, orders=2)
guess.compare(zombie)

# %%
zombie.diary()

# %% [markdown]
# The coordinator aborted A's transaction. B has the same producer id, and its **epoch** is higher by
# two: one step ended A's transaction, one is B's. Each request of A now carries an old epoch: A is
# *fenced*, which is fatal. A learns it from the answer to a request; `begin_transaction()` sends none.
#
# ## 04.4 Who was fenced? (5 points)
#
# From the wire events, return a row for each fenced client: `fenced` is the client (the ledger's
# column `actor`), `api` its *first* refused request, and `by` the client that was the last to take
# the name before that refusal. `lab.ledger_card()` explains the columns. A broker
# refuses an old epoch with the error `INVALID_PRODUCER_EPOCH` or `PRODUCER_FENCED`. A client that
# takes a name gets the `producer_id` of that name in the answer to its `InitProducerId`. A run may
# have several names.

# %% answer="04.4"
def fenced_clients(events):
    ### BEGIN SOLUTION
    answers = events.where("source = 'wire' AND kind = 'response'")
    refused = answers.where("error IN ('INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED')")
    first = refused.groupBy("actor").agg(F.min(F.struct("at_ns", "api")).alias("first"))
    taken = answers.where("api = 'InitProducerId' AND error IS NULL")
    takers = taken.selectExpr("producer_id", "actor AS taker", "at_ns AS taken_ns")
    pairs = first.join(taken.select("actor", "producer_id"), "actor").join(takers, "producer_id")
    before = pairs.where("taken_ns < first.at_ns AND taker <> actor")
    last = before.groupBy("actor", "first").agg(F.max_by("taker", "taken_ns").alias("by"))
    return last.selectExpr("actor AS fenced", "first.api AS api", "by")
    ### END SOLUTION

# %%
fenced_clients(zombie.events())

# %% check="04.4"
lab.check("04.4", fenced_clients)

# %% [markdown]
# ## 04.5 Are they one thing? (5 points)
#
# *Idempotence and transactions are the same.* Are they? Three programs run, first with an idempotent
# producer, then with a transactional one, which commits its one transaction when the program
# finishes.
#
# - The first sends 0 1 2 and finishes. The answer to order 1 is lost.
# - The second sends 0 1, and then nothing more.
# - The third does the same as the second; then its successor sends 0 1 2 and finishes.
#
# What does a `read_committed` reader get, by offset? Answer with a list of three texts for each kind,
# one for each program: `"0 1 2"`, or `""` for nothing.

# %% answer="04.5"
answer_5 = {"idempotent": ..., "transactional": ...}
### BEGIN SOLUTION
answer_5 = {
    "idempotent": ["0 1 2", "0 1", "0 1 0 1 2"],
    "transactional": ["0 1 2", "", "0 1 2"],
}
### END SOLUTION

# %% check="04.5"
lab.check("04.5", answer_5)

# %% [markdown]
# Idempotence covers the batches of one producer session. A transaction has a *name*, which outlives
# the process. Each transactional producer is also idempotent.
#
# ## What this does not cover
#
# `further/04_between_decision_and_marker.ipynb` has a late `EndTxn`, a crash after the decision, and
# a marker that never comes. `further/04_readers_networks_and_cost.ipynb` has lost answers and the
# programs of 04.5; `further/04_acid_letter_by_letter.ipynb` has ACID.
#
# ## Questions
#
# - Who may read a plain record after an open transaction, and when?
# - Which entry of the diary decides a transaction?
#
# ## Source
#
# ¹ `isolation.level` in librdkafka 2.16 and Kafka 4.3; `further/04_readers_networks_and_cost.ipynb` runs both.

# %%
lab.score()

# %%
lab.close()
