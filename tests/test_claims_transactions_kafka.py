"""Claims E that the further notebooks of lab 04 cause, decided by the rows and by the audit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from docs.make_clients import java_program
from lab_utils.clients.java_client import java
from lab_utils.clients.live_run import LiveRun
from lab_utils.proxy.faults import power_cut
from tests.notebooks import further
from tests.oracle import oracle
from tests.performed import Perform, at, in_transaction, values

pytestmark = [pytest.mark.kafka, pytest.mark.long]

ACID = "04_acid_letter_by_letter"
# What a producer sends once it is connected; each as it is sent for the first time.
STEPS = [
    "FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn",
    "TxnOffsetCommit", "EndTxn",
]  # fmt: skip
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def test_writers_are_not_kept_apart(perform: Perform) -> None:
    """Two write by turns, and two withdraw what is there once: all of them commit.

    The oracle names it, with which tests/audit has Spark agree.
    """
    turns = perform(further(ACID)["by_turns"])
    withdrawn = perform(further(ACID)["two_withdrawals"], orders=0)
    found = [oracle(rows, "isolation") for rows in (turns, withdrawn)]

    assert ("0 1 2", "100 40 40") == (values(turns, "visible"), values(withdrawn, "visible"))
    assert [["G0"], ["G2"]] == [[name for name, *_ in each] for each in found]


def test_a_commit_is_not_on_the_disk(perform: Perform) -> None:
    """The program was told that it is committed, the diary says so, and the record is gone."""
    rows = perform(further(ACID)["commits_one"], power_cut(1, api="EndTxn"), orders=1)
    states = [row.detail["state"] for row in rows if row.kind == "transaction"]

    assert ("CompleteCommit", "") == (states[-1], values(rows, "record"))
    assert 1 == sum(row.kind == "txn_committed" for row in rows)


def test_steps_of_a_transaction(perform: Perform) -> None:
    """Their sequence on the wire, then in the diary; the progress is in `__consumer_offsets`."""
    given = {"orders": 1, "filled": True, "topics": ("invoices",)}
    rows = perform(further(ACID)["bills_one_batch"], **given)
    asked = [row.api for row in rows if (row.kind, row.actor) == ("request", "producer-1")]
    diary = [row.detail for row in rows if row.kind == "transaction"]

    assert STEPS == [api for api in dict.fromkeys(asked) if api not in ("ApiVersions", "Metadata")]
    assert ["Empty", "Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"] == [
        it["state"] for it in diary
    ]
    assert '"__consumer_offsets-0"' not in diary[1]["partitions"]
    assert '"__consumer_offsets-0"' in diary[2]["partitions"]
    assert "0" == values(rows, "visible", topic="invoices")


def test_a_reader_waits_for_the_commit(perform: Perform) -> None:
    """The first order of a transaction is given to it after the last has been sent."""
    at_intervals = further("04_readers_networks_and_cost")["at_intervals"]
    rows = perform(partial(at_intervals, size=2), orders=2)

    assert "0 1" == values(rows, "delivered", "client")
    assert at(rows, "sent", "1") < at(rows, "delivered", "0")


def test_what_is_read_by_default(perform: Perform) -> None:
    """An aborted order is read by Kafka's console consumer; by librdkafka's only if it asks."""
    printed = []

    def three_readers(run: LiveRun) -> None:
        in_transaction(run).abort_transaction()
        for settings in ({}, {"isolation.level": "read_uncommitted"}):
            consumer = run.consumer(settings | {"enable.partition.eof": True})
            consumer.assign([TopicPartition(run.topic, 0, 0)])
            while not consumer.poll(5).error():
                pass
        command = java(
            CONSOLE, "--bootstrap-server", run.bootstrap, "--topic", run.topic, "--from-beginning",
            "--max-messages", "1", "--timeout-ms", "10000",
            "--command-property", f"client.id={run.client_id('java')}",
        )  # fmt: skip
        printed.extend(run.execute(command, name="java").output.splitlines())

    rows = perform(three_readers, orders=1)
    by_librdkafka = [(row.actor, row.value) for row in rows
                     if row.kind == "delivered" and row.actor != "java"]  # fmt: skip

    assert [("consumer-2", "0")] == by_librdkafka
    assert ["0", "Processed a total of 1 messages"] == printed[-2:]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_streams_killed_before_it_commits(perform: Perform, tmp_path: Path, guarantee: str) -> None:
    """Copies of what it had not committed are in the log, and with a transaction not read."""
    command = java_program("Invoices", tmp_path, "streams") or pytest.skip("no javac")
    codes = []

    def killed_once(run: LiveRun) -> None:
        told = {"INVOICES": run.topics["invoices"], "FOLDER": str(tmp_path)}
        for acks, end in (("3", "dies"), ("6", "ends")):
            ended = run.execute([*command, guarantee, acks, end], name="streams", environment=told)
            codes.append(ended.code)

    given = {"orders": 6, "filled": True, "topics": ("invoices",), "until_stable": True}
    rows = perform(killed_once, **given)
    stored = values(rows, "record", topic="invoices").split()
    copies, once = stored[:-6], "0 1 2 3 4 5"
    names = {row.detail.get("transactional_id") for row in rows
             if (row.kind, row.api) == ("request", "InitProducerId")}  # fmt: skip

    assert [9, 0] == codes
    assert (once.split()[: len(copies)], once) == (copies, " ".join(stored[-6:]))
    assert len(copies) >= 3
    if guarantee == "exactly_once_v2":
        assert once == values(rows, "visible", topic="invoices")
        assert len(names) == 2, "each start had a name of its own"
        timeouts = {row.detail["timeout_ms"] for row in rows if row.kind == "transaction"}
        assert {"10000"} == timeouts
    else:
        assert {None} == names, "no transaction: what is stored is what is read"
