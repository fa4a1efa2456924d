# %% [markdown]
# # Spark is the consumer: exactly once, from where to where?
#
# Spark's Structured Streaming reads the orders and writes them on, batch by batch. Its bookmark is in
# a folder of its own. This lab kills its driver at the point that matters, and asks each sink how
# often it has an order.
#
# 40 minutes · one broker, SQLite · 15 points · builds on labs 05 and 06

# %%
from datetime import UTC, datetime
from lab_utils import Lab, crash_client
from sqlalchemy import text
lab = Lab("08")

# %% [markdown]
# ## Words
#
# - A **batch** is what Spark reads and writes in one go. Here it holds two orders.
# - The **checkpoint** is a folder: before a batch, Spark writes there which offsets it will read;
#   after the batch it writes a **commit entry**. A new driver repeats the last batch that has no
#   commit entry.
# - The **driver** is the process that runs the query. Here it is a Python process and its JVM, and
#   the lab kills both.
# - **State** is what a query must remember from one batch to the next.
#
# `run.stream()` is `spark.readStream` on the topic of the orders. `run.start(…, name)` starts a query
# that ends when it has read what is there; its checkpoint has that name.
#
# ## One kill, three sinks
#
# Three queries of one driver read the same six orders: one writes them to a topic, one to Parquet
# files, one calls `book`, which inserts them into a table. The driver is killed when each query has
# written its third batch to its sink, but has not recorded yet that the batch is done. Then it is
# started again on the same checkpoints. Predict how many orders the topic `invoices` holds twice.
#
# A Spark driver starts slowly; this run starts two.

# %%
def three_sinks(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))

    def book(batch, number):
        with database.begin() as connection:  # commits at its end
            for row in batch.collect():
                connection.execute(text("INSERT INTO bookings VALUES (:value)"), {"value": row.value})

    orders = run.stream()
    run.start(orders.writeStream.format("kafka").option("topic", run.topics["invoices"]), "topic")
    run.start(orders.select("value").writeStream.format("parquet").option("path", run.files), "files")
    run.start(orders.writeStream.foreachBatch(book), "table")

guess = lab.predict(duplicated=..., because="...")

# %%
killed = lab.run(three_sinks, orders=6, filled=True, topics=["invoices"],
                 faults=[crash_client("before_commit", nth=3)])
guess.compare(killed)

# %%
killed.sinks()

# %%
killed.in_and_out("invoices")

# %% [markdown]
# The bookmark was safe, and it did not help: the new driver repeated the third batch. Spark's guide
# promises no more. It says of the Kafka sink: "Apache Kafka only supports at least once write
# semantics".¹ The sink uses no transaction, and a new driver has a new idempotent producer (lab 03).
# It says of `foreachBatch`: "provides only at-least-once write guarantees".²
#
# For files it promises exactly once,² and both columns about files are true. The sink lists the files
# of a batch in `_spark_metadata`, all or none. Spark reads only files that are listed; any other
# program finds those of the dead driver, too. Ask Spark itself:

# %%
folder = str(killed.folder / "files")
killed.events().sparkSession.read.parquet(folder).groupBy("value").count().orderBy("value")

# %% [markdown]
# What is this consumer's lag? Tools compare a group's committed offset with the end of the log. Here
# is all that Spark committed to Kafka:

# %%
killed.requests("OffsetCommit")

# %% [markdown]
# Nothing. "Kafka source doesn't commit any offset":¹ its bookmark is in the checkpoint alone, and such a
# tool sees no group.
#
# ## 08.1 The batch that comes again (6 points)
#
# A repeated batch has the same number again. Write `book` so that each order is in `bookings` once,
# wherever the driver is killed. Either the insert skips an order that is in the table, or a second
# table keeps the numbers of the batches that are done. The check kills the driver before it commits
# the rows of the second batch. It kills the next driver after that has committed those of the third.
# The grader kills them at other batches. The column `value` holds the order.

# %% answer="08.1"
def booked_once(run):
    database = run.database()
    ### BEGIN SOLUTION
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS done (batch INTEGER)"))
    ### END SOLUTION

    def book(batch, number):
        orders = [{"value": row.value} for row in batch.collect()]
        ### BEGIN SOLUTION
        with database.begin() as connection:
            seen = connection.execute(text("SELECT 1 FROM done WHERE batch = :number"), {"number": number})
            if not seen.first():
                connection.execute(text("INSERT INTO done VALUES (:number)"), {"number": number})
                connection.execute(text("INSERT INTO bookings VALUES (:value)"), orders)
        ### END SOLUTION

    run.start(run.stream().writeStream.foreachBatch(book), "table")

# %% check="08.1"
lab.check("08.1", booked_once)

# %% [markdown]
# ## What was never committed
#
# A producer writes two orders and aborts; then it writes two and commits. Spark's Kafka source is a
# Java consumer. Which orders does it return?

# %%
def aborts_first(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    for orders, end in ((run.orders[:2], producer.abort_transaction),
                        (run.orders[2:], producer.commit_transaction)):
        producer.begin_transaction()
        for order in orders:
            producer.produce(run.topic, order, partition=0)
        producer.flush()
        end()

aborted = lab.run(aborts_first, orders=4)
aborted.topic_log().select("offset", "value")

# %%
aborted.topic_log(**{"kafka.isolation.level": "read_committed"}).select("offset", "value")

# %% [markdown]
# The aborted orders came in: Java's default is `read_uncommitted`.³ One option keeps them out; Spark
# does not warn.
#
# ## Remember everything, or forget
#
# If a topic has duplicates, each of its consumers must find them. To find every copy, it must
# remember every order. Here order 0 comes again after four minutes, and order 2 after half an hour,
# by the times of the records.

# %%
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()

def come_again(run):
    producer = run.producer()
    for order, minute in ((0, 0), (1, 2), (2, 14), (0, 4), (3, 15), (4, 8),
                          (5, 40), (6, 41), (7, 42), (8, 43), (2, 44), (9, 45), (10, 3), (11, 46)):
        at = int(NOON + 60 * minute) * 1000
        producer.produce(run.topic, run.orders[order], partition=0, timestamp=at)
        producer.flush()

copies = lab.run(come_again, orders=12)
copies.streamed(lambda orders: orders.dropDuplicates(["value"]))

# %% [markdown]
# Every copy is found, and the state grows with every order, for ever. Spark can forget if you tell it
# how late a record may be. Then it keeps a **watermark**: the newest time it has seen, minus that
# delay.

# %%
copies.streamed(lambda orders: orders.withWatermark("timestamp", "10 minutes")
                .dropDuplicates(["value", "timestamp"]))

# %% [markdown]
# Now Spark forgets. But the time is part of the key, so a copy with another time is another row. A
# record that is older than the watermark one row *above* is dropped, even if it is no copy: order 10
# is gone, without an error.
#
# ## 08.2 Forget in time (6 points)
#
# Write a streaming query that returns each order once, with the columns it was given. A copy at most
# ten minutes after the first one does not come out, even with another time. An order that is up to
# ten minutes late still counts; an order that is much later is dropped. Older orders are forgotten,
# so a copy half an hour later comes out again.

# %% answer="08.2"
def once_in_ten_minutes(orders):
    ### BEGIN SOLUTION
    late = orders.withWatermark("timestamp", "10 minutes")
    return late.dropDuplicatesWithinWatermark(["value"])
    ### END SOLUTION

# %% check="08.2"
lab.check("08.2", once_in_ten_minutes)

# %% [markdown]
# Such a query remembers for a limited time. It suits retries, which come in seconds. For a driver that
# was down for an hour it is too short: then the sink has to know the order, as in 08.1.
#
# ## 08.3 From where to where? (3 points)
#
# The driver of `three_sinks` was killed with a batch in each sink. Four readers read the `topic`, the
# `table`, the folder through `spark`, and the `files` in it. For each reader, is an order `"lost"`,
# is one there `"twice"`, or is each there `"once"`?

# %% answer="08.3"
answer_3 = {"topic": ..., "table": ..., "spark": ..., "files": ...}
### BEGIN SOLUTION
answer_3 = {"topic": "twice", "table": "twice", "spark": "once", "files": "twice"}
### END SOLUTION

# %% check="08.3"
lab.check("08.3", answer_3, run=killed)

# %% [markdown]
# ## What this does not cover
#
# This lab has no cluster, which may also run a task twice. With `failOnDataLoss`, which is on, Spark
# ends a query whose offsets are gone.¹ This lab has no explorer: a driver starts too slowly.
#
# ## Questions
#
# - Where is Spark's bookmark, and who else can see it?
# - Which of Spark's sinks are exactly once, and for whom?
# - Why does the number of the batch have to be in the same transaction as its rows?
# - Further: which delay would you choose for your retries, and what does it cost?
#
# ## Sources
#
# ¹ Spark 4, Structured Streaming + Kafka Integration Guide. ² Spark 4, Structured Streaming
# Programming Guide, Output Sinks and `foreachBatch`. ³ Kafka 4.3, consumer configuration,
# `isolation.level`.

# %%
lab.score()

# %%
lab.close()
