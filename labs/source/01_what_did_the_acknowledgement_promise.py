# %% [markdown]
# # What did the acknowledgement promise?
#
# A client reported that a record is stored. An hour later nobody finds it. This lab loses acked
# records on demand, in three ways, and then stops losing them.
#
# 50 minutes · three brokers · 20 points · builds on lab 00
#
# ## Try it first
#
# Each choice makes a real run on the three brokers. The arrow keys step through it. With which `acks`
# does every acked order survive the death of its leader?

# %%
from lab_utils import Lab, cut_link, drop_request, drop_response, kill_broker, power_cut
lab = Lab("01", brokers=3)

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - The **leader** of a partition takes all writes; here it is broker 1. **Followers** copy its log.
# - The **ISR** is the set of in-sync replicas: the leader and the followers that keep up.
# - **acks** is what the producer waits for: `0` nothing, `1` the leader has it, `all` every in-sync
#   replica has it.
# - A **link** is the connection by which a follower copies from the leader. It can be cut.
#
# Timers are short here: a dead broker is noticed after 2 s (`broker.session.timeout.ms`, by default
# 9 s).
#
# ## Ask for nothing
#
# With `acks=0` the client does not wait for any answer. The second request is lost on its way. Predict.

# %%
def with_acks(acks, **more):
    def send(run):
        producer = run.producer({"acks": acks, **more})
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()  # so a fault finds its order
    return send

guess = lab.predict(acked=..., stored=..., because="...")

# %%
silent = lab.run(with_acks(0), orders=6, faults=[drop_request("Produce", nth=2)])
guess.compare(silent)

# %%
silent.timeline()

# %% [markdown]
# Every report says success, and none has an offset: with `acks=0` a report says only that the record
# has left the client. The connection broke with the second request. What the client had already
# written to that connection was lost, too.
#
# ## The report is wrong, the log is right
#
# Now `acks=all`, and retries are off. The answer to the third request is lost. Predict.

# %%
guess = lab.predict(stored=..., unknown=..., because="...")

# %%
no_retry = lab.run(with_acks("all", retries=0), orders=5, faults=[drop_response("Produce", nth=3)])
guess.compare(no_retry)

# %%
reports = no_retry.events().where("source = 'client' AND kind IN ('acked', 'failed', 'unknown')")
reports.select("value", "kind", "error", "offset")

# %% [markdown]
# Order 2 has a report with an error, and it is in the log: the client itself raised that error,
# because no answer came. Below, the broker answers with one: order 1 is too large for the topic. The
# callback keeps each report; `poll(0)` calls the callback without waiting.

# %%
def one_is_large(run):
    producer = run.producer({"acks": 1})
    for order in run.orders:
        padding = {"padding": b"x" * 500} if order == "1" else {}
        producer.produce(run.topic, order, partition=0, headers=padding,
                         on_delivery=lambda error, message: heard.append(error))
        producer.poll(0)
    producer.flush()

heard = []
told = lab.run(one_is_large, orders=3, topic_config={"max.message.bytes": 200})
told.log, [error and error.name() for error in heard]

# %% [markdown]
# This error proves that the record is not stored. Two others do not: the leader has the record before
# it answers `NOT_ENOUGH_REPLICAS_AFTER_APPEND` or `REQUEST_TIMED_OUT`. With `acks=0`, or without a
# callback, your program never learns of an error.¹
#
# ## One broker has it
#
# Now `acks=1`. The leader loses the links to its followers. It still answers, because it has the record.
# When it has answered the third order, it is killed. Predict.

# %%
guess = lab.predict(acked=..., lost=..., log="...", because="...")

# %%
cut_off = [cut_link(1, 2), cut_link(1, 3), kill_broker(1, api="Produce", nth=3)]
one = lab.run(with_acks(1), orders=6, faults=cut_off)
guess.compare(one)

# %%
one.replicas()

# %%
one.findings()

# %% [markdown]
# The leader acked records that no other broker had. A follower that had never received them became
# leader. When the old leader came back, it cut its own log to match the new leader's. The records
# were acked, and they are gone.
#
# ## Every replica in sync has it
#
# Now the same with `acks=all`. The links are cut when the first order has been answered; the leader
# is killed when it has received the second. Predict.

# %%
guess = lab.predict(acked=..., lost=..., because="...")

# %%
in_between = [cut_link(1, 2, api="Produce", nth=1), cut_link(1, 3, api="Produce", nth=1),
              kill_broker(1, api="Produce", nth=2, when="received")]
everybody = lab.run(with_acks("all"), orders=6, faults=in_between)
guess.compare(everybody)

# %% [markdown]
# The dying leader never answered the second order, so that order was not acked yet. The client itself
# sent it again, to the new leader.
#
# ## Acked is not on the disk
#
# One replica, `acks=1`. In the first run the broker is killed with SIGKILL after the third answer,
# and started again. In the second run its power is cut. `power_cut` is a simulation: SIGKILL, and
# then the log is cut back to what the broker had recorded as flushed to the disk. Predict the second.

# %%
guess = lab.predict(stored=..., because="...")

# %%
killed = lab.run(with_acks(1), orders=3, replicas=1, faults=[kill_broker(1, api="Produce", nth=3)])
killed.log

# %%
dark = lab.run(with_acks(1), orders=3, replicas=1, faults=[power_cut(1, api="Produce", nth=3)])
guess.compare(dark)

# %% [markdown]
# SIGKILL loses nothing. What the broker writes to a file is first in the **page cache** of the
# operating system, and the page cache survives the process. It does not survive a power cut, and the
# leader had answered before the record was on the disk. Kafka's answer to a power cut is another
# replica on another power line.
#
# ## 01.1 What became of the acked orders? (4 points)
#
# Each of these five runs is broken as above, and acks three orders. Is each order in the log
# `"once"`, is one `"lost"`, or is one there `"twice"`? The check runs all five, which takes half a
# minute.

# %% answer="01.1"
answer_1 = {
    "acks=0, a request is lost": ...,
    "acks=1, the leader dies": ...,
    "acks=all, the leader dies": ...,
    "one replica, kill -9": ...,
    "one replica, power cut": ...,
}
### BEGIN SOLUTION
answer_1 = {
    "acks=0, a request is lost": "lost",
    "acks=1, the leader dies": "lost",
    "acks=all, the leader dies": "once",
    "one replica, kill -9": "once",
    "one replica, power cut": "lost",
}
### END SOLUTION

# %% check="01.1"
lab.check("01.1", answer_1)

# %% [markdown]
# ## 01.2 Sort the reports (4 points)
#
# Write the callback. It puts each order into `words` as `acked`, `failed` (certainly not stored) or
# `unknown` (perhaps stored). The rest of the workload writes your words to a topic, where the check
# reads them. The broker refuses one order for good, and one answer comes too late.
#
# An error has a `code()`. It is negative if the client itself raised the error, as with
# `KafkaError._MSG_TIMED_OUT`.

# %% answer="01.2"
from confluent_kafka import KafkaError

def send_and_sort(run):
    words = {}

    def on_report(error, message):
        order = message.value().decode()
        ### BEGIN SOLUTION
        if error is None:
            words[order] = "acked"
        else:
            words[order] = "unknown" if error.code() < 0 else "failed"
        ### END SOLUTION

    producer = run.producer({"acks": "all", "message.timeout.ms": 1500})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0, on_delivery=on_report)
        producer.flush()
    patient = run.producer({"acks": "all"})
    for order, word in words.items():
        patient.produce(run.topics["words"], f"{word} {order}", partition=0)
    patient.flush()

# %% check="01.2"
lab.check("01.2", send_and_sort)

# %% [markdown]
# ## 01.3 Find the acked orders that are gone (4 points)
#
# Write a query over the ledger that returns the orders that were acked and are not in the log: one
# column, `value`.

# %% answer="01.3"
def acked_and_gone(events):
    ### BEGIN SOLUTION
    acked = events.where("source = 'client' AND kind = 'acked'").select("value").distinct()
    stored = events.where("source = 'log' AND kind = 'record'").select("value").distinct()
    return acked.join(stored, "value", "left_anti")
    ### END SOLUTION

# %%
acked_and_gone(one.events())

# %% check="01.3"
lab.check("01.3", acked_and_gone)

# %% [markdown]
# ## 01.4 Lose nothing that was acked (6 points)
#
# Write a workload that sends every order to `run.topic`. The check kills the leader twice, at moments
# that you do not know. Nothing that was acked may be lost, and at least 95 % of the orders must arrive.

# %% answer="01.4"
def send_safely(run):
    ### BEGIN SOLUTION
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
    ### END SOLUTION

# %% check="01.4"
lab.check("01.4", send_safely)

# %% [markdown]
# ## 01.5 Choose for three systems (2 points)
#
# Room temperatures come every second and only the latest counts. The web shop's access log may have
# small holes. Payments may have none. Choose `acks` for each system, and say whether your choice may
# lose an acked record. A choice is right if what you say of it is true. But no acked payment may be
# lost.
#
# `acks=all` waits for the followers, so the slowest link sets the pace. The further notebook measures it.

# %% answer="01.5"
answer_5 = {
    "room temperature": {"acks": ..., "may_lose": ...},
    "web shop log": {"acks": ..., "may_lose": ...},
    "payments": {"acks": ..., "may_lose": ...},
}
### BEGIN SOLUTION
answer_5 = {
    "room temperature": {"acks": "0", "may_lose": True},
    "web shop log": {"acks": "1", "may_lose": True},
    "payments": {"acks": "all", "may_lose": False},
}
### END SOLUTION

# %% check="01.5"
lab.check("01.5", answer_5)

# %% [markdown]
# ## What this does not cover
#
# `acks=all` is a promise of the in-sync replicas, and the set of these changes: lab 02. A retry may
# also store an order twice: lab 03. `further/01_silence_disks_and_cost.ipynb` has a program without a
# callback, a cluster that is down, two cures for a power cut, and the cost of each setting.
#
# ## Questions
#
# - What does a report say with acks=0?
# - Which broker makes the promise with acks=1, and which one breaks it?
# - Why does a power cut lose records, and SIGKILL none?
# - Further: what would `acks=2` mean, and why did Kafka drop it?
#
# ## Source
#
# ¹ Run `unheard` in the further notebook.

# %%
lab.score()

# %%
lab.close()
