"""A contract in a file: each wrong key is named, and what is declared becomes events."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from lab_utils.audit.contracts.defaults import effective
from lab_utils.audit.declared import _refuse_strangers, misspelt, read_contract
from lab_utils.audit.report import strange
from lab_utils.audit.session import spark
from lab_utils.errors import BadArgument
from lab_utils.ledger.events import spark_schema
from tests.histories import acked, created, in_run, log, sent

CONTRACT = """
[clients."producer-1"]
role = "producer"
acks = 1
enable.idempotence = false
"max.in.flight.requests.per.connection" = 5

[topics."orders"]
replicas = 3
"unclean.leader.election.enable" = false
"""
QUOTED = CONTRACT.replace("enable.idempotence", '"enable.idempotence"')


def contract(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "contract.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_contract(tmp_path: Path) -> None:
    """Settings are text, as an event has them, under librdkafka's names."""
    declared = read_contract(contract(tmp_path, QUOTED))
    client = {"role": "producer", "acks": "1", "enable.idempotence": "false", "max.in.flight": "5"}

    assert read_contract(contract(tmp_path, "\ufeff" + QUOTED)) == declared  # as Notepad writes it
    assert {"producer-1": client} == declared.clients
    assert {"orders": {"replicas": "3", "unclean.leader.election.enable": "false"}} == (
        declared.topics
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[client.p]", "a table of the contract .* got 'client'. Did you mean 'clients'"),
        ("clients = 3", r"clients must be tables, as in \[clients.\"orders\"\]; got 3"),
        ("[clients]\np = 3", r"clients.p must be a table, as in .*; got 3"),
        ("[clients.p]\nacks = 1", 'clients."p" has no role'),
        ("[clients.p]\nrole = 'reader'", r'clients."p".role must be one of .*; got .reader'),
        ("[clients.p]\nack = 1", r'a setting of clients."p" .* got .ack.. Did you mean .acks'),
        ("[clients.p]\nacks = 2", r'clients."p".acks must be one of -1, 0, 1, all; got .2'),
        ("[clients.p]\nacks = 1.5", r'clients."p".acks must be a text, a number or a boolean'),
        ("[clients.p]\nretries = 'many'", r'clients."p".retries must be a whole number; got .many'),
        (CONTRACT, r'clients."producer-1".enable is a table. .* "enable.idempotence" = '),
        ("[topics.o]\nreplicas = true", r'topics."o".replicas must be a whole number; got True'),
        ("[topics.o]\nreplicas = 0", r'topics."o".replicas must be at least 1; got 0'),
        ("[clients.p]\nretries = '²'", r'clients."p".retries must be a whole number; got .²'),
        ("[topics.o]\nacks = 1", r'a setting of topics."o" must be one of'),
        ("[clients.p]\nretries = -1", r'clients."p".retries must not be below 0; got -1'),
        (
            "[clients.p]\nrole = 'producer'\nacks = 1\n'request.required.acks' = 0",
            'clients."p" has acks and request.required.acks, which are one setting',
        ),
        ("[clients", "contract.toml cannot be read"),
        ("[topics.o]\nreplicas = " + "9" * 5000, "contract.toml cannot be read: Exceeds the limit"),
        ("a = " + "[" * 5000, "contract.toml cannot be read: maximum recursion depth exceeded"),
    ],
)  # fmt: skip
def test_a_wrong_contract(tmp_path: Path, text: str, said: str) -> None:
    """The key that is wrong is named, with what it may be."""
    with pytest.raises(BadArgument, match=said):
        read_contract(contract(tmp_path, text))


@pytest.mark.parametrize(
    ("settings", "idempotence"),
    [
        ("", "true"),
        ("acks = 1", "false"),
        ('"max.in.flight.requests.per.connection" = 6', "false"),
        ('acks = 1\n"enable.idempotence" = true', "true"),
    ],
)
def test_the_defaults_of_the_java_client(tmp_path: Path, settings: str, idempotence: str) -> None:
    """They are not librdkafka's; idempotence is given up where another setting excludes it."""
    text = f'[clients.p]\nrole = "producer"\nlibrary = "java"\n{settings}\n'
    (given,) = read_contract(contract(tmp_path, text)).clients.values()

    assert idempotence == effective(given)["enable.idempotence"]


def test_a_java_consumer_reads_what_was_aborted(tmp_path: Path) -> None:
    """Its default is read_uncommitted."""
    text = '[clients.c]\nrole = "consumer"\nlibrary = "java"'
    (given,) = read_contract(contract(tmp_path, text)).clients.values()

    assert "read_uncommitted" == effective(given)["isolation.level"]


@pytest.mark.parametrize("ago", ["PT1H", "P2D", "P1DT2H30M", "PT0.5S", "PT1,5S", "pt10m"])
def test_a_consumer_that_begins_so_long_ago(tmp_path: Path, ago: str) -> None:
    """These Kafka 4.3.1's AutoOffsetResetStrategy takes (KIP-1106)."""
    text = f'[clients.c]\nrole = "consumer"\n"auto.offset.reset" = "by_duration:{ago}"'
    (given,) = read_contract(contract(tmp_path, text)).clients.values()

    assert f"by_duration:{ago}" == given["auto.offset.reset"]


@pytest.mark.parametrize("ago", ["", ":", ":P", ":PT", ":1h", ":-PT1H", ":P1Y", ":PT1H2H"])
def test_a_duration_that_is_none(tmp_path: Path, ago: str) -> None:
    """What it refuses is refused here, with an example."""
    text = f'[clients.c]\nrole = "consumer"\n"auto.offset.reset" = "by_duration{ago}"'
    with pytest.raises(BadArgument, match=r"by_duration:PT1H, .*; got 'by_duration"):
        read_contract(contract(tmp_path, text))


@pytest.mark.kafka
def test_what_is_declared_becomes_events(tmp_path: Path) -> None:
    """In each run that a client or topic is in, where the run does not say it itself."""
    history = [sent("1"), acked("1", 0), *log("1")]
    ledger = [
        *in_run("a", history),
        *in_run("b", [created("producer-1", acks="all"), *history]),
        *in_run("c", [sent("1", actor="producer-2", topic="other")]),
    ]
    rows = [[getattr(event, name) for name in event.__slots__] for event in ledger]
    events = spark().createDataFrame(rows, spark_schema())
    declared = read_contract(contract(tmp_path, QUOTED)).events(spark(), events)
    found = declared.where("kind IN ('created', 'topic')").orderBy("run", "kind").collect()

    assert [
        ("a", "created", "producer-1", "1"), ("a", "topic", "contract", None),
        ("b", "created", "producer-1", "all"), ("b", "topic", "contract", None),
    ] == [(row.run, row.kind, row.actor, row.detail.get("acks")) for row in found]  # fmt: skip
    assert {"orders"} == {row.topic for row in found if row.kind == "topic"}
    stranger = QUOTED.replace("producer-1", "producr-1")
    with pytest.raises(BadArgument, match=r"got 'producr-1'. Did you mean 'producer-1'"):
        read_contract(contract(tmp_path, stranger)).events(spark(), events)


@pytest.mark.kafka
def test_a_name_among_many(tmp_path: Path) -> None:
    """Each name of a ledger can be declared; not all of many are listed where one is wrong."""
    events = spark().range(12_000).selectExpr("'orders-' || id AS topic")
    every = "".join(f'[topics."orders-{it}"]\nreplicas = 1\n' for it in range(0, 12_000, 100))
    _refuse_strangers(events, "topics", "topic", read_contract(contract(tmp_path, every)).topics)
    with pytest.raises(BadArgument, match=r"one of 1.,... names; got 'o'. They are o") as refused:
        _refuse_strangers(events, "topics", "topic", ["o"])

    assert len(str(refused.value)) < 5_000


# What a program wrote into `created`, and what of it says nothing.
WRITTEN = {
    "a name": ({"enable.idempotense": "true"}, {"enable.idempotense": "enable.idempotence"}),
    "a value": ({"isolation.level": "read_uncommited"}, {"isolation.level": "isolation.level"}),
    "no number": ({"retries": "many"}, {"retries": "retries"}),
    "a value as Python writes it": ({"enable.idempotence": "True", "acks": "All"}, {}),
    "on and off as librdkafka takes them": (
        {"enable.idempotence": "1", "enable.auto.commit": "F"}, {},
    ),
    "a letter less, more or moved, and capitals": (
        {"aks": "all", "retriess": "3", "gruop.id": "a", "enableIdempotence": "true"},
        {"aks": "acks", "retriess": "retries", "gruop.id": "group.id",
         "enableIdempotence": "enable.idempotence"},
    ),
    "a time": ({"auto.offset.reset": "by_duration:PT2H"}, {}),
    "another library": ({"library": "sarama", "role": "program"}, {}),
    "names of settings that decide nothing": (
        dict.fromkeys(
            ("retry.backoff.max.ms", "session.timeout.ms", "request.timeout.ms", "client.id",
             "socket.timeout.ms", "group.instance.id", "delete.retention.ms", "message.max.bytes"),
            "1",
        ),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_misspelt(settings: dict[str, str], expected: dict[str, str]) -> None:
    """A setting that nothing can have, and the one that it was meant for."""
    assert expected == dict(misspelt(settings))


@pytest.mark.kafka
def test_what_is_misspelt_is_named() -> None:
    """Once, whoever wrote it; and a name with underscores is one with dots."""
    them = (created("a", acks="one", enable_idempotence="true"), created("b", acks="one"))
    rows = in_run("a", them)
    events = spark().createDataFrame([asdict(row) for row in rows], spark_schema())

    assert ["The setting 'acks' has a name or a value that it cannot have."] == strange(events)
