"""Makes the table of docs/clients.md: one fault, five clients, by real runs.

    LAB_CLIENTS_PYTHON=clients-venv/bin/python .venv/bin/python -m docs.make_clients

LAB_CLIENTS_PYTHON names a Python with the dependency group `clients`; kcat comes from PATH, Java's
compiler from the JDK at hand. A long test, tests/clients/test_clients_table.py, makes the runs
again and compares.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import libversion, version

from lab_utils import Lab
from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.program import Ended
from lab_utils.ledger.events import Event
from lab_utils.machine.jars import fetch, kafka_jars, locked
from lab_utils.machine.java import find_java
from lab_utils.proxy.faults import (
    WireFault,
    corrupt_request,
    delay_response,
    drop_request,
    drop_response,
    refuse,
    replay_request,
)

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "clients.md"
TABLE: Final = re.compile(r"^\|.*\|$(?:\n^\|.*\|$)*", re.MULTILINE)
PROGRAMS: Final = ROOT / "docs" / "clients"
PYTHON: Final = os.environ.get("LAB_CLIENTS_PYTHON", sys.executable)
ORDERS: Final = 4
IN_SEQUENCE: Final = "0 1 2 3"
NOT_ASKED: Final = "no such request"
FAULTS: Final = (
    drop_response("Produce", 2),
    drop_request("Produce", 2),
    delay_response("Produce", 2, by_ms=3000),
    replay_request("Produce", 2, later=1),
    corrupt_request("Produce", 2),
    *(
        refuse("Produce", 2, error)
        for error in (
            "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_OR_FOLLOWER",
            "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE",
            "INVALID_RECORD", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID",
            "INVALID_PRODUCER_EPOCH",
        )
    ),
    drop_response("InitProducerId"),
    refuse("InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS"),
)  # fmt: skip

Client = Callable[[LiveRun], Iterable[str]]
Perform = Callable[[Callable[[LiveRun], object], WireFault], list[Event]]


def clients(folder: Path) -> dict[str, Client]:
    """The clients that are at hand, by their names with their versions; `folder` is for classes."""
    found: dict[str, Client] = {
        f"librdkafka {libversion()[0]} (confluent-kafka {version()})": _program(
            "librdkafka", [sys.executable, str(PROGRAMS / "orders_confluent_kafka.py")]
        )
    }
    if java := java_program("Orders", folder):
        (jar,) = (it for it in locked("kafka") if ":kafka-clients:" in it.coordinate)
        found[f"Java {jar.coordinate.rpartition(':')[2]}"] = _program("java", java)
    for name in ("kafka-python", "aiokafka"):
        if number := _python_version(name):
            path = PROGRAMS / f"orders_{name.replace('-', '_')}.py"
            found[f"{name} {number}"] = _program(name, [PYTHON, str(path)])
    if kcat := shutil.which("kcat"):
        said = subprocess.run([kcat, "-V"], capture_output=True, text=True, check=True).stdout
        numbers = re.search(r"Version (\S+) .*librdkafka (\S+)", said)
        assert numbers is not None, said
        found[f"kcat {numbers[1]} (librdkafka {numbers[2]})"] = _kcat
    return found


def java_program(name: str, folder: Path, *sections: str) -> list[str]:
    """The command of a Java program, compiled into a folder; nothing where there is no compiler.

    Beside Kafka's jars it finds those of these sections of the lock, which are fetched.
    """
    home = find_java().home
    compiler = shutil.which("javac", path=str(home / "bin"))
    if compiler is None:
        return []
    more = (jar for section in sections for jar in fetch(locked(section)))
    jars = os.pathsep.join(map(str, [*kafka_jars(), *more]))
    source = str(PROGRAMS / f"{name}.java")
    subprocess.run([compiler, "-d", str(folder), "-cp", jars, source], check=True)
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return [str(home / "bin" / "java"), *quick, "-cp", f"{jars}{os.pathsep}{folder}", name]


def cell(client: Client, fault: WireFault, perform: Perform) -> str:
    """One run: the log, and what the program says that it was told beside an acknowledgement."""
    told: list[str] = []
    rows = perform(lambda run: told.extend(client(run)), fault)
    if not any((row.source, row.kind) == ("fault", "fired") for row in rows):
        return NOT_ASKED
    stored = [row for row in rows if (row.source, row.kind) == ("log", "record")]
    log = " ".join(str(row.value) for row in sorted(stored, key=lambda row: row.offset or 0))
    shown = f"`{log}`" if log == IN_SEQUENCE else f"**`{log}`**"
    return "<br>".join([shown, *told])


def table(perform: Perform) -> dict[str, dict[str, str]]:
    """Each fault by its call, with the cell of each client that is at hand."""
    with tempfile.TemporaryDirectory() as folder:
        found = clients(Path(folder))
        return {
            fault.code: {name: cell(client, fault, perform) for name, client in found.items()}
            for fault in FAULTS
        }


def read_table() -> dict[str, dict[str, str]]:
    """The table as it stands on the page."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    (_, *names), _, *rows = ([it.strip() for it in line.strip("|").split("|")] for line in lines)
    return {fault.strip("`"): dict(zip(names, cells, strict=True)) for fault, *cells in rows}


def page(rows: dict[str, dict[str, str]]) -> str:
    """The page with this table in the place of the one that it has."""
    names = list(next(iter(rows.values())))
    lines = [
        f"| fault | {' | '.join(names)} |",
        f"|{'---|' * (1 + len(names))}",
        *(f"| `{call}` | {' | '.join(cells[name] for name in names)} |"
          for call, cells in rows.items()),
    ]  # fmt: skip
    return TABLE.sub(lambda _: "\n".join(lines), PAGE.read_text(encoding="utf-8"))


def _program(name: str, command: list[str]) -> Client:
    def perform(run: LiveRun) -> Iterator[str]:
        ended = run.execute(command, name=name)
        failed = [line.split() for line in ended.output.splitlines() if line.startswith("failed")]
        yield from (f"{order} {error}" for _, order, error in failed)
        if ended.code:
            yield f"exit code {ended.code}"

    return perform


def _kcat(run: LiveRun) -> Iterator[str]:
    settings = (f"client.id={run.client_id('kcat')}", "socket.timeout.ms=1500",
                "message.timeout.ms=8000", "linger.ms=0")  # fmt: skip
    options = [it for setting in settings for it in ("-X", setting)]
    for order in run.orders:
        command = ["kcat", "-P", "-b", run.bootstrap, "-t", run.topic, "-p", "0", *options]
        ended = run.execute(command, name="kcat", given=f"{order}\n")
        if reason := _reason(ended):
            yield f"{order} {reason}"


def _reason(ended: Ended) -> str:
    """Why kcat could not send; "" if it could."""
    found = re.search(r"Delivery failed for message: (?:Broker: )?(.+)", ended.output)
    return found[1] if found else f"exit code {ended.code}" if ended.code else ""


def _python_version(package: str) -> str:
    """The version of a package in PYTHON; "" if it is not there."""
    code = f"import importlib.metadata as it; print(it.version({package!r}))"
    said = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def main() -> None:
    """Make the runs, and write the page."""
    lab = Lab("clients")

    def perform(workload: Callable[[LiveRun], object], fault: WireFault) -> list[Event]:
        rows: Any = lab.run(workload, orders=ORDERS, faults=[fault]).rows
        return list(rows)

    try:
        PAGE.write_text(page(table(perform)), encoding="utf-8")
    finally:
        lab.close()


if __name__ == "__main__":
    main()
