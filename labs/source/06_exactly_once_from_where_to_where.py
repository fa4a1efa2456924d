# %% [markdown]
# # Exactly once, from where to where?
#
# A service reads orders and writes invoices. Lab 05 left it with a choice: lose an order or bill it
# twice. This lab takes the bookmark into the same transaction as the work, first in Kafka, then in
# a database, kills the service wherever it hurts, and looks where the promise ends.
#
# 60 minutes · one broker, SQLite or your PostgreSQL · 25 points · builds on labs 04 and 05

# %%
from confluent_kafka import KafkaException, TopicPartition
from lab_utils import Lab, crash_client, delay_response, kill_broker, source
from sqlalchemy import text
lab = Lab("06")

# %% [markdown]
# ## Try it first
#
# Each choice makes a real run: the process is really killed, and started again. The arrow keys step
# through it. Which of the three has each order exactly once, wherever the process dies?

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - **Exactly-once processing, Kafka to Kafka**: each order that is read leads to one invoice that a
#   `read_committed` reader sees. It says nothing about any other effect.
# - A **sink** is where an effect ends up: here the topic `invoices`, later a database.
# - The **concurrent reader** reads `invoices` with `read_committed` while the service still runs; the
#   **final reader** does when all is over. Kafka's own system tests ask both.
# - A **business key** is what makes an order that order, for us its value.

# %% [markdown]
# ## At least once, downstream
#
# Two orders at a time: write the invoices, wait for their acks, then move the bookmark.

# %%
def bills_then_commits(run):
    consumer = run.consumer({"enable.auto.commit": False})
    producer = run.producer({"enable.idempotence": True})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        consumer.commit(asynchronous=False)

eight = {"orders": 8, "filled": True, "topics": ["invoices"], "until_stable": True}

# %% [markdown]
# The process is killed with the second batch written, before the commit is sent. Predict how many
# invoices are there twice afterwards, and which offset is committed in the end. The producer is
# idempotent: does that help?

# %%
guess = lab.predict(duplicated=..., committed=..., because="...")

# %%
twice = lab.run(bills_then_commits, **eight, faults=[crash_client("before_commit", nth=2)])
guess.compare(twice)

# %%
twice.in_and_out("invoices")

# %% [markdown]
# Two invoices twice. To the broker they are new records of a new producer. Its own deduplication
# cannot know that the *input* was read again.
#
# ## The bookmark in the transaction
#
# `send_offsets_to_transaction` makes the bookmark part of the producer's transaction: the invoices
# and the new bookmark become valid together, or not at all.

# %%
def biller(run, name="biller"):
    producer = run.producer({"transactional.id": f"{run.topic}-{name}-{run.member}"})
    producer.init_transactions()  # ends what a dead predecessor left open
    return producer

def commits(number, producer, consumer):
    producer.commit_transaction()

def bills_in_a_transaction(run, ends=commits):
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for number, batch in enumerate(run.batches(consumer, size=2), start=1):
        producer.begin_transaction()
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        ends(number, producer, consumer)

# %% [markdown]
# Kill it at six points of the second batch, each in a run of its own. At the fifth the commit has
# reached the broker and its answer is held back while the process dies. In a seventh run the broker
# is killed with the transaction open, and the process in its commit; both are started again. Seven
# runs take about half a minute.

# %%
points = {
    "polled": [crash_client("after_poll", nth=4)],
    "produced": [crash_client("after_ack", nth=4)],
    "offsets sent": [crash_client("after_send_offsets", nth=2)],
    "commit not sent": [crash_client("before_commit", nth=2)],
    "commit sent": [crash_client("while_committing", nth=2), delay_response("EndTxn", nth=2, by_ms=3000)],
    "committed": [crash_client("after_commit", nth=2)],
    "broker, too": [crash_client("while_committing", nth=2), kill_broker(1, api="TxnOffsetCommit", nth=2)],
}
killed = {name: lab.run(bills_in_a_transaction, **eight, faults=faults) for name, faults in points.items()}
{name: run.in_and_out("invoices").title for name, run in killed.items()}

# %%
killed["offsets sent"].in_and_out("invoices")

# %% [markdown]
# The log holds the aborted attempt. Neither `read_committed` reader sees it. Out equals in, seven
# times of seven. And with two members, of which the second dies, so that its partition moves?

# %%
two = {"orders": 12, "partitions": 2, "members": 2}
moved = lab.run(bills_in_a_transaction, **eight | two, faults=[crash_client("after_poll", nth=3, member=2)])
moved.in_and_out("invoices").title

# %% [markdown]
# ## An abort does not rewind
#
# A transaction may also fail while the process lives. Here the second batch is aborted, and the
# loop goes on with the next. Predict which offset is committed in the end, how many invoices are
# there twice, and what a reader sees.

# %%
def aborts_the_second(number, producer, consumer):
    producer.abort_transaction() if number == 2 else producer.commit_transaction()

def forgets_to_rewind(run):
    bills_in_a_transaction(run, ends=aborts_the_second)

# %%
guess = lab.predict(committed=..., duplicated=..., because="...")

# %%
forgotten = lab.run(forgets_to_rewind, **eight)
guess.compare(forgotten)

# %%
forgotten.in_and_out("invoices")

# %%
forgotten.findings()

# %% [markdown]
# Two orders are lost for good, and no error was raised: the consumer's position had moved on, and
# the next transaction committed it. The audit calls it **aborted-output**. Only a
# `read_uncommitted` reader sees all eight, and it is the one that looks right. The cure is to go
# back to the bookmark.

# %%
def rewind(consumer):
    for place in consumer.committed(consumer.assignment()):
        place.offset = max(place.offset, 0)  # no bookmark yet: from the start
        consumer.seek(place)

def aborts_and_rewinds(number, producer, consumer):
    aborts_the_second(number, producer, consumer)
    if number == 2:
        rewind(consumer)

def rewinds(run):
    bills_in_a_transaction(run, ends=aborts_and_rewinds)

rewound = lab.run(rewinds, **eight)
rewound.in_and_out("invoices")

# %% [markdown]
# Exact to `read_committed`, and to `read_uncommitted` two invoices twice. **The guarantee ends where
# the reader stops asking for it.**
#
# ## 06.1 The loop (8 points)
#
# Write the loop: a transaction for each batch, its offsets in it; on an error that asks for an abort
# (`error.args[0].txn_requires_abort()`) abort and rewind, else raise. The check kills it at two of
# the points and has a transaction fail; the grader also takes the others, and lets a member die.

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
# ## Another name, and the readers wait
#
# A successor with *another* transactional id does not end what the dead one left open. It goes on
# at once, and commits. But its invoices lie behind the open transaction.

# %%
def under_another_name(run):
    producer = run.producer({"transactional.id": f"{run.topic}-{run.attempt}", "transaction.timeout.ms": 6000})
    producer.init_transactions()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        bill(run, producer, batch, consumer.consumer_group_metadata())

def bill(run, producer, batch, metadata):
    producer.begin_transaction()
    for message in batch:
        producer.produce(run.topics["invoices"], message.value(), partition=0)
    producer.flush()
    offsets = [TopicPartition(it.topic(), it.partition(), it.offset() + 1) for it in batch]
    try:
        producer.send_offsets_to_transaction(offsets, metadata)
        producer.commit_transaction()
    except KafkaException:
        producer.abort_transaction()

# %%
at_once = lab.run(under_another_name, **eight | {"until_stable": False}, faults=points["produced"])
in_time = lab.run(under_another_name, **eight, faults=points["produced"])
[run.in_and_out("invoices").title for run in (at_once, in_time)]

# %% [markdown]
# Read at once, six are missing; read when the dead transaction has timed out (6 seconds here, a
# minute by default), none is. A verdict on such a topic has to wait until nothing is open.
#
# ## The complete machinery, and everything twice
#
# Two partitions, one order in each. The first consumer has read both. Before it commits, a second
# joins, and the group is divided anew. The first kept its batch. It sends the offsets with the
# group's metadata: fetched *now*, or *when the batch was read*. What will be twice, with each?

# %%
def kept_across_a_rebalance(run, is_fetched_now):
    first, second = (run.consumer({"enable.auto.commit": False}) for _ in range(2))
    one, two = biller(run, "one"), biller(run, "two")
    first.subscribe([run.topic])
    batch = list(run.messages(first, partitions=2))
    when_read = first.consumer_group_metadata()
    second.subscribe([run.topic])
    mine = yours = None
    while not (mine and yours):  # each is given one of the two again
        mine, yours = mine or first.poll(0.1), yours or second.poll(0.1)
    bill(run, one, batch, first.consumer_group_metadata() if is_fetched_now else when_read)
    bill(run, one, [mine], first.consumer_group_metadata())
    bill(run, two, [yours], second.consumer_group_metadata())

# %%
def with_metadata_of_now(run):
    kept_across_a_rebalance(run, is_fetched_now=True)

def with_metadata_of_then(run):
    kept_across_a_rebalance(run, is_fetched_now=False)

both = {"orders": 2, "partitions": 2, "filled": True, "topics": ["invoices"], "until_stable": True}
now = lab.run(with_metadata_of_now, **both)
then = lab.run(with_metadata_of_then, **both)
[run.in_and_out("invoices").title for run in (now, then)]

# %%
[(row.error, row.detail["asks_for"]) for row in then.rows if row.kind == "txn_failed"]

# %% [markdown]
# Transactions, group metadata, `read_committed`, and everything twice. The broker checks that the
# member and the generation are current. It does not check who owns the partition. Metadata from when
# the batch was read would have told: the generation is over. So never keep a batch across a
# rebalance: in `on_revoke` end the transaction and drop the batch.
#
# ## Out of Kafka: a database
#
# No transaction spans Kafka and a database. Here each order becomes a row, then the bookmark moves.
# `run.database()` is a SQLAlchemy engine; the process is killed right after the database commit.

# %%
def books(run, create, insert):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text(create))
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        with database.begin() as connection:  # commits at its end
            connection.execute(text(insert), {"order": message.value().decode()})
        consumer.commit(message, asynchronous=False)

# %%
def inserts(run):
    books(run, "CREATE TABLE IF NOT EXISTS bookings (value TEXT)",
          "INSERT INTO bookings VALUES (:order)")

def counts(run):
    books(run, "CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY, times INTEGER)",
          "INSERT INTO bookings VALUES (:order, 1) ON CONFLICT (value) DO UPDATE SET times = bookings.times + 1")

def upserts(run):
    books(run, "CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)",
          "INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING")

# %%
six = {"orders": 6, "filled": True}
after, before = [crash_client("after_db_commit", nth=3)], [crash_client("before_db_commit", nth=3)]
booked = [lab.run(sink, **six, faults=after) for sink in (inserts, counts, upserts)]
rolled_back = lab.run(inserts, **six, faults=before)
[run.effects for run in (*booked, rolled_back)]

# %%
booked[0].findings()

# %% [markdown]
# The plain insert has order 2 twice; killed *before* the database commit (the last line) it is
# rolled back, and nothing doubles. `times + 1` has a key and still counts twice: a key alone does not
# help. With a key from the source *and* a write that may be repeated, a repeat does no harm. The
# other way is to keep the bookmark *in* the database.

# %%
def keeps_the_bookmark(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookmarks (partition INTEGER PRIMARY KEY, next INTEGER)"))
    def resume(consumer, places):
        with database.begin() as connection:
            nexts = dict(connection.execute(text("SELECT partition, next FROM bookmarks")).all())
        consumer.assign([TopicPartition(it.topic, it.partition, nexts.get(it.partition, 0)) for it in places])
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic], on_assign=resume)
    for message in run.messages(consumer):
        with database.begin() as connection:  # the row and the bookmark, or neither
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": message.value().decode()})
            connection.execute(text("INSERT INTO bookmarks VALUES (:partition, :next) "
                                    "ON CONFLICT (partition) DO UPDATE SET next = excluded.next"),
                               {"partition": message.partition(), "next": message.offset() + 1})

# %% [markdown]
# Two writes for each order: the fifth write is a row, the sixth the bookmark behind it.

# %%
six_points = [("after_poll", 3), ("after_db_write", 5), ("after_db_write", 6), ("before_db_commit", 3),
              ("after_db_commit", 3), ("after_poll", 4)]
kept = {place: lab.run(keeps_the_bookmark, **six, faults=[crash_client(*place)]) for place in six_points}
[run.effects for run in kept.values()]

# %% [markdown]
# Each order once, six times of six. Kafka's own bookmark was never set, so its tools will report a
# lag that is none.
#
# **In your PostgreSQL.** All this is SQLite unless the lab is started with an address:
#
#     export PGPASSWORD=...
#     LAB_DATABASE=postgresql://learner@127.0.0.1:5432/orders ./lab up
#
# Then `run.database()` is a schema of the run's own there, dropped when its effects have been read.
# The code above is the same in both. A check always uses SQLite, as the
# grader does. Which was it here?

# %%
{row.detail["database"] for run in kept.values() for row in run.rows if row.kind == "effect"}

# %% [markdown]
# ## 06.2 The sink (6 points)
#
# Complete a sink that has each order in `bookings` once, wherever it is killed. The column `value`
# holds the order.

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
# Write a query that returns the orders for which out is not in: columns `value` and `times`, how
# often a `read_committed` reader of `invoices` sees it, where that is not once. You are given only
# the log: `record` events are in a topic, `visible` ones are seen by the final reader (source
# `log`); topics end in `-orders` and `-invoices`. An order that is never seen counts 0.

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
# Each is killed right after its database commit. Which of the four has every effect exactly once?
# `True` or `False` for each.

# %% answer="06.4"
answer_4 = {"inserts": ..., "counts": ..., "upserts": ..., "keeps_the_bookmark": ...}
### BEGIN SOLUTION
answer_4 = {"inserts": False, "counts": False, "upserts": True, "keeps_the_bookmark": True}
### END SOLUTION

# %% check="06.4"
lab.check("06.4", answer_4)

# %% [markdown]
# ## 06.5 "We have exactly once" (3 points)
#
# A colleague says so. The service reads, transforms and produces in transactions. What do you tell
# her? For the reader named, is each order there `"once"`, is one `"lost"`, or is one there `"twice"`?
#
# - `killed`: killed with the commit not sent; `read_committed`
# - `uncommitted`: aborted and rewound; a `read_uncommitted` reader
# - `not_rewound`: aborted, and the loop goes on; `read_committed`
# - `kept`: a batch kept across a rebalance, metadata fetched now; `read_committed`
# - `database`: it inserts a row for each order, too, and is killed after that commit; the table

# %% answer="06.5"
answer_5 = {"killed": ..., "uncommitted": ..., "not_rewound": ..., "kept": ..., "database": ...}
### BEGIN SOLUTION
answer_5 = {"killed": "once", "uncommitted": "twice", "not_rewound": "lost", "kept": "twice", "database": "twice"}
### END SOLUTION

# %% check="06.5"
lab.check("06.5", answer_5)

# %% [markdown]
# ## By hand
#
# Arm a fault, then run the cell below it again. If you kill the broker, the cell waits until you
# start it.

# %%
lab.panel()

# %%
lab.run(exactly_once, **eight).in_and_out("invoices")

# %% [markdown]
# ## What this does not cover
#
# Measured with confluent-kafka 2.16.1 on Kafka 4.3.1; this client speaks the first version of the
# transaction protocol. The client had to die with its broker: one that lived on came through its
# commit, and its next `send_offsets_to_transaction` never returned (librdkafka's issue 5456 has such
# a call). What a broker killed between a decision and its markers leaves is in lab 04. A sink with
# two writers and a power cut under the database were not tested. An e-mail has no business key and
# cannot be rolled back: no bookmark makes it exactly once.
#
# ## Questions
#
# - From where to where does a Kafka transaction reach?
# - Why does idempotence not stop a repeated consumption?
# - What must a loop do after an abort?
# - Why does a key not help `n = n + 1`?
# - When may a reader of a transactional topic say that something is missing?
# - Further: which of your effects could carry a business key?
# - Further: what would the broker have to check so that a kept batch cannot be committed?

# %% [markdown]
# ## Under the hood
#
# You can skip this. How the effects in the database become evidence.

# %%
from lab_utils.clients import sinks
source(sinks.open_sink)

# %%
lab.score()

# %%
lab.close()
