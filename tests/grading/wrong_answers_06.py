"""A wrong answer for each named mistake of lab 06: item, the mistake's name, the answer.

The cells stand behind those of the notebook: its helpers are there.
"""

from __future__ import annotations

from typing import Final

LOOP: Final = """
def exactly_once(run):
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        producer.begin_transaction()
        try:
            for message in batch:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
            SEND
            producer.commit_transaction()
            AFTER
        except KafkaException:
            producer.abort_transaction()
            REWIND
"""
SEND: Final = (
    "producer.send_offsets_to_transaction("
    "consumer.position(consumer.assignment()), consumer.consumer_group_metadata())"
)
PLAIN: Final = """
def exactly_once(run):
    consumer = run.consumer({"enable.auto.commit": False})
    producer = run.producer({"enable.idempotence": True})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        consumer.commit(asynchronous=False)
"""
NOTHING: Final = """
def exactly_once(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        consumer.commit(asynchronous=False)
"""
GIVES_UP: Final = """
def exactly_once(run):
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for number, batch in enumerate(run.batches(consumer, size=2)):
        producer.begin_transaction()
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.commit_transaction()
"""
SWALLOWS: Final = """
def exactly_once(run):
    producer = biller(run)
    consumer = run.consumer({{"enable.auto.commit": False}})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        try:
            producer.begin_transaction()
            for message in batch:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                {leave}
            producer.abort_transaction()
            rewind(consumer)
"""
ONE_BY_ONE: Final = """
def exactly_once(run):
    producer = biller(run)
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        for message in batch:
            producer.begin_transaction()
            try:
                producer.produce(run.topics["invoices"], message.value(), partition=0)
                SEND
                producer.commit_transaction()
            except KafkaException:
                producer.abort_transaction()
                rewind(consumer)
""".replace("SEND", SEND)
LAST_READ: Final = (
    "places = consumer.position(consumer.assignment()); places[0].offset -= 1; "
    "producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata())"
)
SINK: Final = """
def booked_once(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS {table}"))
    consumer = run.consumer({{"enable.auto.commit": False}})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        {before}
        with database.begin() as connection:
            connection.execute(text("{insert}"), {{"order": message.value().decode()}})
        {after}
"""
FIRST_DROP: Final = """with database.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS bookings"))
    with"""
COMMIT: Final = "consumer.commit(message, asynchronous=False)"


def _loop(send: str = SEND, after: str = "pass", rewind: str = "rewind(consumer)") -> str:
    return LOOP.replace("SEND", send).replace("AFTER", after).replace("REWIND", rewind)


def _sink(table: str, insert: str, *, commits_first: bool = False) -> str:
    before, after = (COMMIT, "pass") if commits_first else ("pass", COMMIT)
    return SINK.format(table=table, insert=insert, before=before, after=after)


WRONG: Final = (
    ("06.1", "nothing is written", NOTHING),
    ("06.1", "no transaction", PLAIN),
    ("06.1", "the bookmark outside", _loop("pass", "consumer.commit(asynchronous=False)")),
    ("06.1", "no bookmark", _loop("pass")),
    ("06.1", "the bookmark ahead", ONE_BY_ONE),
    ("06.1", "the bookmark behind", _loop(LAST_READ)),
    ("06.1", "not rewound", _loop("producer.flush(); " + SEND, rewind="pass")),
    ("06.1", "gave up", GIVES_UP),
    ("06.1", "swallowed", SWALLOWS.format(leave="return")),
    ("06.1", "swallowed", SWALLOWS.format(leave="continue")),
    (
        "06.2",
        "nothing is booked",
        _sink("ledger (value TEXT)", "INSERT INTO ledger VALUES (:order)"),
    ),
    (
        "06.2",
        "counts up",
        _sink(
            "bookings (value TEXT PRIMARY KEY, times INTEGER)",
            "INSERT INTO bookings VALUES (:order, 1) ON CONFLICT DO UPDATE SET times = times + 1",
        ),
    ),
    ("06.2", "no key", _sink("bookings (value TEXT)", "INSERT INTO bookings VALUES (:order)")),
    (
        "06.2",
        "emptied",
        _sink("bookings (value TEXT PRIMARY KEY)", "INSERT INTO bookings VALUES (:order)").replace(
            "with", FIRST_DROP, 1
        ),
    ),
    (
        "06.2",
        "missing",
        _sink("bookings (value TEXT)", "INSERT INTO bookings VALUES (:order)", commits_first=True),
    ),
    ("06.3", "counted what was aborted", [("'visible'", "'record'")]),
    ("06.3", "orders from the invoices", [("%-orders", "%-invoices")]),
    ("06.3", "each counted once", [('F.count("*")', 'F.countDistinct("value")')]),
    ("06.3", "counted both topics", [("%-invoices", "%")]),
    ("06.3", "everything", [("times <> 1", "true")]),
    ("06.4", "counting is an upsert", {"counts": "once"}),
    ("06.4", "a key changes nothing", {"upserts": "twice"}),
    ("06.4", "a commit is enough", {"inserts": "once"}),
    ("06.4", "Kafka must know", {"keeps_the_bookmark": "twice"}),
    ("06.5", "any reader", {"uncommitted": "once"}),
    ("06.5", "an abort undoes reading", {"not_rewound": "once"}),
    ("06.5", "the broker checks the owner", {"kept": "once"}),
    ("06.5", "a transaction reaches further", {"database": "once"}),
    ("06.5", "a kill loses", {"killed": "lost"}),
)
