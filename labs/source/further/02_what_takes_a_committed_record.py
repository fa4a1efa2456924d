# %% [markdown]
# # What takes a committed record away?
#
# A further notebook to lab 02: more runs, no points. Many texts say *once committed, never lost*. They
# mean: not by a failure. Kafka also deletes on purpose, in three ways. And the checklist of settings,
# line by line.
#
# 10 minutes · one broker · builds on lab 02

# %%
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from lab_utils import Lab
from lab_utils.waiting import wait_until
lab = Lab("02_one")

# %% [markdown]
# ## Retention, compaction, an administrator
#
# The same four orders, with one key, are written to three topics with `acks=all`. The first topic is
# compacted (`cleanup.policy=compact`). The second has a retention of one millisecond. In the third an
# administrator deletes what is before offset 3. A broker looks every half second here for what it may
# delete or compact (by default every five minutes, `log.retention.check.interval.ms`, and every 15 s,
# `log.cleaner.backoff.ms`). No fault is armed. What will each topic hold?

# %%
compacted = {"cleanup.policy": "compact", "segment.ms": 1, "min.cleanable.dirty.ratio": 0}
others = {"expired": {"cleanup.policy": "delete", "retention.ms": 1},
          "deleted": {"cleanup.policy": "delete"}}

def committed_three_times(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        for topic in (run.topic, *run.topics.values()):
            producer.produce(topic, order, key="shop-1", partition=0)
            producer.flush()  # so each record is a batch, and in a segment, of its own
    place = TopicPartition(run.topics["deleted"], 0, 3)
    admin = AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 0})
    admin.delete_records([place])[place].result(10)
    wait_until(lambda: run.orders_in_the_log() == ["2", "3"], "the compaction", timeout_s=20)
    expired, reader = TopicPartition(run.topics["expired"], 0), run.consumer()
    wait_until(lambda: reader.get_watermark_offsets(expired, timeout=5)[0] == 4, "the retention",
               timeout_s=20)

taken = lab.run(committed_three_times, orders=4, topics=others, topic_config=compacted)
records = taken.events().where("source = 'log' AND kind = 'record'")
records.selectExpr("topic", "offset", "key", "value")

# %% [markdown]
# Of twelve committed records three are left. Compaction keeps the last record of a key. It leaves the
# newest segment alone, so order 2 is still there. Retention has taken all four: the bookmark of a slow
# group now points at nothing (`further/05_ranges_keys_and_threads.ipynb`). The audit finds each loss,
# and says which setting allows it.

# %%
taken.findings()

# %% [markdown]
# ## The checklist, line by line
#
# Many texts end with eight lines. Each is broken alone somewhere in this course:
#
# | line | left out | what it comes to | run |
# |:--|:--|:--|:--|
# | send with a callback | no one hears of an error | not stored, no finding: the report says so | `one_is_large` in lab 01 |
# | `acks=all` | the leader answers alone, and dies | lost-write | lab 02, 02.4 |
# | `retries` | one error ends it | not acked, not stored | lab 02, 02.4 |
# | no unclean election | a replica that lags leads | lost-write | `lagging_leader` ¹ |
# | three replicas | the only one loses its power | lost-write | `dark` in lab 01 |
# | `min.insync.replicas` > 1 | an ISR of one says *all* | lost-write | `floor_of_one` ¹ |
# | more replicas than that | one dies, and writing ends | unavailable | lab 02, 02.4 |
# | commit after the work | the process dies in between | skipped-processing | `skipped` in lab 05 |
#
# A ninth line belongs to it: know how long a record may stay.
#
# ¹ In `further/02_links_retries_and_elections.ipynb`, on three brokers.

# %%
lab.close()
