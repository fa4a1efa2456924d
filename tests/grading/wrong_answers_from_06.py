"""A wrong answer for each named mistake of labs 06 to 08: item, the mistake's name, the answer.

It is what differs from the lab's own answer, or a cell of its own: see recorded.Answer.
"""

from __future__ import annotations

from typing import Final

TOGETHER: Final = """\
offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
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
WRITES: Final = 'producer.produce(run.topics["invoices"], message.value(), partition=0)'
TRIES_ALL: Final = (
    "producer.begin_transaction()\n        try:",
    "try:\n            producer.begin_transaction()",
)
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
COMMIT: Final = "consumer.commit(message, asynchronous=False)"
# Commits of no order, in which a process would rather die.
JUNK: Final = """\
def junk(database, times=6):
    for _ in range(times):
        with database.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS junk (value TEXT)"))
            connection.execute(text("INSERT INTO junk VALUES ('0')"))

"""
# Points on the way of an order into bookings that lead to none, before its bookmark is moved.
UNDONE: Final = """\
def undone(database, message):
    order = {"order": message.value().decode()}
    with database.connect() as connection:
        connection.execute(text("INSERT INTO bookings VALUES (:order)"), order)
        connection.rollback()
    with database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("DELETE FROM bookings WHERE value = :order"), order)

"""
# Where an order waits until its bookmark is safe, and cannot be known again.
STAGED: Final = """
def booked_once(run):
    database = run.database()

    def move():
        with database.begin() as connection:
            for table in ("bookings", "staged"):
                connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table} (value TEXT)"))
            connection.execute(text("INSERT INTO bookings SELECT value FROM staged"))
            connection.execute(text("DELETE FROM staged"))

    move()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        with database.begin() as connection:
            row = {"order": message.value().decode()}
            connection.execute(text("INSERT INTO staged VALUES (:order)"), row)
        consumer.commit(message, asynchronous=False)
        move()
"""
INSERT: Final = 'text("INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING")'
EACH_ROW: Final = f"""\
for message in batch:
                row = {{"order": message.value().decode()}}
                connection.execute({INSERT}, row)
"""
EACH_ERROR: Final = (
    " as error:\n            if not error.args[0].txn_requires_abort():\n                raise\n",
    ":\n",
)
READS_ONLY: Final = """
def reads(run):
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        pass

answer_2 = {"replicas": 3, "topic": {"min.insync.replicas": 2}, "workload": reads}
"""
FIRST: Final = "TopicPartition(run.topic, 0, batch[0].offset())"
SEEK: Final = f"consumer.seek({FIRST})"
AND_COMMIT: Final = "            consumer.commit(asynchronous=False)\n"
OFFSETS: Final = "billing.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())"
BOOKS: Final = """
def booked_once(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS done (batch INTEGER PRIMARY KEY)"))

    def book(batch, number):
        orders = [{"value": row.value} for row in batch.collect()]
        STEPS

    run.start(run.stream().writeStream.foreachBatch(book), "table")
"""
ROWS: Final = """
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:value)"), orders)
"""
NUMBER_FIRST: Final = (
    """
        with database.begin() as connection:
            mine = connection.execute(
                text("INSERT INTO done VALUES (:n) ON CONFLICT DO NOTHING"), {"n": number})
        if not mine.rowcount:
            return
"""
    + ROWS
)
# A commit of the orders that the database refuses.
REFUSED: Final = """
        with database.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS one (id INTEGER PRIMARY KEY)"))
            connection.execute(text("CREATE TABLE IF NOT EXISTS other (id INTEGER "
                                    "REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED)"))
        with contextlib.suppress(Exception), database.connect() as connection:
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            connection.execute(text("INSERT INTO bookings VALUES (:value)"), orders)
            connection.execute(text("INSERT INTO other VALUES (7)"))
            connection.commit()
"""
FILE_FIRST: Final = (
    """
        done = pathlib.Path(f"{run.files}-{number}")
        if done.exists():
            return
        done.touch()
"""
    + ROWS
)


def _loop(
    send: str, after: str = "pass", rewind: str = "rewind(consumer)"
) -> list[tuple[str, str]]:
    """The lab's own loop that sends this, does that after its commit, and takes any error."""
    done = f"producer.commit_transaction()\n            {after}\n"
    return [
        (TOGETHER, f"{send}\n"), ("producer.commit_transaction()\n", done), EACH_ERROR,
        ("rewind(consumer)", rewind),
    ]  # fmt: skip


def _also(helper: str, commit: str) -> list[tuple[str, str]]:
    """With this helper above the function, and this in place of each commit of a bookmark."""
    return [("def booked_once", f"{helper}def booked_once"), (COMMIT, commit)]


def _with(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
    """The lab's own pipeline with its rows and errors in fewer lines, and with these texts."""
    row = (
        ('row = {"order": message.value().decode()}\n', ""),
        (", row)", ', {"order": message.value().decode()})'),
    )
    return [*row, EACH_ERROR, *pairs]


def looks_first(processes: int = 99) -> list[tuple[str, str]]:
    """The lab's own sink without a key; its first processes look for an order, then book it."""
    looks = f"""\
there = text("SELECT 1 FROM bookings WHERE value = :order")
            order = {{"order": message.value().decode()}}
            if run.attempt > {processes} or not connection.execute(there, order).first():
                {BOOKS_IT}"""
    return [*NO_KEY, (BOOKS_IT, looks)]


def _books(steps: str) -> str:
    return BOOKS.replace("STEPS", steps.strip())


AND_JUNK: Final = f"{COMMIT}; junk(database)"
UNDONE_FIRST: Final = f"undone(database, message); {COMMIT}"
BOOKS_IT: Final = 'connection.execute(text("INSERT'
NO_KEY: Final = [(" PRIMARY KEY", ""), (" ON CONFLICT DO NOTHING", "")]
NEXT: Final = "for message in run.messages(consumer):\n"
BOOKMARK_FIRST: Final = [
    *NO_KEY, (f"\n        {COMMIT}", ""), (NEXT, f"{NEXT}        {COMMIT}\n"),
]  # fmt: skip
# Careful in the first processes only: so many.
BOOKMARK_FIRST_LATER: Final = [
    (COMMIT, f"run.attempt == 1 and {COMMIT}"),
    (NEXT, f"{NEXT}        run.attempt == 1 or {COMMIT}\n"),
]
IN_WINDOWS: Final = """
from pyspark.sql import functions as F

def once_in_ten_minutes(orders):
    late = orders.withWatermark("timestamp", "10 minutes")
    parts = late.withColumn("part", F.window("timestamp", "20 minutes"))
    return parts.dropDuplicates(["value", "part"])
"""

# It commits its bookmark by itself, after the transaction, from the fourth batch on.
SENDS, COMMITS = "producer.send_offsets_to_transaction(", "producer.commit_transaction()"
FROM_THE_FOURTH_BATCH: Final = [
    (SENDS, f"batch[0].offset() < 6 and {SENDS}"),
    (COMMITS, f"{COMMITS}; batch[0].offset() < 6 or consumer.commit(asynchronous=False)"),
]
# In its first processes the bookmark is in the transaction, later it is committed after that, or
# before it.
AFTER_IT_LATER: Final = [
    (SENDS, f"run.attempt <= 3 and {SENDS}"),
    (COMMITS, f"{COMMITS}; run.attempt <= 3 or consumer.commit(asynchronous=False)"),
]
BEFORE_IT_LATER: Final = [
    ("try:\n", "try:\n            run.attempt == 1 or consumer.commit(asynchronous=False)\n"),
]
WRONG: Final = (
    ("06.1", "nothing is written", [(WRITES, "pass")]),
    ("06.1", "no transaction", PLAIN),
    ("06.1", "the bookmark outside", _loop("pass", "consumer.commit(asynchronous=False)")),
    ("06.1", "no bookmark", _loop("pass")),
    ("06.1", "the bookmark ahead", ONE_BY_ONE),
    ("06.1", "the bookmark behind", _loop(LAST_READ)),
    ("06.1", "the bookmark behind", FROM_THE_FOURTH_BATCH),
    ("06.1", "the bookmark behind", AFTER_IT_LATER),
    ("06.1", "the bookmark ahead", BEFORE_IT_LATER),
    ("06.1", "not rewound", _loop("producer.flush(); " + SEND, rewind="pass")),
    ("06.1", "gave up", [("producer.abort_transaction()", "raise")]),
    ("06.1", "swallowed", [TRIES_ALL, ("raise", "return")]),
    ("06.1", "swallowed", [TRIES_ALL, ("raise", "continue")]),
    ("06.2", "nothing is booked", [("bookings", "ledger")]),
    (
        "06.2",
        "counts up",
        [
            ("TEXT PRIMARY KEY", "TEXT PRIMARY KEY, times INTEGER"),
            ("(:order)", "(:order, 1)"),
            ("DO NOTHING", "DO UPDATE SET times = times + 1"),
        ],
    ),
    ("06.2", "no key", NO_KEY),
    ("06.2", "no key", [*NO_KEY, *_also(JUNK, AND_JUNK)]),
    ("06.2", "no key", STAGED),
    ("06.2", "no key", looks_first(processes=3)),
    ("06.2", "missing", BOOKMARK_FIRST),
    ("06.2", "missing", BOOKMARK_FIRST_LATER),
    ("06.2", "missing", [*BOOKMARK_FIRST, *_also(JUNK, AND_JUNK)]),
    ("06.2", "missing", [*BOOKMARK_FIRST, *_also(UNDONE, UNDONE_FIRST)]),
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
    ("07.1", "twice", {"killed": {"bookings": "twice"}}),
    ("07.1", "an abort undoes reading", {"refused": {"invoices": "once"}}),
    ("07.1", "an abort undoes everything", {"refused": {"notices": "lost"}}),
    ("07.1", "the bookmark waits", {"killed": {"invoices": "once"}}),
    ("07.1", "acked is safe", {"dark": {"notices": "once"}}),
    ("07.1", "the database waits", {"dark": {"bookings": "lost"}}),
    ("07.2", "nothing is processed", READS_ONLY),
    ("07.2", "acks too weak", _with(('{"acks": "all"}', '{"acks": 1}'))),
    ("07.2", "floor too low", _with(('"min.insync.replicas": 2', '"min.insync.replicas": 1'))),
    ("07.2", "no replica to spare", _with(('"replicas": 3', '"replicas": 2'))),
    ("07.2", "gave up", _with(("billing.abort_transaction()", "raise"))),
    ("07.2", "not rewound", _with((SEEK, "pass"))),
    ("07.2", "committed before the work", _with(('{"enable.auto.commit": False}', ""))),
    ("07.2", "committed before the work", _with(('commit": False', 'commit": run.attempt > 1'))),
    ("07.2", "no bookmark", _with((OFFSETS, "pass"))),
    (
        "07.2",
        "two commits",
        _with(
            ("consumer.position(consumer.assignment())", f"[{FIRST}]"),
            ("billing.commit_transaction()\n", f"billing.commit_transaction()\n{AND_COMMIT}"),
        ),
    ),
    ("07.2", "no key", _with((" PRIMARY KEY", ""), (" ON CONFLICT DO NOTHING", ""))),
    ("08.1", "nothing is booked", _books("pass")),
    ("08.1", "the number before the rows", _books(NUMBER_FIRST)),
    ("08.1", "the number before the rows", "import pathlib\n" + _books(FILE_FIRST)),
    ("08.1", "the number before the rows", "import contextlib\n" + _books(REFUSED + NUMBER_FIRST)),
    ("08.1", "twice", _books(ROWS)),
    ("08.1", "twice", JUNK + _books("junk(database, times=min(number, 1))" + ROWS)),
    (
        "08.2",
        "no watermark",
        [('.withWatermark("timestamp", "10 minutes")', ""), ("WithinWatermark", "")],
    ),
    (
        "08.2",
        "the time is part of the key",
        [('WithinWatermark(["value"])', '(["value", "timestamp"])')],
    ),
    ("08.2", "the time is part of the key", IN_WINDOWS),
    ("08.2", "too impatient", [("10 minutes", "9 minutes")]),
    ("08.2", "remembers too long", [("WithinWatermark", "")]),
    ("08.3", "a list deletes nothing", {"files": "once"}),
    ("08.3", "Spark reads the list", {"spark": "twice"}),
    ("08.3", "the bookmark is enough", {"topic": "once"}),
    ("08.3", "the bookmark is enough", {"table": "once", "spark": "twice", "files": "once"}),
    ("08.3", "a repeated batch loses nothing", {"topic": "lost", "files": "once"}),
)
