"""Right answers by other means than the lab's own: item, what is different, and the cell.

With that of the lab there are three for each exercise that is performed. A cell stands behind those
of the notebook: its helpers are there. Else it is the lab's own with these texts replaced.
"""

from __future__ import annotations

from typing import Final

from tests.grading.wrong_answers import BOOKMARK, COMMIT, SORTED
from tests.grading.wrong_answers_from_06 import EACH_ERROR, EACH_ROW, INSERT, looks_first

AND_A_FLUSH: Final = ("patient =", "producer.flush()\n    patient =")
AND_A_FLUSH_EACH: Final = ("partition=0)", "partition=0); producer.flush()")
ONE_TRANSACTION: Final = """
def send_once(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.commit_transaction()
"""
IS_BY_HAND: Final = '"enable.auto.commit": False'
NAMES_ITS_GROUP: Final = f'{IS_BY_HAND}, "group.id": "billing"'
ALL_ROWS: Final = f"""\
insert = {INSERT}
            connection.execute(insert, [{{"order": it.value().decode()}} for it in batch])
"""

RIGHT: Final = (
    (
        "01.2",
        "unknown until a report says otherwise",
        [
            AND_A_FLUSH,
            ("words = {}", 'words = dict.fromkeys(run.orders, "unknown")'),
            (
                SORTED,
                'words[order] = "acked" if error is None else'
                ' "failed" if error.code() >= 0 else words[order]',
            ),
        ],
    ),
    (
        "01.2",
        "poll after each, one flush",
        [
            (
                SORTED,
                'local = error is not None and error.name().startswith("_")\n'
                '        words[order] = "unknown" if local else "failed" if error else "acked"',
            ),
            AND_A_FLUSH,
            ("on_report)\n        producer.flush()", "on_report)\n        producer.poll(0)"),
        ],
    ),
    ("01.4", "one flush for all orders", [("    producer.flush()", "producer.flush()")]),
    (
        "01.4",
        "idempotent, with callbacks",
        """
def send_safely(run):
    reports = []
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0, on_delivery=lambda *it: reports.append(it))
        producer.poll(0)
    while len(reports) < len(run.orders):
        producer.poll(0.1)
""",
    ),
    ("03.2", "a transaction", ONE_TRANSACTION),
    ("03.2", "a flush each", [AND_A_FLUSH_EACH]),
    (
        "03.5",
        "looks before each",
        [("not in stored", "not in run.orders_in_the_log()"), AND_A_FLUSH_EACH],
    ),
    (
        "03.5",
        "reads with a consumer of its own, and sends what is behind it",
        """
from confluent_kafka import TopicPartition

def send_the_rest(run):
    consumer = run.consumer({"enable.partition.eof": True})
    consumer.assign([TopicPartition(run.topic, 0, 0)])
    stored = 0
    while (message := consumer.poll(10)) is not None and not message.error():
        stored += 1
    consumer.close()
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders[stored:]:
        producer.produce(run.topic, order, partition=0)
    producer.flush()
""",
    ),
    (
        "03.5",
        "all in one transaction",
        ONE_TRANSACTION.replace("send_once", "send_the_rest"),
    ),
    (
        "04.2",
        "stops at what is fatal",
        """
def send_each(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    waiting = list(run.orders)
    while waiting:
        try:
            send_both(run, producer, waiting[0])
        except KafkaException as error:
            if error.args[0].fatal():
                return
            producer.abort_transaction()
        else:
            waiting.pop(0)
""",
    ),
    (
        "04.2",
        "raises what it cannot repair",
        """
def send_each(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()

    def send(order):
        try:
            send_both(run, producer, order)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction()
            send(order)

    for order in run.orders:
        send(order)
""",
    ),
    (
        "05.2",
        "stores what is done, and lets the timer commit",
        [
            ("auto.commit", "auto.offset.store"),
            (COMMIT, "consumer.store_offsets(message)\n    consumer.commit(asynchronous=False)"),
        ],
    ),
    (
        "05.2",
        "names the next offset, and its group",
        [
            ('{"auto.offset.reset"', '{"group.id": "billing", "auto.offset.reset"'),
            (
                COMMIT,
                "place = TopicPartition(run.topic, message.partition(), message.offset() + 1)\n"
                "        consumer.commit(offsets=[place], asynchronous=False)",
            ),
        ],
    ),
    (
        "05.3",
        "counts up from the first",
        [
            (
                BOOKMARK,
                """offset = min(given)
        while offset in done:
            offset += 1
        return offset""",
            )
        ],
    ),
    (
        "05.3",
        "the first that is not done",
        [
            (
                BOOKMARK,
                """for offset in sorted(given):
            if offset not in done:
                return offset
        return offset + 1""",
            )
        ],
    ),
    (
        "06.1",
        "behind the last of the batch, and back to its first",
        [
            ("def exactly", "from confluent_kafka import TopicPartition\ndef exactly"),
            (
                "consumer.position(consumer.assignment())",
                "[TopicPartition(run.topic, batch[-1].partition(), batch[-1].offset() + 1)]",
            ),
            (
                "rewind(consumer)",
                "consumer.seek("
                "TopicPartition(run.topic, batch[0].partition(), batch[0].offset()))",
            ),
        ],
    ),
    (
        "06.1",
        "one order in each transaction, in a group with a name",
        [(IS_BY_HAND, NAMES_ITS_GROUP), ("size=2", "size=1")],
    ),
    (
        "06.2",
        "replaces the row, in a group with a name",
        [
            (IS_BY_HAND, NAMES_ITS_GROUP),
            ("INSERT INTO", "INSERT OR REPLACE INTO"),
            (" ON CONFLICT DO NOTHING", ""),
        ],
    ),
    (
        "06.2",
        "looks in the same transaction",
        looks_first(),
    ),
    ("07.2", "the rows of a batch in one statement", [(EACH_ROW, ALL_ROWS), EACH_ERROR]),
    (
        "08.1",
        "a key",
        """
def booked_once(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)"))

    def book(batch, number):
        orders = [{"value": row.value} for row in batch.collect()]
        with database.begin() as connection:
            for order in orders:
                insert = text("INSERT INTO bookings VALUES (:value) ON CONFLICT DO NOTHING")
                connection.execute(insert, order)

    run.start(run.stream().writeStream.foreachBatch(book), "table")
""",
    ),
    (
        "08.1",
        "takes the batch away before it is written again",
        """
def booked_once(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT, batch INTEGER)"))

    def book(batch, number):
        orders = [{"value": row.value, "batch": number} for row in batch.collect()]
        with database.begin() as connection:
            connection.execute(text("DELETE FROM bookings WHERE batch = :it"), {"it": number})
            connection.execute(text("INSERT INTO bookings VALUES (:value, :batch)"), orders)

    run.start(run.stream().writeStream.foreachBatch(book), "table")
""",
    ),
)  # fmt: skip
