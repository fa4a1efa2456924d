# %% [markdown]
# # Why did the order arrive twice, and why last?
#
# A customer ordered once and was charged twice. Another customer's orders were processed in the
# wrong order. Nobody saw an error. This lab causes both, on demand, and finds out what stops them.
#
# 50 minutes · one broker · 20 points · builds on lab 00

# %%
from lab_utils import Lab, corrupt_request, crash_client, drop_response, refuse, source
lab = Lab("03")

# %% [markdown]
# ## Try it first
#
# Each choice makes a real run on the broker. The arrow keys step through it. One choice loses an
# order, and every report still says success. Can you find it?

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - A **retry** is a request that the *client* sends again by itself. Your program does not see it.
# - A **batch** is what a `Produce` request carries for one partition. In this lab each order is a
#   batch of its own (`batch.num.messages=1`; the default is 10000), so one request is one order.
# - **In flight** is a request that has been sent and not yet been answered.
# - A **producer id** and a **sequence** number are written into each batch by an *idempotent*
#   producer. Without one, both are -1.

# %% [markdown]
# ## One order at a time
#
# The workload waits for the report of each order before it sends the next.

# %%
def one_at_a_time(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # returns when the order is acked, failed or unknown

# %%
calm = lab.run(one_at_a_time, orders=5)
calm

# %% [markdown]
# ## Predict, then break
#
# The third request will reach the broker. Its answer is dropped and the connection is cut.
# How many orders will be reported as acked? What will the log hold, in order?

# %%
guess = lab.predict(acked=..., log="0 1 ...", because="...")

# %%
twice = lab.run(one_at_a_time, orders=5, faults=[drop_response("Produce", nth=3)])
twice

# %%
guess.compare(twice)

# %% [markdown]
# Look at the third arrow. It reaches the broker; the answer ends at the proxy.

# %%
twice.timeline()

# %%
twice.orders_by_offset()

# %% [markdown]
# The broker stored order 2 and said so. The client never heard it. It could not tell a lost
# request from a lost answer, so it sent the batch again, and the broker, which had no way to
# recognise it, stored it again. The second answer arrived. Your program saw one clean success.
#
# The audit calls this a **duplicate** and says which setting allows it.

# %%
twice.findings()

# %% [markdown]
# ## 03.1 Which report lied? (3 points)
#
# Which order is in the log twice? At which offset is its first copy? Which offset did its report
# name? The ledger knows; so does the picture.

# %% answer="03.1"
answer_1 = {"order": ..., "first_copy": ..., "reported": ...}
### BEGIN SOLUTION
answer_1 = {"order": "2", "first_copy": 2, "reported": 3}
### END SOLUTION

# %% check="03.1"
lab.check("03.1", answer_1)

# %% [markdown]
# ## Several in flight
#
# Real producers do not wait. They send the next batch while the last one is unanswered. Lose the
# same single answer again. Predict the log first.

# %%
def all_at_once(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

# %%
guess = lab.predict(log="...", because="...")

# %%
flood = lab.run(all_at_once, orders=6, faults=[drop_response("Produce", nth=1)])
guess.compare(flood)

# %%
flood.orders_by_offset()

# %% [markdown]
# One lost answer, and everything that was in flight is stored twice. Each report carries the
# offset of the *second* copy.

# %% [markdown]
# ## 03.2 Store each order once (5 points)
#
# Change the workload so that each order is stored exactly once. The check loses an answer, then a
# request, each at a position that you do not know. The smallest change is one setting.

# %% answer="03.2"
def send_once(run):
    settings = {"acks": "all"}
    ### BEGIN SOLUTION
    settings["enable.idempotence"] = True
    ### END SOLUTION
    producer = run.producer(settings)
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

# %%
lab.run(send_once, orders=6, faults=[drop_response("Produce", nth=3)]).orders_by_offset()

# %% check="03.2"
lab.check("03.2", send_once)

# %% [markdown]
# ## How the broker recognises a batch
#
# It was off. librdkafka, and so the Python client, does not turn idempotence on by itself; the
# Java client has since Kafka 3.0. With it, each batch carries a key.

# %%
def idempotent(run):
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()

# %%
once = lab.run(idempotent, orders=5, faults=[drop_response("Produce", nth=3)])
once

# %%
produced = once.events().where("source = 'wire' AND kind = 'request' AND api = 'Produce'")
produced.select("at_ns", "value", "producer_id", "producer_epoch", "sequence", "fate")

# %%
batches = once.events().where("source = 'log' AND kind = 'batch'").orderBy("offset")
batches.select("offset", "producer_id", "producer_epoch", "sequence")

# %% [markdown]
# Order 2 crossed the wire twice with the same producer id, epoch and sequence. The log holds it
# once. The broker keeps the last five batches of each producer and partition, and answers a
# repeat with the offset of the original.
#
# ## 03.3 Find what was sent twice (4 points)
#
# Write a query over the ledger that returns the batches that crossed the wire more than once:
# columns `partition`, `producer_id`, `producer_epoch`, `sequence` and `times`. Mind the producers
# that have no id.

# %% answer="03.3"
from pyspark.sql import functions as F

def resent(events):
    ### BEGIN SOLUTION
    requests = events.where("kind = 'request' AND api = 'Produce' AND producer_id >= 0")
    key = ["partition", "producer_id", "producer_epoch", "sequence"]
    return requests.groupBy(key).agg(F.count("*").alias("times")).where("times > 1")
    ### END SOLUTION

# %%
resent(once.events())

# %% check="03.3"
lab.check("03.3", resent)

# %% [markdown]
# ## What the key does not cover
#
# The key is *producer id, partition, sequence*. So the same order on another partition is another
# record, and the same order from a new producer is another record. Here the process is killed
# after the third report and started again. It does what most programs do: it begins anew.

# %%
def to_two_partitions(run):
    producer = run.producer({"enable.idempotence": True})
    for partition in (0, 1):
        producer.produce(run.topic, run.orders[0], partition=partition)
    producer.flush()

lab.run(to_two_partitions, orders=1, partitions=2)

# %%
restarted = lab.run(idempotent, orders=5, faults=[crash_client("after_ack", nth=3)])
restarted

# %%
batches = restarted.events().where("source = 'log' AND kind = 'batch'").orderBy("offset")
batches.select("offset", "producer_id", "producer_epoch", "sequence")

# %% [markdown]
# The new process was given a new producer id, and its sequences begin at 0. To the broker these
# are new records. Only the **business key** in the record, here the order itself, can tell.
#
# ## 03.4 Deduplicate after the fact (4 points)
#
# Somebody downstream must now remove what is double. Write a query that returns each order once,
# with the `partition` and `offset` of its first copy: columns `value`, `partition`, `offset`. All
# copies of an order are on one partition.

# %% answer="03.4"
def first_copies(events):
    ### BEGIN SOLUTION
    records = events.where("source = 'log' AND kind = 'record'")
    return records.groupBy("value", "partition").agg(F.min("offset").alias("offset"))
    ### END SOLUTION

# %%
first_copies(restarted.events())

# %% check="03.4"
lab.check("03.4", first_copies)

# %% [markdown]
# And the price? To be sure about the next record, the query must remember every order it has ever
# seen. The state grows with the history, not with the traffic.

# %%
seen = restarted.events().where("source = 'log' AND kind = 'record'")
seen.agg(F.count("*").alias("records"), F.countDistinct("value").alias("remembered"))

# %% [markdown]
# ## 03.5 Survive a restart (4 points)
#
# The check kills the process at a moment that you do not know, and starts it again. After that
# each order must be in the log exactly once. Let the log itself tell you which orders it has: read
# the topic to its end, then send what is missing. `run.orders_in_the_log()` does the reading.

# %% answer="03.5"
def send_the_rest(run):
    ### BEGIN SOLUTION
    stored = set(run.orders_in_the_log())
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        if order not in stored:
            producer.produce(run.topic, order, partition=0)
    producer.flush()
    ### END SOLUTION

# %% check="03.5"
lab.check("03.5", send_the_rest)

# %% [markdown]
# ## Why last?
#
# Back to the second customer. One byte of the first batch is flipped on its way. The broker sees
# that the checksum is wrong, refuses the batch, and says `CORRUPT_MESSAGE`, which a client may
# retry. No idempotence, several in flight. Predict the log.

# %%
guess = lab.predict(log="...", because="...")

# %%
last = lab.run(all_at_once, orders=4, faults=[corrupt_request("Produce", nth=1)])
guess.compare(last)

# %%
last.timeline()

# %% [markdown]
# While the first batch was refused, the others were accepted. Its retry came last.
#
# A well-known rule says that `max.in.flight=1` prevents this. Try it, with the second batch bad.

# %%
def one_in_flight(run):
    producer = run.producer({"max.in.flight": 1})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

lab.run(one_in_flight, orders=4, faults=[drop_response("Produce", nth=2)]).log

# %%
half_true = lab.run(one_in_flight, orders=4, faults=[corrupt_request("Produce", nth=2)])
half_true.log

# %% [markdown]
# The rule is half true. Over a lost connection the order is kept. After an error *response* this
# client waits `retry.backoff.ms` before the retry, and meanwhile sends the next order. We measured
# the Java client under the same fault: it keeps the order.
#
# An idempotent producer keeps it here too, and with up to five in flight. It refuses a sixth.

# %%
def five_in_flight(run):
    producer = run.producer({"enable.idempotence": True, "max.in.flight": 5})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

lab.run(five_in_flight, orders=6, faults=[corrupt_request("Produce", nth=2)]).log

# %%
def six_in_flight(run):
    run.producer({"enable.idempotence": True, "max.in.flight": 6})

[row.detail["message"] for row in lab.run(six_in_flight).rows if row.kind == "raised"]

# %% [markdown]
# ## The hole
#
# Now move the fault by one: the *first* batch of the producer is bad. Predict the log.

# %%
guess = lab.predict(acked=..., log="...", because="...")

# %%
hole = lab.run(five_in_flight, orders=4, faults=[corrupt_request("Produce", nth=1)])
guess.compare(hole)

# %%
hole.timeline()

# %%
hole.findings()

# %% [markdown]
# Order 0 was acked, and it is nowhere. Nothing was sent again. Two things met. The broker accepts
# any first sequence from a producer it has no memory of, so it took 1, 2 and 3. And the client
# takes a later success as proof of the earlier one. The one trace is a report *without an offset*.
# This is confluent-kafka 2.16.1 on Kafka 4.3.1. The broker's half is KAFKA-15591; its fix ships
# with Kafka 4.5.
#
# Is it only the first batch, and only a flipped byte? One run for each setting and position says so.

# %%
def all_with(run, settings):
    producer = run.producer(settings)
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

kinds = (drop_response, refuse, corrupt_request)
lab.sweep(all_with, faults=[kind("Produce", nth=nth) for kind in kinds for nth in (1, 2, 3)],
          settings=[{"max.in.flight": 5}, {"enable.idempotence": True}])

# %% [markdown]
# A refused first batch is lost in the same way. From the second batch on nothing is lost.
#
# The twin below gives the very same report. This time the broker stores the batch, and its answer
# is replaced with an error. `refuse` gives that error 40 ms later (`after_ms`): the client has sent
# the other orders by then.

# %%
after_append = refuse("Produce", nth=2, error="NOT_ENOUGH_REPLICAS_AFTER_APPEND")
twin = lab.run(five_in_flight, orders=4, faults=[after_append])
twin.log

# %%
both = twin.events().unionByName(hole.events()).where("kind = 'acked' AND offset IS NULL")
both.select("run", "value", "kind", "offset")

# %% [markdown]
# A success without an offset says *acknowledged, position unknown*. Once it was stored, once it
# was lost. Only the log decides.
#
# ## Across partitions
#
# Order is kept inside a partition. Across partitions there is none, and timestamps do not bring it
# back: they are set by the producer, and a producer may set any.

# %%
def with_old_timestamps(run):
    producer = run.producer()
    for number, order in enumerate(run.orders):
        when_ms = 1_000_000_000_000 - number
        producer.produce(run.topic, order, partition=number % 3, timestamp=when_ms)
    producer.flush()

spread = lab.run(with_old_timestamps, orders=6, partitions=3)

# %%
records = spread.events().where("source = 'log' AND kind = 'record'").orderBy("partition", "offset")
records.select("partition", "offset", "value", "detail.timestamp_ms")

# %% [markdown]
# ## By hand
#
# Arm a fault, then run the cell below it again. The buttons also act while a cell is running.

# %%
lab.panel()

# %%
lab.run(all_at_once, orders=6).log

# %% [markdown]
# ## What this does not cover
#
# Idempotence guards one producer session and one partition, and it has the hole you saw.
# `send_the_rest` reads, then writes; a request of the dead process that is still on its way could
# land in between. Fencing the dead process needs a transaction: lab 04. A consumer can still
# *process* a single record twice: lab 05.
#
# ## Questions
#
# - Why can a client not tell a lost request from a lost answer?
# - What three things make the key by which the broker recognises a batch?
# - Why does a restart defeat idempotence?
# - When does `max.in.flight=1` lose the order?
# - What does a success without an offset mean?
# - Further: what would the broker have to remember to close the hole?
# - Further: why is a deduplicator with a time window a bet?

# %% [markdown]
# ## Under the hood
#
# You can skip this. The fault is a few words of data; the proxy does the rest.

# %%
source(drop_response)

# %%
lab.score()

# %%
lab.close()
