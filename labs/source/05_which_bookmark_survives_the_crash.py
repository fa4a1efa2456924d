# %% [markdown]
# # Which bookmark survives the crash?
#
# A service reads orders and books them. It is killed, started again, and reads on from its bookmark.
# Then one order was never booked, or one was booked twice. The place of the bookmark at the crash
# decides which. This lab moves it.
#
# 50 minutes · one broker · 20 points · builds on labs 00 and 03
#
# ## Try it first
#
# Each choice makes a real run: the process is really killed, and started again. The arrow keys step
# through it. Which loop repeats an order, which loop loses one, and where must the process die?

# %%
from lab_utils import Lab, crash_client, stall_client
lab = Lab("05")

# %%
lab.explorer()

# %% [markdown]
# ## Words
#
# - A **group** is a set of consumers that share the partitions of a topic.
# - A record is **delivered** when `poll()` has returned it, and **processed** when its work is done.
# - The **committed** offset is the group's bookmark, which the broker keeps: *the next record to
#   read*.
# - An order is **skipped** if it was never processed and the bookmark is after it, and **repeated**
#   if it was processed more than once.
#
# The orders are in the topic before the workload starts (`filled=True`). `run.messages(consumer)` is a
# loop around `poll()` that ends when the group has read to the end of the topic. The lab sets
# `auto.offset.reset=earliest`: without a bookmark a group begins at the start. With the default,
# `latest`, it would begin at the end and be given none of these orders.
#
# ## Process, then commit
#
# The process is killed when it has processed the third order, and is started again. How many times
# will an order be processed, in all? How many orders are repeated, and how many are skipped?

# %%
def process_then_commit(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)  # the work is done here
        consumer.commit(message, asynchronous=False)
    consumer.close()

guess = lab.predict(processed=..., repeated=..., skipped=..., because="...")

# %%
repeated = lab.run(process_then_commit, orders=6, filled=True,
                   faults=[crash_client("after_process", nth=3)])
guess.compare(repeated)

# %%
repeated.bookmarks()

# %% [markdown]
# The bookmark was at 2 when the process died: order 2 was done, but the broker did not know. So the
# next process did it again. This is **at least once**.
#
# Now commit first. The process is killed after its third commit. Predict.

# %%
def commit_then_process(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        consumer.commit(message, asynchronous=False)
        run.processed(message)
    consumer.close()

guess = lab.predict(processed=..., repeated=..., skipped=..., because="...")

# %%
skipped = lab.run(commit_then_process, orders=6, filled=True,
                  faults=[crash_client("after_commit", nth=3)])
guess.compare(skipped)

# %% [markdown]
# The bookmark was ahead of the work. Order 2 is lost, without an error: **at most once**. Kafka cannot
# see whether the work was done. Neither way round is right: commit last and orders repeat, commit
# first and orders are lost.
#
# ## 05.1 Where does it read on? (3 points)
#
# `process_then_commit` is killed in three runs, each time at order 2 (offset 2), after it was polled,
# processed or committed. From which offset does the next process read? Think first; the explorer can
# show it.

# %% answer="05.1"
answer_1 = {"after_poll": ..., "after_process": ..., "after_commit": ...}
### BEGIN SOLUTION
answer_1 = {"after_poll": 2, "after_process": 2, "after_commit": 3}
### END SOLUTION

# %% check="05.1"
lab.check("05.1", answer_1)

# %% [markdown]
# ## When no line commits
#
# By default the client itself commits, every five seconds (`auto.commit.interval.ms`; here 100 ms).
# It commits what it has *handed out*. Here the program has polled order 2 and works on it for half a
# second. Then it is killed. Predict.

# %%
def automatic(run):
    consumer = run.consumer({"enable.auto.commit": True, "auto.commit.interval.ms": 100})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
    consumer.close()

in_hand = [stall_client("before_process", nth=3, for_ms=500), crash_client("before_process", nth=3)]
guess = lab.predict(repeated=..., skipped=..., because="...")

# %%
tick = lab.run(automatic, orders=6, filled=True, faults=in_hand)
guess.compare(tick)

# %% [markdown]
# Order 2 is skipped, without an error: the client committed it while the program still worked on it.
# With a longer interval the same program repeats orders instead. Only the timer decides.¹ One fix
# is to commit yourself, after the work.
#
# ## 05.2 Lose nothing (5 points)
#
# Complete the loop. In two runs the check kills the process at a moment that you do not know: in one
# of them work takes long, and the successor is killed, too. No bookmark may ever be after an order that
# is not processed, in any process. In the end each order must be processed, and the bookmark must be at
# the end of the topic. In the check, `run.processed` writes a receipt to the broker.

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
# The main thread polls six orders at a time; four workers process them. Every second, until they are
# done, the loop commits the offset that `bookmark` returns. Order 1 takes long. The process is killed
# after the first commit. Predict what happens with `highest`.

# %%
from concurrent.futures import ThreadPoolExecutor, wait
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

def highest(given, done):
    return max(done) + 1

slow = [stall_client("before_process", value="1", for_ms=3000), crash_client("after_commit")]
guess = lab.predict(repeated=..., skipped=..., because="...")

# %%
threads = lab.run(lambda run: by_threads(run, highest), orders=6, filled=True, faults=slow)
guess.compare(threads)

# %% [markdown]
# ## 05.3 The bookmark of four threads (5 points)
#
# `highest` set the bookmark after order 1, which no worker had done. Write `bookmark`. It gets two
# sets of offsets, `given` to the workers and `done`, and returns the offset to commit. A crash must
# lose nothing. When all orders are done, the bookmark must be after the last.

# %% answer="05.3"
def with_four_threads(run):
    # Define bookmark(given, done), and hand it to by_threads as `highest` was.
    ### BEGIN SOLUTION
    def bookmark(given, done):
        return min(given - done, default=max(given) + 1)
    by_threads(run, bookmark)
    ### END SOLUTION

# %%
lab.run(with_four_threads, orders=6, filled=True, faults=slow)

# %% check="05.3"
lab.check("05.3", with_four_threads)

# %% [markdown]
# Nothing is lost, and there is a price: every order after the slow one that was already done is
# repeated.
#
# ## 05.4 Find them in the ledger (4 points)
#
# Write a query that returns the columns `value` and `outcome`. An order that was processed more than
# once is `repeated`. An order that was delivered, never processed, and is before the *last* committed
# offset is `skipped`. The ledger has `delivered`, `processed` and `committed` events (source
# `client`), each with its `offset`. There is one partition. A record may be delivered twice and
# processed once. A record at or after the bookmark is not lost yet.

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
# ## Two consumers
#
# Two processes share two partitions. Each commits after every second order. The second processes its
# second pair, then does nothing for nine seconds before it commits. It does not poll in this time,
# which is longer than `max.poll.interval.ms`. So the coordinator gives its
# partition to the other one. Predict.

# %%
def in_pairs(run):
    consumer = run.consumer({"enable.auto.commit": False, "session.timeout.ms": 2000,
                             "max.poll.interval.ms": 2000})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        if message.offset() % 2:
            consumer.commit(message, asynchronous=False)

guess = lab.predict(repeated=..., skipped=..., because="...")

# %%
busy = [stall_client("before_commit", nth=2, for_ms=9000, member=2)]
stalled = lab.run(in_pairs, orders=12, filled=True, partitions=2, members=2, faults=busy)
guess.compare(stalled)

# %%
stalled.ownership()

# %% [markdown]
# ## 05.5 Who may commit? (3 points)
#
# Look at the picture above, or at `stalled.rows`. Which consumer became the partition's `owner`, before
# the busy one committed? Which error refused that commit? How many orders were processed by both?

# %% answer="05.5"
answer_5 = {"owner": ..., "refused": ..., "repeated": ...}
### BEGIN SOLUTION
answer_5 = {"owner": "consumer-1", "refused": "UNKNOWN_MEMBER_ID", "repeated": 2}
### END SOLUTION

# %% check="05.5"
lab.check("05.5", answer_5)

# %% [markdown]
# ## What this does not cover
#
# *Processed* is an event here; lab 06 asks whether its *effect* happened once. A restarted process
# reads on at once because it has a fixed place in its group (`group.instance.id`); without one it
# waits for the session timeout. Three notebooks in `further/` go on: `05_automatic_commits`,
# `05_lost_commits_and_rebalances` and `05_ranges_keys_and_threads`.
#
# ## Questions
#
# - Which loop loses an order, and which one repeats it?
# - Why does automatic commit lose an order in a program without threads?
# - Which offset may a consumer with threads commit?
# - Further: why does it not help to commit before *and* after the work?
#
# ## Source
#
# ¹ librdkafka 2.16; `further/05_automatic_commits.ipynb` runs both intervals. Java commits in
# `poll()`, and only what the *previous* `poll()` returned.

# %%
lab.score()

# %%
lab.close()
