# %% [markdown]
# # A tiny lab
#
# One exercise of each kind. The tests of the grader use it.

# %%
from lab_utils import Lab, drop_response

lab = Lab("90")

# %% [markdown]
# ## 90.1 A value (2 points)
#
# Five orders, one at a time; the answer to the third request is lost. Which order is in the log
# twice, and at which offset is its second copy?

# %% answer="90.1"
### BEGIN SOLUTION
answer_1 = {"order": "2", "second_copy": 3}
### END SOLUTION

# %% check="90.1"
lab.check("90.1", answer_1)

# %% [markdown]
# ## 90.2 A workload (4 points)
#
# Store each order once.


# %% answer="90.2"
def send_once(run):
    producer = run.producer(
        {
            "acks": "all",
            ### BEGIN SOLUTION
            "enable.idempotence": True,
            ### END SOLUTION
        }
    )
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()


# %% check="90.2"
lab.check("90.2", send_once)

# %% [markdown]
# ## 90.3 A query (3 points)
#
# One row, one column `acked`: how many orders were acked.


# %% answer="90.3"
def count_acked(events):
    ### BEGIN SOLUTION
    acked = events.where("source = 'client' AND kind = 'acked'")
    return acked.selectExpr("count(distinct value) AS acked")
    ### END SOLUTION


# %% check="90.3"
lab.check("90.3", count_acked)

# %% [markdown]
# ## 90.4 A fault (1 point)
#
# Choose a fault that fires.

# %% answer="90.4"
fault_4 = drop_response("Produce", nth=30)
### BEGIN SOLUTION
fault_4 = drop_response("Produce", nth=4)
### END SOLUTION

# %% check="90.4"
lab.check("90.4", fault_4)

# %% [markdown]
# ## 90.5 A restart (2 points)
#
# Keep no state but the log.


# %% answer="90.5"
def send_the_rest(run):
    ### BEGIN SOLUTION
    from confluent_kafka import TopicPartition

    consumer = run.consumer({"enable.partition.eof": True})
    consumer.assign([TopicPartition(run.topic, 0, 0)])
    stored = set()
    while (message := consumer.poll(10)) and not message.error():
        stored.add(message.value().decode())
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        if order not in stored:
            producer.produce(run.topic, order, partition=0)
            producer.flush()
    ### END SOLUTION


# %% check="90.5"
lab.check("90.5", send_the_rest)

# %%
lab.close()
