# %% [markdown]
# # Automatic commits
#
# A further notebook to lab 05: more runs, no points. The client commits by itself. When does that
# lose an order, when does it repeat one, and how does the program take control?
#
# 10 minutes · one broker · builds on lab 05

# %%
from concurrent.futures import ThreadPoolExecutor
from lab_utils import Lab, crash_client, stall_client
lab = Lab("05_further")

# %% [markdown]
# ## Only the timer decides
#
# The program has polled order 2 and works on it for half a second. Then it is killed. In lab 05 the
# timer committed every 100 ms, and order 2 was skipped. The default is five seconds; here it is a
# minute. Predict.

# %%
def every_minute(run):
    consumer = run.consumer({"auto.commit.interval.ms": 60000})  # enable.auto.commit is on by default
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
    consumer.close()

in_hand = [stall_client("before_process", nth=3, for_ms=500), crash_client("before_process", nth=3)]
guess = lab.predict(repeated=..., skipped=..., because="...")

# %%
no_tick = lab.run(every_minute, orders=6, filled=True, faults=in_hand)
guess.compare(no_tick)

# %% [markdown]
# The timer did not fire before the crash, so two orders are repeated. In the Java client it is
# different: it commits in `poll()`, and only what the *previous* `poll()` returned.
#
# ## Without any crash
#
# This program stops in good order, at an order that it cannot process. Predict.

# %%
def stops_in_good_order(run):
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        if message.value() == b"2":
            break  # this order cannot be processed today
        run.processed(message)
    consumer.close()

guess = lab.predict(processed=..., committed=..., because="...")

# %%
stopped = lab.run(stops_in_good_order, orders=6, filled=True)
guess.compare(stopped)

# %% [markdown]
# Two orders were processed, and `close()` committed 3. Orders 3, 4 and 5 come after the bookmark: they
# are still to be read. Order 2 comes before it, and this group will never read it again.
#
# ## Say what is done
#
# With `enable.auto.offset.store=False` the program calls `store_offsets()` *after* the work. The timer
# then commits no more than that. The same crash as above:

# %%
def stored_when_done(run):
    consumer = run.consumer({"enable.auto.offset.store": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        consumer.store_offsets(message=message)
    consumer.close()

lab.run(stored_when_done, orders=6, filled=True, faults=in_hand)

# %% [markdown]
# ## Threads
#
# The main thread polls, four others work, and the timer commits. Order 1 takes long. The others are
# done, or in hand, when the process is killed.

# %%
def handed_to_threads(run):
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    with ThreadPoolExecutor(4) as workers:
        for message in run.messages(consumer):
            workers.submit(run.processed, message)

slow = stall_client("before_process", value="1", for_ms=3000)
last = [stall_client("after_poll", value="5", for_ms=500), crash_client("after_poll", value="5")]
lab.run(handed_to_threads, orders=6, filled=True, faults=[slow, *last]).bookmarks()

# %% [markdown]
# Orders 1 and 5 are lost. A thread had order 1, and the main thread had order 5. Both were committed.

# %%
lab.close()
