"""The checks of lab 75; ./lab build makes them of its source."""

import random
from dataclasses import replace

from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial
from lab_utils.grading.rules import (
    and_more,
    answer_equals,
    final,
    missing,
    nothing_else_is_stored,
    repeated,
)
from lab_utils.proxy.faults import crash_client


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


def killed(name, *places):
    """A run whose processes are killed at these points, each one at the next."""
    return Trial(
        name=name,
        faults=tuple(crash_client(point, nth=nth) for point, nth in places),
        orders=8,
        filled=True,
        topics=("events",),
    )


def places(first, second, third):
    """Killed at a database commit after a restart, at the one after it, and with an event sent."""
    return (
        killed("killed at a commit", ("after_poll", first), ("after_db_commit", 1)),
        killed("killed at the next", ("after_poll", second), ("after_db_commit", 2)),
        killed("killed with an event sent", ("after_ack", third)),
    )


def elsewhere(nonce):
    """The three at places drawn from the nonce."""
    place = random.Random(nonce)
    return places(place.randint(2, 5), place.randint(3, 5), place.randint(2, 6))


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


EXERCISES = (
    Exercise(
        item="75.1",
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(replace(killed("the incident", ("after_db_commit", 4)), workload=found),),
        rules=(answer_equals(cause),),
        mistakes=(
            Mistake(
                name="it will come again",
                is_made=lambda answer, _: answer["held_by"] == "inbox",
                likely="the bookmark was past that order already.",
                look="Look at the last OffsetCommit before the kill.",
            ),
            Mistake(
                name="the database knows",
                is_made=lambda answer, _: answer["held_by"] == "database",
                likely="the table says that it is booked, and not that somebody is to be told.",
                look="Look at what the second process reads of the table.",
            ),
            Mistake(
                name="the order before",
                is_made=lambda answer, _: answer["untold"] == "2",
                likely="that order has its event.",
                look='Look at incident.in_and_out("events").',
            ),
            Mistake(
                name="it was sent",
                is_made=lambda answer, _: answer["sent"] == 4,
                likely="the program did not come to its fourth produce().",
                look="Look at the requests of producer-1.",
            ),
            Mistake(
                name="the order's own offset",
                is_made=lambda answer, _: answer["bookmark"] == 3,
                likely="a bookmark names the next order to read.",
                look="Look at the last OffsetCommit before the kill.",
            ),
        ),
        blank="Fill in all five; the timeline has most of them.",
    ),
    Exercise(
        item="75.2",
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=places(3, 4, 3),
        unseen=elsewhere,
        rules=(
            nothing_else_is_stored,
            each_is_booked_once,
            each_is_told,
            nothing_is_invented,
            each_has_its_key,
        ),
        mistakes=(
            Mistake(
                name="nothing is booked",
                is_made=lambda _, seen: not seen.history.effects,
                likely="there were orders in the inbox, and there is no booking.",
                look="Look at what the loop does with each order.",
            ),
            Mistake(
                name="booked twice",
                is_made=lambda _, seen: bool(repeated(seen, seen.history.effects)),
                likely="an order came again, and the table could not know it.",
                look="Look at the key of the table.",
            ),
            Mistake(
                name="told too soon",
                is_made=lambda _, seen: bool(invented(seen)),
                likely="an event was sent of something that had not happened yet.",
                look="Look at what is committed when the event is sent.",
            ),
            Mistake(
                name="two transactions",
                is_made=lambda _, seen: bool(seen.requests("EndTxn")) and bool(untold(seen)),
                likely="two transactions, one in the other, are two commits in a row.",
                look="Look at what a kill between the two commits leaves.",
            ),
            Mistake(
                name="nobody tells",
                is_made=lambda _, seen: bool(untold(seen)),
                likely="when the program was killed, nothing held the task of telling.",
                look="Look at what a new process finds, and where.",
            ),
            Mistake(
                name="no key",
                is_made=lambda _, seen: each_has_its_key(None, seen) is not None,
                likely="an event that comes twice cannot be known again.",
                look="Look at the key of the events.",
            ),
        ),
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
)
