# %% [markdown]
# # Readers, networks and the price
#
# A further notebook to lab 04: more runs, no points. Here the readers differ, the network loses
# answers, and you measure what a transaction costs, and how long a reader waits for it.
#
# 20 minutes · one broker · builds on lab 04

# %%
from confluent_kafka import TopicPartition
from lab_utils import Lab, drop_response
lab = Lab("04_further")

# %% [markdown]
# ## What a reader asks for
#
# Two consumers read the same log. The first says nothing about its isolation level.

# %%
def two_readers(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[0], partition=0)
    producer.flush()  # an abort drops unsent records
    producer.abort_transaction()
    for settings in ({}, {"isolation.level": "read_uncommitted"}):
        consumer = run.consumer(settings | {"enable.partition.eof": True})
        consumer.assign([TopicPartition(run.topic, 0, 0)])
        while not (message := consumer.poll(5)).error():
            run.processed(message)
        consumer.close()

# %%
readers = lab.run(two_readers, orders=1)
readers.events().where("kind = 'delivered'").select("actor", "offset", "value")

# %%
readers.findings()

# %% [markdown]
# librdkafka, and so the Python client, reads `read_committed` unless you ask otherwise. The Java
# consumer's default is `read_uncommitted`. Spark reads a topic with a Java consumer, and here nothing
# was set:

# %%
readers.topic_log()

# %% [markdown]
# The guarantee ends where a reader does not ask for it.
#
# ## How long does a reader wait?
#
# This producer leaves its transaction open. The coordinator aborts it after
# `transaction.timeout.ms`: 60 s by default, 10 s in this lab, here 3 s. Order 1 was written after it,
# in no transaction. Predict what is visible once that time is over.

# %%
def walk_away(run):
    producer = run.producer({"transactional.id": run.topic, "transaction.timeout.ms": 3000})
    plain = run.producer()
    producer.init_transactions()
    producer.begin_transaction()
    for client, order in zip((producer, plain), run.orders):
        client.produce(run.topic, order, partition=0)
        client.flush()  # so offsets follow this sequence

guess = lab.predict(visible="...", because="...")

# %%
freed = lab.run(walk_away, orders=2, until_stable=True)
guess.compare(freed)

# %% [markdown]
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
answers = [drop_response("Produce", nth=2), drop_response("EndTxn", nth=3)]
unnoticed = lab.run(one_by_one, orders=4, faults=answers)
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

[row.detail["message"] for row in lab.run(without_retries).rows if row.kind == "raised"]

# %% [markdown]
# ## The programs of 04.5
#
# Each takes a run and a kind, `"idempotent"` or `"transactional"`.

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

# %%
lost = [drop_response("Produce", nth=2)]
kinds = ("idempotent", "transactional")
{kind: [lab.run(lambda run: finishes(run, kind), faults=lost).visible,
        lab.run(lambda run: gives_up(run, kind)).visible,
        lab.run(lambda run: begins_anew(run, kind)).visible] for kind in kinds}

# %% [markdown]
# ## What does it cost?
#
# Each transaction costs about the same, whatever its size: a few requests to the coordinator, and
# the markers. So the price of a record depends on how many records share a transaction. The cell
# makes five measurements of each size, on this machine, now.

# %%
lab.cost_of_transactions()

# %% [markdown]
# The reader pays, too: it is given nothing before the commit. This program sends four orders, a quarter
# of a second apart, one, two or four to a transaction. How many milliseconds pass between sending an
# order and a `read_committed` reader having it?

# %%
def at_intervals(run, size):
    producer, reader = run.producer({"transactional.id": run.topic}), run.consumer()
    producer.init_transactions()
    reader.assign([TopicPartition(run.topic, 0, 0)])
    list(run.messages(reader))  # nothing is there yet
    for number, order in enumerate(run.orders, start=1):
        if number % size == 1 % size:
            producer.begin_transaction()
        producer.produce(run.topic, order, partition=0)
        producer.flush()
        reader.poll(0.25)
        if number % size == 0:
            producer.commit_transaction()
            while order not in [it.value().decode() for it in run.messages(reader)]:
                pass  # the marker may come after the answer to the commit

def waits_ms(run):
    at = {(row.kind, row.value): row.at_ns for row in run.rows if row.source == "client"}
    return [(at["delivered", order] - at["sent", order]) // 1_000_000 for order in run.log]

{size: waits_ms(lab.run(lambda run: at_intervals(run, size), orders=4)) for size in (1, 2, 4)}

# %% [markdown]
# The first order of a transaction waits for all that come after it. So a large transaction is cheap,
# and late. Choose the size by how long a reader may wait; a service that has to answer at once has no
# time for any.

# %% [markdown]
# ## By hand
#
# Two producers with one `transactional.id`. Initialise A, begin, produce; look at what each
# isolation level is given. Then initialise B, and try to commit A. A click waits while a cell runs.

# %%
lab.transaction_panel()

# %%
lab.close()
