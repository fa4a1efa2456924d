# %% [markdown]
# # All or nothing: who decides?
#
# An order and its invoice belong together: both or neither. One program writes them, to two
# topics. It may fail in between, and its network may lie. This lab finds out who decides then.
#
# 60 minutes · one broker, and once three · 25 points · builds on lab 03

# %%
from confluent_kafka import KafkaException, TopicPartition
from lab_utils import Lab, drop_response, hold_link, late_request, refuse, source, stop_broker
lab = Lab("04")

# %% [markdown]
# ## Try it first
#
# Each choice makes a real run on the broker. The arrow keys step through it. After which choices can
# readers have order 1 and not order 2, although both belong to one transaction?

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - A **transaction** is what a producer writes between *begin* and *commit* or *abort*, to any
#   number of topics and partitions. It needs a `transactional.id`, the name of the program.
# - A **marker** is a record that the broker writes at the end of a transaction: COMMIT or ABORT.
# - The **isolation level** belongs to the reader. `read_uncommitted` is given everything,
#   `read_committed` what has been committed.
# - The **last stable offset** (LSO) is how far a `read_committed` reader is let into a partition.
# - The **coordinator** is the broker that keeps the diary of a `transactional.id`.

# %% [markdown]
# ## Commit, abort, commit
#
# Three orders, each written to three partitions of two topics in a transaction of its own. The
# second transaction is aborted. The `flush()` matters: without it an abort throws away what has
# not been sent yet, and there is nothing to see.

# %%
def commit_abort_commit(run):
    producer = run.producer({"transactional.id": run.topic})  # a name that no other run has
    producer.init_transactions()
    for order, end in zip(run.orders, ("commit", "abort", "commit")):
        producer.begin_transaction()
        producer.produce(run.topic, order, partition=0)
        producer.produce(run.topic, order, partition=1)
        producer.produce(run.topics["invoices"], order, partition=0)
        producer.flush()
        producer.commit_transaction() if end == "commit" else producer.abort_transaction()

# %% [markdown]
# What will each partition hold, and what will a `read_committed` reader be given? Write the
# values one after the other: orders 0, orders 1, invoices 0.

# %%
guess = lab.predict(log="0 ... 0 ... 0 ...", visible="0 ... 0 ... 0 ...", because="...")

# %%
three = lab.run(commit_abort_commit, orders=3, partitions=2, topics=["invoices"])
guess.compare(three)

# %%
three.transactions()

# %% [markdown]
# The log is append-only: an abort takes nothing back. Order 1 is in all three partitions, and so
# is a marker behind it. A marker has an offset of its own.

# %%
log = three.events().where("source = 'log' AND partition = 0 AND topic LIKE '%orders'")
log.where("kind IN ('record', 'marker')").orderBy("offset").select("offset", "value", "detail.type")

# %% [markdown]
# ## 04.1 Who is given what? (4 points)
#
# Before you run anything: this program writes plain orders too, and it ends without ending its
# last transaction. Which orders is each isolation level given, in the order of the log? Answer
# with two texts like `"0 1"`.

# %%
def mixed(run):
    producer = run.producer({"transactional.id": run.topic})
    plain = run.producer()
    producer.init_transactions()

    def write(client, order):
        client.produce(run.topic, order, partition=0)
        client.flush()

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

# %% [markdown]
# ## One open transaction
#
# Order 5 was never part of a transaction, and still no `read_committed` reader is given it. Such a
# reader goes as far as the last stable offset, which is now the first record of the oldest open
# transaction of that partition. Everything behind it waits, whoever wrote it.

# %%
hidden = lab.run(mixed, orders=6)
hidden.transactions()

# %%
hidden.findings()

# %% [markdown]
# For how long? Until the coordinator loses its patience: `transaction.timeout.ms`, 60 s by
# default, 10 s in this lab, here 3 s. Predict what is visible once that time is over.

# %%
def walk_away(run):
    producer = run.producer({"transactional.id": run.topic, "transaction.timeout.ms": 3000})
    plain = run.producer()
    producer.init_transactions()
    producer.begin_transaction()
    for client, order in zip((producer, plain), run.orders):
        client.produce(run.topic, order, partition=0)
        client.flush()

# %%
guess = lab.predict(visible="...", because="...")

# %%
freed = lab.run(walk_away, orders=2, until_stable=True)
guess.compare(freed)

# %% [markdown]
# ## What a reader asks for
#
# Two consumers read the same log. One says nothing about its isolation level.

# %%
def two_readers(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[0], partition=0)
    producer.flush()
    producer.abort_transaction()
    for settings in ({}, {"isolation.level": "read_uncommitted"}):
        consumer = run.consumer(settings | {"enable.partition.eof": True})
        consumer.assign([TopicPartition(run.topic, 0, 0)])
        while not (message := consumer.poll(5)).error():
            run.processed(message)

# %%
readers = lab.run(two_readers, orders=1)
readers.events().where("kind = 'delivered'").select("actor", "offset", "value")

# %%
readers.findings()

# %% [markdown]
# librdkafka, and so the Python client, reads `read_committed` unless told otherwise. The Java
# consumer's default is `read_uncommitted`. Spark reads a topic with a Java consumer, and here it
# was told nothing:

# %%
readers.topic_log()

# %% [markdown]
# The guarantee ends where a reader does not ask for it.
#
# ## The network lies again
#
# Lose an answer inside a transaction: that of a `Produce`, then that of the commit itself
# (`EndTxn`). Predict what the log holds, and what is visible.

# %%
def one_by_one(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    for order in run.orders:
        producer.begin_transaction()
        producer.produce(run.topic, order, partition=0)
        producer.commit_transaction()

guess = lab.predict(log="...", visible="...", because="...")

# %%
lost = [drop_response("Produce", nth=2), drop_response("EndTxn", nth=3)]
unnoticed = lab.run(one_by_one, orders=4, faults=lost)
guess.compare(unnoticed)

# %%
unnoticed.timeline(apis=("Produce", "EndTxn"))

# %% [markdown]
# A transactional producer is idempotent, so the broker recognised the second `Produce` (↻ marks a
# request whose records came before). The coordinator recognised the `EndTxn` that followed the lost
# answer. The program noticed nothing. It may not even turn retries off:

# %%
def without_retries(run):
    run.producer({"transactional.id": run.topic, "retries": 0})

# %%
[row.detail["message"] for row in lab.run(without_retries).rows if row.kind == "raised"]

# %% [markdown]
# ## 04.2 Commit, abort or stop (6 points)
#
# Some errors do reach the program. Each is a `KafkaException`; its `args[0]` says what to do:
#
# - `.txn_requires_abort()`: abort this transaction, then do all of it again, whenever it asks;
# - `.fatal()`: stop. This producer will never write again, and a new one would take the name away
#   from whoever has it now. The same goes for an error that says neither;
# - `.retriable()`: call the same method again (with a time limit of your own; there is none here).
#
# Write each order and its invoice, both or neither, in the face of errors. When it is over, return.

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
tried = lab.run(send_each, orders=4, topics=["invoices"], faults=[refused])
tried, tried.visible

# %% check="04.2"
lab.check("04.2", send_each)

# %% [markdown]
# ## The diary
#
# Who decided? The coordinator writes down each step before it takes it, in a topic of its own,
# `__transaction_state`. It has 50 partitions, and the broker that leads the right one is the
# coordinator. Which one is right for this name? Work it out with Kafka's rule, then look.

# %%
from lab_utils.codec.transaction_log import partition_of

source(partition_of)

# %%
partition_of(three.topic)

# %%
three.diary()

# %%
three.timeline(apis=("AddPartitionsToTxn", "EndTxn"))

# %% [markdown]
# `AddPartitionsToTxn` and the diary says *Ongoing*. `EndTxn` and it says *PrepareCommit*: from
# here on the commit is decided, and the client is told so. Then the coordinator writes the markers,
# and only then *CompleteCommit*. A commit may be answered before its markers are in the log. A
# client that begins again too early is told `CONCURRENT_TRANSACTIONS`, and asks again.
#
# ## Between the decision and the markers
#
# The coordinator sends the markers over the network, even to its own broker: `hold_link(1, 1)`
# keeps them back. The commit of order 0 is answered, and then the broker goes down and comes up
# again. Order 1 was written behind it, in no transaction. Predict what is visible in the end.

# %%
def commit_one(run, before_the_commit=lambda: None):
    producer, plain = run.producer({"transactional.id": run.topic}), run.producer()
    producer.init_transactions()
    producer.begin_transaction()
    for client, order in zip((producer, plain), run.orders):
        client.produce(run.topic, order, partition=0)
        client.flush()
    before_the_commit()
    producer.commit_transaction()

# %%
guess = lab.predict(visible="...", because="...")

# %%
down = [hold_link(1, 1, api="Produce", nth=2), stop_broker(1, api="EndTxn")]
resumed = lab.run(commit_one, orders=2, faults=down)
guess.compare(resumed)

# %%
resumed.transactions()

# %% [markdown]
# For seconds the program had been told *committed*, and no `read_committed` reader could see it.
# The diary survived the restart: the new coordinator found *PrepareCommit* there, and finished what
# had been decided.
#
# ## 04.3 Read like read_committed (5 points)
#
# Write a query over the log that returns the records a `read_committed` reader may be given:
# columns `topic`, `partition`, `offset`, `value`. Use what the broker uses: a transactional record
# is decided by the **next marker of its producer id** in its partition. Nothing from the first
# open transaction on may be given. `log_of` puts records and markers together for you.

# %%
from pyspark.sql import functions as F

def log_of(events):
    """One row a record: is it transactional, and the type of the next marker of its producer."""
    place = ["topic", "partition"]
    batches = events.where("source = 'log' AND kind = 'batch'").selectExpr(
        *place, "offset AS base", "offset + records AS end", "producer_id",
        "detail['transactional'] IS NOT NULL AS transactional")
    markers = events.where("source = 'log' AND kind = 'marker'").selectExpr(
        *place, "producer_id", "struct(offset, detail['type'] AS type) AS marker")
    records = events.where("source = 'log' AND kind = 'record'").select(*place, "offset", "value")
    found = records.join(batches, place).where("offset >= base AND offset < end")
    ended = found.join(markers, [*place, "producer_id"]).where("marker.offset > offset")
    next_marker = ended.groupBy(*place, "offset").agg(F.min("marker").alias("marker"))
    columns = [*place, "offset", "value", "transactional", "marker.type AS next_marker"]
    return found.join(next_marker, [*place, "offset"], "left").selectExpr(*columns)

# %%
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
# Program A has an open transaction and is slow. Somebody thinks it dead and starts B with the same
# `transactional.id`. Then A goes on. Predict what is visible: order 0 is A's, order 1 is B's.

# %%
def two_of_a_name(run):
    a, b = (run.producer({"transactional.id": run.topic}) for _ in range(2))
    a.init_transactions()
    a.begin_transaction()
    a.produce(run.topic, run.orders[0], partition=0)
    a.flush()
    b.init_transactions()
    b.begin_transaction()
    b.produce(run.topic, run.orders[1], partition=0)
    b.commit_transaction()
    a.commit_transaction()

# %%
guess = lab.predict(visible="...", because="...")

# %%
zombie = lab.run(two_of_a_name, orders=2)
guess.compare(zombie)

# %%
zombie.transactions()

# %%
zombie.diary()

# %% [markdown]
# B was given the same producer id and an epoch that is two higher: one to end A's transaction, one
# for B. Had A been idle it would be one. Whatever A sends now carries an old **epoch**: it has been
# *fenced*. For A that is fatal.
#
# Beware of two traps. Until A has been told, its next `begin_transaction()` still succeeds, for it
# is a local step. And A is told *fenced by a newer instance* also when its time was up and there is
# no other instance.

# %% [markdown]
# ## 04.4 Who was fenced? (5 points)
#
# From the wire events alone: which clients were fenced, by which request did they learn it, and
# who had their name by then? Return the columns `fenced`, `api` and `by`: one row for each fenced
# client, for its *first* refused request. A broker refuses an old epoch with the error
# `INVALID_PRODUCER_EPOCH` or `PRODUCER_FENCED`. Who takes a name over is given the same
# `producer_id` in the answer to its `InitProducerId`. There may be several names in a run.

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
# ## A packet that is late
#
# So far everything was atomic. Now the network keeps one `EndTxn`. Its connection breaks, the
# client connects again, asks again and is told: committed. Later, in the middle of the *next*
# transaction, the old packet arrives. Order 0 is committed; 1 and 2 are one transaction, which is
# aborted. Predict what is visible.

# %%
def commit_then_abort(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[0], partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[1], partition=0)
    producer.flush()
    producer.produce(run.topic, run.orders[2], partition=1)
    producer.flush()
    producer.abort_transaction()

# %%
guess = lab.predict(visible="...", because="...")

# %%
late = [late_request("EndTxn", nth=1, after="Produce")]
torn = lab.run(commit_then_abort, orders=3, partitions=2, faults=late)
guess.compare(torn)

# %%
torn.transactions()

# %%
torn.findings()

# %% [markdown]
# The program was told that its abort succeeded, and one of the two orders is there for everybody.
# The other way round a committed order is lost: begin with an abort, and end with a commit.
#
# An `EndTxn` names the producer id and the epoch, and not the transaction. Kafka 4 has fixed this
# (KIP-890): its newer transaction protocol raises the epoch with every transaction. But a client
# must speak it, too. The Java client does since 4.0; librdkafka 2.16 does not (librdkafka issue
# 5423, open).

# %%
[row.detail["version"] for row in torn.requests("EndTxn") if row.kind == "request"]

# %% [markdown]
# ## A marker that never comes
#
# A second stage, with three brokers. The topic has a single replica, on broker 1. That broker dies
# before the commit, and comes back after it. Predict what is visible then.

# %%
three_brokers = Lab("04_three", brokers=3)

# %%
def commit_meanwhile(run):
    def broker_1_dies():
        three_brokers.brokers.kill(1)
        three_brokers.brokers.wait_for_leader(run.topic, other_than=1)

    commit_one(run, before_the_commit=broker_1_dies)

# %%
guess = three_brokers.predict(visible="...", because="...")

# %%
unmarked = three_brokers.run(commit_meanwhile, orders=2, replicas=1)
guess.compare(unmarked)

# %%
unmarked.transactions()

# %%
unmarked.findings()

# %% [markdown]
# The commit was answered at once, and the diary says *CompleteCommit*. There is no marker, and none
# will come. The coordinator asked who leads the partition. Nobody did, so it took the partition for
# deleted and left it out (Kafka 4.3.1). Now `read_committed` readers stand before order 0 for ever,
# and no time-out ends it: for the coordinator this transaction is over. Order 1 is hidden with it.
#
# Kafka calls it a **hanging transaction**, and has a tool for it (KIP-664): `kafka-transactions.sh
# find-hanging` finds this one, and `abort` ends it. Then readers go on, and order 0 is gone, of which
# its program was told that it is committed. A broker alone can come to it, too, when it is killed in
# the gap and restarted at once: in 2 of our 10 tries. Replicas help: with three of them another
# broker leads, and takes the marker.

# %%
three_brokers.close()

# %% [markdown]
# ## 04.5 Are they one thing? (5 points)
#
# *Idempotence and transactions are the same.* Three programs tell them apart. Each can run with an
# idempotent producer or with a transactional one.

# %%
def opened(run, kind):
    """A producer of this kind; a transactional one has begun a transaction."""
    if kind == "idempotent":
        return run.producer({"enable.idempotence": True})
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    return producer

def send(run, producer, *orders):
    for order in orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()

def finishes(run, kind):
    """It sends 0 1 2 and finishes; one answer is lost on the way."""
    producer = opened(run, kind)
    send(run, producer, "0", "1", "2")
    if kind == "transactional":
        producer.commit_transaction()

def gives_up(run, kind):
    """It sends 0 1 and is never heard of again."""
    send(run, opened(run, kind), "0", "1")

def begins_anew(run, kind):
    """It sends 0 1 and is never heard of again; its successor sends 0 1 2 and finishes."""
    gives_up(run, kind)
    finishes(run, kind)

# %% [markdown]
# What is a `read_committed` reader given, in the order of the log? Three texts for each kind, in
# the order of the programs: `"0 1 2"`, or `""` for nothing. You may run them:

# %%
lost = [drop_response("Produce", nth=2)]
lab.run(lambda run: finishes(run, "idempotent"), faults=lost).visible

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
# Idempotence knows one producer session and one partition, and it guards each batch. A transaction
# knows a *name*, which outlives the process, and any number of partitions. It stands on
# idempotence: each transactional producer is idempotent.
#
# ## What does it cost?
#
# Each transaction costs about the same, whatever its size: a few requests to the coordinator, and
# the markers. So the price of a record is a question of how many share a transaction. Five
# measurements each, on this machine, now.

# %%
lab.cost_of_transactions()

# %% [markdown]
# ## By hand
#
# Two producers with one `transactional.id`. Initialise A, begin, produce; look at what each
# isolation level is given. Then initialise B, and try to commit A. A click waits while a cell runs.

# %%
lab.transaction_panel()

# %% [markdown]
# ## What this does not cover
#
# A transaction is atomic for readers. Writers are not kept apart: here two write by turns, and both
# are committed. The audit calls it **G0**, as Jepsen does, and Kafka allows it.

# %%
def by_turns(run):
    a, b = (run.producer({"transactional.id": f"{run.topic}-{name}"}) for name in "ab")
    for producer in (a, b):
        producer.init_transactions()
        producer.begin_transaction()
    for producer, order in zip((a, b, a), run.orders):
        producer.produce(run.topic, order, partition=0)
        producer.flush()
    a.commit_transaction()
    b.commit_transaction()

# %%
lab.run(by_turns, orders=3).findings()

# %% [markdown]
# The offsets that a consumer has read can be part of a transaction, and an abort does not make the
# consumer go back: lab 06. What a program does outside Kafka, a database or a mail, is in no
# transaction of Kafka.
#
# ## Questions
#
# - What does an abort remove from the log?
# - Who may read a plain record behind an open transaction, and when?
# - Which entry of the diary decides a transaction?
# - Why does an epoch rise by two when a producer with an open transaction is replaced?
# - Why may `begin_transaction()` of a fenced producer succeed?
# - Further: what would `EndTxn` have to say so that a late one did no harm?
# - Further: why does idempotence not survive a restart, and a transactional.id does?

# %% [markdown]
# ## Under the hood
#
# You can skip this. The query that found the torn transaction:

# %%
from lab_utils.audit.findings.isolation import torn_transaction

source(torn_transaction)

# %%
lab.score()

# %%
lab.close()
