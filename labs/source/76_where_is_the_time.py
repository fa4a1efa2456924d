# %% [markdown]
# # Incident: the search is fast, the table is slow. Where is the time?
#
# A customer finds her invoice in the search at once. In her account it appears much later.
#
# 19 minutes · one broker · 7 points · builds on labs 04 and 06

# %% part="checks"
from collections import Counter
from dataclasses import replace
from time import sleep

from confluent_kafka import TopicPartition

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    FENCED,
    and_more,
    answer_equals,
    answers,
    final,
    had,
    is_transactional,
    nothing_else_is_stored,
    repeated,
)
from lab_utils.ledger.history import carried
from lab_utils.proxy.faults import drop_response

# %%
from time import sleep
from confluent_kafka import TopicPartition
from lab_utils import Lab
lab = Lab("76")

# %% [markdown]
# ## What the person on call has
#
# | what | what it says |
# |---|---|
# | the search engine | shows each invoice at once; some of them nobody knows |
# | the table of accounts | has no wrong invoice, and is late |
# | the team of the table | "our database is idle" |
# | the team of the brokers | "our disks are idle; it is all in the page cache" |
#
# Both read the topic `invoices`: the search engine with `read_uncommitted`, the table with
# `read_committed`. The billing program reads orders, four at a time, and writes their invoices in one
# transaction. While an invoice is on its way, the order is checked for fraud, which takes a while. An
# order that is refused must not be billed: then the transaction is aborted, and begun again without it.
#
# ## The program, as it is found
#
# `refreshed` lets both sinks read what they are given. `run.processed(invoice)` is the work of the
# table; it writes a receipt, as the client `worker-1`.

# %% part="shared"
def check(order):
    """The fraud check: it takes its time, and refuses every third order with a ValueError."""
    sleep(0.1)
    if int(order.rpartition(b"-")[2]) % 3 == 2:
        raise ValueError(order)


def sink(run, level):
    """A reader of the invoices, from the first one on; the two are two groups."""
    reader = run.consumer({"group.id": f"{run.topic}-{level}", "isolation.level": level,
                           "enable.auto.commit": False})
    reader.assign([TopicPartition(run.topics["invoices"], 0, 0)])
    return reader


def refreshed(run, search, table):
    """Let both sinks read to the end of what they are given."""
    list(run.messages(search))
    for invoice in run.messages(table):
        run.processed(invoice)


def bill(run, producer, orders, refresh):
    """Write the invoices of these orders; raises ValueError for one that is refused."""
    for order in orders:
        producer.produce(run.topics["invoices"], order, partition=0)
        producer.flush()
        refresh()
        check(order)


def found(run):
    """The program as it is found."""
    search, table = sink(run, "read_uncommitted"), sink(run, "read_committed")
    inbox = run.consumer({"enable.auto.commit": False})
    inbox.subscribe([run.topic])
    producer = run.producer({"transactional.id": f"{run.topic}-billing"})
    producer.init_transactions()
    for batch in run.batches(inbox, size=4):
        orders = [message.value() for message in batch]
        while orders:
            producer.begin_transaction()
            try:
                bill(run, producer, orders, lambda: refreshed(run, search, table))
                producer.commit_transaction()
                orders = []
            except ValueError as refused:
                producer.abort_transaction()
                orders.remove(refused.args[0])
            refreshed(run, search, table)

# %%
incident = lab.run(found, orders=8, filled=True, topics=["invoices", "receipts"])
incident.timeline(apis=["Produce", "EndTxn"])

# %%
incident.transactions()

# %% [markdown]
# How many milliseconds pass between the first request that carries an invoice and a sink that has it?
# The search engine is `consumer-1`, the table `consumer-2`.

# %%
def first(kind, actor):
    """When this client had each invoice for the first time."""
    rows = [row for row in incident.rows if (row.kind, row.actor) == (kind, actor)]
    return {row.value: row.at_ns for row in reversed(rows) if row.value}

sent, search, table = first("request", "producer-1"), first("delivered", "consumer-1"), first("delivered", "consumer-2")
{order: [(sink[order] - at) // 1_000_000 if order in sink else None for sink in (search, table)]
 for order, at in sorted(sent.items())}

# %% [markdown]
# Both sinks read the same records from the same log. So neither the brokers' disks nor their page cache
# tell the two apart.
#
# ## 76.1 The cause (3 points)
#
# - `never`: the orders that the search engine shows and the table never has, as in `"0 1"`
# - `twice`: the orders that the search engine is given twice
# - `stands_at`: the last stable offset of `invoices` while order 3 is checked: the table is not given
#   that record, nor any after it
# - `waits_for`: the request of the billing program without which the table is not given order 0, by its
#   name on the wire
# - `most`: where most of the time of order 0 is. `"broker"` is from its first `Produce` to the answer,
#   `"billing"` from there to the request that commits it. `"table"` is from that request until the
#   table has it

# %% answer="76.1"
answer_1 = {"never": ..., "twice": ..., "stands_at": ..., "waits_for": ..., "most": ...}
### BEGIN SOLUTION
answer_1 = {"never": "2 5", "twice": "0 1 4", "stands_at": 4, "waits_for": "EndTxn", "most": "billing"}
### END SOLUTION

# %% check="76.1"
lab.check("76.1", answer_1)

# %% [markdown]
# ## 76.2 The repair (4 points)
#
# Each order that is not refused has one invoice, and the table has it once. The table never has an
# invoice that does not count. And no invoice waits for many others: it is committed before the next but
# one is written, and the table has it before two more are. The check also loses an answer on the way.
# The grader loses others.

# %% answer="76.2"
### BEGIN SOLUTION
def repaired(run):
    search, table = sink(run, "read_uncommitted"), sink(run, "read_committed")
    inbox = run.consumer({"enable.auto.commit": False})
    inbox.subscribe([run.topic])
    producer = run.producer({"transactional.id": f"{run.topic}-billing"})
    producer.init_transactions()
    for batch in run.batches(inbox, size=1):
        orders = [message.value() for message in batch]
        while orders:
            producer.begin_transaction()
            try:
                bill(run, producer, orders, lambda: refreshed(run, search, table))
                producer.commit_transaction()
                orders = []
            except ValueError as refused:
                producer.abort_transaction()
                orders.remove(refused.args[0])
            refreshed(run, search, table)
### END SOLUTION

# %% check="76.2"
lab.check("76.2", repaired)

# %% [markdown]
# A smaller transaction costs more for each record: lab 04, further, measures it. The search engine still
# shows what is then aborted, for as long as it reads what is not committed.
#
# ## What this does not cover
#
# - A reader that is far behind, whose records have left the page cache. Nobody here was.
# - The program commits no bookmark. Incident 72 has the whole loop, and kills it.
# - Another writer's open transaction makes the table wait in the same way (claim E5).

# %%
lab.score()

# %%
lab.close()

# %% part="checks"
SINKS = ("invoices", "receipts")
NEVER = float("inf")


def quiet(orders):
    """A run in which nothing goes wrong but the fraud check."""
    return Trial(
        name="nothing is lost", orders=orders, filled=True, topics=SINKS, assumes=shown_in_part
    )


def lost(orders, nth):
    """A run in which the answer to the nth invoice is lost, with its connection."""
    fault = drop_response("Produce", nth=nth, topic="invoices")
    return replace(quiet(orders), name="an answer is lost", faults=(fault,))


def elsewhere(place):
    """The two with numbers drawn from the nonce."""
    return quiet(place.randint(7, 9)), lost(place.randint(6, 8), place.randint(1, 4))


def is_refused(order):
    """Does the fraud check refuse this order?"""
    return int(order.rpartition("-")[2]) % 3 == 2


def given(evidence, reader):
    """What a consumer was given of the invoices, oldest first."""
    return [
        row
        for row in evidence.rows
        if (row.kind, row.actor) == ("delivered", reader) and row.topic.endswith("-invoices")
    ]


def cause(evidence):
    """Who was given what, and where the time of the first order is."""
    shown = Counter(row.value for row in given(evidence, "consumer-1"))
    first = given(evidence, "consumer-2")[0]
    stored = next(it for it in answers(evidence) if (it.actor, it.api) == ("producer-1", "Produce"))
    commit = next(row for row in commits(evidence) if row.at_ns > stored.at_ns)
    parts = {
        "broker": stored.at_ns - written(evidence)[first.value],
        "billing": commit.at_ns - stored.at_ns,
        "table": first.at_ns - commit.at_ns,
    }
    return {
        "never": " ".join(it for it in evidence.orders if shown[it] and not counts(evidence)[it]),
        "twice": " ".join(repeated(evidence, shown)),
        "stands_at": first.offset,
        "waits_for": commit.api,
        "most": max(parts, key=parts.__getitem__),
    }


def writes(evidence, topic="invoices"):
    """Each time that a request carried an order to this topic, oldest first, as order and time."""
    rows = [row for row in evidence.requests() if row.topic == f"{row.run}-{topic}"]
    return [(order, row.at_ns) for row in rows for order in carried(row)]


def written(evidence, topic="invoices"):
    """When the first request carried each order to this topic."""
    return dict(reversed(writes(evidence, topic)))


def commits(evidence):
    """The requests that commit a transaction, oldest first."""
    return [row for row in evidence.requests("EndTxn") if row.detail["committed"] == "True"]


def its_commits(evidence):
    """When the producer that wrote an order committed: what another one commits is not about it."""
    rows = [row for row in evidence.requests() if row.topic == f"{row.run}-invoices"]
    writers = {order: row.producer_id for row in rows for order in carried(row)}
    return {
        order: [row.at_ns for row in commits(evidence) if row.producer_id == writer]
        for order, writer in writers.items()
    }


def committed(evidence):
    """When each order was committed: by the first commit after it was last written.

    One that is written outside of a transaction counts at once.
    """
    last = dict(writes(evidence))
    if not is_transactional(evidence):
        return last
    ends = its_commits(evidence)
    return {
        order: min((it for it in ends[order] if it > at), default=NEVER)
        for order, at in last.items()
    }


def behind(evidence, times, most):
    """The orders that were not there when one was written that came so many later."""
    begun = written(evidence)
    return [
        order
        for number, order in enumerate(evidence.orders)
        if not is_refused(order)
        and any(
            begun.get(later, NEVER) < times.get(order, NEVER)
            for later in evidence.orders[number + most :]
        )
    ]


def waiting(evidence):
    """The orders that were not committed when the next but one was written."""
    return behind(evidence, committed(evidence), 2)


def unread(evidence):
    """The orders that the table did not have when two more were written."""
    return behind(evidence, written(evidence, "receipts"), 4)


def counts(evidence):
    """How often each order has an invoice that counts."""
    return final(evidence, "invoices")


def booked(evidence):
    """How often the table has each order."""
    return had(evidence, "receipts", "record")


def refused(orders):
    """The refused ones among these orders."""
    return [order for order in orders if order is not None and is_refused(order)]


def good(evidence):
    """The orders that are not refused, in their sequence."""
    return [order for order in evidence.orders if not is_refused(order)]


def too_soon(evidence):
    """The orders that the table had before anything was committed since they were written."""
    begun, there = written(evidence), written(evidence, "receipts")
    ends = its_commits(evidence)
    if not is_transactional(evidence):
        stored = [row for row in answers(evidence) if row.topic == f"{row.run}-invoices"]
        ends = dict.fromkeys(begun, [row.at_ns for row in stored if row.api == "Produce"])
    return [
        order
        for order in evidence.orders
        if order in there
        and not any(begun[order] < end < there[order] for end in ends.get(order, ()))
    ]


def each_is_billed_once(_, evidence):
    """Has each order that is not refused one invoice, and has no other one?"""
    found = counts(evidence)
    if wrong := refused(found):
        return f"order {wrong[0]} was refused, and has an invoice{and_more(wrong)}."
    if wrong := [order for order in good(evidence) if found[order] != 1]:
        return f"order {wrong[0]} has {found[wrong[0]]} invoices{and_more(wrong)}."
    return None


def the_table_has_none_too_often(_, evidence):
    """Has the table no invoice twice, and none that was refused?"""
    found = booked(evidence)
    if wrong := refused(found):
        return f"the table has order {wrong[0]}, which was refused{and_more(wrong)}."
    if wrong := repeated(evidence, found):
        return f"the table has order {wrong[0]} {found[wrong[0]]} times{and_more(wrong)}."
    return None


def shown_in_part(evidence):
    """What a run lacks if the answer that is lost was not of a producer that writes twice then.

    Or if the table has not all invoices: the last one may be on its way.
    """
    fired = {(it.detail.get("connection"), it.correlation_id) for it in evidence.faults("fired")}
    rows = [row for row in evidence.requests() if row.topic == f"{row.run}-invoices"]
    plain = {
        (row.detail.get("connection"), row.correlation_id)
        for row in rows
        if row.producer_id is None or row.producer_id < 0
    }
    if plain and fired and plain.isdisjoint(fired):
        return "the answer that was lost was none of the producer without idempotence"
    left = [order for order in good(evidence) if not booked(evidence)[order]]
    return f"the table does not have order {left[0]} when all is over" if left else None


def the_table_waits_for_the_commit(_, evidence):
    """Has the table an invoice only when it counts?"""
    wrong = too_soon(evidence)
    return f"the table had order {wrong[0]} before its commit{and_more(wrong)}." if wrong else None


def none_waits_for_many(_, evidence):
    """Is each invoice committed before the next but one is written, and read soon after?"""
    for wrong, done in ((waiting(evidence), "committed"), (unread(evidence), "in the table")):
        if wrong:
            return f"order {wrong[0]} was not {done} in time{and_more(wrong)}."
    return None


def says_what_was_billed(_, evidence):
    """What is said of a program that passed."""
    billed = sum(len(good(each)) for each in evidence)
    return f"{billed} invoices count; each was committed before the next but one was written."


EXERCISES = {
    "76.1": Exercise(
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(replace(quiet(8), workload=found),),
        rules=(answer_equals(cause),),
        mistakes={
            "a slow table": Mistake(
                is_made=lambda answer, _: answer["most"] == "table",
                likely="once it could be given the invoice, it had it soon.",
                look="Look at the time between the commit and the delivery.",
            ),
            "a slow broker": Mistake(
                is_made=lambda answer, _: answer["most"] == "broker",
                likely="the answer came soon, and the search engine had the invoice with it.",
                look="Look at the first Produce request and its answer.",
            ),
            "the write": Mistake(
                is_made=lambda answer, _: answer["waits_for"] == "Produce",
                likely="it was written long before, and the table was not given it.",
                look="Look at the last request of producer-1 before consumer-2 has order 0.",
            ),
            "the marker": Mistake(
                is_made=lambda answer, _: answer["stands_at"] == 3,
                likely="that is a marker of an abort, and a reader gets past it.",
                look="Look at the first record of the transaction that holds order 3.",
            ),
            "the beginning": Mistake(
                is_made=lambda answer, _: answer["stands_at"] == 0,
                likely="that transaction was aborted by then, and the reader got past it.",
                look="Look at the first record of the transaction that holds order 3.",
            ),
            "one refusal": Mistake(
                is_made=lambda answer, _: answer["never"] in ("2", "5"),
                likely="it is not the only one.",
                look="Look at the orders without a number for the table.",
            ),
        },
        blank="Fill in all five; the timeline and the transactions have them.",
    ),
    "76.2": Exercise(
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=(quiet(8), lost(6, 2)),
        unseen=drawn(elsewhere),
        rules=(
            nothing_else_is_stored,
            each_is_billed_once,
            the_table_has_none_too_often,
            the_table_waits_for_the_commit,
            none_waits_for_many,
        ),
        mistakes={
            "nothing is billed": Mistake(
                is_made=lambda _, seen: not written(seen),
                likely="the orders were there to be read, and there is no invoice.",
                look="Look at what the loop does with each order.",
            ),
            "no transaction": Mistake(
                is_made=lambda _, seen: not seen.requests("EndTxn"),
                likely="without a transaction, an invoice counts before its order is checked.",
                look="Look at the orders that were refused.",
            ),
            "a shorter time-out": Mistake(
                is_made=lambda _, seen: any(row.error in FENCED for row in answers(seen)),
                likely="the coordinator ended a transaction that was still at work.",
                look="Look at the error in the answer to EndTxn.",
            ),
            "billed all the same": Mistake(
                is_made=lambda _, seen: bool(refused(counts(seen))),
                likely="an order was refused, and its transaction was committed.",
                look="Look at what EndTxn says after a refusal.",
            ),
            "what does not count": Mistake(
                is_made=lambda _, seen: bool(refused(booked(seen))),
                likely="the table was given invoices whose transaction was then aborted.",
                look="Look at the isolation level of what feeds the table.",
            ),
            "thrown out with it": Mistake(
                is_made=lambda _, seen: any(not counts(seen)[it] for it in good(seen)),
                likely="an abort takes back all of its transaction.",
                look="Look at the orders beside one that was refused.",
            ),
            "past the log": Mistake(
                is_made=lambda _, seen: bool(too_soon(seen)),
                likely="the table did not wait until its invoice was committed.",
                look="Look at what happens to it if the commit never comes.",
            ),
            "waits for others": Mistake(
                is_made=lambda _, seen: bool(waiting(seen)),
                likely="an invoice waits for the last of its transaction.",
                look="Look at how many invoices lie between two EndTxn requests.",
            ),
            "nobody asks": Mistake(
                is_made=lambda _, seen: bool(unread(seen)),
                likely="the invoice counted, and the table did not read.",
                look="Look at when the first receipt is written.",
            ),
        },
        passed=says_what_was_billed,
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
}

# %% part="tests"
def answer(**other):
    right = {"never": "2 5", "twice": "0 1 4", "stands_at": 4, "waits_for": "EndTxn", "most": "billing"}
    return f"answer_1 = {right | other!r}"

ONE = "size=1"
UNCOMMITTED = ('sink(run, "read_committed")', 'sink(run, "read_uncommitted")')
ID = '{"transactional.id": f"{run.topic}-billing"}'
REFRESH = "            refreshed(run, search, table)\n"
COMMIT = "                producer.commit_transaction()\n"
ABORT = "                producer.abort_transaction()\n"
BEGIN = "            producer.begin_transaction()\n"
INIT = "    producer.init_transactions()\n"
DURING = "lambda: refreshed(run, search, table)"
FASTER = """
def sink(run, level):
    reader = run.consumer({"group.id": f"{run.topic}-{level}", "isolation.level": level,
                           "enable.auto.commit": False,
                           "fetch.wait.max.ms": 1, "fetch.min.bytes": 1, "fetch.max.bytes": 10000000})
    reader.assign([TopicPartition(run.topics["invoices"], 0, 0)])
    return reader
"""
BOTH = """
def refreshed(run, search, table):
    for reader in (search, table):
        for invoice in run.messages(reader):
            run.processed(invoice)
"""
NOT_WRITTEN = """
def bill(run, producer, orders, refresh):
    for order in orders:
        check(order)
"""
CHECKED_FIRST = """
def bill(run, producer, orders, refresh):
    for order in orders:
        check(order)
    for order in orders:
        producer.produce(run.topics["invoices"], order, partition=0)
    producer.flush()
"""
DIRECT = """
def repaired(run):
    inbox = run.consumer({"enable.auto.commit": False})
    inbox.subscribe([run.topic])
    producer = run.producer({"transactional.id": f"{run.topic}-billing"})
    producer.init_transactions()
    producer.begin_transaction()
    for message in run.messages(inbox):
        try:
            check(message.value())
        except ValueError:
            continue
        producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        run.processed(message)
    producer.commit_transaction()
"""
COMMITS = """        decoy.begin_transaction()
        places = inbox.position(inbox.assignment())
        decoy.send_offsets_to_transaction(places, inbox.consumer_group_metadata())
        decoy.commit_transaction()
"""
DECOY = """    decoy = run.producer({"transactional.id": f"{run.topic}-decoy"})
    decoy.init_transactions()
"""
OTHERS_COMMIT = DIRECT.replace("    inbox.subscribe", DECOY + "    inbox.subscribe").replace(
    "        run.processed", COMMITS + "        run.processed"
)
PLAIN = """
def repaired(run):
    search, table = sink(run, "read_uncommitted"), sink(run, "read_committed")
    inbox = run.consumer({"enable.auto.commit": False})
    inbox.subscribe([run.topic])
    producer = run.producer({"enable.idempotence": True})
    for message in run.messages(inbox):
        try:
            check(message.value())
        except ValueError:
            continue
        producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        refreshed(run, search, table)
"""
WRONG = (
    ("76.1", "a slow table", answer(most="table")),
    ("76.1", "a slow broker", answer(most="broker")),
    ("76.1", "the write", answer(waits_for="Produce")),
    ("76.1", "the marker", answer(stands_at=3)),
    ("76.1", "the beginning", answer(stands_at=0)),
    ("76.1", "one refusal", answer(never="2")),
    # as it is found; other batches; a faster reader; a reader that asks more often
    ("76.2", "waits for others", "repaired = found"),
    ("76.2", "waits for others", changed((ONE, "size=3"))),
    ("76.2", "waits for others", changed((ONE, "size=8"))),
    ("76.2", "waits for others", FASTER + changed((ONE, "size=4"))),
    ("76.2", "waits for others", changed((ONE, "size=4"), (REFRESH, REFRESH + REFRESH))),
    # a short transaction at the end of a long batch
    ("76.2", "waits for others", CHECKED_FIRST + changed((ONE, "size=4"))),
    # the table reads what is not committed; so it does with small transactions; it is fed by both
    ("76.2", "what does not count", changed((ONE, "size=4"), UNCOMMITTED)),
    ("76.2", "what does not count", changed(UNCOMMITTED)),
    ("76.2", "what does not count", BOTH + changed()),
    ("76.2", "no transaction", changed((ID, '{"enable.idempotence": True}'), (INIT, ""), (BEGIN, ""), (COMMIT, ""), (ABORT, ""))),
    ("76.2", "billed all the same", changed((ABORT, COMMIT))),
    ("76.2", "thrown out with it", changed((ONE, "size=2"), ("orders.remove(refused.args[0])", "orders = []"))),
    ("76.2", "a shorter time-out", changed((ONE, "size=8"), (ID, ID[:-1] + ', "transaction.timeout.ms": 1000, "socket.timeout.ms": 900}'), (INIT, INIT.replace("()", "(30)")))),
    # the program writes to the table itself
    ("76.2", "past the log", DIRECT),
    # and another producer commits meanwhile
    ("76.2", "past the log", OTHERS_COMMIT),
    ("76.2", "nobody asks", changed((DURING, "lambda: None"), (REFRESH, ""), ("    for batch", "    refresh = lambda: refreshed(run, search, table)\n    for batch")) + "    refresh()\n"),
    ("76.2", "nothing is billed", NOT_WRITTEN + changed()),
)
RIGHT = {
    ("76.2", "right, too: an order is checked before anything is written"): CHECKED_FIRST + changed(),
    ("76.2", "right, too: two orders in a transaction"): changed((ONE, "size=2")),
    ("76.2", "right, too: what has been checked needs no transaction"): PLAIN,
}
