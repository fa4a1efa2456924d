"""What makes a broker start in half a second: a formatted template and a class archive.

    format, once ──▶ template folder ──copy──▶ each broker's data folder
    first start, once ──▶ CDS archive ──▶ each later JVM maps Kafka's classes from it

Both are in the machine's cache, named by the jars and the Java they were made with, and appear
there whole or not at all; what nobody has asked for in a month goes when another is made. Measured
on two cores: 0.55 s instead of 2.5 s (design.md §4).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from filelock import FileLock

from lab_utils.errors import LabError, LabWarning, SetupError
from lab_utils.folders import cache_folder
from lab_utils.machine.jars import CURRENT, Progress, kafka_jars
from lab_utils.machine.java import Java, environment, find_java
from lab_utils.machine.settings import text

LOGGING: Final = Path(__file__).with_name("log4j2.xml")
CLUSTER_ID: Final = "ZGVsaXZlcnktbGFiLTAwMA"
FORMATTED: Final = ("bootstrap.checkpoint", "meta.properties")
# A broker that has died is repaired; one that has lost a thread for want of memory would hang.
QUICK: Final = ("-XX:+ExitOnOutOfMemoryError", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xlog:disable",
                "-Xlog:all=error:stderr")  # fmt: skip
# An archive of Spark has 0.2 GB, and each installation one of its own.
KEPT_S: Final = 30 * 24 * 3600
# What a JVM has to write its archive in, as it ends; seconds, where nothing else runs.
ARCHIVED_S: Final = 120


@dataclass(frozen=True)
class Kafka:
    """A Kafka that can be started: its Java, its class path, and what makes it quick."""

    java: Java
    jars: tuple[Path, ...]

    def tool(
        self, main: str, *arguments: str, heap_mb: int = 64, options: tuple[str, ...] = ()
    ) -> list[str]:
        """The command that runs one of Kafka's main classes."""
        archive = (f"-XX:SharedArchiveFile={self.archive}",) if self.archive.exists() else ()
        return [
            str(self.java.executable),
            f"-Xms{min(heap_mb, 64)}m",
            f"-Xmx{heap_mb}m",
            *QUICK,
            *(options or archive),
            f"-Dlog4j2.configurationFile={LOGGING}",
            "-cp",
            os.pathsep.join(str(jar) for jar in self.jars),
            main,
            *arguments,
        ]

    @cached_property
    def key(self) -> str:
        """What its archive and its template are valid for."""
        return archive_key(self.java, self.jars)

    @property
    def archive(self) -> Path:
        """The CDS archive."""
        return cache_folder() / f"kafka-{self.key}.jsa"

    @property
    def template(self) -> Path:
        """A data folder as `kafka-storage format` leaves it."""
        return cache_folder() / f"template-{self.key}"

    def fill(self, data: Path, node_id: int) -> None:
        """Make a data folder for a node, as formatting it would; one that is there stays."""
        if data.exists():
            return
        shutil.copytree(self.template, data)
        lines = {"version": "1", "cluster.id": CLUSTER_ID, "node.id": str(node_id)}
        # Each folder has an id of its own, which the controller tells brokers apart by.
        lines["directory.id"] = _random_id()
        (data / "meta.properties").write_text(text(lines), encoding="utf-8")


def _random_id() -> str:
    """A Kafka Uuid: 22 characters of URL-safe base64, not beginning with a dash."""
    while (drawn := secrets.token_urlsafe(16))[0] == "-":
        continue
    return drawn


def quick_kafka(progress: Progress = lambda _: None, version: str = CURRENT) -> Kafka:
    """Find or fetch Java and Kafka, and make the template if there is none yet.

    Raises SetupError when something cannot be had.
    """
    kafka = Kafka(find_java(progress), tuple(kafka_jars(progress, version)))
    make_once(kafka.template, lambda aside: _format(kafka, aside, progress), _is_formatted)
    return kafka


def _is_formatted(template: Path) -> bool:
    """Are its files there, and is none of which a machine without power kept the name alone?"""
    files = (template / name for name in FORMATTED)
    return all(file.is_file() and file.stat().st_size for file in files)


def make_once(
    path: Path,
    make: Callable[[Path], object],
    is_whole: Callable[[Path], bool] = Path.exists,
) -> None:
    """Let `make` write what is to be at `path` aside, and rename it into place; one does, once.

    What is there and not whole goes first, while nobody else makes it.
    What `make` leaves out is no error: there is nothing at `path` then. Raises SetupError where
    nothing can be written.
    """
    if is_whole(path):
        with suppress(OSError):  # nobody may write to the cache of an image
            os.utime(path)
        return
    try:
        with FileLock(path.with_suffix(".lock")):
            if not is_whole(path):
                shutil.rmtree(path, ignore_errors=True)
                _make_aside(path, make)
    except OSError as error:
        raise SetupError(
            f"{path.name} cannot be made in {path.parent}: {error.strerror or error}. The lab "
            "makes it once for a machine. Make room there, or set LAB_CACHE to a folder that you "
            "may write to: all that the lab needs is then fetched again."
        ) from error


def _make_aside(path: Path, make: Callable[[Path], object]) -> None:
    prefix = f"making-{path.name}-"
    try:
        _remove_begun(path, prefix)  # by one who was killed: nobody else makes it now
        aside = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent)) / path.name
        make(aside)
        if aside.exists():
            aside.rename(path)
            _remove_unused(path)
    finally:  # also where an interrupt came before its name was known
        _remove_begun(path, prefix)


def _remove_begun(path: Path, prefix: str) -> None:
    for begun in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(begun, ignore_errors=True)


def _remove_unused(made: Path) -> None:
    """Remove what is of this kind, for other jars or another Java, and not asked for any more."""
    for other in made.parent.glob(f"{made.name.rpartition('-')[0]}-*"):
        with suppress(OSError):  # somebody else removes it, or made it
            is_unused = time.time() - other.stat().st_mtime > KEPT_S
            if is_unused and other.suffix == made.suffix:
                shutil.rmtree(other) if other.is_dir() else other.unlink()


def make_archive(of: str, path: Path, make: Callable[[Path], object], progress: Progress) -> None:
    """Let `make` write a class archive, once. Without one all runs, only slower: that is said.

    `make` raises if the JVM was killed before it ended: what it left is no archive.
    """
    why = "Java wrote none."

    def make_and_say_so(aside: Path) -> None:
        progress(f"starting {of} once, to keep its classes for quicker starts")
        make(aside)

    try:
        make_once(path, make_and_say_so)
    except (LabError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if not path.exists():
        warnings.warn(
            f"{of} has no class archive and starts more slowly: {why} The next start tries again.",
            LabWarning,
            stacklevel=2,
        )


def archive_key(java: Java, jars: Iterable[Path]) -> str:
    """What a class archive is valid for: the JVM compares each jar's time (seconds) and size."""
    seen = hashlib.sha256(java.text.encode())
    for jar in jars:
        stat = jar.stat()
        seen.update(f"{jar} {int(stat.st_mtime)} {stat.st_size}".encode())
    return seen.hexdigest()[:16]


def _format(kafka: Kafka, data: Path, progress: Progress) -> None:
    """Format a data folder."""
    progress("formatting a template, once")
    properties = data.with_name("server.properties")
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "log.dirs": data.name,
    }
    properties.write_text(text(settings), encoding="utf-8")
    command = kafka.tool(
        "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)
    )
    done = subprocess.run(
        command,
        cwd=data.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise SetupError(
            f"Kafka could not format a data folder in {data.parent}: "
            f"{(done.stderr or done.stdout).strip()[-800:]}\nRun ./lab doctor."
        )
