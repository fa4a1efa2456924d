# %% [markdown]
# # Incident: after a long weekend
#
# On Monday some customers are charged a second time. Nobody has changed anything since Friday.
#
# 18 minutes · one broker · 7 points · builds on labs 05 and 06

# %% part="checks"
from dataclasses import replace

from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    answer_equals,
    each_has_one,
    effects,
    missing,
    orders_in_runs,
    repeated,
)
from lab_utils.proxy.faults import crash_client, stall_client

# %%
from confluent_kafka import TopicPartition
from lab_utils import Lab, crash_client
from sqlalchemy import text
lab = Lab("73")

# %% [markdown]
# ## What the person on call has
#
# | what | what it says |
# |---|---|
# | the program | died on Friday evening; nobody started it again before Monday |
# | consumer lag on Friday | 3 |
# | consumer lag on Monday, at the start | not shown |
# | table `bookings` | some orders have two rows |
#
# The program books each order and then commits its bookmark. A broker keeps the bookmarks of a group
# without members for `offsets.retention.minutes`: a week by default (KIP-186, KIP-211). The administrator
# had set it to a day.
#
# The lab does not wait that long. When the group has no member any more, the lab deletes it with all its
# bookmarks, as an administrator can. The next process finds the same: no bookmark.
#
# ## The program, as it is found

# %% part="shared"
def found(run):
    """The program as it is found."""
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
    consumer = run.consumer({"enable.auto.commit": False, "session.timeout.ms": 1000})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        with database.begin() as connection:
            row = {"order": message.value().decode()}
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), row)
        consumer.commit(message, asynchronous=False)

# %%
incident = lab.run(found, orders=6, filled=True,
                   faults=[crash_client("after_commit", nth=3, until_expired=True)])
incident.effects

# %%
incident.bookmarks()

# %%
incident.timeline(apis=["OffsetFetch", "ListOffsets", "OffsetCommit"])

# %% [markdown]
# ## 73.1 The cause (3 points)
#
# - `twice`: the orders that are booked twice, as in `"4 5"`
# - `stood_at`: where the group's bookmark stood when the program died
# - `began_at`: the first offset that the second process was given
# - `request`: the request by which it asked where the log begins, because it had no bookmark
# - `committed`: the offset of its first commit

# %% answer="73.1"
answer_1 = {"twice": ..., "stood_at": ..., "began_at": ..., "request": ..., "committed": ...}
### BEGIN SOLUTION
answer_1 = {"twice": "0 1 2", "stood_at": 3, "began_at": 0, "request": "ListOffsets", "committed": 1}
### END SOLUTION

# %% check="73.1"
lab.check("73.1", answer_1)

# %% [markdown]
# ## 73.2 The repair (4 points)
#
# Each order is booked once, however long the program was away. The lab has set
# `auto.offset.reset=earliest`. Somebody proposes `latest`, the default of Kafka's clients. What would be
# read on Monday then, and what would be read on the very first day?
#
# In the check the program dies and stays away until its bookmarks are gone, twice in a row. It is also
# killed right before the database commits an order, which takes long, and right after, again and again.
# The grader does so at other places.

# %% answer="73.2"
### BEGIN SOLUTION
def repaired(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)"))
    consumer = run.consumer({"enable.auto.commit": False, "session.timeout.ms": 1000})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        with database.begin() as connection:
            row = {"order": message.value().decode()}
            connection.execute(
                text("INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING"), row)
        consumer.commit(message, asynchronous=False)
### END SOLUTION

# %% check="73.2"
lab.check("73.2", repaired)

# %% [markdown]
# ## What this does not cover
#
# - The records have a retention of their own. What is deleted before Monday is not read again.
# - A longer `offsets.retention.minutes` makes this rarer. It is a setting of the brokers.
# - A bookmark that is out of range leads to the same reset (claim F11).

# %%
lab.score()

# %%
lab.close()

# %% part="checks"
def killed(name, *deaths):
    """A run of which one process after another is killed, and started again."""
    return Trial(name=name, faults=deaths, orders=6, filled=True)


def weekend(point, order):
    """Killed at this point of an order, for so long that the bookmarks are gone."""
    return crash_client(point, value=order, until_expired=True)


def all_of_them(early, restarts):
    """The bookmarks expire after a poll, and after a booking; kills at bookings all along.

    After an order comes the next poll: who keeps its place elsewhere may never call commit(). Each
    commit of the database takes longer than automatic commits wait when an order is in hand. The
    database says whose booking a commit is: a consumer may poll and commit for show. The last
    process is killed with the last order: nobody can be careful in the first ones only.
    """
    slow = stall_client("before_db_commit", for_ms=250, once=False)
    last = crash_client("after_db_commit", value="5")
    return (
        killed("a weekend", *(weekend("after_poll", it) for it in (early, "5"))),
        killed("a weekend after a booking", *(weekend("after_db_commit", it) for it in (early, "5"))),
        killed("restarts", slow, *(crash_client(f"{when}_db_commit", value=it)
                                   for it, when in restarts), last),
    )


# Kills at a booking, each before the database's commit or after it.
RESTARTS = (
    (("0", "before"), ("2", "after"), ("4", "before")),
    (("1", "after"), ("3", "before"), ("4", "before")),
)


def elsewhere(place):
    """All of them at places drawn from the nonce."""
    return all_of_them(place.choice("24"), place.choice(RESTARTS))


def cause(evidence):
    """What was booked twice, and where each process stood."""
    end = evidence.crashes[0].at_ns
    later = [row for row in evidence.rows if row.at_ns > end]
    given = [row.offset for row in later if (row.source, row.kind) == ("client", "delivered")]
    asked = [row.api for row in later if (row.source, row.kind) == ("wire", "request")]
    return {
        "twice": " ".join(repeated(evidence, evidence.history.effects)),
        "stood_at": next(row.offset for row in evidence.rows if row.detail.get("when") == "crash"),
        "began_at": given[0],
        "request": next(api for api in asked if api == "ListOffsets"),
        "committed": next(row.offset for row in later if row.api == "OffsetCommit"),
    }


def twice(evidence):
    """The orders that are booked more than once."""
    return repeated(evidence, evidence.history.effects)


def never(evidence):
    """The orders that are not booked."""
    return missing(evidence, evidence.history.effects)


EXERCISES = {
    "73.1": Exercise(
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(
            replace(
                killed("it", crash_client("after_commit", nth=3, until_expired=True)),
                workload=found,
            ),
        ),
        rules=(answer_equals(cause),),
        mistakes={
            "all of them": Mistake(
                is_made=lambda answer, _: len(answer["twice"].split()) > 3,
                likely="what the first process had not booked has one row.",
                look="Look at the numbers beside the orders in incident.effects.",
            ),
            "the last one in hand": Mistake(
                is_made=lambda answer, _: answer["twice"] == "2",
                likely="more came again than what was being worked on.",
                look="Look at the numbers beside the orders in incident.effects.",
            ),
            "it went on": Mistake(
                is_made=lambda answer, _: answer["began_at"] == 3,
                likely="that is where the bookmark had been.",
                look="Look at the first record of consumer-11 in incident.bookmarks().",
            ),
            "the bookmark was asked for": Mistake(
                is_made=lambda answer, _: answer["request"] == "OffsetFetch",
                likely="every process asks for its bookmark; this one had to ask for more.",
                look="Look at what follows the OffsetFetch of the second process.",
            ),
            "the order, not the next": Mistake(
                is_made=lambda answer, _: answer["stood_at"] == 2,
                likely="a bookmark names the next order to read.",
                look="Look at the last OffsetCommit before the kill.",
            ),
        },
        blank="Fill in all five; the picture and the timeline have them.",
    ),
    "73.2": Exercise(
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=all_of_them("2", RESTARTS[0]),
        unseen=drawn(elsewhere),
        rules=(each_has_one("row", effects, " in bookings"),),
        passed=orders_in_runs("runs, each in one row of bookings."),
        mistakes={
            "nothing is booked": Mistake(
                is_made=lambda _, seen: not seen.history.effects,
                likely="the orders were there, and without a bookmark none of them was read.",
                look="Look at where a group begins that has no bookmark, and at the first day.",
            ),
            "counts up": Mistake(
                is_made=lambda _, seen: any(
                    row.records > 1 for row in seen.rows if row.kind == "effect"
                ),
                likely="the second write of an order found the first, and added to it.",
                look="Look at what your statement does on a conflict.",
            ),
            "the bookmark first": Mistake(
                is_made=lambda _, seen: bool(never(seen)),
                likely="a bookmark was past an order that was not booked yet.",
                look="Look at what is committed first.",
            ),
            "begun anew": Mistake(
                is_made=lambda _, seen: (
                    "weekend" in seen.trial.name and len(twice(seen)) > len(seen.crashes)
                ),
                likely="the group had no bookmark, and nothing else remembered what is booked.",
                look="Look at what the second process could have found, and where.",
            ),
            "one short": Mistake(
                is_made=lambda _, seen: seen.trial.name == "a weekend" and bool(twice(seen)),
                likely="a bookmark names the next order to read, and this one names another.",
                look="Look at the order that is booked twice, and at the place that you keep.",
            ),
            "two commits": Mistake(
                is_made=lambda _, seen: bool(twice(seen)),
                likely="the booking and its bookmark were committed one after the other.",
                look="Look at what a kill between the two commits leaves.",
            ),
        },
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
}

# %% part="tests"
def answer(**other):
    right = {"twice": "0 1 2", "stood_at": 3, "began_at": 0, "request": "ListOffsets", "committed": 1}
    return f"answer_1 = {right | other!r}"

CONFIGURATION = '{"enable.auto.commit": False, "session.timeout.ms": 1000}'
KEY = (" PRIMARY KEY", "")
CONFLICT = (" ON CONFLICT DO NOTHING", "")
PLAIN = (KEY, CONFLICT)
COMMIT = "        consumer.commit(message, asynchronous=False)\n"
WITH = "        with database.begin() as connection:\n            row"
LOOP = "    for message in run.messages(consumer):\n"
KEPT = """
def repaired(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookmarks (next INTEGER)"))

    def resume(consumer, places):
        with database.begin() as connection:
            offset = connection.scalar(text("SELECT max(next) FROM bookmarks"))
        consumer.assign([TopicPartition(it.topic, it.partition, %(resume)s) for it in places])

    consumer = run.consumer({"enable.auto.commit": False, "session.timeout.ms": 1000})
    consumer.subscribe([run.topic]%(on_assign)s)
    for message in run.messages(consumer):
        order, bookmark = message.value().decode(), message.offset() + %(plus)s
        with database.begin() as connection:
            %(first)s
%(between)s            %(second)s
%(last)s"""
BOOKING = 'connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})'
BOOKMARK = 'connection.execute(text("INSERT INTO bookmarks VALUES (:next)"), {"next": bookmark})'
RIGHTLY = {"resume": "offset or 0", "on_assign": ", on_assign=resume", "plus": "1", "first": BOOKING,
           "between": "", "second": BOOKMARK, "last": COMMIT}

def kept(**other):
    return KEPT % (RIGHTLY | other)

APART = "        with database.begin() as connection:\n"
# A second consumer, of a group of its own, polls all and commits for show before the work begins.
SHOW = """    show = run.consumer({"enable.auto.commit": False, "group.id": run.topic + "-show"})
    show.assign([TopicPartition(run.topic, 0, 0)])
    for message in run.messages(show):
        show.commit(message, asynchronous=False)
"""
SHOWN = ("    consumer = run", SHOW + "    consumer = run")
TIMER = ((CONFIGURATION, '{"session.timeout.ms": 1000}'), (COMMIT, ""))
LATER = "        if message.offset() >= 3:\n            with database.begin() as connection: " + BOOKMARK + "\n"
LOOKED_UP = "        with database.begin() as connection:\n            known = connection.scalar(text(\"SELECT count(*) FROM bookings WHERE value = :order\"), {\"order\": message.value().decode()})\n        if known:\n            continue\n"
WRONG = (
    ("73.1", "all of them", answer(twice="0 1 2 3 4 5")),
    ("73.1", "the last one in hand", answer(twice="2")),
    ("73.1", "it went on", answer(began_at=3)),
    ("73.1", "the bookmark was asked for", answer(request="OffsetFetch")),
    ("73.1", "the order, not the next", answer(stood_at=2)),
    # as it is found; with a memory of its own; under another name
    ("73.2", "begun anew", "repaired = found"),
    ("73.2", "begun anew", changed(*PLAIN, (LOOP, "    seen = set()\n" + LOOP + "        if message.value() in seen:\n            continue\n        seen.add(message.value())\n"))),
    ("73.2", "begun anew", changed(*PLAIN, (CONFIGURATION, '{"enable.auto.commit": False, "group.id": "billing-" + run.topic, "session.timeout.ms": 1000}'))),
    # keeps its place in the database, and never looks there
    ("73.2", "begun anew", kept(on_assign="")),
    ("73.2", "begun anew", kept(resume="0")),
    ("73.2", "nothing is booked", changed(*PLAIN, (CONFIGURATION, CONFIGURATION.replace("{", '{"auto.offset.reset": "latest", ')))),
    ("73.2", "counts up", changed(("value TEXT PRIMARY KEY", "value TEXT PRIMARY KEY, times INTEGER"), ("(:order) ON CONFLICT DO NOTHING", "(:order, 1) ON CONFLICT (value) DO UPDATE SET times = bookings.times + 1"))),
    ("73.2", "the bookmark first", kept(first=BOOKMARK, between=APART, second=BOOKING)),
    # the timer commits what is in hand; the program does it itself
    ("73.2", "the bookmark first", changed(*TIMER)),
    ("73.2", "the bookmark first", changed((COMMIT, ""), (WITH, COMMIT + WITH))),
    ("73.2", "one short", kept(plus="0")),
    ("73.2", "one short", kept(resume="max(0, (offset or 0) - 1)")),
    ("73.2", "two commits", kept(between=APART)),
    # what polls and commits is not what is careless
    ("73.2", "begun anew", changed(*PLAIN, SHOWN)),
    ("73.2", "the bookmark first", changed(*TIMER, SHOWN)),
    ("73.2", "the bookmark first", changed((COMMIT, ""), (WITH, COMMIT + WITH), SHOWN)),
    ("73.2", "two commits", kept(between=APART).replace(*SHOWN)),
    # careful in the first processes only
    ("73.2", "begun anew", kept(resume="(offset or 0) * (run.attempt < 3)")),
    ("73.2", "begun anew", changed(*PLAIN, (LOOP, LOOP + LOOKED_UP.replace("if known", "if known and run.attempt < 3")))),
    ("73.2", "two commits", kept(second="if run.attempt < 3: " + BOOKMARK, last=LATER.replace("message.offset()", "run.attempt") + COMMIT)),
    ("73.2", "the bookmark first", changed((COMMIT, "        run.attempt > 1 or consumer.commit(message, asynchronous=False)\n"), (WITH, "        run.attempt < 2 or consumer.commit(message, asynchronous=False)\n" + WITH))),
    # from the fourth order on
    ("73.2", "two commits", kept(second="if message.offset() < 3: " + BOOKMARK, last=LATER + COMMIT)),
)
RIGHT = {
    ("73.2", "right, too: the place is kept with the booking"): kept(),
    ("73.2", "right, too: it is kept there alone"): kept(last=""),
    ("73.2", "right, too: the timer commits what is done"): changed((CONFIGURATION, '{"enable.auto.offset.store": False, "session.timeout.ms": 1000}'), (COMMIT, "        consumer.store_offsets(message)\n")),
    ("73.2", "right, too: a booking commits itself"): changed(("run.database()", 'run.database().execution_options(isolation_level="AUTOCOMMIT")')),
    ("73.2", "right, too: each order is looked up first"): changed(*PLAIN, (LOOP, LOOP + LOOKED_UP)),
}
