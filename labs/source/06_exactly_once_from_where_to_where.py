# %% [markdown]
# # Exactly once, from where to where?
#
# A service reads orders and writes invoices. Lab 05 left it with a choice: lose an order or bill it
# twice. This lab puts the bookmark into the same transaction as the work, first in Kafka, then in a
# database. Then it shows where the promise ends.
#
# 60 minutes · one broker, SQLite · 25 points · builds on labs 04 and 05
#
# ## Try it first
#
# Each choice makes a real run: the process is really killed, and started again. The arrow keys step
# through it. Which of the three has each order exactly once, wherever the process dies?

# %%
from confluent_kafka import KafkaException
from lab_utils import Lab, crash_client
from sqlalchemy import text
lab = Lab("06")

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - **Exactly-once processing, Kafka to Kafka**: each order that is read leads to one invoice that a
#   `read_committed` reader sees. It says nothing about any other effect.
# - A **sink** is where an effect ends up: here the topic `invoices`, later a database.
# - The **concurrent reader** reads `invoices` with `read_committed` while the service still runs; the
#   **final reader** reads it at the end.
# - A **business key** is what identifies an order, here its value.
#
# ## The bookmark in the transaction
#
# An idempotent producer does not help here: to the broker, the invoices of a restarted process are new
# records.¹ `send_offsets_to_transaction` makes the bookmark part of the producer's transaction: the
# invoices and the new bookmark become valid together, or not at all.
#
# A transaction may also fail while the process lives. Here the second batch of two orders is aborted,
# and the loop goes on with the next. Predict which offset is committed in the end, and how many invoices
# the log holds twice. What does a `read_committed` reader see?

# %%
def biller(run, name="biller"):
    producer = run.producer({"transactional.id": f"{run.topic}-{name}-{run.member}"})
    producer.init_transactions()  # ends what a dead predecessor left open
    return producer

def aborts_the_second(run, then=lambda consumer: None):
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for number, batch in enumerate(run.batches(consumer, size=2), start=1):
        producer.begin_transaction()
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()  # an abort drops unsent records
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        if number == 2:
            producer.abort_transaction()
            then(consumer)
        else:
            producer.commit_transaction()

eight = {"orders": 8, "filled": True, "topics": ["invoices"], "until_stable": True}
guess = lab.predict(committed=..., duplicated=..., because="...")

# %%
forgotten = lab.run(aborts_the_second, **eight)
guess.compare(forgotten)

# %%
forgotten.in_and_out("invoices")

# %%
forgotten.findings()

# %% [markdown]
# Two orders are lost for good, without an error: the consumer's position had moved on, and the next
# transaction committed it. The audit calls this **aborted-output**. Only a `read_uncommitted` reader
# sees all eight. An abort does not rewind the consumer; the loop must do it, as it does below.
# Predict the same two numbers again.

# %%
def rewind(consumer):
    for place in consumer.committed(consumer.assignment()):
        place.offset = max(place.offset, 0)  # no bookmark yet: from the start
        consumer.seek(place)

guess = lab.predict(committed=..., duplicated=..., because="...")

# %%
rewound = lab.run(lambda run: aborts_the_second(run, then=rewind), **eight)
guess.compare(rewound)

# %%
rewound.in_and_out("invoices")

# %% [markdown]
# A `read_committed` reader sees each invoice once, a `read_uncommitted` reader two of them twice.
# **The guarantee holds only for readers that ask for it.**
#
# It can also break at a rebalance. The broker checks that member and generation are current. It does
# not check who owns the partition. A consumer that keeps a batch across a rebalance, and commits it
# with metadata fetched *afterwards*, repeats what the new owner does.² So end the transaction and
# drop the batch in `on_revoke`.
#
# ## 06.1 The loop (8 points)
#
# Write the loop: a transaction for each batch, with the offsets in it. If an error asks for an abort
# (`error.args[0].txn_requires_abort()`), abort and rewind; raise any other error again. The check
# kills one process after another, in each batch at another place, makes one transaction fail, and has
# one producer fenced. The grader kills in other batches and places, too, and one of two members.

# %% answer="06.1"
def exactly_once(run):
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        ### BEGIN SOLUTION
        producer.begin_transaction()
        try:
            for message in batch:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction()
            rewind(consumer)
        ### END SOLUTION

# %% check="06.1"
lab.check("06.1", exactly_once)

# %% [markdown]
# ## Out of Kafka: a database
#
# No transaction spans Kafka and a database. Here each order becomes a row, then the bookmark moves.
# `run.database()` is a SQLAlchemy engine. The process is killed right after its third database
# commit. What will the table hold with each of the three functions?

# %%
def books(run, columns, row):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS bookings ({columns})"))
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        with database.begin() as connection:  # commits at its end
            connection.execute(text(f"INSERT INTO bookings VALUES {row}"), {"order": message.value().decode()})
        consumer.commit(message, asynchronous=False)

def inserts(run):
    books(run, "value TEXT", "(:order)")

def counts(run):
    books(run, "value TEXT PRIMARY KEY, times INTEGER",
          "(:order, 1) ON CONFLICT (value) DO UPDATE SET times = bookings.times + 1")

def upserts(run):
    books(run, "value TEXT PRIMARY KEY", "(:order) ON CONFLICT DO NOTHING")

# %%
crashed = {"orders": 6, "filled": True, "faults": [crash_client("after_db_commit", nth=3)]}
[lab.run(sink, **crashed).effects for sink in (inserts, counts, upserts)]

# %% [markdown]
# The plain insert has order 2 twice. `times + 1` has a key and still counts twice: a key alone does not
# help. With a key from the source *and* a write that may be repeated, a repeat does no harm.
#
# The other way is to keep the bookmark *in* the database: `keeps_the_bookmark` writes each row and the
# next offset in one database transaction, and its successor begins at that offset.³
#
# ## 06.2 The sink (6 points)
#
# Complete a sink that has each order in `bookings` once, wherever and however often it is killed. The
# column `value` holds the order.

# %% answer="06.2"
def booked_once(run):
    database = run.database()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    ### BEGIN SOLUTION
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)"))
    ### END SOLUTION
    for message in run.messages(consumer):
        with database.begin() as connection:
            ### BEGIN SOLUTION
            connection.execute(text("INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING"),
                               {"order": message.value().decode()})
            ### END SOLUTION
        consumer.commit(message, asynchronous=False)

# %% check="06.2"
lab.check("06.2", booked_once)

# %% [markdown]
# ## 06.3 Prove it from the topics (5 points)
#
# Write a query that returns each order that a `read_committed` reader of `invoices` does not see
# exactly once: columns `value` and `times`, how often the reader sees it, which may be 0. You get
# only the log (source `log`). A `record` event is a record in a topic; a `visible` event is a record
# that the final reader sees. The topics end in `-orders` and `-invoices`.

# %% answer="06.3"
from pyspark.sql import functions as F

def out_is_not_in(events):
    ### BEGIN SOLUTION
    orders = events.where("kind = 'record' AND topic LIKE '%-orders'").select("value").distinct()
    seen = events.where("kind = 'visible' AND topic LIKE '%-invoices'").groupBy("value")
    times = orders.join(seen.agg(F.count("*").alias("times")), "value", "left").na.fill(0, ["times"])
    return times.where("times <> 1")
    ### END SOLUTION

# %%
out_is_not_in(forgotten.events())

# %% check="06.3"
lab.check("06.3", out_is_not_in)

# %% [markdown]
# ## 06.4 Which sink? (3 points)
#
# Each sink is killed right after a database commit, and started again. Afterwards, is each order in
# the database `"once"`, is one `"lost"`, or is one there `"twice"`?

# %% answer="06.4"
answer_4 = {"inserts": ..., "counts": ..., "upserts": ..., "keeps_the_bookmark": ...}
### BEGIN SOLUTION
answer_4 = {"inserts": "twice", "counts": "twice", "upserts": "once", "keeps_the_bookmark": "once"}
### END SOLUTION

# %% check="06.4"
lab.check("06.4", answer_4)

# %% [markdown]
# ## 06.5 "We have exactly once" (3 points)
#
# A colleague says so. Her service reads, transforms and produces in transactions. What do you tell
# her? For the reader of each case, is each order there `"once"`, is one `"lost"`, or is one there
# `"twice"`?
#
# - `killed`: killed before the commit is sent; a `read_committed` reader
# - `uncommitted`: aborted and rewound; a `read_uncommitted` reader
# - `not_rewound`: aborted, and not rewound; a `read_committed` reader
# - `kept`: a batch kept across a rebalance, metadata fetched afterwards; a `read_committed` reader
# - `database`: it also inserts a row for each order, and is killed after that commit; the table

# %% answer="06.5"
answer_5 = {"killed": ..., "uncommitted": ..., "not_rewound": ..., "kept": ..., "database": ...}
### BEGIN SOLUTION
answer_5 = {"killed": "once", "uncommitted": "twice", "not_rewound": "lost", "kept": "twice", "database": "twice"}
### END SOLUTION

# %% check="06.5"
lab.check("06.5", answer_5)

# %% [markdown]
# ## What this does not cover
#
# An e-mail has no business key and cannot be rolled back: no bookmark makes it exactly once. A sink
# with two writers was not tested. `further/06_six_crash_points.ipynb` has the crash points of both
# transactions and your PostgreSQL; `further/06_names_and_rebalances.ipynb` has a dead process that
# holds up the readers, and the kept batch. Kafka Streams writes this loop for you, with
# `processing.guarantee=exactly_once_v2`: `docs/clients.md` has such a program, killed before it commits.
#
# ## Questions
#
# - From where to where does a Kafka transaction reach?
# - What must a loop do after an abort?
# - Why does a key not help `n = n + 1`?
# - Further: which of your effects could carry a business key?
#
# ## Sources
#
# ¹ Run `twice` in the first further notebook. ² Run `now` in the second. ³ Run `kept` in the first,
# with its code.

# %%
lab.score()

# %%
lab.close()
