"""Right answers by other means than the lab's own: by item and by what is different, the cell.

With that of the lab there are three for each workload and each query. A cell stands behind those
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

# Queries: one that is only put together, so that the grader asks its plan, and one that asks Spark
# on the way, as collect() and SQL do, so that it needs a Spark of its own.
QUERIES: Final = {
    ("00.1", "different values, then how many"): """
def count_acked(events):
    acked = events.filter((events.source == "client") & (events.kind == "acked"))
    return acked.select("value").distinct().groupBy().count().withColumnRenamed("count", "acked")
""",
    ("00.1", "counted, and made a table"): """
def count_acked(events):
    number = events.where("source = 'client' AND kind = 'acked'").dropDuplicates(["value"]).count()
    return events.sparkSession.createDataFrame([(number,)], ["acked"])
""",
    ("01.3", "subtract"): """
def acked_and_gone(events):
    acked = events.where("source = 'client' AND kind = 'acked'").select("value")
    return acked.subtract(events.where("source = 'log' AND kind = 'record'").select("value"))
""",
    ("01.3", "a list of what is there"): """
def acked_and_gone(events):
    there = [row.value for row in events.where("source = 'log' AND kind = 'record'").collect()]
    acked = events.where("source = 'client' AND kind = 'acked'")
    return acked.where(~acked["value"].isin(there)).select("value").distinct()
""",
    ("02.2", "the second of the ends"): """
def acked_alone(events):
    first = events.where("kind = 'healing'").agg(F.min("at_ns").alias("healed"))
    looks = events.where("kind = 'log_end'").join(first, F.col("at_ns") < F.col("healed"))
    ends = looks.groupBy("actor").agg(F.max("offset").alias("end")).orderBy(F.desc("end")).limit(2)
    acked = events.where("source = 'client' AND kind = 'acked'")
    second = ends.agg(F.min("end").alias("second"))
    return acked.join(second, F.col("offset") >= F.col("second")).select("value")
""",
    ("02.2", "SQL"): """
def acked_alone(events):
    return events.sparkSession.sql('''
        WITH ends AS (SELECT actor, max(offset) AS end FROM {it} WHERE kind = 'log_end' AND at_ns <
                      (SELECT min(at_ns) FROM {it} WHERE kind = 'healing') GROUP BY actor)
        SELECT value FROM {it} AS acked LEFT JOIN ends ON end > offset
        WHERE source = 'client' AND kind = 'acked' GROUP BY value HAVING count(end) < 2
    ''', it=events)
""",
    ("03.3", "a window"): """
from pyspark.sql import Window

def resent(events):
    names = ["partition", "producer_id", "producer_epoch", "sequence"]
    same = Window.partitionBy(*names)
    requests = events.where("kind = 'request' AND api = 'Produce' AND producer_id >= 0")
    counted = requests.withColumn("times", F.count(F.lit(1)).over(same)).where("times >= 2")
    return counted.select(*names, "times").distinct()
""",
    ("03.3", "a Counter"): """
from collections import Counter

def resent(events):
    rows = events.where("kind = 'request' AND api = 'Produce' AND producer_id >= 0").select(
        "partition", "producer_id", "producer_epoch", "sequence").collect()
    twice = [(*batch, times) for batch, times in Counter(map(tuple, rows)).items() if times > 1]
    return events.sparkSession.createDataFrame(twice, "partition INT, producer_id BIGINT,"
        " producer_epoch INT, sequence INT, times INT")
""",
    ("03.4", "the first row of a window"): """
from pyspark.sql import Window

def first_copies(events):
    copies = Window.partitionBy("value").orderBy("offset")
    records = events.where("source = 'log' AND kind = 'record'")
    numbered = records.withColumn("number", F.row_number().over(copies))
    return numbered.where("number = 1").select("value", "partition", "offset")
""",
    ("03.4", "row by row"): """
def first_copies(events):
    first = {}
    for row in events.where("source = 'log' AND kind = 'record'").toLocalIterator():
        if row.value not in first or row["offset"] < first[row.value][1]:
            first[row.value] = row.partition, row["offset"]
    rows = [(value, *place) for value, place in first.items()]
    return events.sparkSession.createDataFrame(rows, ["value", "partition", "offset"])
""",
    ("04.3", "how many are open so far"): """
def visible_records(events):
    so_far = Window.partitionBy("topic", "partition").orderBy("offset")
    is_open = F.expr("IF(transactional AND next_marker IS NULL, 1, 0)")
    log = log_of(events).withColumn("open", F.sum(is_open).over(so_far)).where("open = 0")
    given = log.filter(~F.col("transactional") | (F.col("next_marker") == "COMMIT"))
    return given.drop("transactional", "next_marker", "open")
""",
    ("04.3", "SQL"): """
def visible_records(events):
    return events.sparkSession.sql('''
        SELECT topic, partition, offset, value FROM (
            SELECT *, min(IF(transactional AND next_marker IS NULL, offset, NULL))
                   OVER (PARTITION BY topic, partition) AS stop FROM {log})
        WHERE (stop IS NULL OR offset < stop) AND (NOT transactional OR next_marker = 'COMMIT')
    ''', log=log_of(events))
""",
    ("04.4", "the last row of a window"): """
def fenced_clients(events):
    answers = events.where("source = 'wire' AND kind = 'response'")
    refused = answers.where(F.col("error").isin("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"))
    first = refused.groupBy(F.col("actor").alias("fenced")).agg(
        F.min_by("api", "at_ns").alias("api"), F.min("at_ns").alias("refused_ns"))
    taken = answers.where("api = 'InitProducerId' AND error IS NULL")
    own = taken.selectExpr("actor AS fenced", "producer_id").distinct()
    others = taken.selectExpr("actor AS by", "producer_id", "at_ns AS taken_ns")
    before = first.join(own, "fenced").join(others, "producer_id").where(
        "taken_ns < refused_ns AND by <> fenced")
    latest = Window.partitionBy("fenced").orderBy(F.desc("taken_ns"))
    numbered = before.withColumn("number", F.row_number().over(latest))
    return numbered.where("number = 1").select("fenced", "api", "by")
""",
    ("04.4", "row by row"): """
def fenced_clients(events):
    ids, takers, fenced = {}, {}, {}
    for row in events.where("source = 'wire' AND kind = 'response'").orderBy("at_ns").collect():
        if row.api == "InitProducerId" and row.error is None:
            ids[row.actor] = row.producer_id
            takers[row.producer_id] = row.actor
        elif row.error in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"):
            fenced.setdefault(row.actor, (row.api, takers[ids[row.actor]]))
    rows = [(actor, *it) for actor, it in fenced.items()]
    return events.sparkSession.createDataFrame(rows, "fenced STRING, api STRING, by STRING")
""",
    ("05.4", "an anti join"): """
def skipped_and_repeated(events):
    said = events.where("source = 'client'")
    done = said.where("kind = 'processed'")
    end = said.where("kind = 'committed'").orderBy(F.desc("at_ns")).limit(1).selectExpr(
        "offset AS end")
    given = said.where("kind = 'delivered'").select("value", "offset").distinct()
    skipped = given.join(done, "value", "left_anti").join(end, F.col("offset") < F.col("end"))
    repeated = done.groupBy("value").count().where("count > 1")
    return skipped.select("value", F.lit("skipped").alias("outcome")).unionAll(
        repeated.select("value", F.lit("repeated").alias("outcome")))
""",
    ("05.4", "when, and the bookmark as a number"): """
def skipped_and_repeated(events):
    said = events.where("source = 'client'")
    end = said.where("kind = 'committed'").orderBy(F.desc("at_ns")).first()["offset"]
    orders = said.where("kind IN ('delivered', 'processed')").groupBy("value").agg(
        F.sum(F.when(F.col("kind") == "processed", 1).otherwise(0)).alias("times"),
        F.min("offset").alias("at"))
    is_skipped = (F.col("times") == 0) & (F.col("at") < end)
    outcome = F.when(F.col("times") > 1, "repeated").when(is_skipped, "skipped")
    return orders.select("value", outcome.alias("outcome")).dropna()
""",
    ("06.3", "one aggregate"): """
def out_is_not_in(events):
    is_order = F.col("topic").endswith("-orders") & (F.col("kind") == "record")
    is_seen = F.col("topic").endswith("-invoices") & (F.col("kind") == "visible")
    counted = events.groupBy("value").agg(
        F.max(is_order).alias("is_order"), F.count(F.when(is_seen, 1)).alias("times"))
    return counted.where("is_order AND times != 1").select("value", "times")
""",
    ("06.3", "SQL"): """
def out_is_not_in(events):
    return events.sparkSession.sql('''
        SELECT value, count(seen.offset) AS times
        FROM (SELECT DISTINCT value FROM {it} WHERE kind = 'record' AND topic LIKE '%-orders')
        LEFT JOIN (SELECT value, offset FROM {it}
                   WHERE kind = 'visible' AND topic LIKE '%-invoices') AS seen USING (value)
        GROUP BY value HAVING times <> 1
    ''', it=events)
""",
}

RIGHT: Final = {
    ("01.2", "unknown until a report says otherwise"): [
        AND_A_FLUSH,
        ("words = {}", 'words = dict.fromkeys(run.orders, "unknown")'),
        (
            SORTED,
            'words[order] = "acked" if error is None else'
            ' "failed" if error.code() >= 0 else words[order]',
        ),
    ],
    ("01.2", "poll after each, one flush"): [
        (
            SORTED,
            'local = error is not None and error.name().startswith("_")\n'
            '        words[order] = "unknown" if local else "failed" if error else "acked"',
        ),
        AND_A_FLUSH,
        ("on_report)\n        producer.flush()", "on_report)\n        producer.poll(0)"),
    ],
    ("01.4", "one flush for all orders"): [("    producer.flush()", "producer.flush()")],
    ("01.4", "idempotent, with callbacks"): """
def send_safely(run):
    reports = []
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0, on_delivery=lambda *it: reports.append(it))
        producer.poll(0)
    while len(reports) < len(run.orders):
        producer.poll(0.1)
""",
    ("03.2", "a transaction"): ONE_TRANSACTION,
    ("03.2", "a flush each"): [AND_A_FLUSH_EACH],
    ("03.5", "looks before each"): [
        ("not in stored", "not in run.orders_in_the_log()"),
        AND_A_FLUSH_EACH,
    ],
    ("03.5", "reads with a consumer of its own, and sends what is behind it"): """
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
    ("03.5", "all in one transaction"): ONE_TRANSACTION.replace("send_once", "send_the_rest"),
    ("04.2", "stops at what is fatal"): """
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
    ("04.2", "raises what it cannot repair"): """
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
    ("05.2", "stores what is done, and lets the timer commit"): [
        ("auto.commit", "auto.offset.store"),
        (COMMIT, "consumer.store_offsets(message)\n    consumer.commit(asynchronous=False)"),
    ],
    ("05.2", "names the next offset, and its group"): [
        ('{"auto.offset.reset"', '{"group.id": "billing", "auto.offset.reset"'),
        (
            COMMIT,
            "place = TopicPartition(run.topic, message.partition(), message.offset() + 1)\n"
            "        consumer.commit(offsets=[place], asynchronous=False)",
        ),
    ],
    ("05.3", "counts up from the first"): [
        (
            BOOKMARK,
            """offset = min(given)
        while offset in done:
            offset += 1
        return offset""",
        )
    ],
    ("05.3", "the first that is not done"): [
        (
            BOOKMARK,
            """for offset in sorted(given):
            if offset not in done:
                return offset
        return offset + 1""",
        )
    ],
    ("06.1", "behind the last of the batch, and back to its first"): [
        ("def exactly", "from confluent_kafka import TopicPartition\ndef exactly"),
        (
            "consumer.position(consumer.assignment())",
            "[TopicPartition(run.topic, batch[-1].partition(), batch[-1].offset() + 1)]",
        ),
        (
            "rewind(consumer)",
            "consumer.seek(TopicPartition(run.topic, batch[0].partition(), batch[0].offset()))",
        ),
    ],
    ("06.1", "one order in each transaction, in a group with a name"): [
        (IS_BY_HAND, NAMES_ITS_GROUP),
        ("size=2", "size=1"),
    ],
    ("06.2", "replaces the row, in a group with a name"): [
        (IS_BY_HAND, NAMES_ITS_GROUP),
        ("INSERT INTO", "INSERT OR REPLACE INTO"),
        (" ON CONFLICT DO NOTHING", ""),
    ],
    ("06.2", "looks in the same transaction"): looks_first(),
    ("07.2", "the rows of a batch in one statement"): [(EACH_ROW, ALL_ROWS), EACH_ERROR],
    ("08.1", "a key"): """
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
    ("08.1", "takes the batch away before it is written again"): """
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
    **QUERIES,
}
