# %% [markdown]
# # Who must have it before I am safe?
#
# `acks=all` waits for every in-sync replica. So everything depends on who is in sync. This lab
# watches that set change, and breaks the promise by changing it.
#
# 50 minutes · three brokers · 20 points · builds on lab 01
#
# ## Try it first
#
# Each choice makes a real run on the three brokers. The arrow keys step through it. When does a write
# wait, and when is it refused?

# %%
from lab_utils import Lab, cut_link, kill_broker, pause_broker, resume_broker
from lab_utils.views.survival import survival
lab = Lab("02", brokers=3)

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - The **ISR** is the set of in-sync replicas. The *controller* decides who is in it, and writes
#   each decision to a log of its own. This lab reads that log.
# - **min.insync.replicas** is a floor: with a smaller ISR, a write with `acks=all` is refused.
# - The **high watermark** is where readers stop: what comes after it is not yet safe to show.
#
# Timers are short here: a follower that has not caught up for 1 s leaves the ISR
# (`replica.lag.time.max.ms`, by default 30 s), and a dead broker is noticed after 2 s.
#
# ## Watch the ISR
#
# Broker 3 is paused when the first order has been answered, and resumed when the second has been
# answered. A paused broker keeps its connections and does nothing. Will the second order be acked
# while broker 3 is paused?

# %%
def one_at_a_time(run):
    producer = run.producer({"acks": "all", "message.timeout.ms": 6000})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # so a fault finds its order

def until_it_is_back(run):
    one_at_a_time(run)
    lab.brokers.wait_for_isr(run.topic, {1, 2, 3})

guess = lab.predict(acked=..., stored=..., because="...")

# %%
sleepy = [pause_broker(3, api="Produce", nth=1), resume_broker(3, api="Produce", nth=2)]
watched = lab.run(until_it_is_back, orders=3, faults=sleepy)
guess.compare(watched)

# %%
watched.replicas()

# %% [markdown]
# The second ack came only after broker 3 had left the ISR. `acks=all` waits for every replica that is
# *in sync*, not just for `min.insync.replicas` of them. A replica that stops delays the ack by
# one to one and a half times `replica.lag.time.max.ms`.¹
#
# ## 02.1 Who is in sync? (4 points)
#
# Three brokers, `acks=all`. Broker 3 is paused after the first ack and resumed after the third. When
# it is back, the leader is killed after the fourth ack. Who is in the ISR at each moment?

# %% answer="02.1"
answer_1 = {"at the start": ..., "3 is paused": ..., "3 is back": ..., "1 is dead": ...}
### BEGIN SOLUTION
answer_1 = {
    "at the start": [1, 2, 3],
    "3 is paused": [1, 2],
    "3 is back": [1, 2, 3],
    "1 is dead": [2, 3],
}
### END SOLUTION

# %% check="02.1"
lab.check("02.1", answer_1)

# %% [markdown]
# ## An ISR of one
#
# With `min.insync.replicas=1`, the default, the ISR may shrink to the leader. Both followers are
# paused, the leader goes on alone, and then it is killed. In this topic an *unclean* election is
# allowed: a replica that is not in sync may lead. Predict.

# %%
def one_is_left():
    pauses = [pause_broker(broker, api="Produce", nth=1) for broker in (2, 3)]
    wakes = [resume_broker(broker, api="Produce", nth=4) for broker in (2, 3)]
    return [*pauses, kill_broker(1, api="Produce", nth=4), *wakes]

guess = lab.predict(acked=..., lost=..., because="...")

# %%
unclean = lab.run(one_at_a_time, orders=5, faults=one_is_left(),
                  topic_config={"unclean.leader.election.enable": "true"})
guess.compare(unclean)

# %%
unclean.replicas()

# %% [markdown]
# An ISR of one acked orders with `acks=all`, and they are gone: it promised no more than `acks=1`.
# Now unclean election is off. Predict again.

# %%
guess = lab.predict(acked=..., lost=..., because="...")

# %%
clean = lab.run(one_at_a_time, orders=5, faults=one_is_left())
guess.compare(clean)

# %%
clean.replicas()

# %% [markdown]
# No broker leads until the old leader is back. That is the choice behind
# `unclean.leader.election.enable`: lose acked records, or wait.
#
# ## The floor
#
# `min.insync.replicas=2`, and the leader loses the links to both followers. One producer uses
# `acks=1`, another `acks=all`, which gives up after three seconds. Predict.

# %%
def send(run, number, settings):
    producer = run.producer(settings)
    producer.produce(run.topic, run.orders[number], partition=0)
    producer.flush()

def below_the_floor(run):
    send(run, 0, {"acks": "all"})
    lab.brokers.cut_link(1, 2)
    lab.brokers.cut_link(1, 3)
    send(run, 1, {"acks": 1})
    lab.brokers.wait_for_isr(run.topic, {1})
    send(run, 2, {"acks": "all", "message.timeout.ms": 3000})

guess = lab.predict(acked=..., unknown=..., because="...")

# %%
floor = lab.run(below_the_floor, orders=3, topic_config={"min.insync.replicas": 2})
guess.compare(floor)

# %%
marks = floor.events().where("kind IN ('acked', 'unknown', 'link_cut', 'watermark', 'healing')")
marks.where("source <> 'log'").orderBy("at_ns").select("source", "kind", "value", "offset", "error")

# %%
answers = floor.events().where("kind = 'response' AND api = 'Produce' AND error IS NOT NULL")
answers.groupBy("error").count()

# %% [markdown]
# The broker refused the write with `acks=all` until the producer gave it up. It acked the write with
# `acks=1`, but the high watermark did not move: no reader could see the record until the followers
# were back. (Before Kafka 3.7 the floor had no effect on `acks=1`.²) `healing` marks the end of the
# run; then the lab repairs the cluster.
#
# ## 02.2 Acked by one alone (4 points)
#
# A leader loses its links, and goes on answering `acks=1`. Write a query over the ledger that returns
# the orders (column `value`) that were acked while fewer than two brokers had them. The events of
# kind `log_end` say how far each log reached: an order is in every log whose end is above its
# `offset`. After the event of kind `healing` the logs become equal again. Write `F.col("offset")` for
# that column: `events.offset` is a method of Spark.

# %% answer="02.2"
from pyspark.sql import functions as F

def acked_alone(events):
    ### BEGIN SOLUTION
    healed = events.where("kind = 'healing'").agg(F.min("at_ns").alias("healed_ns"))
    looks = events.where("kind = 'log_end'").crossJoin(healed).where("at_ns < healed_ns")
    ends = looks.groupBy("actor").agg(F.max("offset").alias("end"))
    acked = events.where("source = 'client' AND kind = 'acked'").select("value", "offset")
    copies = acked.join(ends, F.expr("end > offset")).groupBy("value").count()
    return copies.where("count < 2").select("value")
    ### END SOLUTION

# %%
acked_alone(floor.events())

# %% check="02.2"
lab.check("02.2", acked_alone)

# %% [markdown]
# ## How many replicas, and which floor?
#
# Below is a topic for each combination. One order is written to each while all brokers live, one when
# broker 1 is dead, and one when broker 2 is dead, too. An acked order is *safe* here if two disks
# have it. Which combinations accept writes with one dead broker, and keep every acked order safe with
# any number of dead brokers?

# %%
settings = {f"rf{replicas}-min{floor}": {"replicas": replicas, "min.insync.replicas": floor}
            for replicas in (1, 2, 3) for floor in (1, 2, 3)}

def write_to_each(run):
    for dead, order in enumerate(run.orders):
        if dead:
            lab.brokers.kill(dead)
            for topic in run.topics.values():
                lab.brokers.wait_for_leader(topic, other_than=dead)
        producer = run.producer({"acks": "all", "message.timeout.ms": 2000})
        for topic in run.topics.values():
            producer.produce(topic, order, partition=0)
        producer.flush()

grid = lab.run(write_to_each, orders=3, topics=settings)
survival(grid.rows)

# %% [markdown]
# With a floor of one, writes go on until the last broker dies, and the last order is on one disk.
# With as many replicas as the floor, the first death ends all writes. A floor above the number of
# replicas counts as that number. So set `min.insync.replicas` to 2 at least, and the replication
# factor to one more.
#
# ## 02.3 Settings that survive (6 points)
#
# Choose the replication factor, the topic's settings and the producer's, so that nothing acked is
# lost and writes go on, whichever broker fails. The check kills a leader that has lost its followers,
# and in another run a follower, at moments that you do not know.

# %% answer="02.3"
answer_3 = {
    "replicas": ...,
    "topic": {"min.insync.replicas": ..., "unclean.leader.election.enable": ...},
    "producer": {"acks": ...},
}
### BEGIN SOLUTION
answer_3 = {
    "replicas": 3,
    "topic": {"min.insync.replicas": 2, "unclean.leader.election.enable": "false"},
    "producer": {"acks": "all"},
}
### END SOLUTION

# %% check="02.3"
lab.check("02.3", answer_3)

# %% [markdown]
# ## 02.4 The checklist, line by line (4 points)
#
# Each line below is left out in one run, and something breaks at a bad moment. What becomes of the
# orders: `"lost"` (acked and gone), `"unavailable"` (not acked, not stored), `"duplicated"`, or
# `"nothing"`? The check runs all four.
#
# - `acks=all`: it is `acks=1`, and the leader loses its links and dies
# - `replicas > min.insync.replicas`: both are 3, and a follower dies
# - `unclean election off`: it is on, the floor is 1, and the leader dies alone in the ISR
# - `retries`: they are 0, and the leader loses its links and dies before it answers an order

# %% answer="02.4"
answer_4 = {
    "acks=all": ...,
    "replicas > min.insync.replicas": ...,
    "unclean election off": ...,
    "retries": ...,
}
### BEGIN SOLUTION
answer_4 = {
    "acks=all": "lost",
    "replicas > min.insync.replicas": "unavailable",
    "unclean election off": "lost",
    "retries": "unavailable",
}
### END SOLUTION

# %% check="02.4"
lab.check("02.4", answer_4)

# %% [markdown]
# ## 02.5 Where was it? (2 points)
#
# The first order is sent with `acks=all`, the others with `acks=1`. The leader loses its links after
# the first ack and is killed after the third. At that moment, on which brokers was the first order,
# and where was the last order acked before it?

# %%
def all_then_one(run):
    for number in range(len(run.orders)):
        send(run, number, {"acks": 1 if number else "all"})

half_way = [cut_link(1, 2, api="Produce", nth=1), cut_link(1, 3, api="Produce", nth=1),
            kill_broker(1, api="Produce", nth=3)]
lab.run(all_then_one, orders=4, faults=half_way).replicas()

# %% answer="02.5"
answer_5 = {"the first order": ..., "the last order before": ...}
### BEGIN SOLUTION
answer_5 = {"the first order": [1, 2, 3], "the last order before": [1]}
### END SOLUTION

# %% check="02.5"
lab.check("02.5", answer_5)

# %% [markdown]
# ## What this does not cover
#
# All brokers here share one machine. In a real cluster several brokers may fail together.
# `further/02_links_retries_and_elections.ipynb` has a held link, a leader that dies before it answers,
# and a clean handover.
# `further/02_what_takes_a_committed_record.ipynb` has retention and compaction.
#
# ## Questions
#
# - How long does acks=all wait for a paused follower?
# - Why is an ISR of one dangerous only while the floor is 1?
# - Why is `replicas = min.insync.replicas` a bad idea?
#
# ## Sources
#
# ¹ `isr-expiration` in Kafka's `ReplicaManager`. ² KAFKA-15583, part of KIP-966.

# %%
lab.score()

# %%
lab.close()
