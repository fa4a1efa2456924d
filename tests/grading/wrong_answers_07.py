"""A wrong answer for each named mistake of lab 07: item, the mistake's name, the answer.

Each pipeline is the repaired one with one thing changed; the cells stand behind the notebook's.
"""

from __future__ import annotations

from typing import Final

REPAIRED: Final = """
def repaired(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT PRIMARY KEY)"))
    notices = run.producer({"acks": "all"})
    billing = run.producer({"transactional.id": f"{run.topic}-billing"})
    billing.init_transactions()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        with database.begin() as connection:
            for message in batch:
                connection.execute(
                    text("INSERT INTO bookings VALUES (:order) ON CONFLICT DO NOTHING"),
                    {"order": message.value().decode()},
                )
        for message in batch:
            notices.produce(run.topics["notices"], message.value(), partition=0)
        notices.flush()
        billing.begin_transaction()
        try:
            for message in batch:
                billing.produce(run.topics["invoices"], message.value(), partition=0)
            offsets = consumer.position(consumer.assignment())
            billing.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            billing.commit_transaction()
        except KafkaException:
            billing.abort_transaction()
            consumer.seek(TopicPartition(run.topic, 0, batch[0].offset()))

answer_2 = {"replicas": 3, "topic": {"min.insync.replicas": 2}, "workload": repaired}
"""
READS_ONLY: Final = """
def reads(run):
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        pass

answer_2 = {"replicas": 3, "topic": {"min.insync.replicas": 2}, "workload": reads}
"""
SEEK: Final = "consumer.seek(TopicPartition(run.topic, 0, batch[0].offset()))"
SEND: Final = "billing.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())"


def _with(old: str, new: str) -> str:
    assert old in REPAIRED, old
    return REPAIRED.replace(old, new)


WRONG: Final = (
    ("07.1", "twice", {"killed": {"bookings": "twice"}}),
    ("07.1", "an abort undoes reading", {"refused": {"invoices": "once"}}),
    ("07.1", "an abort undoes everything", {"refused": {"notices": "lost"}}),
    ("07.1", "the bookmark waits", {"killed": {"invoices": "once"}}),
    ("07.1", "acked is safe", {"dark": {"notices": "once"}}),
    ("07.1", "the database waits", {"dark": {"bookings": "lost"}}),
    ("07.2", "nothing is processed", READS_ONLY),
    ("07.2", "acks too weak", _with('{"acks": "all"}', '{"acks": 1}')),
    ("07.2", "floor too low", _with('"min.insync.replicas": 2', '"min.insync.replicas": 1')),
    ("07.2", "no replica to spare", _with('"replicas": 3', '"replicas": 2')),
    ("07.2", "gave up", _with("billing.abort_transaction()", "raise")),
    ("07.2", "not rewound", _with(SEEK, "pass")),
    ("07.2", "committed before the work", _with('{"enable.auto.commit": False}', "")),
    ("07.2", "no bookmark", _with(SEND, "pass")),
    ("07.2", "no key", _with(" PRIMARY KEY", "").replace(" ON CONFLICT DO NOTHING", "")),
)
