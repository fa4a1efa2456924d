"""The checks of lab 06: Exactly once, from where to where?"""

from confluent_kafka import KafkaException, TopicPartition
from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    billed_twice,
    each_has_one,
    effects,
    had,
    invoices,
    missing,
    names_what_became,
    nothing_else_is_stored,
    orders_in_runs,
    rows_equal,
    unbilled,
)
from lab_utils.grading.weakness import gone_on
from lab_utils.proxy.faults import crash_client, delay_response, refuse

BILLED = {"filled": True, "topics": ("invoices",), "until_stable": True}
# Where one process after another is killed on an order's way, and the point instead of it, if it
# comes to that one first. The last one of a loop is after the first commit about the order: of its
# transaction, or of a bookmark beside it.
LOOP_POINTS = (
    ("after_poll", ""),
    ("after_ack", ""),
    ("after_send_offsets", "before_commit"),
    ("before_commit", ""),
    ("after_commit", ""),
)
# At the last two around Kafka's commit, if that comes before the booking: whatever holds the order
# by then.
SINK_POINTS = (
    ("after_poll", ""),
    ("after_db_write", ""),
    ("before_db_commit", ""),
    ("after_db_commit", "before_commit"),
    ("after_db_commit", "after_commit"),
)


def biller(run, name="biller"):
    """A transactional producer that has ended what a predecessor of its name left open."""
    producer = run.producer({"transactional.id": f"{run.topic}-{name}"})
    producer.init_transactions()
    return producer


def write_invoices(run, producer, batch):
    """Begin a transaction, and write the invoices of a batch in it."""
    producer.begin_transaction()
    for message in batch:
        producer.produce(run.topics["invoices"], message.value(), partition=0)
    producer.flush()


def bill(run, producer, batch, metadata):
    """One transaction: the invoices of a batch and its offsets; aborted if it fails."""
    write_invoices(run, producer, batch)
    offsets = [TopicPartition(it.topic(), it.partition(), it.offset() + 1) for it in batch]
    try:
        producer.send_offsets_to_transaction(offsets, metadata)
        producer.commit_transaction()
    except KafkaException:
        producer.abort_transaction()


def bills_in_a_transaction(run):
    """Reads, transforms and produces, two orders at a time."""
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        bill(run, producer, batch, consumer.consumer_group_metadata())


def aborts_once(run, is_rewound):
    """Aborts its second batch, and rewinds or goes on."""
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for number, batch in enumerate(run.batches(consumer, size=2)):
        if number != 1:
            bill(run, producer, batch, consumer.consumer_group_metadata())
            continue
        write_invoices(run, producer, batch)
        producer.abort_transaction()
        if is_rewound:
            consumer.seek(TopicPartition(run.topic, 0, batch[0].offset()))


def is_rewound(run):
    """The loop that goes back to its bookmark."""
    aborts_once(run, is_rewound=True)


def is_not_rewound(run):
    """The loop that goes on."""
    aborts_once(run, is_rewound=False)


def kept(run):
    """A batch that is kept across a rebalance, and committed with the metadata of now."""
    first, second = (run.consumer({"enable.auto.commit": False}) for _ in range(2))
    one, two = biller(run, "one"), biller(run, "two")
    first.subscribe([run.topic])
    batch = list(run.messages(first, partitions=2))
    second.subscribe([run.topic])
    mine = yours = None
    while not (mine and yours):
        mine, yours = mine or first.poll(0.1), yours or second.poll(0.1)
    bill(run, one, batch, first.consumer_group_metadata())
    bill(run, one, [mine], first.consumer_group_metadata())
    bill(run, two, [yours], second.consumer_group_metadata())


def wrong_in_three_ways(aborted, twice, never):
    """A workload that bills one pair of orders in vain, one twice, and one not at all."""

    def workload(run):
        producer = biller(run)
        consumer = run.consumer({"enable.auto.commit": False})
        consumer.subscribe([run.topic])
        for number, batch in enumerate(run.batches(consumer, size=2)):
            for _ in range({twice: 2, never: 0}.get(number, 1)):
                write_invoices(run, producer, batch)
                if number == aborted:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()

    return workload


def three_ways(aborted, twice, never):
    """The trial of 06.3: which of its five pairs are wrong?"""
    return Trial(
        name="three ways",
        orders=10,
        filled=True,
        topics=("invoices",),
        workload=wrong_in_three_ways(aborted, twice, never),
        without=("client", "workload", "wire", "fault"),
    )


def books(create, insert):
    """A workload that books each order with these statements."""

    def workload(run):
        database = run.database()
        with database.begin() as connection:
            connection.execute(text(create))
        consumer = run.consumer({"enable.auto.commit": False})
        consumer.subscribe([run.topic])
        for message in run.messages(consumer):
            with database.begin() as connection:
                connection.execute(text(insert), {"order": message.value().decode()})
            consumer.commit(message, asynchronous=False)

    return workload


def keeps_the_bookmark(run):
    """Keeps the bookmark in the database, and reads on from there."""
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookmarks (next INTEGER)"))

    def resume(consumer, places):
        with database.begin() as connection:
            offset = connection.scalar(text("SELECT max(next) FROM bookmarks"))
        consumer.assign([TopicPartition(it.topic, it.partition, offset or 0) for it in places])

    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic], on_assign=resume)
    for message in run.messages(consumer):
        order, bookmark = message.value().decode(), message.offset() + 1
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:order)"), {"order": order})
            connection.execute(text("INSERT INTO bookmarks VALUES (:next)"), {"next": bookmark})


SINKS = {
    "inserts": books(
        "CREATE TABLE IF NOT EXISTS bookings (value TEXT)", "INSERT INTO bookings VALUES (:order)"
    ),
    "counts": books(
        "CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY, times INTEGER)",
        "INSERT INTO bookings VALUES (:order, 1) "
        "ON CONFLICT (value) DO UPDATE SET times = bookings.times + 1",
    ),
    "upserts": books(
        "CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)",
        "INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING",
    ),
    "keeps_the_bookmark": keeps_the_bookmark,
}


def seen_meanwhile(evidence):
    """How often a read_committed reader was given each order while all went on."""
    return had(evidence, "invoices", "seen")


# For both readers.
OUT_EQUALS_IN = (
    each_has_one("invoice", invoices, ", for the final reader"),
    each_has_one("invoice", seen_meanwhile, ", for the concurrent reader"),
)


def in_each_life(points, turn, orders):
    """The deaths of one process after another, from this point on in turn, each at a later order.

    The last one is with the last order: no process that still has something to do is left alone, so
    nobody can be careful in the first processes only.
    """
    points = (*points[turn:], *points[:turn], points[-1])
    return tuple(
        crash_client(at, value=str(order), or_at=instead)
        for (at, instead), order in zip(points, orders, strict=True)
    )


def killed(turn):
    """A run whose processes are killed in each batch of two, at its second order."""
    faults = in_each_life(LOOP_POINTS, turn, range(1, 12, 2))
    return Trial(name="killed in each batch", faults=faults, orders=12, assumes=gone_on, **BILLED)


def killed_in_the_commit(nth):
    """A run whose process is killed when the commit of its nth batch was sent."""
    faults = crash_client("while_committing", nth=nth), delay_response("EndTxn", nth, by_ms=3000)
    return Trial(name="commit sent", faults=faults, orders=8, assumes=gone_on, **BILLED)


def refused(nth):
    """A run in which a transaction has to be aborted: its offsets are refused."""
    fault = refuse("TxnOffsetCommit", nth=nth, error="ILLEGAL_GENERATION")
    return Trial(name="a transaction fails", faults=(fault,), orders=8, **BILLED)


def fenced(nth):
    """A run in which a commit is refused for good: only a new producer may go on.

    The process that ends with that error is started again. One that ends as if all was well is not.
    """
    fault = refuse("EndTxn", nth=nth, error="PRODUCER_FENCED")
    return Trial(name="a producer is fenced", faults=(fault,), orders=8, supervised=True, **BILLED)


def a_member_dies(nth):
    """Two members, of which the second dies before a transaction; its partition moves."""
    return Trial(
        name="a member dies",
        faults=(crash_client("after_poll", nth=nth, member=2),),
        orders=12,
        partitions=2,
        members=2,
        **BILLED,
    )


def everything(place):
    """All points, a failed transaction, a rebalance and a fenced producer, in drawn batches."""
    return [
        killed(place.choice((1, 4))),
        killed_in_the_commit(place.randint(2, 3)),
        refused(place.randint(1, 3)),
        a_member_dies(place.randint(3, 4)),
        fenced(place.randint(1, 3)),
    ]


def booking(turn):
    """A run with a database whose processes are killed on the way of every second order into it."""
    orders = (*range(turn % 2, 10, 2), 11)
    faults = in_each_life(SINK_POINTS, turn, orders)
    return Trial(name="killed again and again", faults=faults, orders=12, filled=True)


def what_the_reader_had(evidence):
    """The copies of each order that the reader of this trial's case had."""
    name = evidence.trial.name
    if name == "database":
        return effects(evidence)
    return had(evidence, "invoices", "record") if name == "uncommitted" else invoices(evidence)


def out_is_not_in(evidence):
    """The orders that a read_committed reader does not have once."""
    copies = invoices(evidence)
    return [
        {"value": order, "times": copies[order]} for order in evidence.orders if copies[order] != 1
    ]


def out_of(evidence):
    """The right rows of 06.3: how often each such order is seen."""
    return {row["value"]: row["times"] for row in out_is_not_in(evidence)}


def times_returned(evidence):
    """The rows that the learner's query returned, in the same form."""
    return dict(zip(evidence.column("value"), evidence.column("times"), strict=True))


def case(name, workload, faults=(), orders=8, partitions=1):
    """One of the cases of 06.5."""
    given = {"faults": faults, "orders": orders, "partitions": partitions, **BILLED}
    return Trial(name=name, workload=workload, **given)


EXERCISES = {
    "06.1": Exercise(
        title="The loop",
        points=8,
        kind="workload",
        answer="exactly_once",
        public=(killed(0), refused(2), fenced(2)),
        unseen=drawn(everything),
        rules=(nothing_else_is_stored, *OUT_EQUALS_IN),
        mistakes={
            "nothing is written": Mistake(
                is_made=lambda _, seen: not seen.stored,
                likely="the batches were polled, and no invoice was written.",
                look="Look at what the loop does with each batch.",
            ),
            "no transaction": Mistake(
                is_made=lambda _, seen: seen.stored and not seen.requests("EndTxn"),
                likely="invoices were written, and no transaction was ever ended.",
                look="Look at which requests crossed the wire in _.timeline(apis=None).",
            ),
            "the bookmark outside": Mistake(
                is_made=lambda _, seen: (
                    seen.requests("OffsetCommit") and not seen.requests("TxnOffsetCommit")
                ),
                likely="the bookmark was committed by itself, outside of the transaction.",
                look="Look for OffsetCommit and TxnOffsetCommit in _.timeline(apis=None).",
            ),
            "no bookmark": Mistake(
                is_made=lambda _, seen: (
                    seen.requests("EndTxn") and not seen.requests("TxnOffsetCommit")
                ),
                likely="the transactions hold invoices, and no bookmark.",
                look="Look for what makes the offsets part of a transaction.",
            ),
            "the bookmark ahead": Mistake(
                is_made=lambda _, seen: seen.crashes and unbilled(seen),
                likely="the bookmark stood after an order whose invoice was not committed.",
                look="Look at which orders each transaction holds, and at its offset.",
            ),
            "the bookmark behind": Mistake(
                is_made=lambda _, seen: billed_twice(seen),
                likely="the bookmark stood before an order whose invoice was committed.",
                look="Look at which orders each transaction holds, and at its offset.",
            ),
            "not rewound": Mistake(
                is_made=lambda _, seen: (
                    unbilled(seen) and had(seen, "invoices", "record").keys() >= set(unbilled(seen))
                ),
                likely="an aborted batch was never read again.",
                look="Look at where the consumer stands after abort_transaction().",
            ),
            "gave up": Mistake(
                is_made=lambda _, seen: seen.trial.name == "a transaction fails" and unbilled(seen),
                likely="the loop ended at an error that asks for an abort.",
                look="Look at what the error asks for, and at what the loop does then.",
            ),
            "swallowed": Mistake(
                is_made=lambda _, seen: (
                    seen.trial.name == "a producer is fenced" and unbilled(seen)
                ),
                likely="the producer could not go on, and your loop kept the error to itself.",
                look="Look at what your loop does with an error that asks for no abort.",
            ),
        },
        passed=orders_in_runs("runs: out equals in, for both readers."),
        blank="Look at what the loop does with each batch.",
    ),
    "06.2": Exercise(
        title="The sink",
        points=6,
        kind="workload",
        answer="booked_once",
        public=(booking(0),),
        unseen=drawn(lambda place: [booking(place.choice((1, 4)))]),
        rules=(each_has_one("effect", effects, " in bookings"),),
        mistakes={
            "nothing is booked": Mistake(
                is_made=lambda _, seen: not seen.history.effects,
                likely="there is no table `bookings` with an order in its column `value`.",
                look="Write each order to it; if you do, look at the names of table and column.",
            ),
            "counts up": Mistake(
                is_made=lambda _, seen: any(
                    row.records > 1 for row in seen.rows if row.kind == "effect"
                ),
                likely="the second write of an order found the first, and added to it.",
                look="Look at what your statement does on a conflict.",
            ),
            "no key": Mistake(
                is_made=lambda _, seen: any(times > 1 for times in seen.history.effects.values()),
                likely="the database could not know that it had the order already.",
                look="Look at the two rows of that order: what tells them apart?",
            ),
            "missing": Mistake(
                is_made=lambda _, seen: missing(seen, seen.history.effects),
                likely="the bookmark was moved before the effect was safe.",
                look="Look at what comes first, the database's commit or Kafka's.",
            ),
        },
        passed=orders_in_runs("run, each with one effect in bookings."),
        blank="Look at which table the sink creates, and what it writes for each message.",
    ),
    "06.3": Exercise(
        title="Prove it from the topics",
        points=5,
        kind="query",
        answer="out_is_not_in",
        public=(three_ways(1, 2, 3),),
        unseen=drawn(lambda place: [three_ways(*place.choice(((0, 4, 2), (3, 1, 0), (4, 0, 1))))]),
        rules=(rows_equal(out_is_not_in),),
        mistakes={
            "counted both topics": Mistake(
                is_made=lambda _, seen: any(
                    times > out_of(seen).get(value, 1)
                    for value, times in times_returned(seen).items()
                ),
                likely="your numbers count records that are no invoices.",
                look="Look at the topics of the rows that your query counts.",
            ),
            "counted what was aborted": Mistake(
                is_made=lambda _, seen: (
                    seen.returned
                    and times_returned(seen)
                    .keys()
                    .isdisjoint(set(unbilled(seen)) & had(seen, "invoices", "record").keys())
                ),
                likely="orders that no read_committed reader sees are not in your result.",
                look="Look at the kinds record and visible, and at what the join leaves out.",
            ),
            "orders from the invoices": Mistake(
                is_made=lambda _, seen: (
                    times_returned(seen).keys()
                    == out_of(seen).keys() - missing(seen, had(seen, "invoices", "record"))
                ),
                likely="an order of which no invoice was ever written is not in your result.",
                look="Look at the topic from which your query takes the orders.",
            ),
            "each counted once": Mistake(
                is_made=lambda _, seen: (
                    times_returned(seen).keys() == set(unbilled(seen))
                    and set(times_returned(seen).values()) == {0}
                ),
                likely="orders with two invoices are not in your result.",
                look="Look at what your query counts: invoices, or their values?",
            ),
            "everything": Mistake(
                is_made=lambda _, seen: 1 in seen.column("times"),
                likely="your query also returns the orders that are seen once.",
            ),
        },
    ),
    "06.4": Exercise(
        title="Which sink?",
        points=3,
        kind="value",
        answer="answer_4",
        public=tuple(
            Trial(
                name=name,
                faults=(crash_client("after_db_commit", nth=3),),
                filled=True,
                workload=workload,
            )
            for name, workload in SINKS.items()
        ),
        rules=(names_what_became(effects),),
        mistakes={
            "counting is an upsert": Mistake(
                is_made=lambda _, seen: seen.trial.name == "counts",
                likely="a key finds the row again; what is done with it then counts, too.",
                look="Look at the numbers beside the orders in the cell that ran the three sinks.",
            ),
            "a key changes nothing": Mistake(
                is_made=lambda _, seen: seen.trial.name == "upserts",
                likely="the second insert of an order finds its key, and does nothing.",
                look="Look at the numbers beside the orders in the cell that ran the three sinks.",
            ),
            "a commit is enough": Mistake(
                is_made=lambda _, seen: seen.trial.name == "inserts",
                likely="two commits in a row are not one.",
                look="Look at how many rows the plain insert left.",
            ),
            "Kafka must know": Mistake(
                is_made=lambda _, seen: seen.trial.name == "keeps_the_bookmark",
                likely="the row and the bookmark are committed together, or not at all.",
                look="Look at run `kept` in further/06_six_crash_points.ipynb.",
            ),
        },
        blank='Fill in "once", "lost" or "twice" for each of the four.',
    ),
    "06.5": Exercise(
        title='"We have exactly once"',
        points=3,
        kind="value",
        answer="answer_5",
        public=(
            case("killed", bills_in_a_transaction, (crash_client("before_commit", nth=2),)),
            case("uncommitted", is_rewound),
            case("not_rewound", is_not_rewound),
            case("kept", kept, orders=2, partitions=2),
            case("database", SINKS["inserts"], (crash_client("after_db_commit", nth=3),)),
        ),
        rules=(names_what_became(what_the_reader_had),),
        mistakes={
            "any reader": Mistake(
                is_made=lambda _, seen: seen.trial.name == "uncommitted",
                likely="that reader does not ask whether a transaction was committed.",
                look="Look at the row `in the log` of rewound.in_and_out().",
            ),
            "an abort undoes reading": Mistake(
                is_made=lambda _, seen: seen.trial.name == "not_rewound",
                likely="an abort takes back what was written, not what was read.",
                look="Look at forgotten.in_and_out().",
            ),
            "the broker checks the owner": Mistake(
                is_made=lambda _, seen: seen.trial.name == "kept",
                likely="the broker checks the member and its generation, and no more.",
                look="Look at `now` in further/06_names_and_rebalances.ipynb.",
            ),
            "a transaction reaches further": Mistake(
                is_made=lambda _, seen: seen.trial.name == "database",
                likely="a Kafka transaction holds records and offsets, and no row of a database.",
                look="Look at the effects of the plain insert.",
            ),
            "a kill loses": Mistake(
                is_made=lambda _, seen: seen.trial.name == "killed",
                likely="a successor ends what the dead one left open, and reads on.",
                look="Try in the explorer: a record, in a transaction, killed before its commit.",
            ),
        },
        blank='Fill in "once", "lost" or "twice" for each of the five.',
    ),
}
