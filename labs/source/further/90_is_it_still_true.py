# %% [markdown]
# # Is it still true?
#
# A further notebook to all labs: no points. Texts about Kafka stay, and Kafka changes. Each cell takes
# a statement that many texts make, and asks the brokers and the clients that run here. The table at
# the end has each statement, its source, what it was then, and what two versions of Kafka answer.
#
# Run all cells. Then write `kafka="3.9"` in the first cell and run all cells again: the same clients
# ask brokers of Kafka 3.9, the last version before 4.0. Its jars (47 MB) are downloaded then, once.
# For a machine without a network, run `./lab prepare --kafka 3.9` beforehand.
#
# 10 minutes · three brokers · builds on labs 00 to 06

# %%
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from lab_utils import Lab, corrupt_request, drop_request, drop_response, power_cut, refuse
from lab_utils.clients.java_client import console_producer, java_default, java_transaction, versions
from lab_utils.ledger.statements import Answers
from lab_utils.views.tables import Table
lab = Lab("90_further", brokers=3, kafka="4.3")
answers = Answers(lab.kafka)

def send(**settings):
    def workload(run):
        producer = run.producer({name.replace("_", "."): it for name, it in settings.items()})
        for order in run.orders:
            producer.produce(run.topic, order, key="shop-1")
        producer.flush()
    return workload

def began(run, order, name="till"):
    producer = run.producer({"transactional.id": f"{run.topic}-{name}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(run.topic, order, partition=0)
    producer.flush()  # so the order is in the log, and its transaction is open
    return producer

# %% [markdown]
# ## Defaults
#
# librdkafka is asked on the wire. The Java client is asked in two ways: its class prints its defaults,
# and Kafka's console producer, which uses it, runs on this lab's broker.
#
# *A producer is not idempotent by default.* One that is has a producer id.

# %%
python = lab.run(send(), orders=1, partitions=3)
java = lab.run(lambda run: console_producer(run, "shop-1:0"), orders=1, partitions=3)
on = ["on" if run.requests()[0].producer_id >= 0 else "off" for run in (python, java)]
answers.of("idempotence", "librdkafka: {}; Java: {}".format(*on))

# %% [markdown]
# *By default a producer waits for the leader only.* The other name of `acks=all` is `acks=-1`.

# %%
acks = python.requests()[0].detail["acks"]
answers.of("acks", f"librdkafka: acks={acks}; Java: acks={java_default('producer', 'acks')}")

# %% [markdown]
# *By default a producer does not retry.* What limits both clients is a time: `message.timeout.ms` here,
# `delivery.timeout.ms` in Java.

# %%
refused = lab.run(send(), orders=1, faults=[refuse("Produce")])
retried = "sent again" if len(refused.requests()) > 2 else "given up"
answers.of("retries", f"librdkafka: {retried}; Java: retries={java_default('producer', 'retries')}")

# %% [markdown]
# *hash(key) modulo the number of partitions is the partition.* Of which hash? The two runs above had
# the same key and three partitions each. librdkafka takes CRC32, Java takes murmur2.

# %%
answers.of("partition", f"librdkafka: {python.requests()[0].partition}; Java: {java.requests()[0].partition}")

# %% [markdown]
# *By default a consumer reads uncommitted records.* An order is aborted; then a consumer with defaults
# reads up to the end of the partition.

# %%
def aborted_order(run):
    began(run, run.orders[0]).abort_transaction()
    consumer = run.consumer({"enable.partition.eof": True})
    consumer.assign([TopicPartition(run.topic, 0, 0)])
    consumer.poll(10)

aborted = lab.run(aborted_order, orders=1)
read = "uncommitted" if aborted.counts.delivered else "committed"
answers.of("isolation", f"librdkafka: read_{read}; Java: {java_default('consumer', 'isolation.level')}")

# %% [markdown]
# *Spark does not read what was aborted.* Its source is the Java consumer, with the Java consumer's
# default.

# %%
answers.of("spark", f"{aborted.topic_log().count()} aborted")

# %% [markdown]
# ## Acknowledgements
#
# *An acknowledgement means that the record was written exactly once.* The request is lost, then the
# answer to the next.

# %%
twice = lab.run(send(), orders=1, faults=[drop_request("Produce"), drop_response("Produce", nth=2)])
answers.of("ack", f"{twice.counts.acked} ack, {len(twice.log)} copies")

# %% [markdown]
# *At least once guarantees that nothing is doubled, and not that nothing is lost.* It is the other way
# round, as that run shows.

# %%
answers.of("at least once", f"{twice.counts.lost} lost, {twice.counts.duplicated} doubled")

# %% [markdown]
# *Idempotence and at least once are exactly once in a partition.* The first batch is damaged.

# %%
hole = lab.run(send(enable_idempotence=True), orders=4, faults=[corrupt_request("Produce", sent=4)])
answers.of("hole", f"{hole.counts.acked} acked, {len(hole.log)} in the log")

# %% [markdown]
# *acks=1 is answered when the record is on the disk.* The power fails (a simulation).

# %%
dark = lab.run(send(acks=1), orders=3, replicas=1, faults=[power_cut(1, api="Produce", nth=3)])
answers.of("disk", f"a power cut takes {'acked records' if dark.counts.lost else 'nothing'}")

# %% [markdown]
# ## Sequence
#
# *max.in.flight=1 keeps the sequence.* The second batch is damaged, and is sent again.

# %%
damaged = [corrupt_request("Produce", nth=2)]
one = lab.run(send(max_in_flight=1), orders=4, faults=damaged)
answers.of("one in flight", " ".join(one.log))

# %% [markdown]
# *Idempotence needs max.in.flight=1.* The same with five in flight.

# %%
five = lab.run(send(enable_idempotence=True, max_in_flight=5), orders=4, faults=damaged)
answers.of("five in flight", f"5: {' '.join(five.log)}")

# %% [markdown]
# ## Replicas
#
# *min.insync.replicas=2 stops writes to a topic of one replica.* Since Kafka 3.7 the floor is at most
# the number of replicas.

# %%
floor = {"min.insync.replicas": 2}
alone = lab.run(send(acks="all"), orders=1, replicas=1, topic_config=floor)
answers.of("one replica", f"{alone.counts.acked} acked")

# %% [markdown]
# *min.insync.replicas has no effect on acks=1.* Both followers are cut off. The order is acked, and a
# reader reads up to the high watermark.
#
# *When the last in-sync replica stops, nobody leads.* Then broker 1 stops. Since 4.1 the controller
# knows which other replicas hold all committed records: the eligible leader replicas (KIP-966). The
# order was acked below the floor, so it was never committed, and an eligible leader may lack it.

# %%
def below_the_floor(run):
    lab.brokers.cut_link(1, 2)
    lab.brokers.cut_link(1, 3)
    send(acks=1)(run)
    lab.brokers.wait_for_isr(run.topic, {1})
    seen.append(len(run.orders_in_the_log()))
    lab.brokers.stop(1)
    seen.append(lab.brokers.wait_for_leader(run.topic, other_than=1) or "nobody")

seen = []
below = lab.run(below_the_floor, orders=1, topic_config=floor)
answers.of("floor", f"{below.counts.acked} acked, {seen[0]} readable")

# %%
answers.of("last in sync", f"leader: {seen[1]}, {below.counts.lost} lost")

# %% [markdown]
# ## Transactions
#
# *Idempotence and transactions are one thing.* Two producers, one after the other, as after a restart:
# first with idempotence, then with one `transactional.id`.
#
# *After a restart a producer goes on with its unfinished transaction.* The first named one leaves order
# 0 in an open transaction; the second writes order 1 and commits.

# %%
def two_starts(run):
    for _ in run.orders:
        send(enable_idempotence=True)(run)

def two_named_starts(run):
    for order in run.orders:
        producer = began(run, order)
    producer.commit_transaction()

starts = [lab.run(two_starts, orders=2), named := lab.run(two_named_starts, orders=2)]
ids = [len({row.producer_id for row in run.requests() if row.kind == "request"}) for run in starts]
answers.of("one thing", "producer ids after a restart: {}; with a transactional.id: {}".format(*ids))

# %%
answers.of("unfinished", f"{' '.join(named.visible)} of {' '.join(named.log)}")

# %% [markdown]
# *Transactions prevent dirty writes.* Two write by turns, and both commit. *The consumer's progress is
# attached to the messages of the topic that it writes to.* The first commits an offset, too, and the
# coordinator notes which partitions belong to its transaction.

# %%
def by_turns(run):
    a, b = (began(run, order, name) for name, order in zip("ab", run.orders))
    a.produce(run.topic, run.orders[2], partition=0)
    a.flush()
    a.send_offsets_to_transaction([TopicPartition(run.topic, 0, 1)], run.consumer().consumer_group_metadata())
    a.commit_transaction()
    b.commit_transaction()

turns = lab.run(by_turns, orders=3)
answers.of("dirty", " ".join(turns.visible))

# %%
noted = "".join(row.detail["partitions"] for row in turns.rows if row.kind == "transaction")
answers.of("progress", "__consumer_offsets" if "__consumer_offsets" in noted else "another place")

# %% [markdown]
# *A transaction is all or nothing, whatever the client.* What keeps a late EndTxn out of the next
# transaction is KIP-890, and it begins with version 5 of that request. Client and broker both have
# to know that version.

# %%
java = lab.run(java_transaction, orders=1)
ends = [run.requests("EndTxn")[0].detail["version"] for run in (aborted, java)]
answers.of("all or nothing", "librdkafka: EndTxn {}; Java: EndTxn {}".format(*ends))

# %% [markdown]
# ## The cluster itself
#
# *Brokers keep their state in ZooKeeper.* A broker tells its own settings. Kafka 3.9 is the last version
# that has a setting for ZooKeeper. Here it runs without ZooKeeper, too.

# %%
admin = AdminClient({"bootstrap.servers": lab.stage.direct, "log_level": 0})
(asked,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
kept = [f"{name}={it.value}" for name, it in sorted(asked.result(10).items())
        if name in ("process.roles", "zookeeper.connect")]
answers.of("zookeeper", " ".join(kept))

# %% [markdown]
# ## The table
#
# In brackets: not asked here, but recorded. A row in bold has another answer than the one recorded: then
# a version has changed it. What the client alone decides is the same with both. A source such as D5 is
# a row of `docs/claims.md`.

# %%
Table(answers.columns, answers.rows, versions(), answers.news)

# %%
lab.close()
