"""The workloads that the checks of lab 06 perform themselves, right and wrong ones."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition
from sqlalchemy import text


def biller(run, name="biller"):
    """A transactional producer that has ended what a predecessor of its name left open."""
    producer = run.producer({"transactional.id": f"{run.topic}-{name}"})
    producer.init_transactions()
    return producer


def bill(run, producer, batch, metadata):
    """One transaction: the invoices of a batch and its offsets; aborted if it fails."""
    producer.begin_transaction()
    for message in batch:
        producer.produce(run.topics["invoices"], message.value(), partition=0)
    producer.flush()
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
        producer.begin_transaction()
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
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


def wrong_in_three_ways(run):
    """Bills the second pair never, though it tries; the third pair twice; the rest once."""
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for number, batch in enumerate(run.batches(consumer, size=2)):
        for _ in range(2 if number == 2 else 1):
            producer.begin_transaction()
            for message in batch:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
            producer.flush()
            if number == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


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
