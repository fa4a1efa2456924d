# %% [markdown]
# # Incident: the poison pill that nobody has
#
# A customer asks for her order. It is not in the bookings, and not among the dead letters either.
#
# 18 minutes · one broker · 7 points · builds on labs 01 and 05

# %% part="checks"
from dataclasses import replace

from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import and_more, answer_equals, answers, final, repeated
from lab_utils.proxy.faults import crash_client, drop_request, refuse, stall_client

# %%
from confluent_kafka import KafkaException, TopicPartition
from lab_utils import Lab, drop_request
from sqlalchemy import text
lab = Lab("74")

# %% [markdown]
# ## What the person on call has
#
# | what | what it says |
# |---|---|
# | consumer lag of the group | 0 |
# | the program's log | three orders without a price; no other error |
# | topic `dead_letters` | two records |
# | connections to the broker | one was lost, and opened again at once |
#
# The program books each order. One that it cannot book, a *poison pill*, would stop it for ever: so it
# goes to a topic of dead letters, which a person looks through.
#
# ## The program, as it is found

# %% part="shared"
def bookings(run):
    """The table of bookings."""
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)"))
    return database


def book(database, order):
    """Book an order; every third has no price, and raises ValueError."""
    if int(order.rpartition("-")[2]) % 3 == 2:
        raise ValueError(order)
    with database.begin() as connection:
        row = {"order": order}
        connection.execute(text("INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING"), row)


def found(run):
    """The program as it is found."""
    database = bookings(run)
    dead = run.producer({"acks": 0})
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        try:
            book(database, message.value().decode())
        except ValueError:
            dead.produce(run.topics["dead_letters"], message.value(), partition=0)
            dead.flush()
        consumer.commit(message, asynchronous=False)

# %%
incident = lab.run(found, orders=9, filled=True, topics=["dead_letters"],
                   faults=[drop_request("Produce", nth=2)])
incident.in_and_out("dead_letters")

# %%
incident.timeline(apis=["Produce", "OffsetCommit"])

# %% [markdown]
# ## 74.1 The cause (3 points)
#
# - `nowhere`: the order that is neither booked nor a dead letter
# - `bookmark`: the offset of the first commit that passed it
# - `acks`: what the program asked the broker for
# - `requests`: how many Produce requests the program sent
# - `answers`: how many of them were answered
# - `said`: what the delivery report said of that order, `"stored"` or `"failed"`

# %% answer="74.1"
answer_1 = {"nowhere": ..., "bookmark": ..., "acks": ..., "requests": ..., "answers": ..., "said": ...}
### BEGIN SOLUTION
answer_1 = {"nowhere": "5", "bookmark": 6, "acks": 0, "requests": 3, "answers": 0, "said": "stored"}
### END SOLUTION

# %% check="74.1"
lab.check("74.1", answer_1)

# %% [markdown]
# ## 74.2 The repair (4 points)
#
# In the end each order with a price is booked and no dead letter; each without one is in `dead_letters`
# and not in the table.
# A dead letter may be there twice; a program that sends each more often, whatever the answer, proves
# nothing. The check loses a request. It refuses others with an error after which the client does not try
# again: the first two and one with the last letter, or two with a later one. It kills the program with
# each dead letter on its way, which takes long. It also kills it right after a poison pill, while the
# broker is hard to reach. The grader does so at other places.

# %% answer="74.2"
### BEGIN SOLUTION
def is_stored(producer, topic, value):
    failed = []

    def report(error, _):
        if error:
            failed.append(error)

    producer.produce(topic, value, partition=0, on_delivery=report)
    return producer.flush() == 0 and not failed

def repaired(run):
    database = bookings(run)
    dead = run.producer({"acks": "all"})
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        try:
            book(database, message.value().decode())
        except ValueError:
            while not is_stored(dead, run.topics["dead_letters"], message.value()):
                continue
        consumer.commit(message, asynchronous=False)
### END SOLUTION

# %% check="74.2"
lab.check("74.2", repaired)

# %% [markdown]
# ## What this does not cover
#
# - A dead letter topic that never takes a record stops the program, and that is right: nothing is lost.
# - The dead letter says nothing of why, or of where it came from. Headers have room for both.
# - Orders after a poison pill are booked before it is repaired: their sequence is not kept.

# %%
lab.score()

# %%
lab.close()

# %% part="checks"
def of_nine(name, *faults):
    """A run with nine orders, of which every third cannot be booked."""
    return Trial(name=name, faults=faults, orders=9, filled=True, topics=("dead_letters",))


def lost(nth):
    """The nth request is lost with its connection."""
    return of_nine("lost", drop_request("Produce", nth=nth))


def refused():
    """The first two requests are refused for good: the client reports it, and does not try again.

    So who sends each letter twice, and looks at no report, has lost the first. So is the first one
    with the last letter: who reads the first report alone has lost that.
    """
    given = {"error": "INVALID_RECORD"}
    faults = (refuse("Produce", nth=nth, **given) for nth in (1, 2))
    one_more = refuse("Produce", value="8", **given)
    return replace(of_nine("refused", *faults, one_more), assumes=sent_anyway)


def refused_later(order):
    """So are the first two requests with a later letter: who reads one report may read no other."""
    given = {"error": "INVALID_RECORD", "value": str(order)}
    faults = (refuse("Produce", nth=nth, **given) for nth in (1, 2))
    return replace(of_nine("refused later", *faults), assumes=sent_anyway)


def killed(nth):
    """The nth dead letter gets through at its third attempt; to poll the next order is deadly.

    The bookmark past it need not be there by a call of commit(): a timer may commit what is done.
    """
    hard = (drop_request("Produce", nth=nth), drop_request("Produce", nth=nth + 1))
    return of_nine("killed", *hard, crash_client("after_poll", nth=3 * nth + 1))


def in_hand():
    """Each dead letter is on its way for longer than automatic commits wait, and is lost there.

    A process is killed with each of them, so nobody can be careful in the first processes only.
    What counts is what was sent, for any consumer can poll.
    """
    slow = stall_client("after_send", for_ms=300, once=False)
    deaths = (crash_client("after_send", value=order) for order in "258")
    losses = (drop_request("Produce", value=order, once=False) for order in "258")
    return of_nine("in hand", slow, *deaths, *losses)


def elsewhere(place):
    """The five at places drawn from the nonce."""
    return (
        lost(place.randint(1, 3)),
        refused(),
        refused_later(place.choice((5, 8))),
        killed(place.randint(1, 2)),
        in_hand(),
    )


def is_good(order):
    """Can this order be booked?"""
    return int(order.rpartition("-")[2]) % 3 != 2


def dead(evidence):
    """How often each order is a dead letter."""
    return final(evidence, "dead_letters")


def sent_anyway(evidence):
    """What shows that copies survive two refusals: three of a letter that was not refused, or more.

    Of one that was, a program that sends each twice may leave three. Nobody was killed here.
    """
    *_, second, most = (0, 0, *sorted(dead(evidence).values()))
    if second < 3 and most < 4:
        return None
    return f"a dead letter is there {most} times, so one that was refused means little"


def nowhere(evidence):
    """The orders that are neither booked, if they can be, nor a dead letter."""
    booked, letters = evidence.history.effects, dead(evidence)
    return [
        order
        for order in evidence.orders
        if not letters[order] and not (is_good(order) and booked[order])
    ]


def cause(evidence):
    """Which order is gone, and what the client asked for and was told."""
    (gone,) = nowhere(evidence)
    later = [row.offset for row in evidence.requests("OffsetCommit")]
    reports = [row.kind for row in evidence.rows if row.source == "client" and row.value == gone]
    return {
        "nowhere": gone,
        "bookmark": min(offset for offset in later if offset > int(gone)),
        "acks": int(evidence.requests()[0].detail["acks"]),
        "requests": len(evidence.requests()),
        "answers": sum(row.api == "Produce" for row in answers(evidence)),
        "said": "stored" if "acked" in reports else "failed",
    }


def nothing_is_nowhere(_, evidence):
    """Is each order booked, or a dead letter?"""
    gone = nowhere(evidence)
    return f"order {gone[0]} is nowhere{and_more(gone)}." if gone else None


def no_good_one_is_dead(_, evidence):
    """Are only those dead letters that cannot be booked?"""
    wrong = good_ones_among_the_dead(evidence)
    return f"order {wrong[0]} could be booked, and is dead{and_more(wrong)}." if wrong else None


def each_is_booked_once(_, evidence):
    """Is no order booked twice?"""
    twice = repeated(evidence, evidence.history.effects)
    return f"order {twice[0]} is booked twice{and_more(twice)}." if twice else None


def says_where_they_are(_, evidence):
    """What is said of a repair that passed."""
    orders = [order for each in evidence for order in each.orders]
    good = sum(map(is_good, orders))
    return f"{good} orders are booked once; {len(orders) - good} that cannot be are dead letters."


def good_ones_among_the_dead(evidence):
    """The dead letters that could have been booked."""
    return [order for order in evidence.orders if is_good(order) and dead(evidence)[order]]


def sent_too_late(evidence):
    """The orders that are nowhere and were not yet sent when a bookmark was set after them."""
    sent_ns, passed_ns = {}, {}
    for row in evidence.requests():
        sent_ns.setdefault(row.value, row.at_ns)
    for row in evidence.requests("OffsetCommit"):
        for order in evidence.orders[: row.offset]:
            passed_ns.setdefault(order, row.at_ns)
    gone = [order for order in nowhere(evidence) if order in passed_ns]
    return [order for order in gone if passed_ns[order] < sent_ns.get(order, float("inf"))]


EXERCISES = {
    "74.1": Exercise(
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(replace(lost(2), workload=found),),
        rules=(answer_equals(cause),),
        mistakes={
            "the first of them": Mistake(
                is_made=lambda answer, _: answer["nowhere"] in ("2", "8"),
                likely="that one is a dead letter: somebody has it.",
                look='Look at incident.in_and_out("dead_letters").',
            ),
            "the report knew": Mistake(
                is_made=lambda answer, _: answer["said"] == "failed",
                likely="a client that asks for no answer takes what it has sent for stored.",
                look="Look at the reports of the producer in incident.events().",
            ),
            "every request is answered": Mistake(
                is_made=lambda answer, _: answer["answers"] in (2, 3),
                likely="a client that asks for no acknowledgement is sent none.",
                look="Look at the Produce requests in the timeline: which arrow comes back?",
            ),
            "the order's own offset": Mistake(
                is_made=lambda answer, _: str(answer["bookmark"]) == answer["nowhere"],
                likely="a bookmark names the next order to read.",
                look="Look at the first OffsetCommit after the lost request.",
            ),
            "two arrived, so two were sent": Mistake(
                is_made=lambda answer, _: answer["requests"] == 2,
                likely="a request that is lost was sent all the same.",
                look="Look at the broken arrow in the timeline.",
            ),
        },
        blank="Fill in all six; the timeline has most of them.",
    ),
    "74.2": Exercise(
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=(lost(2), refused(), refused_later(5), killed(2), in_hand()),
        unseen=drawn(elsewhere),
        rules=(nothing_is_nowhere, no_good_one_is_dead, each_is_booked_once),
        passed=says_where_they_are,
        mistakes={
            "nobody answers": Mistake(
                is_made=lambda _, seen: any(row.detail["acks"] == "0" for row in seen.requests()),
                likely="the broker was asked for no answer, so there is nothing to wait for.",
                look="Look at which Produce requests have an answer.",
            ),
            "gave up": Mistake(
                is_made=lambda _, seen: any(map(is_good, nowhere(seen))),
                likely="orders after a poison pill, which could be booked, are not.",
                look="Look at how far the program came.",
            ),
            "good ones among the dead": Mistake(
                is_made=lambda _, seen: bool(good_ones_among_the_dead(seen)),
                likely="orders were given up that could be booked.",
                look="Look at which orders go to dead_letters, and why.",
            ),
            "booked without a price": Mistake(
                is_made=lambda _, seen: any(
                    not is_good(order) and seen.history.effects[order] for order in seen.orders
                ),
                likely="an order that cannot be booked is in the table.",
                look="Look at what book() refuses, and why.",
            ),
            "booked twice": Mistake(
                is_made=lambda _, seen: each_is_booked_once(None, seen) is not None,
                likely="an order came again, and the table could not know it.",
                look="Look at the key of the table.",
            ),
            "no dead letter": Mistake(
                is_made=lambda _, seen: not seen.requests(),
                likely="what could not be booked was sent nowhere.",
                look="Look at what happens in the except block.",
            ),
            "the bookmark first": Mistake(
                is_made=lambda _, seen: bool(seen.crashes) and bool(sent_too_late(seen)),
                likely="the bookmark was past an order that was still to be worked on.",
                look="Look at what comes first, the commit or the work.",
            ),
            "not waited for": Mistake(
                is_made=lambda _, seen: bool(seen.crashes) and bool(nowhere(seen)),
                likely="the bookmark was committed while the dead letter was still on its way.",
                look="Look at the time of the OffsetCommit, and of the answer to Produce.",
            ),
            "the report is not read": Mistake(
                is_made=lambda _, seen: bool(nowhere(seen)),
                likely="there was an answer, it was an error, and the program went on.",
                look="Look at the answer to the Produce request of that order.",
            ),
        },
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
}

# %% part="tests"
def answer(**other):
    right = {"nowhere": "5", "bookmark": 6, "acks": 0, "requests": 3, "answers": 0, "said": "stored"}
    return f"answer_1 = {right | other!r}"

WHILE = """            while not is_stored(dead, run.topics["dead_letters"], message.value()):
                continue
"""
SEND = """            dead.produce(run.topics["dead_letters"], message.value(), partition=0)
"""
BOOK = "            book(database, message.value().decode())\n"
COMMIT = "        consumer.commit(message, asynchronous=False)\n"
FLUSH = "            dead.flush()\n"
ACKS = '{"acks": "all"}'
AUTO = '{"enable.auto.commit": False}'
SEEK = """            if not is_stored(dead, run.topics["dead_letters"], message.value()):
                consumer.seek(TopicPartition(run.topic, 0, message.offset()))
                continue
"""
POLLED = """            reports = []
            while not reports or reports[-1]:
                dead.produce(run.topics["dead_letters"], message.value(), partition=0,
                             on_delivery=lambda error, _: reports.append(str(error or "")))
                asked = len(reports)
                while len(reports) == asked:
                    dead.poll(0.1)
"""
# The report of the first letter is read, and no other.
FIRST_ALONE = """            stored = is_stored(dead, run.topics["dead_letters"], message.value())
            while message.offset() == 2 and not stored:
                stored = is_stored(dead, run.topics["dead_letters"], message.value())
"""
# A second consumer, of a group of its own, polls all and commits for show before the work begins.
SHOW = """    show = run.consumer({"enable.auto.commit": False, "group.id": run.topic + "-show"})
    show.assign([TopicPartition(run.topic, 0, 0)])
    for message in run.messages(show):
        show.commit(message, asynchronous=False)
"""
WRONG = (
    ("74.1", "the first of them", answer(nowhere="2")),
    ("74.1", "the report knew", answer(said="failed")),
    ("74.1", "every request is answered", answer(answers=2)),
    ("74.1", "the order's own offset", answer(bookmark=5)),
    ("74.1", "two arrived, so two were sent", answer(requests=2)),
    # as it is found; with a report that is read, where nobody reports
    ("74.2", "nobody answers", "repaired = found"),
    ("74.2", "nobody answers", changed((ACKS, '{"acks": 0}'))),
    # handed over, polled, flushed for no time at all, flushed at the end
    ("74.2", "not waited for", changed((WHILE, SEND))),
    ("74.2", "not waited for", changed((WHILE, SEND + "            dead.poll(0)\n"))),
    ("74.2", "not waited for", changed((WHILE, SEND + "            dead.flush(0.001)\n"))),
    ("74.2", "not waited for", changed((WHILE, SEND), (COMMIT, COMMIT + "    dead.flush()\n"))),
    # waited for, and the report is looked at by nobody, or that of the first alone
    ("74.2", "the report is not read", changed((WHILE, SEND + FLUSH))),
    ("74.2", "the report is not read", changed((WHILE, 2 * (SEND + FLUSH)))),
    ("74.2", "the report is not read", changed((WHILE, WHILE.replace("while not ", "").replace(":\n                continue", "")))),
    ("74.2", "the report is not read", changed((WHILE, WHILE.replace(")):", ")) and message.offset() < 5:")))),
    ("74.2", "the report is not read", changed((WHILE, FIRST_ALONE))),
    ("74.2", "the bookmark first", changed((COMMIT, ""), ("        try:\n", COMMIT + "        try:\n"))),
    # the timer commits what is in hand, also beside a consumer whose commits are for show
    ("74.2", "the bookmark first", changed((COMMIT, ""), (AUTO, "{}"))),
    ("74.2", "the bookmark first", changed((COMMIT, ""), (AUTO, "{}"), ("    consumer = run", SHOW + "    consumer = run"))),
    # careful in the first two processes only
    ("74.2", "the bookmark first", changed((COMMIT, "        run.attempt > 2 or consumer.commit(message, asynchronous=False)\n"), ("        try:\n", "        run.attempt < 3 or consumer.commit(message, asynchronous=False)\n        try:\n"))),
    ("74.2", "no dead letter", changed((WHILE, "            continue\n"))),
    ("74.2", "no dead letter", changed((WHILE, "            pass\n"))),
    ("74.2", "gave up", changed((COMMIT, COMMIT + "        if message.offset() == 6:\n            return\n"))),
    ("74.2", "good ones among the dead", changed((BOOK, "            raise ValueError\n"))),
    # the table takes what has no price, and nobody waits for its dead letter
    ("74.2", "booked without a price", changed((WHILE, """            with database.begin() as connection:
                row = {"order": message.value().decode()}
                connection.execute(
                    text("INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING"), row)
""" + SEND))),
    (
        "74.2",
        "booked twice",
        changed(("    database = bookings(run)\n", """    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
"""), (BOOK, """            book(None, "2") if int(message.value().decode().rpartition("-")[2]) % 3 == 2 else None
            for _ in range(2):
                with database.begin() as connection:
                    connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": message.value().decode()})
""")),
    ),
)
TWICE = """            while not all([is_stored(dead, run.topics["dead_letters"], message.value()) for _ in "12"]):
                continue
"""
RIGHT = {
    ("74.2", "right, too: each dead letter is sent twice"): changed((WHILE, TWICE)),
    ("74.2", "right, too: an order that is nowhere is read again"): changed((WHILE, SEEK)),
    ("74.2", "right, too: polled until the report is there"): changed((WHILE, POLLED)),
    ("74.2", "right, too: the timer commits what is done"): changed((COMMIT, "        consumer.store_offsets(message)\n"), (AUTO, '{"enable.auto.offset.store": False}')),
}
