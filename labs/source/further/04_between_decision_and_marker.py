# %% [markdown]
# # Between the decision and the marker
#
# A further notebook to lab 04: more runs, no points. A transaction is decided when the coordinator
# has written *PrepareCommit*. What can still go wrong after that?
#
# 20 minutes · one broker, then three · builds on lab 04

# %%
from lab_utils import Lab, hold_link, late_request, source, stop_broker
from lab_utils.codec.transaction_log import partition_of
lab = Lab("04_further")

# %% [markdown]
# ## Which broker coordinates?
#
# The diary `__transaction_state` has 50 partitions. The broker that leads the right one is the
# coordinator. Which partition is right for this name? Here is Kafka's rule, and then the diary.

# %%
source(partition_of)

# %%
def commit_one(run, before_the_commit=lambda: None):
    producer, plain = run.producer({"transactional.id": run.topic}), run.producer()
    producer.init_transactions()
    producer.begin_transaction()
    for client, order in zip((producer, plain), run.orders):
        client.produce(run.topic, order, partition=0)
        client.flush()  # so offsets follow this sequence
    before_the_commit()
    producer.commit_transaction()

calm = lab.run(commit_one, orders=2)
partition_of(calm.topic)

# %%
calm.diary()

# %%
calm.timeline(apis=("AddPartitionsToTxn", "EndTxn"))

# %% [markdown]
# After `AddPartitionsToTxn` the diary says *Ongoing*. After `EndTxn` it says *PrepareCommit*: the
# commit is decided, and the client gets its answer. Then the coordinator writes the markers, and then
# *CompleteCommit*. So a commit may be answered before its markers are in the log. A client that
# begins again too early is answered `CONCURRENT_TRANSACTIONS`, and asks again.
#
# ## The broker goes down in between
#
# The coordinator sends the markers over the network, even to its own broker: `hold_link(1, 1)`
# keeps them back. The broker answers the commit of order 0, goes down and comes up again. Order 1 was
# written after it, in no transaction. Predict what is visible in the end.

# %%
guess = lab.predict(visible="...", because="...")

# %%
down = [hold_link(1, 1, api="Produce", nth=2), stop_broker(1, api="EndTxn")]
resumed = lab.run(commit_one, orders=2, faults=down)
guess.compare(resumed)

# %%
resumed.transactions()

# %% [markdown]
# For some seconds the client had reported *committed*, and no `read_committed` reader could see the
# order. The diary survived the restart: the new coordinator found *PrepareCommit* there, and finished
# the transaction.
#
# ## A packet that is late
#
# The network keeps one `EndTxn`. Its connection breaks, the client connects again, asks again and is
# answered: committed. Later, in the middle of the *next* transaction, the old packet arrives. Order 0
# is committed; 1 and 2 are one transaction, which is aborted. Predict what is visible.

# %%
def commit_then_abort(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[0], partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[1], partition=0)
    producer.flush()
    producer.produce(run.topic, run.orders[2], partition=1)
    producer.flush()
    producer.abort_transaction()

guess = lab.predict(visible="...", because="...")

# %%
late = [late_request("EndTxn", nth=1, after="Produce")]
torn = lab.run(commit_then_abort, orders=3, partitions=2, faults=late)
guess.compare(torn)

# %%
torn.transactions()

# %%
torn.findings()

# %% [markdown]
# The client reported that its abort succeeded, and one of the two orders is there for everyone. The
# other way round a committed order is lost: begin with an abort, and end with a commit.
#
# An `EndTxn` names the producer id and the epoch, and not the transaction. Kafka 4 has fixed this
# (KIP-890): its newer transaction protocol raises the epoch with every transaction. But a client
# must speak it, too. The Java client does since 4.0; librdkafka 2.16 does not (librdkafka issue
# 5423, open). The cell below shows the version of `EndTxn` that this client sent; the newer protocol
# begins with version 5.

# %%
[row.detail["version"] for row in torn.requests("EndTxn") if row.kind == "request"]

# %% [markdown]
# ## A marker that never comes
#
# Now there are three brokers. The topic has a single replica, on broker 1. That broker dies
# before the commit, and comes back after it. Predict what is visible then.

# %%
three_brokers = Lab("04_three", brokers=3)

# %%
def commit_meanwhile(run):
    def broker_1_dies():
        three_brokers.brokers.kill(1)
        three_brokers.brokers.wait_for_leader(run.topic, other_than=1)

    commit_one(run, before_the_commit=broker_1_dies)

guess = three_brokers.predict(visible="...", because="...")

# %%
unmarked = three_brokers.run(commit_meanwhile, orders=2, replicas=1)
guess.compare(unmarked)

# %%
unmarked.transactions()

# %%
unmarked.findings()

# %% [markdown]
# The commit was answered at once, and the diary says *CompleteCommit*. There is no marker, and none
# will come. The coordinator asked who leads the partition. No broker did, so the coordinator took the
# partition for deleted and left it out (seen with Kafka 4.3.1). Now `read_committed` readers stop
# before order 0 for ever. No timeout ends it: for the coordinator this transaction is over. Order 1
# is hidden with it.
#
# Kafka calls this a **hanging transaction**, and has a tool for it (KIP-664): `kafka-transactions.sh
# find-hanging` finds this one, and `abort` ends it. Then readers go on, and order 0 is gone, although
# the client reported it as committed. A single broker can cause it, too, when it is killed in the gap
# and restarted at once: in 2 of our 10 tries. Replicas help: with three of them another broker leads,
# and takes the marker.

# %%
three_brokers.close()

# %% [markdown]
# ## Under the hood
#
# The query that found the torn transaction:

# %%
from lab_utils.audit.findings.isolation import torn_transaction

source(torn_transaction)

# %%
lab.close()
