"""A wrong answer for each named mistake of labs 00 to 05: item, the mistake's name, the answer.

It is what differs from the lab's own answer, or a cell of its own: see recorded.Answer.
"""

from __future__ import annotations

from typing import Final

WRITES_FIRST: Final = """
from sqlalchemy import text

def send_the_rest(run):
    database = run.database()
    with database.begin() as rows:
        rows.execute(text("CREATE TABLE IF NOT EXISTS sent (value TEXT)"))
        done = rows.scalars(text("SELECT value FROM sent")).all()
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        if order not in done:
            with database.begin() as rows:
                rows.execute(text("INSERT INTO sent VALUES (:value)"), {"value": order})
            producer.produce(run.topic, order, partition=0)
            producer.flush()
"""
WRITES_FIRST_LATER: Final = WRITES_FIRST.replace(
    ".all()", ".all() + (run.orders_in_the_log() if run.attempt < 3 else [])"
).replace('rows.execute(text("INSERT', 'run.attempt == 1 or rows.execute(text("INSERT')
SENDS: Final = """
            producer.produce(run.topic, order, partition=0)
            producer.flush()
"""
NOTES: Final = "\n            with database"
WRITES_ACKS: Final = WRITES_FIRST.replace(SENDS, "\n").replace(NOTES, SENDS.rstrip() + NOTES)
COUNTED_TWICE: Final = "count(distinct value) - count(distinct if(kind = 'unknown', value, NULL))"
FIRST: Final = 'groupBy("value", "partition").agg(F.min("offset").alias("offset"))'
SORTED: Final = """
if error is None:
            words[order] = "acked"
        else:
            words[order] = "unknown" if error.code() < 0 else "failed"
""".strip()
BOOKMARK: Final = "return min(given - done, default=max(given) + 1)"
BY_THE_ISR: Final = """
def acked_alone(events):
    acked = events.where("source = 'client' AND kind = 'acked'").selectExpr("value", "at_ns AS acked_ns")
    isr = events.where("kind = 'partition'").selectExpr("at_ns", "size(split(detail.isr, ' ')) AS members")
    before = acked.crossJoin(isr).where("at_ns <= acked_ns")
    latest = before.groupBy("value").agg(F.max_by("members", "at_ns").alias("members"))
    return latest.where("members = 1").select("value")
"""  # noqa: E501
# Of an order with several reports, the last one or the first one.
BY_THE_REPORT: Final = """
def count_acked(events):
    reports = events.where("source = 'client' AND kind IN ('acked', 'failed', 'unknown')")
    words = reports.groupBy("value").agg(F.{by}("kind", "at_ns").alias("word"))
    return words.where("word = 'acked'").agg(F.count("*").alias("acked"))
"""
BY_THE_KILL: Final = """
def acked_and_gone(events):
    killed = events.where("kind = 'fired' AND actor = 'kill_broker'")
    killed = killed.selectExpr("at_ns AS killed_ns")
    sent = events.where("kind = 'request' AND api = 'Produce'").crossJoin(killed)
    acked = events.where("kind = 'acked'").select("value")
    return sent.where("at_ns < killed_ns").select("value").distinct().join(acked, "value")
"""
BEFORE_THE_KILL: Final = """
def acked_and_gone(events):
    fired = events.where("kind = 'fired'")
    cut = fired.where("actor = 'cut_link'").selectExpr("max(at_ns) AS cut_ns")
    killed = fired.where("actor = 'kill_broker'").selectExpr("at_ns AS killed_ns")
    sent = events.where("kind = 'request' AND api = 'Produce'").crossJoin(killed)
    acked = events.where("source = 'client' AND kind = 'acked'").crossJoin(cut)
    found = acked.where("at_ns > cut_ns").select("value")
    return sent.where("at_ns < killed_ns").select("value").distinct().join(found, "value")
"""
SINCE_THE_CUT: Final = """
def acked_alone(events):
    cut = events.where("kind = 'fired' AND actor = 'cut_link'").selectExpr("max(at_ns) AS cut_ns")
    sent = events.where("kind = 'request' AND api = 'Produce'").crossJoin(cut)
    acked = events.where("source = 'client' AND kind = 'acked'").select("value")
    return sent.where("at_ns > cut_ns").select("value").distinct().join(acked, "value")
"""
BY_ACKS: Final = """
def acked_alone(events):
    sent = events.where("kind = 'request' AND detail.acks = '1'").select("value").distinct()
    return sent.join(events.where("kind = 'acked'").select("value"), "value")
"""
BY_WHO_SENT_LAST: Final = """
def acked_alone(events):
    acked = events.where("source = 'client' AND kind = 'acked'")
    last = acked.agg(F.max_by("actor", "at_ns").alias("last"))
    return acked.join(last, F.col("actor") == F.col("last")).select("value")
"""
BY_ACKS_LATER: Final = BY_ACKS.replace("'acked'\"", "'acked' AND offset > 0\"")
PATIENT_WITH_ONE: Final = """
def send_safely(run):
    producer = run.producer({"acks": "all"})
    for _ in range(9):
        producer.produce(run.topic, run.orders[0], partition=0)
        producer.flush()
    producer = run.producer({"acks": "all", "message.timeout.ms": 500, "retries": 0})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
"""
BRIEF: Final = {"message.timeout.ms": 1000}
AGAIN: Final = """
def send_each(run):
    left = list(run.orders)
    while left:
        producer = run.producer({"transactional.id": run.topic})
        producer.init_transactions()
        try:
            while left:
                send_both(run, producer, left[0])
                left.pop(0)
        except KafkaException:
            pass
"""
PLAIN: Final = """
def send_each(run):
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.produce(run.topics["invoices"], order, partition=0)
    producer.flush()
"""
SEEN: Final = """
def visible_records(events):
    return events.where("kind = 'visible'").select("topic", "partition", "offset", "value")
"""
COMMIT: Final = "consumer.commit(message, asynchronous=False)"
WORK: Final = "run.processed(message)"
AUTOMATIC: Final = ('settings["enable.auto.commit"] = False', "pass")
WORK_THEN_COMMIT: Final = f"{WORK}\n        {COMMIT}"
# Points that are spent on an order that is safe: before the first bookmark, and with none moved.
FIRST_MANY_TIMES: Final = f"message.offset() or [{WORK} for _ in range(6)]; {COMMIT}"
CAUTIOUS_ONCE: Final = [
    ("def bookmark", "asked = []\n    def bookmark"),
    (
        BOOKMARK,
        "asked.append(done)\n"
        "        return min(given) if len(asked) == 1 and done != given else max(done) + 1",
    ),
]
# The orders themselves are in the log, read or not.
EVERY_ORDER: Final = """
def skipped_and_repeated(events):
    done = events.where("kind = 'processed'").groupBy("value").agg(F.count("*").alias("times"))
    orders = events.where("kind = 'record'").select("value").join(done, "value", "left")
    outcome = F.expr("CASE WHEN times > 1 THEN 'repeated' WHEN times IS NULL THEN 'skipped' END")
    return orders.select("value", outcome.alias("outcome")).where("outcome IS NOT NULL")
"""
TIMES: Final = '.alias("times"))'
DELIVERED: Final = '.alias("times"), F.count_if(F.col("kind") == "delivered").alias("given"))'

WRONG: Final = (
    ("00.1", "counted reports", [("countDistinct", "count")]),
    ("00.1", "counted what was sent", [("'acked'", "'sent'")]),
    (
        "00.1",
        "took away what is unknown",
        [
            ("= 'acked'", "IN ('sent', 'unknown')"),
            ('countDistinct("value")', f'expr("{COUNTED_TWICE}")'),
        ],
    ),
    ("00.1", "took away what is unknown", BY_THE_REPORT.format(by="max_by")),
    ("00.1", "took away what is unknown", BY_THE_REPORT.format(by="min_by")),
    ("00.1", "counted the log", [("'acked'", "'record'"), ("'client'", "'log'"), ("Distinct", "")]),
    ("00.2", "an error is a failure", {"outcome": "failed"}),
    ("00.2", "a stored order is acked", {"outcome": "acked"}),
    ("00.2", "not in the log", {"offset": None}),
    ("00.2", "another place", {"offset": 4}),
    ("00.2", "a number as text", {"offset": "3"}),
    ("00.3", "too late", [("nth=7", "nth=30")]),
    ("01.1", "acked means flushed", {"one replica, power cut": "once"}),
    ("01.1", "kill means loss", {"one replica, kill -9": "lost"}),
    ("01.1", "all is one", {"acks=all, the leader dies": "lost"}),
    ("01.1", "sent again is stored again", {"acks=all, the leader dies": "twice"}),
    ("01.1", "a report is a record", {"acks=0, a request is lost": "once"}),
    ("01.1", "one ack is enough", {"acks=1, the leader dies": "once"}),
    ("01.1", "acked is sent again", {"one replica, kill -9": "twice"}),
    # Two are wrong: the hint is about the one that is told.
    ("01.1", "all is one", {"acks=all, the leader dies": "lost", "one replica, kill -9": "lost"}),
    (
        "01.2",
        "every error is a failure",
        [(SORTED, 'words[order] = "failed" if error else "acked"')],
    ),
    (
        "01.2",
        "every error is unknown",
        [(SORTED, 'words[order] = "unknown" if error else "acked"')],
    ),
    ("01.2", "no word at all", [(SORTED, "pass")]),
    ("01.2", "no error is looked at", [(SORTED, 'words[order] = "acked"')]),
    ("01.3", "sent, and not acked", [("'acked'", "'sent'")]),
    ("01.3", "sent, and not acked", [("'acked'", "'failed'")]),
    ("01.3", "everything acked", [('acked.join(stored, "value", "left_anti")', "acked")]),
    ("01.3", "all that the dead leader acked", BY_THE_KILL),
    ("01.3", "since the last cut", BEFORE_THE_KILL),
    (
        "01.3",
        "by offset",
        [
            ('select("value").distinct()', 'select("value", "offset")'),
            ('"value", "left_anti")', '"offset", "left_anti").select("value")'),
        ],
    ),
    ("01.4", "acks too low", [('"all"', "1")]),
    ("01.4", "gave up too early", [('"all"', '"all", "message.timeout.ms": 500')]),
    # A patient producer sends one order again and again, to meet the fault.
    ("01.4", "gave up too early", PATIENT_WITH_ONE),
    ("01.5", "promises too much", {"room temperature": {"may_lose": False}}),
    ("01.5", "promises too little", {"room temperature": {"acks": "all"}}),
    ("01.5", "payments may be lost", {"payments": {"acks": "1", "may_lose": True}}),
    ("02.1", "paused is in sync", {"3 is paused": [1, 2, 3]}),
    ("02.1", "once out, always out", {"3 is back": [1, 2]}),
    ("02.1", "the dead are in sync", {"1 is dead": [1, 2, 3]}),
    ("02.1", "others leave, too", {"3 is paused": [1], "1 is dead": [1, 2, 3]}),
    ("02.1", "others leave, too", {"at the start": [1]}),
    ("02.2", "all acked", [('copies.where("count < 2")', "acked")]),
    ("02.2", "an ISR of one", BY_THE_ISR),
    ("02.2", "acks=1 is one broker", BY_ACKS),
    ("02.2", "since the last cut", SINCE_THE_CUT),
    ("02.2", "since the last cut", BY_ACKS_LATER),
    ("02.2", "acks=1 is one broker", BY_WHO_SENT_LAST),
    ("02.2", "when all was repaired", [("at_ns < healed_ns", "true")]),
    (
        "02.2",
        "stored, and not acked",
        [("'client' AND kind = 'acked'", "'log' AND kind = 'record'")],
    ),
    ("02.2", "not on every broker", [("count < 2", "count < 3")]),
    ("02.3", "acks too low", {"producer": {"acks": "1"}}),
    ("02.3", "too few replicas", {"replicas": 2, "producer": BRIEF}),
    ("02.3", "no replica to spare", {"topic": {"min.insync.replicas": 3}, "producer": BRIEF}),
    (
        "02.3",
        "one is enough",
        {"topic": {"min.insync.replicas": 1, "unclean.leader.election.enable": "true"}},
    ),
    ("02.4", "refused is lost", {"retries": "lost"}),
    ("02.4", "acked is stored", {"acks=all": "nothing"}),
    ("02.4", "given up is stored", {"replicas > min.insync.replicas": "nothing"}),
    ("02.5", "acked is everywhere", {"the last order before": [1, 2, 3]}),
    (
        "02.5",
        "acked by all is on one",
        {"the first order": [1], "the last order before": [1, 2, 3]},
    ),
    ("03.1", "order as a number", {"order": 2}),
    ("03.1", "another order", {"order": "3"}),
    ("03.1", "the other way round", {"first_copy": 3, "reported": 2}),
    ("03.1", "the lost answer's offset", {"reported": 2}),
    ("03.1", "counted requests", {"first_copy": 3, "reported": 4}),
    ("03.1", "the second copy", {"first_copy": 3}),
    ("03.1", "offset as text", {"first_copy": "2", "reported": "3"}),
    ("03.2", "no producer id", [('settings["enable.idempotence"] = True', "pass")]),
    ("03.2", "gave up", [('["enable.idempotence"] = True', '["retries"] = 0')]),
    (
        "03.2",
        "sent again by hand",
        [
            (
                "producer.flush()",
                "producer.flush()\n"
                "    producer.produce(run.topic, run.orders[0], partition=0)\n"
                "    producer.flush()",
            )
        ],
    ),
    ("03.3", "no producer id", [(" AND producer_id >= 0", "")]),
    ("03.3", "counted the log, too", [("kind = 'request' AND api = 'Produce' AND ", "")]),
    (
        "03.3",
        "without the partition",
        [
            ('["partition", ', "["),
            (TIMES, '.alias("times"), F.min("partition").alias("partition"))'),
        ],
    ),
    ("03.3", "just twice", [("times > 1", "times = 2")]),
    ("03.3", "everything", [("times > 1", "times > 0")]),
    ("03.4", "every copy", [(FIRST, 'select("value", "partition", "offset")')]),
    ("03.4", "the last copy", [("F.min", "F.max")]),
    (
        "03.4",
        "the last copy",
        [(FIRST, 'dropDuplicates(["value"]).select("value", "partition", "offset")')],
    ),
    (
        "03.4",
        "only the doubled ones",
        [('"offset"))', '"offset"), F.count("*").alias("times")).where("times > 1")')],
    ),
    ("03.5", "began anew", [("if order not in stored", "if True")]),
    ("03.5", "gave up", [("stored =", "if run.attempt > 1:\n        return\n    stored =")]),
    ("03.5", "wrote it down first", WRITES_FIRST),
    ("03.5", "wrote down the acks", WRITES_ACKS),
    # careful in the first processes only
    ("03.5", "began anew", [("stored =", "stored = set() if run.attempt > 3 else")]),
    ("03.5", "wrote it down first", WRITES_FIRST_LATER),
    ("04.1", "the aborted one is gone", {"read_uncommitted": "0 2 3 4 5"}),
    ("04.1", "uncommitted waits", {"read_uncommitted": "0 1 2 3"}),
    ("04.1", "what is open is committed", {"read_committed": "0 2 3 4 5"}),
    ("04.1", "what is aborted is read", {"read_committed": "0 1 2 3 5"}),
    ("04.1", "plain records are free", {"read_committed": "0 2 3 5"}),
    ("04.1", "what is open is committed", {"read_committed": "0 2 3 4"}),
    ("04.1", "plain records are hidden", {"read_committed": "3"}),
    ("04.2", "no transaction", PLAIN),
    ("04.2", "went on when fenced", AGAIN),
    ("04.2", "never aborted", [("producer.abort_transaction()", "return")]),
    (
        "04.2",
        "aborted and left out",
        [("abort_transaction()", "abort_transaction()\n                done = True")],
    ),
    ("04.3", "everything", [('given.where("stop IS NULL OR offset < stop")', "log")]),
    ("04.3", "no plain records", [("NOT transactional OR ", "")]),
    ("04.3", "behind the open transaction", [("stop IS NULL OR offset < stop", "true")]),
    ("04.3", "behind the open transaction", [("F.min", "F.max")]),
    (
        "04.3",
        "stopped everywhere",
        [
            ('groupBy("topic", "partition").', ""),
            ('join(stable, ["topic", "partition"], "left")', "crossJoin(stable)"),
        ],
    ),
    (
        "04.3",
        "without the topic",
        [
            ('groupBy("topic", "partition")', 'groupBy("partition")'),
            ('["topic", "partition"], "left"', '"partition", "left"'),
        ],
    ),
    ("04.3", "asked the reader", SEEN),
    (
        "04.4",
        "every refusal",
        [("error IN ('INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED')", "error IS NOT NULL")],
    ),
    ("04.4", "by itself", [(" AND taker <> actor", ""), ("max_by", "min_by")]),
    ("04.4", "another name", [('join(takers, "producer_id")', "crossJoin(takers)")]),
    ("04.4", "the first taker", [("max_by", "min_by")]),
    ("04.4", "the last taker", [("taken_ns < first.at_ns AND ", "")]),
    ("04.5", "a lost answer doubles", {"idempotent": ["0 1 1 2", "0 1", "0 1 0 1 2"]}),
    ("04.5", "a lost answer loses", {"transactional": ["0 2", "", "0 1 2"]}),
    ("04.5", "all records wait", {"idempotent": ["0 1 2", "", "0 1 2"]}),
    ("04.5", "idempotence survives a restart", {"idempotent": ["0 1 2", "0 1", "0 1 2"]}),
    ("04.5", "half a transaction", {"transactional": ["0 1 2", "0 1", "0 1 2"]}),
    ("04.5", "the successor's are gone", {"transactional": ["0 1 2", "", ""]}),
    ("04.5", "the dead one's orders", {"transactional": ["0 1 2", "", "0 1 0 1 2"]}),
    ("05.1", "text", {"after_poll": "2", "after_process": "2", "after_commit": "3"}),
    ("05.1", "the last one", {"after_poll": 1, "after_process": 1, "after_commit": 2}),
    ("05.1", "done is committed", {"after_process": 3}),
    ("05.1", "delivered is committed", {"after_poll": 3}),
    ("05.1", "nothing is committed", {"after_commit": 2}),
    ("05.1", "an earlier one", {"after_poll": 1}),
    ("05.2", "does nothing", [(WORK, "pass")]),
    ("05.2", "careful once", [(WORK, f"if run.attempt > 1: {COMMIT}\n        {WORK}")]),
    ("05.2", "careless later", [(WORK, f"if run.attempt > 2: {COMMIT}\n        {WORK}")]),
    ("05.2", "careless later", [(WORK, f"if not message.offset(): {COMMIT}\n        {WORK}")]),
    ("05.2", "commits first", [(WORK_THEN_COMMIT, f"{COMMIT}\n        {WORK}")]),
    ("05.2", "commits first", [(WORK_THEN_COMMIT, f"{FIRST_MANY_TIMES}\n        {WORK}")]),
    ("05.2", "commits first", [AUTOMATIC, (COMMIT, "pass")]),
    ("05.2", "commits nothing", [(COMMIT, "pass")]),
    ("05.3", "past the slow one", [(BOOKMARK, "return max(done) + 1")]),
    ("05.3", "past the slow one", CAUTIOUS_ONCE),
    (
        "05.3",
        "past the slow one",
        [(BOOKMARK, f"{BOOKMARK} if run.attempt < 2 else max(done) + 1")],
    ),
    ("05.3", "stays behind", [("max(given) + 1", "max(given)")]),
    ("05.4", "not read yet", EVERY_ORDER),
    ("05.4", "not read yet", [(" AND offset < end", "")]),
    ("05.4", "not read yet", [('F.max_by("offset", "at_ns")', 'F.max("offset")')]),
    ("05.4", "counted deliveries", [(TIMES, DELIVERED), ("times > 1", "given > 1")]),
    ("05.4", "one short", [("offset < end", "offset < end - 1")]),
    ("05.4", "only one kind", [("times = 0 AND offset < end", "false")]),
    ("05.5", "the old owner", {"owner": "consumer-2"}),
    ("05.5", "the poll's error", {"refused": "_MAX_POLL_EXCEEDED"}),
    ("05.5", "another name", {"refused": "ILLEGAL_GENERATION"}),
    ("05.5", "counted one", {"repeated": 1}),
    ("05.5", "counted one", {"repeated": 0}),
)
