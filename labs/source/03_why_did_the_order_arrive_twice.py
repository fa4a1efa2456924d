# %% [markdown]
# # Why did the order arrive twice, and why last?
#
# A customer ordered once and was charged twice. Another customer's orders were processed in the wrong
# sequence. Nobody saw an error. This lab causes both and finds out what prevents them.
#
# 50 minutes · one broker · 20 points · builds on lab 00
#
# ## Try it first
#
# Each choice makes a real run on the broker. The arrow keys step through it. Two combinations
# lose an order, and every report still says success. Can you find one?

# %%
from lab_utils import Lab, corrupt_request, crash_client, drop_response, refuse
lab = Lab("03")

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - A **retry** is a request that the *client* sends again by itself.
# - A **batch** is what a `Produce` request carries for one partition. In this lab each order is a
#   batch of its own (`batch.num.messages=1`), so one request is one order.
# - A request is **in flight** until it is answered.
# - An *idempotent* producer writes a **producer id**, an **epoch** (here 0) and a **sequence** number
#   into each batch. Without idempotence, all three are -1.
#
# ## Predict, then break
#
# The workload waits for the report of each order. The third request will reach the broker; its
# answer is dropped and the connection is cut. How many orders will be reported as acked? What will
# the log hold?

# %%
def one_at_a_time(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # so one request is in flight

guess = lab.predict(acked=..., log="0 1 ...", because="...")

# %%
twice = lab.run(one_at_a_time, orders=5, faults=[drop_response("Produce", nth=3)])
guess.compare(twice)

# %%
twice.orders_by_offset()

# %% [markdown]
# The broker stored order 2, but its answer never reached the client. A client cannot tell a lost
# request from a lost answer, so it sent the batch again. The broker could not recognise the batch
# and stored it again. Your program saw one success.
#
# ## 03.1 Which report lied? (3 points)
#
# Which order is in the log twice? At which offset is its first copy? Which offset did its report
# name? The picture shows all three.

# %% answer="03.1"
answer_1 = {"order": "...", "first_copy": ..., "reported": ...}
### BEGIN SOLUTION
answer_1 = {"order": "2", "first_copy": 2, "reported": 3}
### END SOLUTION

# %% check="03.1"
lab.check("03.1", answer_1)

# %% [markdown]
# ## Several in flight
#
# Real producers send the next batch while the last one is unanswered. Here the first answer is lost,
# when six requests have been sent. Predict the log.

# %%
def all_at_once(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

guess = lab.predict(log="...", because="...")

# %%
flood = lab.run(all_at_once, orders=6, faults=[drop_response("Produce", nth=1, sent=6)])
guess.compare(flood)

# %% [markdown]
# The cut connection lost all six answers, so the client sent all six orders again.
#
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

# %% check="03.2"
lab.check("03.2", send_once)

# %% [markdown]
# ## How the broker recognises a batch
#
# Idempotence was off, which is the default of librdkafka. In the Java client it has been on since
# Kafka 3.0.¹ It gives each batch a key. Compare the requests on the wire with the batches in the log.

# %%
def idempotent(run):
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # so one request is in flight

once = lab.run(idempotent, orders=5, faults=[drop_response("Produce", nth=3)])
keyed = once.events().where("kind = 'batch' OR kind = 'request' AND api = 'Produce'")
keyed.orderBy("at_ns", "offset").select(
    "source", "value", "offset", "producer_id", "producer_epoch", "sequence")

# %% [markdown]
# Order 2 crossed the wire twice with the same producer id, epoch and sequence. The log holds it
# once. The broker remembers the last five batches of each producer and partition.² It answers a
# repeated batch with the offset of the original.
#
# ## 03.3 Find what was sent twice (4 points)
#
# Write a query over the ledger that returns the batches that crossed the wire more than once:
# columns `partition`, `producer_id`, `producer_epoch`, `sequence` and `times`. Leave out producers
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
# The key is *producer id, epoch, partition, sequence*. Here the process is killed after the third report,
# is started again, and begins anew. Predict the log.

# %%
guess = lab.predict(log="...", because="...")

# %%
restarted = lab.run(idempotent, orders=5, faults=[crash_client("after_ack", nth=3)])
guess.compare(restarted)

# %%
batches = restarted.events().where("source = 'log' AND kind = 'batch'").orderBy("offset")
batches.select("offset", "producer_id", "producer_epoch", "sequence")

# %% [markdown]
# The new process has a new producer id, and its sequences begin at 0. To the broker these are new
# records. Only the **business key** in the record, here the order itself, shows that they are copies.
#
# ## 03.4 Deduplicate after the fact (4 points)
#
# Now someone downstream has to remove the duplicates. Write a query that returns each order once,
# with the place of its first copy: columns `value`, `partition`, `offset`. All copies of an order
# are on one partition.

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
# To judge the next record, such a query must remember every order that it has ever seen. Its state
# grows with the history, not with the traffic.
#
# ## 03.5 Survive a restart (4 points)
#
# The check kills the process, and perhaps the next ones, at moments that you do not know. After that
# each order must be in the log exactly once. `run.orders_in_the_log()` reads the topic to its end;
# send what is missing.

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
# Back to the second customer. One byte of the first batch is flipped on its way. The broker sees that
# the checksum is wrong and answers `CORRUPT_MESSAGE`, after which a client may retry. Idempotence is
# off, several requests are in flight. Predict the log.

# %%
guess = lab.predict(log="...", because="...")

# %%
last = lab.run(all_at_once, orders=4, faults=[corrupt_request("Produce", nth=1, sent=4)])
guess.compare(last)

# %% [markdown]
# The broker refused the first batch and accepted the others. The retry of the first came last.
#
# ## The hole
#
# An idempotent producer should keep the sequence, with up to five in flight. Now the same fault with
# idempotence on. Predict the log.

# %%
def five_in_flight(run):
    producer = run.producer({"enable.idempotence": True, "max.in.flight": 5})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

guess = lab.predict(acked=..., log="...", because="...")

# %%
hole = lab.run(five_in_flight, orders=4, faults=[corrupt_request("Produce", nth=1, sent=4)])
guess.compare(hole)

# %%
hole.timeline()

# %% [markdown]
# Order 0 was acked, and it is not in the log. The client did not send it again. The broker accepts
# any first sequence from a producer that it does not know, so it stored 1, 2 and 3. And the client
# takes a later success as proof of the earlier one.³ The only trace is a report *without an offset*
# (`hole.orders_by_offset()`).
#
# Is only the first batch lost, and only by a flipped byte? The sweep makes one run for each setting
# and position.

# %%
def all_with(run, settings):
    producer = run.producer(settings)
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

kinds = (drop_response, refuse, corrupt_request)
faults = [kind("Produce", nth=nth, sent=4) for kind in kinds for nth in (1, 2, 3)]
lab.sweep(all_with, faults=faults,
          settings=[{"max.in.flight": 5}, {"enable.idempotence": True}])

# %% [markdown]
# A refused first batch is lost, too. A fault at the second or third request loses nothing.
#
# ## What this does not cover
#
# `send_the_rest` reads, then writes; a late request of the dead process could arrive in between.
# Fencing that process needs a transaction: lab 04. `further/03_how_far_the_sequence_holds.ipynb` has
# the rule about `max.in.flight=1`, the twin of the hole, two partitions, and timestamps.
#
# ## Questions
#
# - Why can a client not tell a lost request from a lost answer?
# - Why does a restart defeat idempotence?
# - What does a success without an offset mean?
# - Further: what would the broker have to remember to close the hole?
#
# ## Sources
#
# ¹ KIP-679. ² KIP-98, KAFKA-5494. ³ confluent-kafka 2.16.1, Kafka 4.3.1. The broker's half, KAFKA-15591,
# is fixed in 4.5 for partitions that never held a record (pull request 23234).

# %%
lab.score()

# %%
lab.close()
