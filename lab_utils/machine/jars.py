"""Kafka itself and Spark's Kafka connector: jars by coordinate and hash, in the machine's cache.

jars.lock is the truth: a section, `group:artifact:version` and a SHA-256 on each line. A jar is
fetched to a temporary name, checked, and renamed; so what is in the cache is whole, and a start
that was interrupted is continued by the next one. Nothing is fetched once it is there; what a disk
has damaged since is found by the doctor, and fetched anew by ./lab prepare. They come from Maven
Central, or from the mirror whose address LAB_MAVEN has.

Kafka is locked in two versions. The older one is fetched where somebody asks for it, and only then,
and so is Kafka Streams.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab_utils.errors import SetupError, one_of
from lab_utils.folders import cache_folder

LOCK: Final = Path(__file__).with_name("jars.lock")
MIRROR: Final = "LAB_MAVEN"
DOWNLOADS_AT_ONCE: Final = 8
ABANDONED_AFTER_S: Final = 3600
CURRENT: Final = "4.3"
OLDER: Final = "3.9"
# The section of the lock that has each Kafka, and the command that fetches a section.
SECTIONS: Final = {CURRENT: "kafka", OLDER: "kafka-3.9"}
FETCHED_BY: Final = {"kafka-3.9": "./lab prepare --kafka 3.9", "streams": "the program"}

# What a maintainer asks for when the lock is written anew (python -m lab_utils.machine.jars).
ROOTS: Final = {
    "kafka": ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:kafka-tools:4.3.1"),
    "kafka-3.9": ("org.apache.kafka:kafka_2.13:3.9.2", "org.apache.kafka:kafka-tools:3.9.2"),
    # What it needs beside Kafka's own jars is RocksDB, 73 MB, which a topology without state never
    # loads.
    "streams": ("org.apache.kafka:kafka-streams:4.3.1",),
    "spark": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
}
# What the server logs with; Kafka's own POM leaves it to the distribution. It is not resolved with
# the rest: its managed versions would take the place of Kafka's.
LOGGING: Final = tuple(
    f"org.apache.logging.log4j:log4j-{part}:2.25.4" for part in ("api", "core", "slf4j-impl")
)
# Kafka's tools can run Connect, which brings a web server. No lab uses it. Kafka 3.9 can still run
# on ZooKeeper, and brings its network library, and a second program that logs.
UNUSED: Final = (
    "connect-", "jetty", "jersey", "swagger", "hk2", "jakarta", "javax", "jaxb", "servlet",
    "aopalliance", "osgi", "javassist", "classgraph", "maven-artifact", "plexus",
    "netty", "reload4j", "jaxrs", "reflections",
)  # fmt: skip

Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar of the lock."""

    section: str
    coordinate: str
    sha256: str

    @property
    def path(self) -> Path:
        """Where the jar is, or will be, in the cache; the hash is part of the name."""
        _, artifact, version = self.coordinate.split(":")
        return cache_folder() / "jars" / f"{artifact}-{version}-{self.sha256[:8]}.jar"


def locked(section: str | None = None) -> list[Jar]:
    """The jars of a section of the lock, or all of them."""
    lines = (line.split() for line in LOCK.read_text(encoding="utf-8").splitlines())
    jars = [Jar(*line) for line in lines if line and line[0] != "#"]
    return [jar for jar in jars if section in (None, jar.section)]


def kafka_jars(progress: Progress = lambda _: None, version: str = CURRENT) -> list[Path]:
    """Kafka's class path, fetched if it is not there."""
    return fetch(locked(SECTIONS[one_of("a Kafka", version, SECTIONS)]), progress)


def missing(jars: Iterable[Jar]) -> list[Jar]:
    """The jars that are not in the cache."""
    return [jar for jar in jars if not jar.path.exists()]


def damaged(jars: Iterable[Jar]) -> list[Jar]:
    """The jars in the cache that are no longer what the lock says; reads each of them."""
    return [jar for jar in jars if jar.path.exists() and sha256(jar.path) != jar.sha256]


def remove_damaged(jars: Iterable[Jar]) -> None:
    """Let what is damaged be missing, so that it is fetched."""
    for jar in damaged(jars):
        jar.path.unlink(missing_ok=True)


def fetch(jars: list[Jar], progress: Progress = lambda _: None) -> list[Path]:
    """Fetch what is missing, in parallel; return the paths of all.

    Raises SetupError when a jar cannot be had or is not what the lock says.
    """
    wanted = missing(jars)
    if wanted:
        _fetch_all(wanted, progress)
    return [jar.path for jar in jars]


def _fetch_all(wanted: list[Jar], progress: Progress) -> None:
    if not os.access(cache_folder(), os.W_OK):
        command = FETCHED_BY.get(wanted[0].section, "./lab prepare")
        raise SetupError(
            f"{len(wanted)} jars are missing, and you may not write to {cache_folder()}; in an "
            f"image of the lab nobody may. Run {command} while the image is built, or set "
            "LAB_CACHE to a folder of yours: all that the lab needs is then fetched again."
        )
    (cache_folder() / "jars").mkdir(exist_ok=True)
    _remove_abandoned()
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        downloads = [pool.submit(_fetch_one, jar) for jar in wanted]
        try:
            for number, download in enumerate(as_completed(downloads), start=1):
                download.result()
                progress(f"fetched {number} of {len(wanted)} jars")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch_one(jar: Jar) -> None:
    """Fetch into a folder of this process, check, rename: two processes at once are harmless."""
    command = FETCHED_BY.get(jar.section, "./lab up")
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache_folder()) as folder:
        try:
            path = _download(jar.coordinate, Path(folder))
        except Exception as error:  # jgo lets requests' and its own errors through as they are.
            raise SetupError(
                f"{jar.coordinate} could not be fetched: {error}. The bundled Kafka needs it once, "
                f"then never again. Connect this machine to the network, then run {command} again."
            ) from error
        if (found := sha256(path)) != jar.sha256:
            raise SetupError(
                f"{jar.coordinate} has the hash {found[:16]}…, but the lock says "
                f"{jar.sha256[:16]}…. It was damaged on the way or is another file; nothing was "
                f"installed. Run {command} again."
            )
        path.replace(jar.path)


def _remove_abandoned() -> None:
    """Remove what a start that was killed has left; a slow one may still be at work."""
    for folder in cache_folder().glob("fetching-*"):
        if time.time() - folder.stat().st_mtime > ABANDONED_AFTER_S:
            shutil.rmtree(folder, ignore_errors=True)


def _download(coordinate: str, folder: Path) -> Path:
    from jgo.maven import MavenContext  # Loaded only where something is fetched.

    mirror = os.environ.get(MIRROR)
    context = MavenContext(repo_cache=folder, remote_repos={"mirror": mirror} if mirror else None)
    return Path(context.create_dependency(coordinate).artifact.resolve())


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolve(section: str, folder: Path) -> list[Jar]:
    """Resolve a section's roots anew; for a maintainer who moves the lock to new versions."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=folder)
    roots = [context.create_dependency(coordinate) for coordinate in ROOTS[section]]
    if section in SECTIONS.values():
        inputs, others = context.resolver.resolve(roots)
        logging = [context.create_dependency(coordinate) for coordinate in LOGGING]
        used = [it for it in others if not any(word in it.artifactId for word in UNUSED)]
        roots = [*inputs, *used, *logging]
    return sorted({_jar(section, it) for it in roots}, key=lambda jar: jar.coordinate)


def _jar(section: str, dependency: object) -> Jar:
    artifact = dependency.artifact  # type: ignore[attr-defined]
    coordinate = f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}"
    return Jar(section, coordinate, sha256(Path(artifact.resolve())))


def write_lock() -> None:
    """Write jars.lock from ROOTS."""
    with tempfile.TemporaryDirectory(prefix="resolving-") as folder:
        jars = [jar for section in ROOTS for jar in resolve(section, Path(folder))]
    lines = (f"{jar.section} {jar.coordinate} {jar.sha256}\n" for jar in jars)
    LOCK.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write_lock()
    sys.stdout.write(LOCK.read_text(encoding="utf-8"))
