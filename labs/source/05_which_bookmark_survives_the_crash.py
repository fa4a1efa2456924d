# %% [markdown]
# # Which bookmark survives the crash?
#
# A service reads orders and books them. It is killed, started again, and reads on where its
# bookmark says. Then one order was never booked, or one was booked twice. Where the bookmark
# stands at the moment of the crash decides which. This lab moves it.
#
# 50 minutes · one broker · 20 points · builds on labs 00 and 03

# %%
from lab_utils import Lab, crash_client, drop_request, drop_response, source, stall_client
lab = Lab("05")

# %% [markdown]
# ## Try it first
#
# Each choice makes a real run: the process is really killed, and started again. The arrow keys step
# through it. Which loop repeats an order, which one loses an order, and where must the process die?

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - A **group** is a set of consumers that share the partitions of a topic.
# - **Delivered** is a record that `poll()` returned. **Processed** is one for which the work is done.
# - **Committed** is the offset that the broker keeps for the group: *the next record to read*.
# - **Skipped** is an order that was never processed. **Repeated** is one that was processed twice.
#
# In this lab the orders are in the topic before the workload starts (`filled=True`), and
# `run.messages(consumer)` is a loop around `poll()` that ends when the topic has been read.

# %% [markdown]
# ## Process, then commit
#
# The workload does the work for a record, then moves the bookmark behind it.

# %%
def process_then_commit(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)  # the work is done here
        consumer.commit(message, asynchronous=False)

# %%
lab.run(process_then_commit, orders=6, filled=True)

# %% [markdown]
# ## Predict, then break
#
# The process is killed after it has done the work for the third order, and is started again. How
# many times is an order processed, in all? How many orders are repeated, how many skipped?

# %%
guess = lab.predict(processed=..., repeated=..., skipped=..., because="...")

# %%
repeated = lab.run(process_then_commit, orders=6, filled=True,
                   faults=[crash_client("after_process", nth=3)])
guess.compare(repeated)

# %%
repeated.bookmarks()

# %% [markdown]
# The bookmark stood at 2 when the process died: order 2 was done, and the broker had not heard of
# it. So the next process did it again. This is **at least once**.
#
# Now the other way round. Same crash, one step later in the loop. Predict.

# %%
def commit_then_process(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        consumer.commit(message, asynchronous=False)
        run.processed(message)

# %%
guess = lab.predict(processed=..., repeated=..., skipped=..., because="...")

# %%
skipped = lab.run(commit_then_process, orders=6, filled=True,
                  faults=[crash_client("after_commit", nth=3)])
guess.compare(skipped)

# %%
skipped.findings()

# %% [markdown]
# The bookmark was ahead of the work. Order 2 is lost, and nobody saw an error: **at most once**. It
# is *allowed*: the program sets the bookmark, and Kafka cannot see whether the work was done. Neither
# sequence of the two lines is right. One repeats, the other loses.
#
# ## 05.1 Where does it read on? (3 points)
#
# `process_then_commit` is killed three times, each time while it is busy with order 2, at offset 2:
# after it was polled, after it was processed, after it was committed. From which offset does the
# next process read? Think first; then run it, if you like.

# %% answer="05.1"
answer_1 = {"after_poll": ..., "after_process": ..., "after_commit": ...}
### BEGIN SOLUTION
answer_1 = {"after_poll": 2, "after_process": 2, "after_commit": 3}
### END SOLUTION

# %% check="05.1"
lab.check("05.1", answer_1)

# %% [markdown]
# ## When nobody commits
#
# By default the client commits by itself, every five seconds (`auto.commit.interval.ms`; this lab
# sets it to 100 ms). It commits what it has *handed out*. Here order 2 is in hand: it has been
# polled, the program works on it for half a second, and is then killed.

# %%
def automatic(run, interval_ms=100):
    consumer = run.consumer({"enable.auto.commit": True, "auto.commit.interval.ms": interval_ms})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)

in_hand = [stall_client("before_process", nth=3, for_ms=500), crash_client("before_process", nth=3)]

# %%
guess = lab.predict(repeated=..., skipped=..., because="...")

# %%
tick = lab.run(automatic, orders=6, filled=True, faults=in_hand)
guess.compare(tick)

# %%
tick.bookmarks()

# %% [markdown]
# Skipped, without a thread and without an error. Now the default interval: the same program, the
# same crash.

# %%
def automatic_by_default(run):
    automatic(run, interval_ms=5000)

# %%
lab.run(automatic_by_default, orders=6, filled=True, faults=in_hand)

# %% [markdown]
# No tick came in time, so two are repeated instead. Whether this program loses or repeats is a
# matter of when the timer fires. In the Java client the picture is another one: it commits in
# `poll()`, and only what the *previous* poll returned.
#
# It needs no crash at all. This one stops in good order at an order that it cannot process.

# %%
def stops_in_good_order(run):
    consumer = run.consumer()  # enable.auto.commit is on by default
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        if message.value() == b"2":
            break  # this order cannot be processed today
        run.processed(message)
    consumer.close()

# %%
lab.run(stops_in_good_order, orders=6, filled=True)

# %% [markdown]
# Two were processed, four were not, and `close()` committed 3. Orders 3, 4 and 5 wait behind the
# bookmark. Order 2 stands before it, and will never be read again by this group.
#
# The cure is to tell the client what is done. `enable.auto.offset.store=False` and
# `store_offsets()` *after* the work: the timer then commits no more than that.

# %%
def stored_when_done(run):
    consumer = run.consumer({"enable.auto.offset.store": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        consumer.store_offsets(message=message)

# %%
lab.run(stored_when_done, orders=6, filled=True, faults=in_hand)

# %% [markdown]
# ## 05.2 Lose nothing (5 points)
#
# Complete the loop. The check kills the process twice, at moments that you do not know, once after
# it has been at work for a while. Afterwards each order must have been processed at least once, and
# the bookmark must stand at the end of the topic. In the check `run.processed` writes a receipt to
# the broker, so that there is a witness.

# %% answer="05.2"
def loses_nothing(run):
    settings = {"auto.offset.reset": "earliest"}
    ### BEGIN SOLUTION
    settings["enable.auto.commit"] = False
    ### END SOLUTION
    consumer = run.consumer(settings)
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        ### BEGIN SOLUTION
        run.processed(message)
        consumer.commit(message, asynchronous=False)
        ### END SOLUTION

# %% check="05.2"
lab.check("05.2", loses_nothing)

# %% [markdown]
# ## With four threads
#
# The main thread polls, four others work. Order 1 takes long. The others are done when the process
# is killed. First with automatic commits.

# %%
from concurrent.futures import ThreadPoolExecutor, wait

def handed_to_threads(run):
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    with ThreadPoolExecutor(4) as workers:
        for message in run.messages(consumer):
            workers.submit(run.processed, message)

# %%
slow = stall_client("before_process", value="1", for_ms=3000)
last = [stall_client("after_poll", value="5", for_ms=500), crash_client("after_poll", value="5")]
lab.run(handed_to_threads, orders=6, filled=True, faults=[slow, *last])

# %% [markdown]
# Orders 1 and 5 are gone: handed to a thread, or in hand, and committed. So commit by hand. But
# what? This loop takes six orders at a time. Every second, until its workers are done, it asks
# `bookmark` where to set the bookmark. Predict what `highest` does.

# %%
from confluent_kafka import TopicPartition

def by_threads(run, bookmark):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    with ThreadPoolExecutor(4) as workers:
        for batch in run.batches(consumer, size=6):
            works = {it.offset(): workers.submit(run.processed, it) for it in batch}
            done = set()
            while done != set(works):
                wait(works.values(), timeout=1)
                done = {offset for offset, work in works.items() if work.done()}
                place = TopicPartition(run.topic, 0, bookmark(set(works), done))
                consumer.commit(offsets=[place], asynchronous=False)

# %%
def highest(given, done):
    return max(done) + 1

def with_the_highest(run):
    by_threads(run, highest)

guess = lab.predict(repeated=..., skipped=..., because="...")

# %%
threads = lab.run(with_the_highest, orders=6, filled=True,
                  faults=[slow, crash_client("after_commit")])
guess.compare(threads)

# %% [markdown]
# ## 05.3 The bookmark of four threads (5 points)
#
# `highest` set the bookmark behind order 1, which nobody had done. Write `bookmark`: from the offsets
# `given` to the threads and those that are `done`, both sets, the offset to commit. Nothing may be
# lost in a crash, and when all is done the bookmark must stand behind the last.

# %% answer="05.3"
def with_four_threads(run):
    # Define bookmark(given, done), and hand it to by_threads as `highest` was.
    ### BEGIN SOLUTION
    def bookmark(given, done):
        return min(given - done, default=max(given) + 1)
    by_threads(run, bookmark)
    ### END SOLUTION

# %%
lab.run(with_four_threads, orders=6, filled=True, faults=[slow, crash_client("after_commit")])

# %% check="05.3"
lab.check("05.3", with_four_threads)

# %% [markdown]
# Nothing is lost, and there is a price: everything behind the slow order comes again.
#
# ## 05.4 Find them in the ledger (4 points)
#
# Write a query that returns the columns `value` and `outcome`: an order that was processed more than
# once is `repeated`; one that was delivered, was never processed, and lies before the *last*
# committed offset is `skipped`. The ledger has `delivered`, `processed` and `committed` events
# (source `client`), each with its `offset`. One partition, one group. Mind two things: a record
# may be delivered twice and processed once, and what lies behind the bookmark is not lost yet.

# %% answer="05.4"
from pyspark.sql import functions as F

def skipped_and_repeated(events):
    ### BEGIN SOLUTION
    said = events.where("source = 'client'")
    end = said.where("kind = 'committed'").agg(F.max_by("offset", "at_ns").alias("end"))
    orders = said.where("kind IN ('delivered', 'processed')").groupBy("value", "offset").agg(
        F.count_if(F.col("kind") == "processed").alias("times"))
    skipped = orders.crossJoin(end).where("times = 0 AND offset < end")
    skipped = skipped.withColumn("outcome", F.lit("skipped"))
    repeated = orders.where("times > 1").withColumn("outcome", F.lit("repeated"))
    return skipped.select("value", "outcome").unionByName(repeated.select("value", "outcome"))
    ### END SOLUTION

# %%
skipped_and_repeated(repeated.events())

# %% check="05.4"
lab.check("05.4", skipped_and_repeated)

# %% [markdown]
# ## One error, two truths
#
# What if the commit itself goes wrong? Lose one answer, then every answer, then every request.

# %%
def commits_at_the_end(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
    consumer.commit(asynchronous=False)

# %%
def outcome(run):
    """What the program was told of its commit, after how many requests; and the run."""
    told = [row.error for row in run.rows if row.detail.get("of") == "commit"] or ["ok"]
    requests = [row for row in run.requests("OffsetCommit") if row.kind == "request"]
    return *told, len(requests), run

# %%
losses = (drop_response("OffsetCommit"), drop_response("OffsetCommit", once=False),
          drop_request("OffsetCommit", once=False))
[outcome(lab.run(commits_at_the_end, orders=6, filled=True, faults=[loss])) for loss in losses]

# %% [markdown]
# One lost answer goes unnoticed: to set a bookmark twice does no harm. The other two programs are
# told the same `_TRANSPORT` after six requests. One is committed, one is not. The program cannot
# know; it is the `unknown` of lab 00 again.
#
# ## A partition that nobody knew
#
# The topic gets a second partition. Three orders (3, 4, 5) are written to it before the consumer
# learns of it, two (6, 7) after. `auto.offset.reset` says where to begin without a bookmark.

# %%
def send(run, orders, partition):
    producer = run.producer()
    for order in orders:
        producer.produce(run.topic, order, partition=partition)
    producer.flush()

# %%
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

# %%
[lab.run(from_latest, orders=8), lab.run(from_earliest, orders=8)]

# %% [markdown]
# With `latest` three acked orders are never delivered, and there is no error. With `earliest` they
# are, and nothing of partition 0 is read again: where there is a bookmark, it wins.
#
# ## Two consumers
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

def by_range(run):
    shares(run, classic)

two = {"orders": 12, "filled": True, "partitions": 2, "members": 2}
dies = [crash_client("after_process", nth=3, member=2)]

# %%
killed = lab.run(by_range, **two, faults=dies)
killed

# %%
def rebalances(run):
    rows = run.events().where("kind IN ('assigned', 'revoked', 'lost', 'crashed')")
    return rows.orderBy("at_ns").select("actor", "kind", "partition")

# %%
rebalances(killed)

# %% [markdown]
# Once both had joined, the assignment stood still until the second died. Then all went to the
# first, and one order came again. `range` follows the eager protocol: every member gives up all its
# partitions before any is assigned again. `cooperative-sticky` follows the cooperative one and
# moves only what must move (KIP-429). So does the protocol of KIP-848, where the broker assigns.

# %%
def cooperatively(run):
    shares(run, classic | {"partition.assignment.strategy": "cooperative-sticky"})

def by_the_broker(run):
    shares(run, {"group.protocol": "consumer"})

# %%
calmer = [lab.run(each, **two, faults=dies) for each in (cooperatively, by_the_broker)]
calmer

# %%
rebalances(calmer[0])

# %% [markdown]
# A calmer rebalance changes nothing about the order in hand: each of the three repeats it.
#
# A process need not die. Here the second is only busy: it has done its second pair of orders, and
# before it commits it does not poll for nine seconds, longer than `max.poll.interval.ms`.

# %%
busy = [stall_client("before_commit", nth=2, for_ms=9000, member=2)]
stalled = lab.run(by_range, **two, faults=busy)
stalled

# %%
told = stalled.events().where("kind IN ('assigned', 'revoked', 'lost', 'committed', 'error')")
told.where("source = 'client'").orderBy("at_ns").select("actor", "kind", "partition", "offset", "error")

# %% [markdown]
# ## 05.5 Who may commit? (3 points)
#
# Read the table above, or `stalled.rows`. Which actor had been given the partition before the busy
# one woke up and committed? By what name was that commit refused? How many orders were processed by
# both?

# %% answer="05.5"
answer_5 = {"owner": ..., "refused": ..., "repeated": ...}
### BEGIN SOLUTION
answer_5 = {"owner": "consumer-1", "refused": "UNKNOWN_MEMBER_ID", "repeated": 2}
### END SOLUTION

# %% check="05.5"
lab.check("05.5", answer_5)

# %% [markdown]
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

# %%
lab.run(goes_back, orders=6, filled=True).bookmarks()

# %% [markdown]
# Kafka delivers again whatever you ask for, and the bookmark goes back with you: a commit by hand
# may lower it. To process once, the application must help. That is lab 06.
#
# ## By hand
#
# Arm a fault, then run the cell below it again.

# %%
lab.panel()

# %%
lab.run(process_then_commit, orders=6, filled=True)

# %% [markdown]
# ## What this does not cover
#
# *Processed* is an event here; whether its *effect* happened once is lab 06. A restarted process
# reads on at once because the lab gives it a fixed place in its group (`group.instance.id`); without
# one it waits for the session timeout, and with KIP-848 a fixed place is refused to the successor
# while the dead one holds it. Only one broker: a commit can also be lost with its coordinator.
#
# ## Questions
#
# - What is the number that the broker keeps for a group?
# - Which order of two lines loses, and which repeats?
# - Why does automatic commit lose without any thread?
# - Which offset may a consumer with threads commit?
# - When does `latest` skip, and why is there no error?
# - Further: why does it not help to commit before *and* after the work?
# - Further: what would a commit have to carry so that it cannot move the bookmark back?

# %% [markdown]
# ## Under the hood
#
# You can skip this. The loop around `poll()` is short.

# %%
from lab_utils.clients.consumer import batches
source(batches)

# %%
lab.score()

# %%
lab.close()
