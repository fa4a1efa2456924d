"""Jars arrive whole and as locked, or not at all; a real repository on loopback serves them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab_utils.errors import SetupError
from lab_utils.machine.jars import (
    MIRROR,
    ROOTS,
    Jar,
    damaged,
    fetch,
    locked,
    missing,
    remove_damaged,
)
from lab_utils.waiting import wait_until

WHOLE = b"a jar that is whole" * 1000


class Repository(ThreadingHTTPServer):
    """A Maven repository with one jar, and how it serves it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Shelf)
        self.jar = WHOLE
        self.asked: list[str] = []
        self.may_end = threading.Event()
        self.may_end.set()

    @property
    def address(self) -> str:
        """The repository's address."""
        return f"http://127.0.0.1:{self.server_port}"


class Shelf(BaseHTTPRequestHandler):
    """Serves the jar."""

    server: Repository

    def do_GET(self) -> None:
        """Send it, and wait before the end if told so."""
        self.server.asked.append(self.path)
        self.send_response(200 if self.path.endswith(".jar") else 404)
        self.send_header("Content-Length", str(len(self.server.jar)))
        self.end_headers()
        self.wfile.write(self.server.jar[:-1])
        self.wfile.flush()
        self.server.may_end.wait(30)
        self.wfile.write(self.server.jar[-1:])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository, and an empty cache beside it."""
    repository = Repository()
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR, repository.address)
    thread = threading.Thread(target=repository.serve_forever, args=(0.02,))
    thread.start()
    yield repository
    repository.may_end.set()
    repository.shutdown()
    thread.join()
    repository.server_close()


@pytest.fixture
def jar() -> Jar:
    """The jar as a lock would have it."""
    return Jar("kafka", "org.example:tiny:1.0", hashlib.sha256(WHOLE).hexdigest())


def in_cache(jar: Jar) -> list[str]:
    """The names of all files in the cache."""
    return [path.name for path in jar.path.parents[1].rglob("*") if path.is_file()]


def test_a_jar_is_fetched(repository: Repository, jar: Jar) -> None:
    """It is in the cache under its name and hash, and nothing else is; no one is asked again."""
    progress: list[str] = []
    paths = fetch([jar], progress.append)

    assert WHOLE == paths[0].read_bytes()
    assert [f"tiny-1.0-{jar.sha256[:8]}.jar"] == in_cache(jar)
    assert ["fetched 1 of 1 jars"] == progress
    repository.asked.clear()
    assert (paths, []) == (fetch([jar]), repository.asked)


def test_a_damaged_jar_is_refused(repository: Repository, jar: Jar) -> None:
    """The message has both hashes and the next step; nothing is installed, the next recovers."""
    repository.jar = b"A" + WHOLE[1:]
    with pytest.raises(SetupError) as raised:
        fetch([jar])

    assert f"but the lock says {jar.sha256[:16]}" in str(raised.value)
    assert "Run ./lab up again." in str(raised.value)
    assert [] == in_cache(jar)
    repository.jar = WHOLE
    assert WHOLE == fetch([jar])[0].read_bytes()


def test_a_jar_that_a_disk_has_damaged(repository: Repository, jar: Jar) -> None:
    """One that is cut short in the cache is named, and is fetched anew once it is removed."""
    (path,) = fetch([jar])
    whole, _ = damaged([jar]), path.write_bytes(WHOLE[:-1])
    found = damaged([jar])
    remove_damaged([jar])

    assert ([], [jar]) == (whole, found)
    assert [jar] == missing([jar])
    assert WHOLE == fetch([jar])[0].read_bytes()


def test_no_repository(repository: Repository, jar: Jar, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the message names the jar, why it is needed, and the next step."""
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:9")
    with pytest.raises(SetupError) as raised:
        fetch([jar])

    assert "org.example:tiny:1.0 could not be fetched" in str(raised.value)
    assert "Connect this machine to the network, then run ./lab up again." in str(raised.value)
    with pytest.raises(SetupError, match=r"run \./lab prepare --kafka 3\.9 again"):
        fetch([replace(jar, section="kafka-3.9")])


def test_killed_while_fetching(repository: Repository, jar: Jar) -> None:
    """A start that is killed in the middle of a jar leaves no jar; the next one fetches it."""
    repository.may_end.clear()
    code = f"from lab_utils.machine.jars import Jar, fetch; fetch([{jar}])"
    process = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
    wait_until(lambda: repository.asked, "the jar to be asked for", timeout_s=60)
    process.kill()
    process.wait()
    repository.may_end.set()

    assert [jar] == missing([jar])
    assert WHOLE == fetch([jar])[0].read_bytes()


def test_what_a_killed_start_left_is_removed(repository: Repository, jar: Jar) -> None:
    """A folder that nobody has touched for an hour is removed; a younger one stays."""
    old, young = (jar.path.parents[1] / f"fetching-{name}" for name in ("old", "young"))
    old.mkdir(parents=True)
    young.mkdir()
    os.utime(old, (0, 0))
    fetch([jar])

    assert (False, True) == (old.exists(), young.exists())


def test_one_bad_jar_does_not_undo_the_others(repository: Repository, jar: Jar) -> None:
    """What is whole stays when another jar is refused: the next start has less to fetch."""
    other = Jar("kafka", "org.example:other:1.0", "0" * 64)
    fetch([jar])
    with pytest.raises(SetupError):
        fetch([jar, other])

    assert [other] == missing([jar, other])


def test_the_lock_is_whole() -> None:
    """Each line of the lock is a section, a coordinate of three parts and a SHA-256, once."""
    jars = locked()

    assert len(jars) == len({(jar.section, jar.coordinate) for jar in jars})
    assert {*ROOTS} == {jar.section for jar in jars}
    assert {(2, 64)} == {(jar.coordinate.count(":"), len(jar.sha256)) for jar in jars}
