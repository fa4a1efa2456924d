# %% [markdown]
# # ACID, letter by letter
#
# A further notebook to lab 04: more runs, no points. Some texts say that Kafka's transactions are ACID,
# up to *serialisable*. Which letters hold? And in which sequence does a transaction cross the wire?
#
# 15 minutes · one broker · builds on lab 04

# %%
from confluent_kafka import TopicPartition
from lab_utils import Lab, power_cut
lab = Lab("04_further")

def named(run, name):
    producer = run.producer({"transactional.id": f"{run.topic}-{name}"})
    producer.init_transactions()
    return producer

# %% [markdown]
# ## A: all of it or nothing
#
# Lab 04 showed it: three partitions, and order 1 visible in none of them. It holds, with one hole: a
# late `EndTxn` tears a transaction apart (`further/04_between_decision_and_marker.ipynb`).
#
# ## I: two writers at once
#
# *Transactions prevent dirty writes.* Here A and B write by turns into one partition: A, B, and A
# again. Then A commits, and B. May they? Predict what is visible.

# %%
def by_turns(run):
    a, b = named(run, "a"), named(run, "b")
    a.begin_transaction()
    b.begin_transaction()
    for producer, order in zip((a, b, a), run.orders):
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # so offsets follow this sequence
    a.commit_transaction()
    b.commit_transaction()

guess = lab.predict(visible="...", because="...")

# %%
turns = lab.run(by_turns, orders=3)
guess.compare(turns)

# %%
turns.findings()

# %% [markdown]
# B wrote over what A had not committed: a dirty write. The audit calls it **G0**, as Jepsen does, and
# Kafka allows it. A log has no place that two writers could fight for, and nobody locks a partition.
# Readers are given whole transactions, and writers are not kept apart.
#
# ## C and I: two withdrawals
#
# The balance is 100. Two clerks read it, each with a consumer. Each withdraws 60, writes the new balance,
# and commits it together with the offset of what was read. In a serialisable database one of the two
# would be refused. Predict the balances in the log.

# %%
def two_withdrawals(run):
    till = run.producer()
    till.produce(run.topic, "100", key="opening", partition=0)
    till.flush()
    clerks = []
    for name in ("clerk a", "clerk b"):
        consumer = run.consumer({"group.id": f"{run.topic}-{name}", "enable.auto.commit": False})
        consumer.assign([TopicPartition(run.topic, 0, 0)])
        clerks.append((name, named(run, name), consumer, int(consumer.poll(10).value())))
    for name, producer, consumer, balance in clerks:
        producer.begin_transaction()
        producer.produce(run.topic, str(balance - 60), key=name, partition=0)
        producer.flush()
        next_one = [TopicPartition(run.topic, 0, 1)]
        producer.send_offsets_to_transaction(next_one, consumer.consumer_group_metadata())
    for _, producer, _, _ in clerks:
        producer.commit_transaction()

guess = lab.predict(log="...", because="...")

# %%
withdrawn = lab.run(two_withdrawals)
guess.compare(withdrawn)

# %%
withdrawn.findings()

# %% [markdown]
# 120 was withdrawn from 100, and both commits succeeded. **G2**: neither has read what the other wrote,
# so they can be put into no sequence. The coordinator knows what a transaction *writes*; it does not know
# what it depends on. So *serialisable* does not hold, and *consistent* is not for Kafka to promise: it
# knows no rule that a balance would have to keep. A cure is one writer for each key. *Unseen* are the
# new balances: neither clerk has read on.
#
# ## D: committed, and the power fails
#
# The commit has been answered. Then the power of the only broker is cut (a simulation, as in lab 01).
# Predict what is visible.

# %%
def commits_one(run):
    producer = named(run, "till")
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[0], partition=0)
    producer.commit_transaction(20)  # seconds; the broker stays away

guess = lab.predict(visible="...", because="...")

# %%
dark = lab.run(commits_one, orders=1, faults=[power_cut(1, api="EndTxn")])
guess.compare(dark)

# %%
dark.diary()

# %% [markdown]
# A committed transaction is as durable as any acked record: it is in the page cache of each in-sync
# replica. Here there was one, and its diary was on the same machine. More replicas hold it.
#
# So: *A* with a client of the newer protocol, *D* with replicas; of *I* only that a `read_committed`
# reader sees nothing uncommitted; and *C* is yours.
#
# ## The steps
#
# A service reads an order and writes its invoice, in a transaction with the offset. Which requests does
# its producer send, and in which sequence? Each is listed where it is sent for the first time.

# %%
def bills_one_batch(run):
    producer = named(run, "biller")
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        producer.begin_transaction()
        producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()

steps = lab.run(bills_one_batch, orders=1, filled=True, topics=["invoices"])
sent = [row for row in steps.rows if row.kind == "request" and row.actor == "producer-1"]
list(dict.fromkeys(row.api for row in sent if row.api not in ("ApiVersions", "Metadata")))

# %% [markdown]
# `begin_transaction()` is not among them: it is a local step. `FindCoordinator` is sent again before
# `TxnOffsetCommit`, for the coordinator of the group. After `EndTxn` it is the broker's turn: it writes
# down its decision, writes the markers (`WriteTxnMarkers`, from broker to broker), and writes down
# that it is done.

# %%
steps.diary()

# %% [markdown]
# The progress of the consumer is a record in `__consumer_offsets`, which became a partition of the
# transaction like any other. It is not attached to the invoices: these hold a value, and no offset of
# an order.

# %%
lab.close()
