# %% [markdown]
# # What did the acknowledgement promise?
#
# A producer was told that its record is stored. An hour later nobody finds it. This lab loses acked
# records on demand, in four ways, and then stops losing them.
#
# 45 minutes · three brokers · 20 points · builds on lab 00

# %%
from lab_utils import (Lab, cut_link, drop_request, drop_response, kill_broker, power_cut,
                       slow_link, stop_broker)
lab = Lab("01", brokers=3)

# %% [markdown]
# ## Try it first
#
# Each choice makes a real run on the three brokers. The arrow keys step through it. With which `acks`
# does every acked order survive the death of its leader?

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - The **leader** of a partition takes all writes; here it is broker 1. **Followers** copy its log.
# - The **ISR** is the set of in-sync replicas: the leader and the followers that keep up.
# - **acks** is what the producer asks to hear: `0` nothing, `1` the leader has it, `all` every
#   in-sync replica has it.
# - A **link** is the connection by which a follower copies from the leader. It can be cut.
#
# Some timers are short here, so that you wait seconds and not minutes. A dead broker is noticed
# after 2 s (`broker.session.timeout.ms`, by default 9 s).

# %% [markdown]
# ## Ask for nothing
#
# With `acks=0` the client does not wait for any answer. The second request is lost on its way.

# %%
def with_acks(acks, **more):
    def send(run):
        producer = run.producer({"acks": acks, **more})
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()
    return send

# %%
guess = lab.predict(acked=..., stored=..., because="...")

# %%
silent = lab.run(with_acks(0), orders=6, faults=[drop_request("Produce", nth=2)])
guess.compare(silent)

# %%
silent.timeline()

# %% [markdown]
# Every report says success, and none has an offset: with `acks=0` a report says that the record has
# left the client. The connection broke with the second request, and what the client had already
# written to it was lost as well.

# %%
silent.findings()

# %% [markdown]
# ## Fire and forget
#
# Many programs never look at a report. Here one record is too large for the broker
# (`max.message.bytes` of the topic is 200). First without a callback, then with one.

# %%
def one_is_large(acks, reports):
    def send(run):
        producer = run.producer({"acks": acks})
        for number, order in enumerate(run.orders):
            padding = {"padding": b"x" * 500} if number == 1 else {}
            producer.produce(run.topic, order, partition=0, headers=padding,
                             on_delivery=lambda error, message: reports.append(error))
        producer.flush()
    return send

# %%
small = {"max.message.bytes": 200}
forgotten, heard = [], []
unheard = lab.run(one_is_large(0, forgotten), orders=3, topic_config=small)
told = lab.run(one_is_large(1, heard), orders=3, topic_config=small)
unheard.log, [str(error) for error in forgotten]

# %%
told.log, [error and error.name() for error in heard]

# %% [markdown]
# With `acks=0` nobody hears of it: the broker closes the connection, and every report says success.
# With an answer to wait for, the callback gets the error. `produce()` alone tells you nothing.

# %% [markdown]
# ## The report is wrong, the log is right
#
# Retries are off. The answer to the third request is lost.

# %%
guess = lab.predict(stored=..., unknown=..., because="...")

# %%
no_retry = lab.run(with_acks("all", retries=0), orders=5, faults=[drop_response("Produce", nth=3)])
guess.compare(no_retry)

# %%
reports = no_retry.events().where("source = 'client' AND kind IN ('acked', 'failed', 'unknown')")
reports.select("value", "kind", "error", "offset")

# %% [markdown]
# Without retries each order is written once or not at all. The *report* may still be wrong: order 2
# has an error, and it is in the log.

# %% [markdown]
# ## One broker has it
#
# Now `acks=1`. The leader loses the links to its followers. It still answers: it has the record. When
# it has answered the third order, it is killed.

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
# The leader promised for itself alone. A follower that has never heard of the records became leader,
# and when the old leader came back it cut its own log to match. Nothing is corrupt. The records
# were acked, and are gone.
#
# ## Everybody in sync has it
#
# The same with `acks=all`. The links are cut when the first order has been answered; the leader is
# killed with the second one in its hands.

# %%
guess = lab.predict(acked=..., lost=..., because="...")

# %%
in_between = [
    cut_link(1, 2, api="Produce", nth=1),
    cut_link(1, 3, api="Produce", nth=1),
    kill_broker(1, api="Produce", nth=2, when="received"),
]
everybody = lab.run(with_acks("all"), orders=6, faults=in_between)
guess.compare(everybody)

# %%
everybody.timeline()

# %% [markdown]
# The dying leader never answered the second order, so nothing was promised. The client sent it again
# by itself, to the new leader. You see it on the wire; your program has no line for it.

# %% [markdown]
# ## Nobody is there
#
# Retries cannot help when no broker is left. The order gets three seconds (`message.timeout.ms`; the
# default is five minutes).

# %%
down = [stop_broker(1), stop_broker(2), stop_broker(3)]
nobody = lab.run(with_acks("all", **{"message.timeout.ms": 3000}), orders=1, faults=down)
nobody, [row.error for row in nobody.rows if row.kind == "unknown"]

# %% [markdown]
# ## Acked is not on the disk
#
# One replica, `acks=1`. First the broker is killed with SIGKILL after the third answer, and started
# again.

# %%
guess = lab.predict(stored=..., because="...")

# %%
killed = lab.run(with_acks(1), orders=3, replicas=1, faults=[kill_broker(1, api="Produce", nth=3)])
guess.compare(killed)

# %% [markdown]
# Nothing is lost. The broker had written the records to a file, and what is written to a file is in
# the **page cache** of the operating system, which survives the process. It does not survive a power
# cut. `power_cut` is a simulation: SIGKILL, and then the log is cut back to what the broker had noted
# as flushed to the disk.

# %%
guess = lab.predict(stored=..., because="...")

# %%
dark = lab.run(with_acks(1), orders=3, replicas=1, faults=[power_cut(1, api="Produce", nth=3)])
guess.compare(dark)

# %% [markdown]
# Acked and gone, without any replica dying at a bad moment: the leader answered before the record was
# on the disk. Old texts say the opposite. With `flush.messages=1` the broker flushes each record first.

# %%
flushed = lab.run(with_acks(1), orders=3, replicas=1, topic_config={"flush.messages": 1},
                  faults=[power_cut(1, api="Produce", nth=3)])
flushed.log

# %% [markdown]
# Nobody runs a busy topic that way. Kafka's answer to a power cut is another replica on another
# power line.

# %%
elsewhere = lab.run(with_acks("all"), orders=3, faults=[power_cut(1, api="Produce", nth=3)])
elsewhere.log

# %% [markdown]
# ## 01.1 May it be lost? (4 points)
#
# May an *acked* record be lost? Answer for each setting and fault. The check runs all five, which
# takes half a minute.

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
    "acks=0, a request is lost": True,
    "acks=1, the leader dies": True,
    "acks=all, the leader dies": False,
    "one replica, kill -9": False,
    "one replica, power cut": True,
}
### END SOLUTION

# %% check="01.1"
lab.check("01.1", answer_1)

# %% [markdown]
# ## 01.2 Sort the reports (4 points)
#
# Write the callback. It puts each order into `words` as `acked`, `failed` (the report rules it out)
# or `unknown` (it does not). The rest of the workload writes your words to a topic, where the check
# reads them. The broker refuses one order for good, and one answer comes too late.
#
# An error has a `code()`. What the client itself says is negative, as `KafkaError._MSG_TIMED_OUT`.

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
# ## What does it cost?
#
# Each dot below is one run of 400 orders, without waiting in between. The first order of a run is not
# counted: the followers of a new topic need a moment to begin. In the last row the link to one follower
# is slow, 20 ms each way. The runs take turns, so that whatever else this machine does hits all of them.

# %%
from lab_utils.views.measurements import spread

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
# the spread before you believe a ratio: whoever shows you one number has measured once.

# %% [markdown]
# ## 01.5 Choose for three systems (2 points)
#
# Room temperatures come every second and only the latest counts. The web shop's access log may have
# small holes. Payments may not. Choose `acks` for each, and say whether your choice may lose an acked
# record. Any choice is right whose promise it keeps, but somebody must answer for the payments.

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
# ## By hand
#
# One tile for each broker. Kill the leader, or cut a link, while the cell below is running.

# %%
lab.panel()

# %%
lab.run(with_acks("all"), orders=20)

# %% [markdown]
# ## What this does not cover
#
# `acks=all` is a promise of the in-sync replicas, and who is in sync changes. With an ISR of one it is
# `acks=1`. That is lab 02. A retry may also store an order twice: lab 03.
#
# ## Questions
#
# - What does a report say with acks=0?
# - Which party makes the promise with acks=1, and which one breaks it?
# - Why does SIGKILL lose nothing, and a power cut does?
# - Why did the order that was in the dying leader's hands arrive in the end?
# - Further: what would `acks=2` mean, and why did Kafka drop it?

# %%
lab.score()

# %%
lab.close()
