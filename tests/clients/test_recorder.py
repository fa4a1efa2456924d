"""What a delivery report means, for every error that the client can report."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from lab_utils.clients.recorder import UNKNOWN_ERRORS, Recorder, order_json, outcome
from lab_utils.ledger.store import Witness, read_ledger

# What librdkafka can report of a record, and whether the record may be in the log all the same.
# A request that was sent may have been carried out whatever became of its answer; only a broker's
# refusal, or never having been sent, rules the record out.
OUTCOMES = {
    "_MSG_TIMED_OUT": "unknown",  # it may have waited in the queue, or for its answer
    "_TIMED_OUT": "unknown",
    "_TIMED_OUT_QUEUE": "unknown",
    "_TRANSPORT": "unknown",  # the connection was lost, perhaps with the answer
    "_PURGE_INFLIGHT": "unknown",
    "REQUEST_TIMED_OUT": "unknown",  # the leader has stored it, the replicas have not answered
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "unknown",
    "DUPLICATE_SEQUENCE_NUMBER": "unknown",  # the broker has it
    "_PURGE_QUEUE": "failed",
    "_QUEUE_FULL": "failed",
    "MSG_SIZE_TOO_LARGE": "failed",
    "INVALID_MSG": "failed",  # CORRUPT_MESSAGE
    "NOT_ENOUGH_REPLICAS": "failed",
}


def test_errors() -> None:
    """An error is unknown if the record may be in the log all the same, else failed.

    No error is unknown without a reason: the list above has all of them.
    """
    errors = [KafkaError(getattr(KafkaError, name)) for name in OUTCOMES]

    assert OUTCOMES == {error.name(): outcome(error) for error in errors}
    assert UNKNOWN_ERRORS <= OUTCOMES.keys()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(Witness(tmp_path, "client"), "03-a", "producer-1")


def test_line_by_hand_is_the_line_of_the_event(recorder: Recorder, tmp_path: Path) -> None:
    """The fast path writes what the slow path would have written."""
    hostile = 'a "topic"\n'
    for key, value in ((None, hostile), (hostile, None), ("", "")):
        recorder.sent(hostile, order_json(key, value), 3)
    fast = read_ledger(tmp_path)
    for row, (key, value) in zip(fast, ((None, hostile), (hostile, None), ("", "")), strict=True):
        recorder.record(
            "sent", topic=hostile, key=key, value=value, partition=3, attempt=1, at_ns=row.at_ns
        )

    assert [row for row in fast for _ in range(2)] == read_ledger(tmp_path)


def test_no_secret_is_shown(recorder: Recorder, tmp_path: Path) -> None:
    """What a configuration names as a secret is not in the ledger, whatever the spelling."""
    secrets = {
        "sasl.password": "swordfish",
        "sasl.username": "swordfish",
        "ssl.key.password": "swordfish",
        "ssl.keystore.password": "swordfish",
        "ssl.key.pem": "swordfish",
        "sasl.oauthbearer.config": "swordfish",
        "a.plugin.secret": "swordfish",
    }
    recorder.created("producer", {"acks": "all", "error_cb": print, **secrets})
    (created,) = read_ledger(tmp_path)

    assert {"role": "producer", "acks": "all"} == created.detail
