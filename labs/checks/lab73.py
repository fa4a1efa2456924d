"""The checks of lab 73; ./lab build makes them of its source."""

import random
from dataclasses import replace

from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial
from lab_utils.grading.rules import answer_equals, missing, not_once, repeated
from lab_utils.proxy.faults import crash_client


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


def killed(name, point, nth, *, until_expired=False):
    """A run whose program is killed at this point, and started again: soon, or after a weekend."""
    fault = crash_client(point, nth=nth, until_expired=until_expired)
    return Trial(name=name, faults=(fault,), orders=6, filled=True)


def both(weekend, night):
    """The bookmarks expire after so many commits; a kill after so many bookings."""
    return (
        killed("a weekend", "after_commit", weekend, until_expired=True),
        killed("a restart", "after_db_commit", night),
    )


def elsewhere(nonce):
    """The two at places drawn from the nonce; of two commits for an order, after the first."""
    place = random.Random(nonce)
    return both(place.randint(2, 5), place.choice([1, 3, 5]))


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


def each_is_booked_once(_, evidence):
    """Is each order in bookings exactly once?"""
    return not_once(evidence, evidence.history.effects, "row", " in bookings")


def twice(evidence):
    """The orders that are booked more than once."""
    return repeated(evidence, evidence.history.effects)


def never(evidence):
    """The orders that are not booked."""
    return missing(evidence, evidence.history.effects)


EXERCISES = (
    Exercise(
        item="73.1",
        title="The cause",
        points=3,
        kind="value",
        answer="answer_1",
        public=(replace(killed("it", "after_commit", 3, until_expired=True), workload=found),),
        rules=(answer_equals(cause),),
        mistakes=(
            Mistake(
                name="all of them",
                is_made=lambda answer, _: len(answer["twice"].split()) > 3,
                likely="what the first process had not booked has one row.",
                look="Look at the numbers beside the orders in incident.effects.",
            ),
            Mistake(
                name="the last one in hand",
                is_made=lambda answer, _: answer["twice"] == "2",
                likely="more came again than what was being worked on.",
                look="Look at the numbers beside the orders in incident.effects.",
            ),
            Mistake(
                name="it went on",
                is_made=lambda answer, _: answer["began_at"] == 3,
                likely="that is where the bookmark had been.",
                look="Look at the first record of consumer-11 in incident.bookmarks().",
            ),
            Mistake(
                name="the bookmark was asked for",
                is_made=lambda answer, _: answer["request"] == "OffsetFetch",
                likely="every process asks for its bookmark; this one had to ask for more.",
                look="Look at what follows the OffsetFetch of the second process.",
            ),
            Mistake(
                name="the order, not the next",
                is_made=lambda answer, _: answer["stood_at"] == 2,
                likely="a bookmark names the next order to read.",
                look="Look at the last OffsetCommit before the kill.",
            ),
        ),
        blank="Fill in all five; the picture and the timeline have them.",
    ),
    Exercise(
        item="73.2",
        title="The repair",
        points=4,
        kind="workload",
        answer="repaired",
        public=both(3, 3),
        unseen=elsewhere,
        rules=(each_is_booked_once,),
        mistakes=(
            Mistake(
                name="nothing is booked",
                is_made=lambda _, seen: not seen.history.effects,
                likely="the orders were there, and without a bookmark none of them was read.",
                look="Look at where a group begins that has no bookmark, and at the first day.",
            ),
            Mistake(
                name="counts up",
                is_made=lambda _, seen: any(
                    row.records > 1 for row in seen.rows if row.kind == "effect"
                ),
                likely="the second write of an order found the first, and added to it.",
                look="Look at what your statement does on a conflict.",
            ),
            Mistake(
                name="the bookmark first",
                is_made=lambda _, seen: bool(never(seen)),
                likely="a bookmark was past an order that was not booked yet.",
                look="Look at what is committed first.",
            ),
            Mistake(
                name="begun anew",
                is_made=lambda _, seen: seen.trial.name == "a weekend" and len(twice(seen)) > 1,
                likely="the group had no bookmark, and nothing else remembered what is booked.",
                look="Look at what the second process could have found, and where.",
            ),
            Mistake(
                name="one short",
                is_made=lambda _, seen: seen.trial.name == "a weekend" and len(twice(seen)) == 1,
                likely="a bookmark names the next order to read, and this one names another.",
                look="Look at the order that is booked twice, and at the place that you keep.",
            ),
            Mistake(
                name="two commits",
                is_made=lambda _, seen: bool(twice(seen)),
                likely="the booking and its bookmark were committed one after the other.",
                look="Look at what a kill between the two commits leaves.",
            ),
        ),
        blank="Write the function `repaired`; begin with a copy of `found`.",
    ),
)
