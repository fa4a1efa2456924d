# %% [markdown]
# # Silence, disks and cost
#
# A further notebook to lab 01: more runs, no points. A program that hears nothing, one that repairs what
# was refused, a cluster that is down, two cures for a power cut, and what each setting costs.
#
# 20 minutes · three brokers · builds on lab 01

# %%
from lab_utils import Lab, corrupt_request, drop_request, power_cut, slow_link, stop_broker
from lab_utils.views.measurements import spread
lab = Lab("01_further", brokers=3)

# %% [markdown]
# ## Fire and forget
#
# One record is too large for the topic (`max.message.bytes` is 200). First with `acks=0`, then with
# `acks=1`. The callback keeps each report.

# %%
def one_is_large(acks, reports):
    def send(run):
        producer = run.producer({"acks": acks})
        for order in run.orders:
            padding = {"padding": b"x" * 500} if order == "1" else {}
            producer.produce(run.topic, order, partition=0, headers=padding,
                             on_delivery=lambda error, message: reports.append(error))
            producer.flush()  # so one request is in flight
    return send

small = {"max.message.bytes": 200}
forgotten, heard = [], []
unheard = lab.run(one_is_large(0, forgotten), orders=3, topic_config=small)
told = lab.run(one_is_large(1, heard), orders=3, topic_config=small)
unheard.log, [str(error) for error in forgotten]

# %%
told.log, [error and error.name() for error in heard]

# %% [markdown]
# With `acks=0` the broker can only close the connection. What the client writes before it notices is
# lost, too, and every report says success. With an answer to wait for, the callback gets the error.
# `produce()` alone tells you nothing.
#
# What `acks=0` does promise: nothing is there twice. Two silent producers send by turns. One request of
# the first gets lost, and one of the second is damaged. Can an order be in the log twice?

# %%
def two_silent_ones(run):
    producers = [run.producer({"acks": 0}) for _ in range(2)]
    for number, order in enumerate(run.orders):
        producer = producers[number % 2]
        producer.produce(run.topic, order, partition=0)
        producer.flush()

losses = [drop_request("Produce", nth=2, client_id="producer-1"),
          corrupt_request("Produce", nth=3, client_id="producer-2")]
never_twice = lab.run(two_silent_ones, orders=12, faults=losses)
never_twice.log, never_twice.counts

# %% [markdown]
# Much may be missing. But who waits for no answer never sends again, so nothing is there twice.
#
# ## Repair it, and send it again
#
# A refused record will be refused again, unless something about it changes. Here the callback removes
# the padding and sends the order anew. First without waiting in between, then with `flush()` after
# each order. Predict the first log.

# %%
def repairs(run, waits):
    producer = run.producer({"enable.idempotence": True})
    def send(order, padding):
        producer.produce(run.topic, order, partition=0, headers={"padding": padding},
                         on_delivery=repair)
    def repair(error, message):
        if error is not None and error.name() == "MSG_SIZE_TOO_LARGE":
            send(message.value(), padding=b"")
    for order in run.orders:
        send(order, padding=b"x" * 500 if order == "1" else b"")
        if waits:
            producer.flush()  # which also waits for what a callback sends
    producer.flush()

guess = lab.predict(log="...", because="...")

# %%
repaired = lab.run(lambda run: repairs(run, waits=False), orders=4, topic_config=small)
guess.compare(repaired)

# %%
in_sequence = lab.run(lambda run: repairs(run, waits=True), orders=4, topic_config=small)
in_sequence.log

# %% [markdown]
# Nothing is lost, but what was sent meanwhile is stored before it. Idempotence keeps the sequence of
# *retries*; what a callback sends is a new record. Where the sequence matters, wait for each report.
#
# ## No broker is there
#
# Retries cannot help when no broker is left. The order gets three seconds (`message.timeout.ms`; the
# default is five minutes).

# %%
def with_acks(acks, **more):
    def send(run):
        producer = run.producer({"acks": acks, **more})
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()  # so a fault finds its order
    return send

down = [stop_broker(1), stop_broker(2), stop_broker(3)]
nobody = lab.run(with_acks("all", **{"message.timeout.ms": 3000}), orders=1, faults=down)
nobody, [row.error for row in nobody.rows if row.kind == "unknown"]

# %% [markdown]
# ## Two cures for a power cut
#
# In lab 01 a power cut took acked records: the leader had answered before they were on the disk. With
# `flush.messages=1` the broker flushes each record first.

# %%
flushed = lab.run(with_acks(1), orders=3, replicas=1, topic_config={"flush.messages": 1},
                  faults=[power_cut(1, api="Produce", nth=3)])
flushed.log

# %% [markdown]
# That makes each write wait for the disk. Kafka's answer to a power cut is another replica on another
# power line.

# %%
elsewhere = lab.run(with_acks("all"), orders=3, faults=[power_cut(1, api="Produce", nth=3)])
elsewhere.log

# %% [markdown]
# ## What does it cost?
#
# Each dot below is one run of 400 orders, without waiting in between. The first order of a run is not
# counted: the followers of a new topic need a moment to begin. In the last row the link to one follower
# is slow, 20 ms each way. The runs take turns, so that whatever else this machine does affects all of
# them.

# %%
def burst(acks):
    def send(run):
        producer = run.producer({"acks": acks, "batch.num.messages": 100, "linger.ms": 1})
        producer.produce(run.topic, run.orders[0], partition=0)
        producer.flush()
        for order in run.orders[1:]:
            producer.produce(run.topic, order, partition=0)
        producer.flush()
    return send

def measured(name, acks, *faults):
    rows = lab.run(burst(acks), orders=400, faults=faults).rows
    sent = {row.value: row.at_ns for row in rows if row.kind == "sent"}
    acked = {row.value: row.at_ns for row in rows if row.kind == "acked" and row.value != "0"}
    waits = sorted(acked[order] - sent[order] for order in acked)
    took_s = (max(acked.values()) - sent["1"]) / 1e9
    return {"acks": name, "messages_per_s": 399 / took_s, "latency_ms": waits[199] / 1e6}

# %%
rows = [("0", "0"), ("1", "1"), ("all", "all"), ("all, slow", "all", slow_link(1, 3, by_ms=20))]
spread([measured(*row) for _ in range(5) for row in rows])

# %% [markdown]
# `acks=all` waits until both followers have fetched a batch, so the slowest link sets the pace. Look at
# the spread before you believe a ratio: one number comes from one measurement.
#
# ## By hand
#
# One tile for each broker. Kill the leader, or cut a link, while the cell below is running.

# %%
lab.panel()

# %%
lab.run(with_acks("all"), orders=20)

# %%
lab.close()
