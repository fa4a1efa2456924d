# %% [markdown]
# # Names, rebalances, and everything twice
#
# A further notebook to lab 06: more runs, no points. A successor has another name, a batch outlives a
# rebalance. What do the readers of `invoices` see?
#
# 15 minutes · one broker · builds on lab 06

# %%
from confluent_kafka import KafkaException, TopicPartition
from lab_utils import Lab, crash_client
lab = Lab("06_further")

# %% [markdown]
# ## Another name, and the readers wait
#
# A successor with *another* transactional id does not end the transaction that the dead process left
# open. It goes on at once, and commits. But its invoices come after the open transaction. Each bill is
# one transaction.

# %%
def bill(run, producer, batch, metadata):
    producer.begin_transaction()
    for message in batch:
        producer.produce(run.topics["invoices"], message.value(), partition=0)
    producer.flush()
    offsets = [TopicPartition(it.topic(), it.partition(), it.offset() + 1) for it in batch]
    try:
        producer.send_offsets_to_transaction(offsets, metadata)
        producer.commit_transaction()
    except KafkaException:
        producer.abort_transaction()

def under_another_name(run):
    producer = run.producer({"transactional.id": f"{run.topic}-{run.attempt}", "transaction.timeout.ms": 6000})
    producer.init_transactions()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        bill(run, producer, batch, consumer.consumer_group_metadata())

# %%
eight = {"orders": 8, "filled": True, "topics": ["invoices"]}
dies = [crash_client("after_ack", nth=4)]
at_once = lab.run(under_another_name, **eight, faults=dies)
in_time = lab.run(under_another_name, **eight, until_stable=True, faults=dies)
[run.in_and_out("invoices").title for run in (at_once, in_time)]

# %% [markdown]
# Read at once, six are missing. Read when the dead transaction has timed out (6 seconds here, a minute
# by default), none is. Before you say that a record is missing in such a topic, wait until nothing is
# open.
#
# ## The complete machinery, and everything twice
#
# Two partitions, one order in each. The first consumer has read both. Before it commits, a second
# joins, and the group is divided anew. The first kept its batch. It sends the offsets with the
# group's metadata: fetched *now*, or *when the batch was read*. Which orders are there twice, with each?

# %%
def biller(run, name="biller"):
    producer = run.producer({"transactional.id": f"{run.topic}-{name}-{run.member}"})
    producer.init_transactions()  # ends what a dead predecessor left open
    return producer

def kept_across_a_rebalance(run, is_fetched_now):
    first = run.consumer({"enable.auto.commit": False})
    second = run.consumer({"enable.auto.commit": False})
    one, two = biller(run, "one"), biller(run, "two")
    first.subscribe([run.topic])
    batch = list(run.messages(first, partitions=2))
    when_read = first.consumer_group_metadata()

    second.subscribe([run.topic])
    of_first = of_second = None
    while of_first is None or of_second is None:  # each is given one of the two again
        if of_first is None:
            of_first = first.poll(0.1)
        if of_second is None:
            of_second = second.poll(0.1)

    metadata = first.consumer_group_metadata() if is_fetched_now else when_read
    bill(run, one, batch, metadata)
    bill(run, one, [of_first], first.consumer_group_metadata())
    bill(run, two, [of_second], second.consumer_group_metadata())

# %%
def with_metadata_of_now(run):
    kept_across_a_rebalance(run, is_fetched_now=True)

def with_metadata_of_then(run):
    kept_across_a_rebalance(run, is_fetched_now=False)

both = {"orders": 2, "partitions": 2, "filled": True, "topics": ["invoices"], "until_stable": True}
now = lab.run(with_metadata_of_now, **both)
then = lab.run(with_metadata_of_then, **both)
[run.in_and_out("invoices").title for run in (now, then)]

# %%
[(row.error, row.detail["asks_for"]) for row in then.rows if row.kind == "txn_failed"]

# %% [markdown]
# Transactions, group metadata, `read_committed`, and everything twice. The broker checks that the
# member and the generation are current. It does not check who owns the partition. Metadata from when
# the batch was read made the difference: that generation is over, and the broker refused it. So never
# keep a batch across a rebalance: in `on_revoke` end the transaction and drop the batch.

# %%
lab.close()
