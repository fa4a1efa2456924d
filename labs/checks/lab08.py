"""The checks of lab 08: Spark is the consumer."""

from collections import Counter
from datetime import UTC, datetime

from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import Misshapen, missing, rows_equal, what_became
from lab_utils.proxy.faults import crash_client

# Where a run has what each reader of 08.3 reads; the topic is in the log.
SINKS = {"table": "bookings", "spark": "files that Spark lists", "files": "files"}
WORDS = ("once", "lost", "twice")
# A copy after four minutes is one of another hour: who counts by windows does not know it.
START = datetime(2026, 1, 1, 11, 58, tzinfo=UTC).timestamp()
DELAY = 10  # minutes
# In the schedule of 08.2, by their numbers: an order that comes again in time, one that comes again
# when it need not be remembered, two that are late but in time, and one that is too late.
AGAIN, MUCH_LATER, LATE, TOO_LATE = 0, 2, (4, 5), 11


def three_sinks(run):
    """The lab's own: a topic, a folder of files and a table; one driver."""
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))

    def book(batch, _):
        with database.begin() as connection:
            for row in batch.collect():
                connection.execute(text("INSERT INTO bookings VALUES (:it)"), {"it": row.value})

    orders = run.stream()
    run.start(orders.writeStream.format("kafka").option("topic", run.topics["invoices"]), "topic")
    files = orders.select("value").writeStream.format("parquet")
    run.start(files.option("path", run.files), "files")
    run.start(orders.writeStream.foreachBatch(book), "table")


def come_again(schedule, first):
    """A workload that sends orders by their numbers, each at its minute; which has number 0?"""

    def send(run):
        producer, orders = run.producer(), [*run.orders[first:], *run.orders[:first]]
        for number, minute in schedule:
            at = int(START + 60 * minute) * 1000
            producer.produce(run.topic, orders[number], partition=0, timestamp=at)
            producer.flush()

    return send


def schedule(pause=25, too_late=3):
    """Two orders in each batch; `pause` minutes lie between the first four batches and the rest.

    Before it an order is late by as much as may be, ten minutes.
    """
    first = [(0, 0), (1, 2), (2, 14), (0, 4), (3, 15), (4, 8), (1, 11), (5, 5)]
    rest = [(6, 15), (7, 16), (8, 17), (9, 18), (2, 19), (10, 19), (11, too_late - pause), (12, 20)]
    return first + [(order, minute + pause) for order, minute in rest]


def timed(times, first=0):
    """The trial of 08.2 with this schedule."""
    return Trial(name="orders that come again", orders=13, workload=come_again(times, first))


def timed_elsewhere(place):
    """The trial with times drawn anew, and other orders that come again or too late."""
    pause, too_late, first = map(place.choice, ((25, 27), (0, 5), (4, 9)))
    return [timed(schedule(pause, too_late), first)]


def once_in_ten_minutes(evidence):
    """Which orders come out, by what was asked: in time, and no news of the ten minutes before."""
    out, came, newest = [], {}, [0]
    for order, minute in read(evidence):
        is_too_late = minute < max(newest) - 2 * DELAY
        is_copy = order in came and minute - came[order] <= DELAY
        if not is_too_late and not is_copy:
            came[order] = minute
            out.append({"value": order})
        newest.append(minute)
    return out


def read(evidence):
    """Each record of the topic: the order, and its minute."""
    return [
        (row.value, round(int(row.detail["timestamp_ms"]) / 60_000 - START / 60))
        for row in evidence.log
    ]


def returned(evidence, number):
    """How often the learner's query returned the order of this number."""
    came = [*dict.fromkeys(value for value, _ in read(evidence))]
    return evidence.column("value").count(came[number])


def each_order_is_booked_once(_, evidence):
    """Is each order in the table once, and nothing else?"""
    found = evidence.history.effects
    wrong = [order for order in (*evidence.orders, *found) if found[order] != 1]
    strange = sorted(set(found) - set(evidence.orders))
    if strange:
        return f"bookings holds {strange[0]!r}, which is no order of this run."
    if wrong:
        return (
            f"order {wrong[0]} is in bookings {found[wrong[0]]} times; {len(set(wrong))} of "
            f"{len(evidence.orders)} orders are not there once."
        )
    return None


def says_what_was_booked(_, evidence):
    """What is said of a sink that passed."""
    orders = sum(len(each.orders) for each in evidence)
    kills = sum(len(each.crashes) for each in evidence)
    drivers = "driver was" if kills == 1 else "drivers were"
    return f"{orders} orders; {kills} {drivers} killed; each order is in bookings once."


def drivers_killed(before="2", after="4"):
    """A run whose drivers are killed before they book one order, and after another.

    What counts a batch as done before its rows are safe loses it at the one, also where it says so
    in a commit of its own; what writes rows that it cannot know again has them twice after the
    other.
    """
    faults = (
        crash_client("before_db_commit", value=before),
        crash_client("after_db_commit", value=after),
    )
    in_sequence = sorted(faults, key=lambda fault: int(fault.value))
    return Trial(name="a driver is killed", faults=tuple(in_sequence), orders=8, filled=True)


def how_often(evidence):
    """What became of the orders for each reader."""
    topic = Counter(row.value for row in evidence.log)
    sinks = {"topic": topic, **{it: evidence.history.sinks[SINKS[it]] for it in SINKS}}
    return {name: what_became(evidence, found) for name, found in sinks.items()}


def wrong(answer, evidence):
    """The readers of whom the answer is wrong, each with what it says of them."""
    right = how_often(evidence)
    return [(name, answer[name]) for name in right if answer[name] != right[name]]


def is_how_often(answer, evidence):
    """Is the answer what each reader has?"""
    for name, said in wrong(answer, evidence):
        if said not in WORDS:
            return Misshapen(f"{name} = {said!r}, and that is none of the three words.")
        return f"{name} = {said!r}, and that is not what it has."
    return None


EXERCISES = {
    "08.1": Exercise(
        title="The batch that comes again",
        points=6,
        kind="workload",
        answer="booked_once",
        public=(drivers_killed(),),
        # Who is careful in the first life alone is killed in the second, too.
        unseen=drawn(lambda place: [drivers_killed(*place.choice(("42", "46", "64")))]),
        rules=(each_order_is_booked_once,),
        mistakes={
            "nothing is booked": Mistake(
                is_made=lambda _, seen: not seen.history.effects,
                likely="nothing was written to the table bookings.",
                look="Write each order to it; if you do, look at the names of table and column.",
            ),
            "the number before the rows": Mistake(
                is_made=lambda _, seen: missing(seen, seen.history.effects),
                likely="the batch was said to be done before its orders were safe.",
                look="Look at what lies between your two transactions.",
            ),
            "twice": Mistake(
                is_made=lambda _, seen: any(times > 1 for times in seen.history.effects.values()),
                likely="the batch came again, and nothing in the database could tell.",
                look="Look at what one transaction holds, and at what it asks before it writes.",
            ),
        },
        passed=says_what_was_booked,
        blank="Look at which table the function creates, and what book writes for each batch.",
    ),
    "08.2": Exercise(
        title="Forget in time",
        points=6,
        kind="stream",
        answer="once_in_ten_minutes",
        public=(timed(schedule()),),
        unseen=drawn(timed_elsewhere),
        rules=(rows_equal(once_in_ten_minutes),),
        mistakes={
            "no watermark": Mistake(
                is_made=lambda _, seen: returned(seen, TOO_LATE) > 0,
                likely="an order that came too late is in your result.",
                look="Look for what tells Spark how late a record may be.",
            ),
            "the time is part of the key": Mistake(
                is_made=lambda _, seen: returned(seen, AGAIN) > 1,
                likely="a copy with another time is another row to your query.",
                look="Look at which columns make two rows equal.",
            ),
            "too impatient": Mistake(
                is_made=lambda _, seen: any(not returned(seen, number) for number in LATE),
                likely="an order that was late, and in time, is missing.",
                look="Look at the delay of your watermark.",
            ),
            "remembers too long": Mistake(
                is_made=lambda _, seen: returned(seen, MUCH_LATER) == 1,
                likely="your query still knew an order when half an hour had gone by.",
                look="Look at the rows of state in copies.streamed(once_in_ten_minutes), and at "
                "the methods whose names begin with dropDuplicates.",
            ),
        },
    ),
    "08.3": Exercise(
        title="From where to where?",
        points=3,
        kind="value",
        answer="answer_3",
        public=(
            Trial(
                name="three sinks",
                faults=(crash_client("before_commit", nth=3),),
                filled=True,
                topics=("invoices",),
                workload=three_sinks,
            ),
        ),
        rules=(is_how_often,),
        mistakes={
            # A hint is about the reader that the verdict names.
            "a list deletes nothing": Mistake(
                is_made=lambda answer, seen: wrong(answer, seen)[0] == ("files", "once"),
                likely="the files of the dead driver are still in the folder.",
                look="Look at the columns of killed.sinks() that are about files.",
            ),
            "Spark reads the list": Mistake(
                is_made=lambda answer, seen: wrong(answer, seen)[0] == ("spark", "twice"),
                likely="Spark does not read every file that lies in the folder.",
                look="Look at what Spark itself counted in the folder.",
            ),
            "the bookmark is enough": Mistake(
                is_made=lambda answer, seen: wrong(answer, seen)[0][1] == "once",
                likely="a safe bookmark does not take back what is in a sink already.",
                look="Look at the first two columns of killed.sinks().",
            ),
            "a repeated batch loses nothing": Mistake(
                is_made=lambda answer, seen: wrong(answer, seen)[0][1] == "lost",
                likely="the new driver repeated the batch that the dead one had begun.",
                look="Look for a 0 in killed.sinks().",
            ),
        },
        blank='Fill in "once", "lost" or "twice" for each of the four.',
    ),
}
