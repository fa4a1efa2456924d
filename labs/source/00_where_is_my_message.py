# %% [markdown]
# # Where is my message?
#
# A program calls `produce()`. Later another program may use what it sent. In between, the message is
# somewhere. This lab names each place and shows each tool of the course once.
#
# 15 minutes · one broker · 5 points
#
# ## Try it first
#
# Each choice makes a real run on the broker. The arrow keys step through it. Lose the answer to one
# request: where is its order then?

# %%
from lab_utils import Lab, delay_response, drop_response, source
lab = Lab("00")

# %%
lab.explorer()

# %% [markdown]
# A real Kafka broker runs on this machine. Every request of your clients crosses a **proxy** in front
# of it. The proxy writes down what it sees, and it breaks what you ask it to break.
#
# ## Seven words
#
# - **sent**: your program called `produce()`.
# - **acked**: the client reported success.
# - **failed**: the client reported an error that proves that the record is not stored.
# - **unknown**: the client reported an error that does not prove it.
# - **delivered**: a consumer's `poll()` returned the record.
# - **processed**: the program has done its work with it.
# - **committed**: the group's bookmark has moved past it.
#
# Each word says what one party knows. The log says what is stored.
#
# ## A quiet run
#
# For each order: hand it to the client, then wait for its report. A function like this is called a
# *workload*.

# %%
def send_orders(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order)
        producer.flush()  # returns when the order is acked, failed or unknown

calm = lab.run(send_orders, orders=10)
calm

# %%
calm.timeline()

# %% [markdown]
# Each arrow is a real request. Time runs from left to right. An order leaves the client, crosses the
# proxy and reaches the broker, and an answer comes back. Here is the first answer as the proxy decoded
# it. Its **offset** is the place of the record in the log of its partition.

# %%
calm.requests("Produce")[1]

# %% [markdown]
# All of this is in the **ledger**: one row for each observed event. The client, the proxy, and the
# reader that reads the log back after a run write them. Spark reads the ledger as a table.
# `lab.ledger_card()` explains each column. So does a column's head when you point at it.

# %%
calm.events().groupBy("source", "kind").count().orderBy("source", "kind")

# %% [markdown]
# ## Predict, then break
#
# The third `Produce` request will reach the broker. Its answer is dropped, and the connection is cut.
# Say what you expect before you run it. The lab stores a prediction, and never scores it.

# %%
guess = lab.predict(acked=..., stored=..., because="...")

# %%
broken = lab.run(send_orders, orders=10, faults=[drop_response("Produce", nth=3)])
guess.compare(broken)

# %%
broken.log

# %% [markdown]
# Order 2 is in the log twice, and no report says so. Lab 03 explains it. For now: the reports and the
# log are two different things, and a **finding** names the difference.

# %%
broken.findings()

# %% [markdown]
# ## 00.1 Count the acked orders (2 points)
#
# Write a query over the ledger that returns one row with one column, `acked`: how many *orders* were
# acked. The function must work for any run, not only for this one.

# %% answer="00.1"
from pyspark.sql import functions as F

def count_acked(events):
    ### BEGIN SOLUTION
    acked = events.where("source = 'client' AND kind = 'acked'")
    return acked.agg(F.countDistinct("value").alias("acked"))
    ### END SOLUTION

# %%
count_acked(broken.events())

# %% check="00.1"
lab.check("00.1", count_acked)

# %% [markdown]
# ## A report that does not know
#
# This workload gives an order one second. The answer to the fourth request is held back for longer.

# %%
def impatient(run):
    producer = run.producer({"message.timeout.ms": 1000})
    for order in run.orders:
        producer.produce(run.topic, order)
        producer.flush()  # so the fourth request has order 3

late = lab.run(impatient, orders=6, faults=[delay_response("Produce", nth=4, by_ms=4000)])
reports = late.events().where("source = 'client' AND kind IN ('acked', 'failed', 'unknown')")
reports.select("value", "kind", "error", "offset")

# %%
late.log

# %% [markdown]
# Order 3 has a report with an error, `_MSG_TIMED_OUT`, and no offset. It is also in the log. The
# program had told the client to stop waiting, and at that moment the client could not know.
#
# ## 00.2 Name the outcome (2 points)
#
# Which of the seven words is true of order 3 at the moment of its report? At which offset is it
# in the log? `None` if it is not there.

# %% answer="00.2"
answer_2 = {"outcome": ..., "offset": ...}
### BEGIN SOLUTION
answer_2 = {"outcome": "unknown", "offset": 3}
### END SOLUTION

# %% check="00.2"
lab.check("00.2", answer_2)

# %% [markdown]
# ## 00.3 A run that proves nothing (1 point)
#
# The fault below is armed for the thirtieth request, but the run sends ten. Run it and check it
# as it is. Then change the fault so that the run proves something.

# %% answer="00.3"
fault_3 = drop_response("Produce", nth=30)
### BEGIN SOLUTION
fault_3 = drop_response("Produce", nth=7)
### END SOLUTION

# %%
lab.run(send_orders, orders=10, faults=[fault_3])

# %% check="00.3"
lab.check("00.3", fault_3)

# %% [markdown]
# INCONCLUSIVE is the third verdict. A test whose fault never fired looks like a test that passed.
#
# ## By hand
#
# The same faults have buttons. Arm one, then run the cell below the panel. The panel also acts while a
# cell is running.

# %%
lab.panel()

# %%
lab.run(send_orders, orders=10).log

# %% [markdown]
# ## What this does not cover
#
# Nothing has been consumed yet; see lab 05. One broker has no replicas; labs 01 and 02 have three
# brokers.
#
# ## Questions
#
# - Is `acked` a statement about the log or about the client?
# - Why is `_MSG_TIMED_OUT` not a failure?
# - Further: what would you need to know to turn *unknown* into a fact?
#
# ## Under the hood
#
# You can skip this. `source` shows the code of anything in the lab, here of the query that named the
# finding above.

# %%
from lab_utils.audit.findings.producing import duplicate
source(duplicate)

# %%
lab.score()

# %%
lab.close()
