"""A wrong answer for each named mistake of lab 01: item, the mistake's name, and the cell.

The cells stand behind those of the notebook: its helpers are there.
"""

from __future__ import annotations

from typing import Final

SORT: Final = """
def send_and_sort(run):
    words = {{}}

    def on_report(error, message):
        order = message.value().decode()
        {body}

    producer = run.producer({{"acks": "all", "message.timeout.ms": 1500}})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0, on_delivery=on_report)
        producer.flush()
    patient = run.producer({{"acks": "all"}})
    for order, word in words.items():
        patient.produce(run.topics["words"], f"{{word}} {{order}}", partition=0)
    patient.flush()
"""
SEND: Final = """
def send_safely(run):
    producer = run.producer({settings})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
"""
EVERY_ACK: Final = """
def acked_and_gone(events):
    return events.where("source = 'client' AND kind = 'acked'").select("value").distinct()
"""
NOT_STORED: Final = """
def acked_and_gone(events):
    reported = events.where("source = 'client' AND kind = {kind!r}").select("value").distinct()
    stored = events.where("source = 'log' AND kind = 'record'").select("value").distinct()
    return reported.join(stored, "value", "left_anti")
"""
BY_OFFSET: Final = """
def acked_and_gone(events):
    acked = events.where("source = 'client' AND kind = 'acked'").select("value", "offset")
    stored = events.where("source = 'log' AND kind = 'record'").select("offset").distinct()
    return acked.join(stored, "offset", "left_anti").select("value")
"""


def _matrix(**wrong: str) -> str:
    right = {
        "acks=0, a request is lost": "lost",
        "acks=1, the leader dies": "lost",
        "acks=all, the leader dies": "once",
        "one replica, kill -9": "once",
        "one replica, power cut": "lost",
    }
    return f"answer_1 = {right | wrong!r}"


def _chosen(payments: str, temperature: str, *may_lose: bool) -> str:
    choices = zip((temperature, "1", payments), may_lose, strict=True)
    names = ("room temperature", "web shop log", "payments")
    answer = {
        name: {"acks": acks, "may_lose": may}
        for name, (acks, may) in zip(names, choices, strict=True)
    }
    return f"answer_5 = {answer!r}"


def _sorted(body: str) -> str:
    return SORT.format(body=body)


WRONG: Final = (
    ("01.1", "acked means flushed", _matrix(**{"one replica, power cut": "once"})),
    ("01.1", "kill means loss", _matrix(**{"one replica, kill -9": "lost"})),
    ("01.1", "all is one", _matrix(**{"acks=all, the leader dies": "lost"})),
    ("01.1", "sent again is stored again", _matrix(**{"acks=all, the leader dies": "twice"})),
    ("01.1", "a report is a record", _matrix(**{"acks=0, a request is lost": "once"})),
    ("01.1", "one ack is enough", _matrix(**{"acks=1, the leader dies": "once"})),
    ("01.1", "acked is sent again", _matrix(**{"one replica, kill -9": "twice"})),
    ("01.5", "promises too much", _chosen("all", "0", False, True, False)),
    ("01.5", "promises too little", _chosen("all", "all", True, True, False)),
    ("01.5", "payments may be lost", _chosen("1", "0", True, True, True)),
    # Two are wrong: the hint is about the one that is told.
    (
        "01.1",
        "all is one",
        _matrix(**{"acks=all, the leader dies": "lost", "one replica, kill -9": "lost"}),
    ),
    ("01.2", "every error is a failure", _sorted('words[order] = "failed" if error else "acked"')),
    ("01.2", "every error is unknown", _sorted('words[order] = "unknown" if error else "acked"')),
    ("01.2", "no word at all", _sorted("pass")),
    ("01.2", "no error is looked at", _sorted('words[order] = "acked"')),
    ("01.3", "sent, and not acked", NOT_STORED.format(kind="sent")),
    ("01.3", "sent, and not acked", NOT_STORED.format(kind="failed")),
    ("01.3", "everything acked", EVERY_ACK),
    ("01.3", "by offset", BY_OFFSET),
    ("01.4", "acks too low", SEND.format(settings={"acks": 1})),
    ("01.4", "gave up too early", SEND.format(settings={"acks": "all", "message.timeout.ms": 500})),
)
