# %% [markdown]
# # Would you sign it off?
#
# A colleague hands you a pipeline. It has run in production for a week, and all its tests pass. It
# contains five mistakes. Nobody sees them on a calm day.
#
# 60 minutes · three brokers · 40 points · builds on labs 01, 02, 05 and 06

# %%
from confluent_kafka import KafkaException, TopicPartition
from lab_utils import Lab, crash_client, cut_link, heal_link, power_cut, refuse, stall_client, start_broker
from sqlalchemy import text
lab = Lab("07", brokers=3)

# %% [markdown]
# ## What it promises
#
# The pipeline reads orders, two at a time, and writes three outputs:
#
# | output | promise |
# |---|---|
# | topic `invoices` | each order exactly once, to a `read_committed` reader |
# | topic `notices`, for the carrier | each order at least once; the carrier removes duplicates |
# | table `bookings` | each order in one row, in the column `value` |
#
# The promises must hold if its process is killed at any point and started again, and if a transaction
# has to be aborted. They must hold if one broker loses its power, and while one broker is upgraded. In
# the last case the pipeline must also keep working.
#
# ## The pipeline
#
# Read it as a reviewer. Which lines would you ask about? Write them down before you go on.

# %%
TOPICS = {"replicas": 2, "topic_config": {"min.insync.replicas": 1}}

def pipeline(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
    notices = run.producer({"acks": 1})
    billing = run.producer({"transactional.id": f"{run.topic}-billing"})
    billing.init_transactions()  # ends what a dead predecessor left open
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        with database.begin() as connection:  # commits at its end
            for message in batch:
                row = {"order": message.value().decode()}
                connection.execute(text("INSERT INTO bookings VALUES (:order)"), row)
        for message in batch:
            notices.produce(run.topics["notices"], message.value(), partition=0)
        notices.flush()
        billing.begin_transaction()
        try:
            for message in batch:
                billing.produce(run.topics["invoices"], message.value(), partition=0)
            offsets = consumer.position(consumer.assignment())
            billing.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            billing.commit_transaction()
        except KafkaException:
            billing.abort_transaction()

six = {"orders": 6, "filled": True, "topics": ["invoices", "notices"], "until_stable": True}

# %%
calm = lab.run(pipeline, **six, **TOPICS)
calm.in_and_out("invoices")

# %% [markdown]
# Six orders, six invoices. This is what the tests saw.
#
# ## Killed
#
# The process commits the rows of the second batch, does nothing for 0.4 s, and is killed. Then it is
# started again. How many records will both processes get, taken together?

# %%
guess = lab.predict(delivered=..., because="...")

# %%
killed = lab.run(pipeline, **six, **TOPICS, faults=[
    stall_client("after_db_commit", nth=2, for_ms=400), crash_client("after_db_commit", nth=2)])
guess.compare(killed)

# %%
killed.in_and_out("invoices")

# %%
killed.bookmarks()

# %% [markdown]
# The bookmark passed orders 2 and 3 while the process still worked on them: an automatic commit does
# not wait for the work. So the new process did not get them again. Look at the table `bookings`, too:

# %%
killed.effects

# %% [markdown]
# It is right, and that proves nothing: the batch never came again, so nothing could be booked
# twice. **One mistake hides another.** After each repair, run the old cases again.
#
# ## Refused
#
# The coordinator refuses the offsets of the second transaction. The pipeline aborts it, as it should.
# How many records will the pipeline get this time?

# %%
guess = lab.predict(delivered=..., because="...")

# %%
refused = lab.run(pipeline, **six, **TOPICS,
                  faults=[refuse("TxnOffsetCommit", nth=2, error="ILLEGAL_GENERATION")])
guess.compare(refused)

# %%
refused.in_and_out("invoices")

# %% [markdown]
# ## Dark
#
# Broker 1 leads all topics. It loses its links to the others when it receives the notice of order 2,
# the first of its batch. It loses its power when it has acknowledged the notice of order 3, and
# starts again. The power cut is simulated: what was not yet flushed to the disk is removed.
#
# How many acked records will be lost?

# %%
comes = {"api": "Produce", "value": "2", "when": "received"}
acked = {"api": "Produce", "value": "3"}
dark_faults = [
    stall_client("after_db_commit", nth=2, for_ms=400),
    cut_link(1, 2, **comes), cut_link(1, 3, **comes), power_cut(1, **acked),
    heal_link(1, 2, **acked), heal_link(1, 3, **acked), start_broker(1, **acked)]
guess = lab.predict(lost=..., because="...")

# %%
dark = lab.run(pipeline, **six, **TOPICS, faults=dark_faults)
guess.compare(dark)

# %%
dark.in_and_out("notices")

# %% [markdown]
# The notices of orders 2 and 3 were acknowledged, and they are gone. Two settings are to blame here,
# and repairing one of them is not enough: with `acks=all`, every replica *in sync* has the record,
# and the leader may be the only one.
#
# ## 07.1 What will it do? (4 points)
#
# For each of the three runs and each output: is each order there `"once"`, is one `"lost"`, or is one
# there `"twice"`? An output counts as `"lost"` if any order is missing. The invoices of `dark` are not
# asked for: whether its transaction outlives the power cut is a matter of milliseconds.

# %% answer="07.1"
answer_1 = {
    "killed": {"invoices": ..., "notices": ..., "bookings": ...},
    "refused": {"invoices": ..., "notices": ..., "bookings": ...},
    "dark": {"notices": ..., "bookings": ...},
}
### BEGIN SOLUTION
answer_1 = {
    "killed": {"invoices": "lost", "notices": "lost", "bookings": "once"},
    "refused": {"invoices": "lost", "notices": "once", "bookings": "once"},
    "dark": {"notices": "lost", "bookings": "once"},
}
### END SOLUTION

# %% check="07.1"
lab.check("07.1", answer_1)

# %% [markdown]
# ## 07.2 The report card (36 points)
#
# Repair the pipeline. Copy it into the next cell as `repaired`, and change it. Choose the replication
# factor and `min.insync.replicas` of its topics, too.
#
# The check runs twelve schedules of faults and returns a report card: for each schedule its verdict,
# the finding, and the number of the claim behind it, which opens the claim. Each schedule is worth 3
# points. You have seen three of them, at other places. The grader draws the places anew. The check
# takes a minute or two.
#
# If a schedule fails, read its row. Predict which of your lines it is about before you change one.

# %% answer="07.2"
### BEGIN SOLUTION
def repaired(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)"))
    notices = run.producer({"acks": "all"})
    billing = run.producer({"transactional.id": f"{run.topic}-billing"})
    billing.init_transactions()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        with database.begin() as connection:
            for message in batch:
                row = {"order": message.value().decode()}
                connection.execute(text("INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING"), row)
        for message in batch:
            notices.produce(run.topics["notices"], message.value(), partition=0)
        notices.flush()
        billing.begin_transaction()
        try:
            for message in batch:
                billing.produce(run.topics["invoices"], message.value(), partition=0)
            offsets = consumer.position(consumer.assignment())
            billing.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            billing.commit_transaction()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            billing.abort_transaction()
            consumer.seek(TopicPartition(run.topic, 0, batch[0].offset()))
### END SOLUTION

answer_2 = {"replicas": ..., "topic": {"min.insync.replicas": ...}, "workload": repaired}
### BEGIN SOLUTION
answer_2 |= {"replicas": 3, "topic": {"min.insync.replicas": 2}}
### END SOLUTION

# %% check="07.2"
lab.check("07.2", answer_2)

# %% [markdown]
# ## What this does not cover
#
# - Twelve schedules are a sample: each is a fault or two, or kills two processes, at places drawn at
#   random. They do not prove that the pipeline is right.
# - No schedule breaks the first batch of a producer. If the leader fails in it, even the repaired
#   pipeline can lose an invoice: lab 03 shows why, in its run `hole`.
# - There is one member and one partition. Lab 06 has the rebalance.
# - The pipeline does not send a notice again if its report says that it failed. Lab 01 has the
#   callback.
#
# ## Questions
#
# - Which of the five mistakes would a test on one broker never show?
# - Which of them hid another?
# - Further: what would a reviewer have to ask of your own pipeline?

# %%
lab.score()

# %%
lab.close()
