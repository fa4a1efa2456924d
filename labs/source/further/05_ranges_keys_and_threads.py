# %% [markdown]
# # Ranges, keys and threads
#
# A further notebook to lab 05: more runs, no points. The bookmark points at a record that was deleted.
# A topic gets a partition, and keys move. A rebalance begins while threads still work.
#
# 15 minutes · one broker · builds on lab 05

# %%
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from lab_utils import Lab
from lab_utils.clients.java_client import console_producer
lab = Lab("05_further")

# %% [markdown]
# ## The bookmark is out of range
#
# *Nothing is lost as long as the offset is in range.* Three groups have their bookmark at 1. Then
# everything before offset 3 is deleted; here by an administrator, elsewhere by `retention.ms` over a
# long weekend. Now the broker answers each fetch with `OFFSET_OUT_OF_RANGE`, and `auto.offset.reset`
# decides. Order 5 is written at the end. What is each of the three given?

# %%
def out_of_range(run):
    resets = ("earliest", "latest", "error")  # Java calls the last one "none"
    consumers = [run.consumer({"group.id": f"{run.topic}-{reset}", "auto.offset.reset": reset,
                               "enable.auto.commit": False}) for reset in resets]
    for consumer in consumers:
        consumer.commit(offsets=[TopicPartition(run.topic, 0, 1)], asynchronous=False)
    place = TopicPartition(run.topic, 0, 3)
    admin = AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 0})
    admin.delete_records([place])[place].result(10)
    for consumer in consumers:
        consumer.assign([TopicPartition(run.topic, 0)])
    for consumer in consumers[:2]:
        list(run.messages(consumer))
    consumers[2].poll(10)
    producer = run.producer()
    producer.produce(run.topic, "5", partition=0)
    producer.flush()
    for consumer in consumers[:2]:
        consumer.poll(10)

reset = lab.run(out_of_range, orders=5, filled=True)
told = reset.events().where("source = 'client' AND kind IN ('delivered', 'error')")
told.orderBy("actor", "at_ns").select("actor", "kind", "value", "error")

# %% [markdown]
# Orders 1 and 2 are gone for all. With `earliest` the group continues at the first record that is left.
# With `latest` it also skips 3 and 4, which were there. Only the third says that something is missing;
# it is given nothing more, not even order 5. A
# group that must not lose an order in silence asks for the error.
#
# ## Which partition has a key?
#
# *hash(key) modulo the number of partitions chooses the partition.* Which hash? One key, three
# partitions, three programs: librdkafka as it is, librdkafka with another `partitioner`, and Kafka's
# console producer, which is the Java client.

# %%
def three_clients(run):
    for number, settings in enumerate(({}, {"partitioner": "murmur2_random"})):
        producer = run.producer(settings)
        producer.produce(run.topic, str(number), key="shop-1")
        producer.flush()
    console_producer(run, "shop-1:2")

hashed = lab.run(three_clients, partitions=3)
records = hashed.events().where("source = 'log' AND kind = 'record'")
records.orderBy("value").select("key", "value", "partition")

# %% [markdown]
# librdkafka takes CRC32 of the key, Java takes murmur2. Two programs with one key write to two
# partitions, and their records are in no sequence. One setting makes them agree.
#
# The other half of the formula changes, too. Here the topic gets a partition between two orders of one
# key.

# %%
def keys_move(run):
    for order in run.orders:
        producer = run.producer()  # a new one asks for the partitions anew
        producer.produce(run.topic, order, key="shop-4")
        producer.flush()
        if order == "0":
            run.add_partition()

moved = lab.run(keys_move, orders=2)
records = moved.events().where("source = 'log' AND kind = 'record'")
records.orderBy("value").select("key", "value", "partition")

# %% [markdown]
# Nothing moves the records that are there. From now on the key has two partitions, and a consumer may
# be given order 1 before order 0. `further/05_lost_commits_and_rebalances.ipynb` shows what else may
# happen: a consumer with `latest` never sees the first records of a new partition.
#
# ## Threads, and a rebalance
#
# One consumer hands four orders to its threads. They need time. It has paused its partitions, and goes
# on polling, so the group does not take it for dead. Then a second consumer joins, and the partitions are
# divided anew. Should the first let them go at once? Predict how many orders are processed twice when it
# does.

# %%
def by_threads(run, waits_for_them):
    first, second = (run.consumer({"enable.auto.commit": False}) for _ in range(2))
    works, may_end = [], Event()
    def work(message):
        may_end.wait()  # for what it needs
        run.processed(message)
    def finish(consumer, places):
        may_end.set()
        wait(works)
        consumer.commit(offsets=consumer.position(places), asynchronous=False)
    with ThreadPoolExecutor(4) as workers:
        try:
            first.subscribe([run.topic], **({"on_revoke": finish} if waits_for_them else {}))
            for message in run.messages(first, partitions=2):
                works.append(workers.submit(work, message))
            first.pause(first.assignment())
            second.subscribe([run.topic])
            while not second.ended:
                first.poll(0.1)
                if message := second.poll(0.1):
                    run.processed(message)
        finally:
            may_end.set()

def at_once(run):
    by_threads(run, waits_for_them=False)

def when_done(run):
    by_threads(run, waits_for_them=True)

four = {"orders": 4, "filled": True, "partitions": 2}
guess = lab.predict(repeated=..., because="...")

# %%
torn_away = lab.run(at_once, **four)
guess.compare(torn_away)

# %%
handed_over = lab.run(when_done, **four)
handed_over

# %% [markdown]
# The threads went on with orders that belonged to someone else. `on_revoke` is called before the
# partitions go: wait there for the threads, commit what is done, then let go. It must end before
# `max.poll.interval.ms` does.

# %%
lab.close()
