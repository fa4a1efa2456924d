# %% [markdown]
# # Incident: booked, and never told
#
# An order is in the shop's table, paid for. The warehouse has never heard of it.
#
# 18 minutes · one broker · 7 points · builds on labs 05 and 06

# %% part="checks"
from dataclasses import replace

from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    and_more,
    answer_equals,
    final,
    missing,
    nothing_else_is_stored,
    repeated,
    taken_back_by_another,
)
from lab_utils.proxy.faults import crash_client, drop_request

# %%
from confluent_kafka import KafkaException
from lab_utils import Lab, crash_client
from sqlalchemy import text
lab = Lab("75")

# %% [markdown]
# ## What the person on call has
#
# | what | what it says |
# |---|---|
# | table `bookings` | the order is there, once |
# | topic `events`, which the warehouse reads | no event of it |
# | restarts | one, at that minute |
# | errors | none |
#
# The shop books an order in its database, and then tells the warehouse by an event. A request is taken
# from the shop's inbox once: a customer whose request died gets an error, and orders again tomorrow.
#
# ## The program, as it is found

# %% part="shared"
def bookings(run):
    """The table of bookings."""
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)"))
    return database


def requests(run):
    """Each order of the inbox, once: its bookmark is committed first."""
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        consumer.commit(message, asynchronous=False)
        yield message.value().decode()


def found(run):
    """The program as it is found."""
    database = bookings(run)
    producer = run.producer({"acks": "all", "enable.idempotence": True})
    for order in requests(run):
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})
        producer.produce(run.topics["events"], order, key=order, partition=0)
        producer.flush()

# %%
incident = lab.run(found, orders=8, filled=True, topics=["events"],
                   faults=[crash_client("after_db_commit", nth=4)])
incident.in_and_out("events")

# %%
incident.effects

# %%
incident.timeline(apis=["OffsetCommit", "Produce"])

# %% [markdown]
# ## 75.1 The cause (3 points)
#
# - `untold`: the order that is booked and has no event
# - `bookmark`: where the group's bookmark stood when the program was killed
# - `sent`: how many Produce requests the first process had sent by then
# - `next`: the order in the first event of the second process
# - `held_by`: what still holds the task of telling the warehouse: `"database"`, `"topic"`, `"inbox"` or
#   `"nothing"`

# %% answer="75.1"
answer_1 = {"untold": ..., "bookmark": ..., "sent": ..., "next": ..., "held_by": ...}
### BEGIN SOLUTION
answer_1 = {"untold": "3", "bookmark": 4, "sent": 3, "next": "4", "held_by": "nothing"}
### END SOLUTION

# %% check="75.1"
lab.check("75.1", answer_1)

# %% [markdown]
# ## 75.2 The repair (4 points)
#
# An order that is booked has an event, once or more, with the order as its key: so the warehouse can
# drop what comes again. An order that is not booked has no event. No order is booked twice. An order
# whose request died with the program may have neither a booking nor an event. The check kills the
# program up to three times, in changing places. The grader does so at others.
#
# The database and the topic are two systems, and neither takes part in a transaction of the other. What
# can be in one transaction with the booking?

# %% answer="75.2"
### BEGIN SOLUTION
def repaired(run):
    database = bookings(run)
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS outbox (event TEXT)"))
    producer = run.producer({"acks": "all", "enable.idempotence": True})

    def relay():
        with database.begin() as connection:
            left = connection.execute(text("SELECT event FROM outbox")).scalars().all()
        for event in left:
            producer.produce(run.topics["events"], event, key=event, partition=0)
        if left and producer.flush() == 0:
            with database.begin() as connection:
                for event in left:
                    connection.execute(text("DELETE FROM outbox WHERE event = :event"), {"event": event})

    relay()
    for order in requests(run):
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})
            connection.execute(text("INSERT INTO outbox VALUES (:order)"), {"order": order})
        relay()
### END SOLUTION

# %% check="75.2"
lab.check("75.2", repaired)

# %% [markdown]
# ## What this does not cover
#
# - The relay may send an event again: a consumer must drop it by its key, as in lab 06 (claim G4).
# - A report that says *failed* is not looked at here: incident 74.
# - Several relays at once were not tried.

# %%
lab.score()

# %%
lab.close()

# %% part="checks"
def killed(name, *deaths):
    """A run whose processes are killed so, each one at the next."""
    return Trial(
        name=name,
        faults=deaths,
        orders=8,
        filled=True,
        topics=("events",),
        assumes=taken_back_by_another,
    )


def places(first, second, *sent):
    """Killed around bookings after a restart, with an event that is lost, with two that are sent.

    Which orders these are about is said, for an event that is sent again costs nothing. One run has
    one kill, another two: a program that dies on purpose does not know in how many lives.
    """
    return (
        killed(
            "killed at a commit",
            crash_client("after_poll", nth=first),
            crash_client("before_db_commit", value=str(first)),
            crash_client("after_db_commit", value=str(first + 1)),
        ),
        killed(
            "killed with an event lost",
            crash_client("after_send", value=str(second)),
            # Each time that the first process tries, by whichever client: it may try again before
            # it is killed.
            drop_request("Produce", value=str(second), topic="events", once=False),
        ),
        killed(
            "killed with an event sent",
            *(crash_client("after_ack", value=str(order)) for order in sent),
        ),
    )


def elsewhere(place):
    """The three at places drawn from the nonce."""
    sent = sorted(place.sample(range(1, 8), 2))
    return places(place.randint(2, 5), place.randint(3, 5), *sent)


def told(evidence):
    """How often each order has an event."""
    return final(evidence, "events")


def untold(evidence):
    """The orders that are booked and have no event."""
    return [order for order in evidence.history.effects if not told(evidence)[order]]


def invented(evidence):
    """The orders that have an event and are not booked."""
    return [order for order in told(evidence) if order not in evidence.history.effects]


def events(evidence):
    """The events in the log."""
    return [row for row in evidence.log if row.topic == f"{row.run}-events"]


def cause(evidence):
    """What the program had done when it was killed, and who went on with what."""
    (left,) = untold(evidence)
    end = evidence.crashes[0].at_ns
    stood = next(row.offset for row in evidence.rows if row.detail.get("when") == "crash")
    return {
        "untold": left,
        "bookmark": stood,
        "sent": sum(row.at_ns < end for row in evidence.requests()),
        "next": next(row.value for row in evidence.requests() if row.at_ns > end),
        "held_by": "inbox" if stood <= int(left) else "nothing",
    }


def each_is_told(_, evidence):
    """Has each order that is booked an event?"""
    left = untold(evidence)
    return f"order {left[0]} is booked and has no event{and_more(left)}." if left else None


def nothing_is_invented(_, evidence):
    """Is each order that has an event booked?"""
    wrong = invented(evidence)
    return f"order {wrong[0]} has an event and is not booked{and_more(wrong)}." if wrong else None


def each_is_booked_once(_, evidence):
    """Is no order booked twice, and is each booked but those that died with the program?"""
    effects = evidence.history.effects
    twice, never = repeated(evidence, effects), missing(evidence, effects)
    if twice:
        return f"order {twice[0]} is booked twice{and_more(twice)}."
    if len(never) > len(evidence.crashes):
        return f"{len(never)} orders are not booked, and {len(evidence.crashes)} died."
    return None


def each_has_its_key(_, evidence):
    """Has each event its order as the key?"""
    wrong = [row for row in events(evidence) if row.key != row.value]
    return f"the event of order {wrong[0].value} has the key {wrong[0].key!r}." if wrong else None


EXERCISES = {
    "75.1": Exercise(
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(
            replace(
                killed("the incident", crash_client("after_db_commit", nth=4)),
                workload=found,
                assumes=None,
            ),
        ),
        rules=(answer_equals(cause),),
        mistakes={
            "it will come again": Mistake(
                is_made=lambda answer, _: answer["held_by"] == "inbox",
                likely="the bookmark was past that order already.",
                look="Look at the last OffsetCommit before the kill.",
            ),
            "the database knows": Mistake(
                is_made=lambda answer, _: answer["held_by"] == "database",
                likely="the table says that it is booked, and not that somebody is to be told.",
                look="Look at what the second process reads of the table.",
            ),
            "the order before": Mistake(
                is_made=lambda answer, _: answer["untold"] == "2",
                likely="that order has its event.",
                look='Look at incident.in_and_out("events").',
            ),
            "it was sent": Mistake(
                is_made=lambda answer, _: answer["sent"] == 4,
                likely="the program did not come to its fourth produce().",
                look="Look at the requests of producer-1.",
            ),
            "the order's own offset": Mistake(
                is_made=lambda answer, _: answer["bookmark"] == 3,
                likely="a bookmark names the next order to read.",
                look="Look at the last OffsetCommit before the kill.",
            ),
        },
        blank="Fill in all five; the timeline has most of them.",
    ),
    "75.2": Exercise(
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=places(3, 4, 2, 5),
        unseen=drawn(elsewhere),
        rules=(
            nothing_else_is_stored,
            each_is_booked_once,
            each_is_told,
            nothing_is_invented,
            each_has_its_key,
        ),
        mistakes={
            "nothing is booked": Mistake(
                is_made=lambda _, seen: not seen.history.effects,
                likely="there were orders in the inbox, and there is no booking.",
                look="Look at what the loop does with each order.",
            ),
            "booked twice": Mistake(
                is_made=lambda _, seen: bool(repeated(seen, seen.history.effects)),
                likely="an order came again, and the table could not know it.",
                look="Look at the key of the table.",
            ),
            "told too soon": Mistake(
                is_made=lambda _, seen: bool(invented(seen)),
                likely="an event was sent of something that had not happened yet.",
                look="Look at what is committed when the event is sent.",
            ),
            "two transactions": Mistake(
                is_made=lambda _, seen: bool(seen.requests("EndTxn")) and bool(untold(seen)),
                likely="two transactions, one in the other, are two commits in a row.",
                look="Look at what a kill between the two commits leaves.",
            ),
            "nobody tells": Mistake(
                is_made=lambda _, seen: bool(untold(seen)),
                likely="when the program was killed, nothing held the task of telling.",
                look="Look at what a new process finds, and where.",
            ),
            "no key": Mistake(
                is_made=lambda _, seen: each_has_its_key(None, seen) is not None,
                likely="an event that comes twice cannot be known again.",
                look="Look at the key of the events.",
            ),
        },
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
}

# %% part="tests"
def answer(**other):
    right = {"untold": "3", "bookmark": 4, "sent": 3, "next": "4", "held_by": "nothing"}
    return f"answer_1 = {right | other!r}"

WITH = "        with database.begin() as connection:\n"
BOOKING = '            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})\n'
OUTBOX = '            connection.execute(text("INSERT INTO outbox VALUES (:order)"), {"order": order})\n'
LOOP = "    relay()\n    for order"
RELAYED = "        relay()\n"
DELETE = """            with database.begin() as connection:
                for event in left:
                    connection.execute(text("DELETE FROM outbox WHERE event = :event"), {"event": event})
"""
SENT = "        if left and producer.flush() == 0:\n"
PRODUCE = '            producer.produce(run.topics["events"], event, key=event, partition=0)\n'
SIMPLE = """
def repaired(run):
    database = bookings(run)
    producer = run.producer({"acks": "all", "enable.idempotence": True})
    for order in requests(run):
%s
"""
INSERT = """        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})
"""
TELL = """        producer.produce(run.topics["events"], order, key=order, partition=0)
        producer.flush()
"""
WITHIN = """        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})
            producer.produce(run.topics["events"], order, key=order, partition=0)
            producer.flush()
"""
UNDONE = INSERT + """        try:
            producer.produce(run.topics["events"], order, key=order, partition=0)
            if producer.flush():
                raise RuntimeError
        except Exception:
            with database.begin() as connection:
                connection.execute(text("DELETE FROM bookings WHERE value = :order"), {"order": order})
"""
UNTIL = INSERT + """        errors = [True]
        while errors != [None]:
            errors.clear()
            producer.produce(run.topics["events"], order, key=order, partition=0,
                             on_delivery=lambda error, _: errors.append(error))
            producer.flush()
"""
TRANSACTION = """
def repaired(run):
    database = bookings(run)
    producer = run.producer({"transactional.id": f"{run.topic}-events"})
    producer.init_transactions()
    for order in requests(run):
        producer.begin_transaction()
        producer.produce(run.topics["events"], order, key=order, partition=0)
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})
        producer.commit_transaction()
"""
BOOKMARK_LAST = """
def repaired(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT%s)"))
    producer = run.producer({"acks": "all", "enable.idempotence": True})
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        order = message.value().decode()
        with database.begin() as connection:
            row = {"order": order}
            connection.execute(text("INSERT INTO bookings VALUES (:order)%s"), row)
        producer.produce(run.topics["events"], order, key=order, partition=0)
        producer.flush()
        consumer.commit(message, asynchronous=False)
"""
FLAG = """
def repaired(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(
            text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY, is_told INTEGER)"))
    producer = run.producer({"acks": "all", "enable.idempotence": True})

    def tell():
        with database.begin() as connection:
            left = connection.execute(text("SELECT value FROM bookings WHERE is_told = 0")).scalars().all()
        for order in left:
            producer.produce(run.topics["events"], order, key=order, partition=0)
            producer.flush()
            with database.begin() as connection:
                connection.execute(text("UPDATE bookings SET is_told = 1 WHERE value = :order"), {"order": order})

    tell()
    for order in requests(run):
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:order, 0)"), {"order": order})
        tell()
"""
STAGED = """
def repaired(run):
    database = bookings(run)
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS staged (value TEXT PRIMARY KEY)"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS junk (value TEXT)"))
    for _ in range(3):
        with database.begin() as connection:
            connection.execute(text("INSERT INTO junk VALUES ('0')"))

    def move():
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings SELECT value FROM staged"))
            connection.execute(text("DELETE FROM staged"))

    move()
    producer = run.producer({"acks": "all", "enable.idempotence": True})
    for order in requests(run):
        with database.begin() as connection:
            connection.execute(text("INSERT INTO staged VALUES (:order)"), {"order": order})
        producer.produce(run.topics["events"], order, key=order, partition=0)
        producer.flush()
        move()
"""
# What is told twice costs nothing: so the first order is told often, and each later one too soon.
TOLD_OFTEN = STAGED.replace(
    "    for order in requests(run):\n",
    "    for number, order in enumerate(requests(run)):\n        if number:\n" + TELL.replace("        ", 12 * " "),
) + "        for _ in range(0 if number else 7):\n" + TELL.replace("        ", 12 * " ")
TWO = '    run.producer()\n    producer = run.producer({"acks"'
ONE = '    producer = run.producer({"acks"'
WRONG = (
    ("75.1", "it will come again", answer(held_by="inbox")),
    ("75.1", "the database knows", answer(held_by="database")),
    ("75.1", "the order before", answer(untold="2")),
    ("75.1", "it was sent", answer(sent=4)),
    ("75.1", "the order's own offset", answer(bookmark=3)),
    # as it is found; sent again until it is stored; undone if it is not
    ("75.2", "nobody tells", "repaired = found"),
    ("75.2", "nobody tells", SIMPLE % UNTIL),
    ("75.2", "nobody tells", SIMPLE % UNDONE),
    # an outbox with a transaction of its own; deleted and then sent; read by the next process alone
    ("75.2", "nobody tells", changed((OUTBOX, WITH + OUTBOX))),
    ("75.2", "nobody tells", changed((SENT + DELETE, "        producer.flush()\n"), ("        for event in left:\n" + PRODUCE, "        if left:\n" + DELETE + "        for event in left:\n" + PRODUCE))),
    ("75.2", "nobody tells", changed((RELAYED, ""))),
    # staged, sent, then booked; with commits of nothing before
    ("75.2", "nobody tells", STAGED),
    ("75.2", "nobody tells", STAGED.replace(ONE, TWO)),
    # the event first; within the transaction of the database; the outbox before the booking
    ("75.2", "told too soon", TOLD_OFTEN),
    ("75.2", "told too soon", SIMPLE % (TELL + INSERT)),
    ("75.2", "told too soon", SIMPLE % WITHIN),
    ("75.2", "told too soon", changed((BOOKING + OUTBOX, OUTBOX + WITH + BOOKING))),
    ("75.2", "two transactions", TRANSACTION),
    ("75.2", "no key", changed(("key=event, ", ""))),
    ("75.2", "no key", changed(("key=event, ", "key='order', "))),
    ("75.2", "booked twice", BOOKMARK_LAST % ("", "")),
    ("75.2", "nothing is booked", SIMPLE % TELL),
)
RIGHT = {
    ("75.2", "right, too: the bookmark last, and a key"): BOOKMARK_LAST % (" PRIMARY KEY", " ON CONFLICT DO NOTHING"),
    ("75.2", "right, too: the booking is its own outbox"): FLAG,
    ("75.2", "right, too: its second producer tells"): changed((ONE, TWO)),
    ("75.2", "right, too: its eleventh producer tells"): changed((ONE, 9 * "    run.producer()\n" + TWO)),
}
