# %% [markdown]
# # Lost commits and rebalances
#
# A further notebook to lab 05: more runs, no points. What if the commit itself goes wrong, a partition
# is new, a consumer of the group dies, or a consumer goes back?
#
# 20 minutes · one broker · builds on lab 05

# %%
from confluent_kafka import TopicPartition
from lab_utils import Lab, crash_client, drop_request, drop_response, source
from pyspark.sql import Window, functions as F
lab = Lab("05_further")

# %% [markdown]
# ## One error, two truths
#
# The program commits once, at its end. In the first run the network loses one answer, in the second
# every answer, in the third every request. Which programs see an error? Whose offset is committed?

# %%
def commits_at_the_end(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
    consumer.commit(asynchronous=False)

def outcome(run):
    """What the program saw of its commit, after how many requests; and the run."""
    told = [row.error for row in run.rows if row.detail.get("of") == "commit"] or ["ok"]
    requests = [row for row in run.requests("OffsetCommit") if row.kind == "request"]
    return *told, len(requests), run

# %%
losses = (drop_response("OffsetCommit"), drop_response("OffsetCommit", once=False),
          drop_request("OffsetCommit", once=False))
[outcome(lab.run(commits_at_the_end, orders=6, filled=True, faults=[loss])) for loss in losses]

# %% [markdown]
# The first program does not notice: the client sends the commit again, and to set a bookmark twice
# does no harm. The other two get the same `_TRANSPORT` after six requests. The second is committed,
# the third is not. The program cannot know: it is the *unknown* of lab 00 again.
#
# ## A partition that no consumer knew
#
# The topic gets a second partition. Three orders (3, 4, 5) are written to it before the consumer
# learns of it, two (6, 7) after. `auto.offset.reset` says where to begin without a bookmark. Predict
# how many of the eight orders each consumer is given.

# %%
def send(run, orders, partition):
    producer = run.producer()
    for order in orders:
        producer.produce(run.topic, order, partition=partition)
    producer.flush()

def grows(run, reset):
    consumer = run.consumer({"auto.offset.reset": reset,
                             "topic.metadata.refresh.interval.ms": 1000})  # default: 5 minutes
    consumer.subscribe([run.topic])
    def read(partitions):
        for message in run.messages(consumer, partitions):
            run.processed(message)
    read(1)  # nothing is there yet
    send(run, run.orders[:3], partition=0)
    read(1)
    run.add_partition()
    send(run, run.orders[3:6], partition=1)
    read(2)  # until it has been assigned both
    send(run, run.orders[6:], partition=1)
    read(2)

# %%
def from_latest(run):
    grows(run, "latest")

def from_earliest(run):
    grows(run, "earliest")

[lab.run(from_latest, orders=8), lab.run(from_earliest, orders=8)]

# %% [markdown]
# With `latest` three acked orders are never delivered, and there is no error. With `earliest` they
# are, and nothing of partition 0 is read again: a bookmark takes precedence.
#
# ## Three ways to rebalance
#
# Two processes share two partitions. Each commits after every second order. The second is killed
# with one order done and not committed. Its partition goes to the first.

# %%
def shares(run, settings):
    consumer = run.consumer({"enable.auto.commit": False} | settings)
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        if message.offset() % 2:
            consumer.commit(message, asynchronous=False)

classic = {"session.timeout.ms": 2000, "max.poll.interval.ms": 2000}
two = {"orders": 12, "filled": True, "partitions": 2, "members": 2}
dies = [crash_client("after_process", nth=3, member=2)]

def by_range(run):
    shares(run, classic)

killed = lab.run(by_range, **two, faults=dies)
killed.ownership()

# %% [markdown]
# Once both had joined, the assignment stayed until the second died. Then both partitions went to the
# first, and one order was repeated. `range` follows the eager protocol: every member gives up all its
# partitions before any is assigned again. `cooperative-sticky` follows the cooperative one and
# moves only what must move (KIP-429). So does the protocol of KIP-848, where the broker assigns.

# %%
def cooperatively(run):
    shares(run, classic | {"partition.assignment.strategy": "cooperative-sticky"})

def by_the_broker(run):
    shares(run, {"group.protocol": "consumer"})

calmer = [lab.run(each, **two, faults=dies) for each in (cooperatively, by_the_broker)]
calmer

# %%
calmer[0].ownership()

# %% [markdown]
# How long was the partition silent, and where did the new owner begin? The window puts each delivery
# beside the one before it in its partition.

# %%
def taken_over(events):
    turn = Window.partitionBy("run", "partition").orderBy("at_ns")
    given = events.where("kind = 'delivered'").select(
        "run", "partition", "offset", "actor", F.lag("actor").over(turn).alias("before"),
        ((F.col("at_ns") - F.lag("at_ns").over(turn)) / 1_000_000).alias("silent_ms"))
    return given.where("actor != before")

first, second, third = (run.events() for run in (killed, *calmer))
taken_over(first.unionByName(second).unionByName(third)).orderBy("run")

# %% [markdown]
# Each new owner begins at offset 2, where the last commit was: a calmer rebalance changes nothing
# about the order that was done and not committed. The silence lasts until the group misses its dead
# member: about the session timeout, which the consumers set in the first two runs (2 s) and the broker
# in the third (1 s here, 45 s by default).
#
# ## Going back
#
# A consumer may also go back by itself. Watch the bookmark.

# %%
def goes_back(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    has_gone_back = False
    for message in run.messages(consumer):
        run.processed(message)
        consumer.commit(message, asynchronous=False)
        if message.offset() == 3 and not has_gone_back:
            has_gone_back = True
            consumer.seek(TopicPartition(run.topic, 0, 1))

lab.run(goes_back, orders=6, filled=True).bookmarks()

# %% [markdown]
# Kafka delivers again whatever you ask for, and the bookmark goes back, too: a commit by hand may
# lower it. To process once, the application must help. That is lab 06.
#
# One limit: with KIP-848 a fixed place in the group (`group.instance.id`) is refused to a successor
# while the dead process holds it. And a commit can also be lost with its coordinator; this lab has
# one broker.
#
# ## By hand
#
# Arm a fault, then run the cell below it again.

# %%
lab.panel()

# %%
lab.run(commits_at_the_end, orders=6, filled=True)

# %% [markdown]
# ## Under the hood
#
# The loop around `poll()` is short.

# %%
from lab_utils.clients.consumer import batches
source(batches)

# %%
lab.close()
