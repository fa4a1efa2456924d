# %% [markdown]
# # Where is my message?
#
# A program calls `produce()`. Later, perhaps, somebody uses what it sent. In between the message
# is somewhere, and most arguments about delivery are about where.
# This lab gives each place a name and shows the tools of the course once.
#
# 15 minutes · one broker · 5 points

# %%
from lab_utils import Lab, delay_response, drop_response, source
lab = Lab("00")

# %% [markdown]
# ## Try it first
#
# Each choice makes a real run on the broker. The arrow keys step through it. Lose the answer to one
# request: where is its order then?

# %%
lab.explorer()

# %%
lab

# %% [markdown]
# The card says that a real Kafka broker is running on this machine, and that a **proxy** stands in
# front of it. Every request of your clients crosses the proxy. It writes down what it sees, and it
# breaks what you ask it to break. Nothing else in this lab lies.

# %% [markdown]
# ## Seven words
#
# - **sent**: your program called `produce()`.
# - **acked**: the client reported success.
# - **failed**: the client reported an error that rules the record out.
# - **unknown**: the client reported an error that does not rule it out.
# - **delivered**: a consumer's `poll()` returned the record.
# - **processed**: the program has done its work with it.
# - **committed**: the group's bookmark has moved past it.
#
# A record can be acked and gone, or failed for you and stored for everybody else. The words are
# about what one party knows. The log is what is.

# %% [markdown]
# ## A quiet run
#
# For each order: hand it to the client, then wait for its report. A function like this is called
# a *workload*. It gets the run and nothing else.

# %%
def send_orders(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order)
        producer.flush()  # returns when the order is acked, failed or unknown

# %%
calm = lab.run(send_orders, orders=10)
calm

# %% [markdown]
# Nothing went wrong, so we have learned nothing about failure yet. But we can look at what a
# success is made of.

# %%
calm.timeline()

# %% [markdown]
# Each arrow is a real request. Time runs from left to right. An order leaves the client, crosses
# the proxy, reaches the broker, and an answer comes back. Here is the first pair as the proxy
# decoded it from the bytes.

# %%
calm.requests("Produce")[0]

# %%
calm.requests("Produce")[1].offset

# %% [markdown]
# The answer carries an **offset**: the place of the record in the log of its partition. The first
# record of an empty topic has offset 0.
#
# All of this is in the **ledger**: one line for each thing that one witness saw. The client, the
# proxy, and the reader that reads the log back when a run is over each keep their own. Spark reads
# it as a table.

# %%
calm.events().groupBy("source", "kind").count().orderBy("source", "kind")

# %% [markdown]
# ## Predict, then break
#
# Now we lose one answer. The third `Produce` request will reach the broker. Its response will be
# dropped, and the connection cut.
#
# Say what you expect, before you run it. A prediction is stored. It is never scored.

# %%
guess = lab.predict(acked=..., stored=..., because="...")

# %%
broken = lab.run(send_orders, orders=10, faults=[drop_response("Produce", nth=3)])
broken

# %%
guess.compare(broken)

# %% [markdown]
# Look at the reports first. They are as good as those of the quiet run. Then look at the log.

# %%
broken.events().where("source = 'client'").groupBy("kind").count()

# %%
broken.log

# %%
broken.timeline()

# %% [markdown]
# Order 2 is there twice, and no report says so. We do not explain it yet; lab 03 does. For now it
# is enough to see that the reports and the log are two different things, and that a **finding**
# can name the difference.

# %%
broken.findings()

# %% [markdown]
# ## 00.1 Count the acked orders (2 points)
#
# Write a query over the ledger that returns one row with one column, `acked`: how many *orders*
# were acked. The function must work for any run, not for this one alone.

# %% answer="00.1"
from pyspark.sql import functions as F

def count_acked(events):
    ### BEGIN SOLUTION
    acked = events.where("source = 'client' AND kind = 'acked'")
    return acked.agg(F.countDistinct("value").alias("acked"))
    ### END SOLUTION

# %% check="00.1"
lab.check("00.1", count_acked)

# %% [markdown]
# ## A report that does not know
#
# This workload is impatient. It gives an order one second, then it wants a report. We hold the
# answer to the fourth request back for longer than that.

# %%
def impatient(run):
    producer = run.producer({"message.timeout.ms": 1000})
    for order in run.orders:
        producer.produce(run.topic, order)
        producer.flush()

# %%
late = lab.run(impatient, orders=6, faults=[delay_response("Produce", nth=4, by_ms=1500)])
late

# %%
reports = late.events().where("source = 'client' AND kind IN ('acked', 'failed', 'unknown')")
reports.select("value", "kind", "error", "offset")

# %%
late.log

# %% [markdown]
# Order 3 has a report with an error, `_MSG_TIMED_OUT`, and no offset. Order 3 is also in the log.
# The client is not wrong: it was asked to stop waiting, and at that moment it could not know.
#
# ## 00.2 Name the outcome (2 points)
#
# Which of the seven words is true of order 3 at the moment of its report? And is it in the log?
# Write the word and `True` or `False`.

# %% answer="00.2"
answer_2 = {"outcome": ..., "in_the_log": ...}
### BEGIN SOLUTION
answer_2 = {"outcome": "unknown", "in_the_log": True}
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
# INCONCLUSIVE is the third verdict. A test whose fault never fired looks exactly like a test that
# passed, and that is why this lab keeps the two apart. You will meet it again.

# %% [markdown]
# ## By hand
#
# The same faults have buttons. Arm one, then run the cell below the panel. The panel also acts
# while a cell is running. No check depends on it.

# %%
lab.panel()

# %%
lab.run(send_orders, orders=10).log

# %% [markdown]
# ## What this does not cover
#
# Nobody has consumed anything yet, so *delivered*, *processed* and *committed* are still words.
# Lab 05 makes them events. One broker has no replicas; labs 01 and 02 have three.
#
# ## Questions
#
# - Which party knows that a record was sent? Which knows that it was stored?
# - Is `acked` a statement about the log or about the client?
# - Why is `_MSG_TIMED_OUT` not a failure?
# - What does a run prove whose fault never fired?
# - Further: what would you need to know to turn *unknown* into a fact?

# %% [markdown]
# ## Under the hood
#
# You can skip this. `source` shows the text of anything in the lab. This is the query that named
# the finding above.

# %%
from lab_utils.audit.findings.producing import duplicate
source(duplicate)

# %%
lab.score()

# %%
lab.close()
