# %% [markdown]
# # How far the sequence holds
#
# A further notebook to lab 03: more runs, no points. Lab 03 showed what a producer id and a sequence
# number do. Here you see what else they cover, and what they do not.
#
# 20 minutes · one broker · builds on lab 03

# %%
from lab_utils import (
    Lab, corrupt_request, crash_client, drop_response, refuse, replay_request, source
)
from pyspark.sql import Window, functions as F
lab = Lab("03_further")

# %% [markdown]
# ## One in flight
#
# A well-known rule says that `max.in.flight=1` keeps the orders in sequence. In the first run the
# answer to the second request is lost. In the second run a byte of the second request is flipped.
# Predict the log of the second run.

# %%
def one_in_flight(run):
    producer = run.producer({"max.in.flight": 1})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

guess = lab.predict(log="...", because="...")

# %%
lab.run(one_in_flight, orders=4, faults=[drop_response("Produce", nth=2)]).log

# %%
half_true = lab.run(one_in_flight, orders=4, faults=[corrupt_request("Produce", nth=2, sent=4)])
guess.compare(half_true)

# %% [markdown]
# The rule is half true. After a lost connection the sequence is kept. After an error *response* this
# client waits `retry.backoff.ms` before the retry, and meanwhile sends the next order. We measured
# the Java client 4.3.1 under the same fault: it keeps the sequence.
#
# An idempotent producer keeps it here too, and with up to five in flight. It refuses a sixth.

# %%
def five_in_flight(run):
    producer = run.producer({"enable.idempotence": True, "max.in.flight": 5})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()

lab.run(five_in_flight, orders=6, faults=[corrupt_request("Produce", nth=2, sent=6)]).log

# %%
def six_in_flight(run):
    run.producer({"enable.idempotence": True, "max.in.flight": 6})

[row.detail["message"] for row in lab.run(six_in_flight).rows if row.kind == "raised"]

# %% [markdown]
# Why five? The broker keeps the last five batches of each producer and partition. In the next two
# runs the proxy sends a copy of the second batch by itself, after four more batches and after five.
# How does the broker answer the copy?

# %%
known = lab.run(five_in_flight, orders=8, faults=[replay_request("Produce", nth=2, later=4)])
known.timeline()

# %%
forgotten = lab.run(five_in_flight, orders=8, faults=[replay_request("Produce", nth=2, later=5)])
forgotten.timeline()

# %% [markdown]
# The broker recognises the fifth-last batch and answers with the offset that it has. It has
# forgotten the sixth-last, and refuses it. Neither is stored twice. A batch that is sent again
# with five in flight is the fifth-last at most.
#
# ## The same report, and the order is there
#
# In lab 03 an order was acked and lost, and its report had no offset. Here is that run again, and a
# second one: the broker stores the batch, and the proxy replaces its answer with an error. In both the
# client has sent all four orders (`sent=4`) when it gets the error.

# %%
hole = lab.run(five_in_flight, orders=4, faults=[corrupt_request("Produce", nth=1, sent=4)])
after_append = refuse("Produce", nth=2, error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", sent=4)
twin = lab.run(five_in_flight, orders=4, faults=[after_append])
hole.log, twin.log

# %%
both = twin.events().unionByName(hole.events()).where("kind = 'acked' AND offset IS NULL")
both.select("run", "value", "kind", "offset")

# %% [markdown]
# A success without an offset says *acknowledged, position unknown*. The first order was lost, the
# second was stored. Only the log decides.
#
# ## Two partitions
#
# The partition is part of the key. One producer sends the same order to two partitions.

# %%
def to_two_partitions(run):
    producer = run.producer({"enable.idempotence": True})
    for partition in (0, 1):
        producer.produce(run.topic, run.orders[0], partition=partition)
    producer.flush()

lab.run(to_two_partitions, orders=1, partitions=2)

# %% [markdown]
# The broker stored it twice: each partition has its own sequence. Across partitions there is no
# sequence at all, and timestamps do not bring it back. The producer sets them, and a producer may
# set any.

# %%
def with_old_timestamps(run):
    producer = run.producer()
    for number, order in enumerate(run.orders):
        when_ms = 1_000_000_000_000 - number
        producer.produce(run.topic, order, partition=number % 3, timestamp=when_ms)
    producer.flush()

spread = lab.run(with_old_timestamps, orders=6, partitions=3)
records = spread.events().where("source = 'log' AND kind = 'record'").orderBy("partition", "offset")
records.select("partition", "offset", "value", "detail.timestamp_ms")

# %% [markdown]
# ## What it costs to be sure
#
# A reader that drops duplicates must remember the orders that it has seen. But how many of them? The
# process below is killed and sends all its orders again. The query numbers the copies of each order
# with a window, and counts the records since the copy before.

# %%
def idempotent(run):
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # so one request is in flight

restarted = lab.run(idempotent, orders=5, faults=[crash_client("after_ack", nth=3)])

def copies(events):
    of_order = Window.partitionBy("partition", "value").orderBy("offset")
    log = events.where("source = 'log' AND kind = 'record'").select(
        "partition", "offset", "value", F.row_number().over(of_order).alias("copy"),
        (F.col("offset") - F.lag("offset").over(of_order)).alias("records_since"))
    return log.where("copy > 1").orderBy("partition", "offset")

copies(restarted.events())

# %% [markdown]
# A reader that remembers the last three orders is enough *here*. The distance is what was sent
# before the process died, and nobody knows that beforehand. A reader that forgets an order after an
# hour counts a duplicate that arrives later than that again.
#
# ## By hand
#
# Arm a fault, then run the cell below the panel. The buttons also act while a cell is running.

# %%
lab.panel()

# %%
lab.run(five_in_flight, orders=6).log

# %% [markdown]
# ## Under the hood
#
# A fault is a few words of data. The proxy does the rest.

# %%
source(drop_response)

# %%
lab.close()
