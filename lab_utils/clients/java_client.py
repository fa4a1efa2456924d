"""Kafka's own Java client, of the bundled jars: its defaults, and two of its programs in a run."""

from __future__ import annotations

import os
import re
import subprocess
from html import unescape

from confluent_kafka import libversion, version

from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.program import Ended
from lab_utils.machine.jars import kafka_jars, locked
from lab_utils.machine.java import find_java

PRINTS_S = 60


def java(*arguments: str) -> list[str]:
    """The command of a Java program on Kafka's class path."""
    jars = os.pathsep.join(map(str, kafka_jars()))
    return [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", jars, *arguments]


def java_default(role: str, setting: str) -> str:
    """The default of a setting of a Java `producer` or `consumer`, as its class prints it."""
    name = f"org.apache.kafka.clients.{role}.{role.capitalize()}Config"
    page = subprocess.run(
        java(name), capture_output=True, text=True, check=True, timeout=PRINTS_S
    ).stdout
    after = page.partition(f'<h4><a id="{setting}">')[2]
    found = re.search(r"Default:</th><td>(.*?)</td>", after, re.DOTALL)
    if found is None:
        raise KeyError(setting)
    return unescape(found[1])


def versions() -> str:
    """Which clients these are, in words."""
    (jar,) = (it.coordinate for it in locked("kafka") if ":kafka-clients:" in it.coordinate)
    return f"Java client {jar.split(':')[-1]}, librdkafka {libversion()[0]} (Python {version()})"


def console_producer(run: LiveRun, *records: str) -> Ended:
    """Send records, each `key:value`, with the console producer, which is the client `java`."""
    settings = ("parse.key=true", "key.separator=:")
    options = [it for setting in settings for it in ("--reader-property", setting)]
    given = "".join(f"{it}\n" for it in records)
    return _execute(run, "ConsoleProducer", *options, given=given)


def java_transaction(run: LiveRun) -> Ended:
    """Send the orders in a transaction with the performance tool, which is the client `java`."""
    counted = ("--num-records", str(len(run.orders)), "--throughput", "-1", "--payload-monotonic")
    options = ("--transactional-id", f"{run.topic}-java", *counted)
    return _execute(run, "ProducerPerformance", *options)


def _execute(run: LiveRun, tool: str, *options: str, given: str = "") -> Ended:
    command = java(
        f"org.apache.kafka.tools.{tool}", "--bootstrap-server", run.bootstrap, "--topic", run.topic,
        "--command-property", f"client.id={run.client_id('java')}", *options,
    )  # fmt: skip
    return run.execute(command, name="java", given=given)
