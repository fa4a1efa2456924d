"""The doctor: what the lab needs of this machine, what is there, and the command that fixes it.

Each examination is one short function that returns what it found, or raises Ailing. It is quick,
asks no network, starts nothing but `java -version`, and changes nothing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from lab_utils import single_server
from lab_utils.errors import LabError
from lab_utils.folders import cache_folder, stage_folder, state_folder
from lab_utils.machine.confinement import FIX as ISOLATION_FIX
from lab_utils.machine.confinement import LANDLOCK, NONE, isolation
from lab_utils.machine.jars import CURRENT, FETCHED_BY, OLDER, SECTIONS, damaged, locked, missing
from lab_utils.machine.java import FIX as JAVA_FIX
from lab_utils.machine.java import Java, find_java
from lab_utils.machine.quick_start import Kafka
from lab_utils.processes import PORTS, free_ports

ROOT: Final = Path(__file__).parents[2]
OLDEST_PYTHON: Final = (3, 11)
MEMORY_MB: Final = 1900  # lab 04: JupyterLab, a kernel, four brokers, a controller, Spark
DISK_MB: Final = 1000
PORTS_USED: Final = 10
VECTOR: Final = "jdk.incubator.vector"
CGROUP: Final = Path("/sys/fs/cgroup")
# Limit, use, statistics, and what in them can be given back: of version 2, and of version 1.
CGROUP_FILES: Final = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


class Ailing(LabError):
    """What an examination found is not what the lab needs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One examination: is it well, what was found, the command that fixes it."""

    name: str
    ok: bool
    what: str
    fix: str | None = None
    required: bool = True


def examine() -> list[Row]:
    """Examine everything; what the lab can do without has required=False."""
    up, older = "./lab up", SECTIONS[OLDER]
    return [
        _row("Python", _python, "apt-get install python3 python3-venv"),
        _row("packages", _packages, "./lab up"),
        _row("Java", _java, JAVA_FIX),
        _row("Kafka's jars", lambda: _jars(SECTIONS[CURRENT]), up),
        _row("Spark's Kafka connector", lambda: _jars("spark"), up),
        _row("Kafka 3.9's jars", lambda: _jars(older), FETCHED_BY[older], required=False),
        _row("quick start", _quick_start, up, required=False),
        _row("memory", _memory, "a machine or a container with more memory"),
        _row("cache folder", _cache, "set LAB_CACHE to a folder of yours"),
        _row("state folder", lambda: _folder(state_folder()), "set LAB_STATE to a folder of yours"),
        _row("ports", _ports, "./lab down, and end other servers"),
        _row("stages", _stages, "./lab down", required=False),
        _row("isolation", _isolation, ISOLATION_FIX, required=False),
        _row("Chromium", _chromium, "apt-get install chromium", required=False),
    ]


def _row(name: str, look: Callable[[], str], fix: str, *, required: bool = True) -> Row:
    try:
        return Row(name, ok=True, what=look(), required=required)
    except (LabError, OSError, ValueError) as error:
        return Row(name, ok=False, what=str(error), fix=fix, required=required)


def _python() -> str:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        raise Ailing(f"{found}; the lab needs 3.{OLDEST_PYTHON[1]} or newer")
    return found


def _packages() -> str:
    """Count what the lock names, less what has a condition, which may be for another system."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.rstrip(" \\") for line in lines if re.match(r"[\w.-]+==[^;]*$", line)]
    others = [pin for pin in pins if not _is_installed(pin)]
    if others:
        raise Ailing(f"{len(others)} of {len(pins)} are not as locked: {', '.join(others[:3])} …")
    return f"{len(pins)}, as requirements.lock says"


def _is_installed(pin: str) -> bool:
    name, _, version = pin.partition("==")
    try:
        return importlib.metadata.version(name) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def _java() -> str:
    java = find_java(may_fetch=False)
    command = [str(java.executable), "--list-modules"]
    modules = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if VECTOR not in modules.stdout:
        raise Ailing(f"{java.executable} lacks the module {VECTOR}, which Spark needs")
    return f"{java.version} ({java.executable})"


def _jars(section: str) -> str:
    jars = locked(section)
    lacking = missing(jars)
    found = f"{len(jars) - len(lacking)} of {len(jars)} in {cache_folder() / 'jars'}"
    if lacking:
        by = "a notebook that asks Kafka 3.9" if section in FETCHED_BY else "the next start"
        raise Ailing(f"{found}; {by} fetches the others")
    if bad := damaged(jars):
        names = ", ".join(jar.path.name for jar in bad)
        raise Ailing(f"{found}; not what the lock says, and to be fetched anew: {names}")
    return found


def _quick_start() -> str:
    java: Java = find_java(may_fetch=False)
    jars = locked(SECTIONS[CURRENT])
    if missing(jars):
        raise Ailing("not made yet: Kafka's jars are not there")
    kafka = Kafka(java, tuple(jar.path for jar in jars))
    parts = {"template": kafka.template, "class archive": kafka.archive}
    lacking = [name for name, path in parts.items() if not path.exists()]
    if lacking:
        raise Ailing(f"no {' and no '.join(lacking)} yet; the next start makes it, once")
    return "template and class archive are there"


def _memory() -> str:
    """Judge what there is in all: what the lab itself takes must not make it unwell."""
    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    if (limit := _cgroup_memory()) is not None:
        total, free = min(total, limit[0]), min(free, limit[1])
    found = f"{total // 1_000_000} MB, {free // 1_000_000} MB free"
    if total < MEMORY_MB * 1_000_000:
        raise Ailing(f"{found}; the lab takes up to {MEMORY_MB} MB")
    return found


def _cgroup_memory() -> tuple[int, int] | None:
    """What a container may take, and what is left of it; None where nothing limits it."""
    for limit, used, stat, cache in CGROUP_FILES:
        try:
            text = (CGROUP / limit).read_text().strip()
            taken = int((CGROUP / used).read_text())
            parts = dict(line.split() for line in (CGROUP / stat).read_text().splitlines())
        except OSError:
            continue
        return None if text == "max" else (int(text), int(text) - taken + int(parts[cache]))
    return None


def _cache() -> str:
    """An image's cache is whole and read-only: nothing needs to be written there."""
    needed = [*locked(SECTIONS[CURRENT]), *locked("spark")]
    if not missing(needed) and not os.access(cache_folder(), os.W_OK):
        return f"{cache_folder()} (complete, read-only)"
    return _folder(cache_folder())


def _folder(folder: Path) -> str:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Ailing(f"you may not write to {folder}")
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    if free_mb < DISK_MB:
        raise Ailing(f"{folder} has {free_mb} MB free; the lab wants {DISK_MB} MB")
    return f"{folder} ({free_mb} MB free)"


def _ports() -> str:
    free_ports(PORTS_USED)
    return f"{PORTS_USED} from {PORTS.start} to {PORTS.stop} are free"


def _stages() -> str:
    """The stages by their locks alone: one that hangs must not make the doctor hang."""
    folders = [path for path in sorted(stage_folder("any").parent.glob("*")) if path.is_dir()]
    dead = [folder.name for folder in folders if not single_server.is_served(folder)]
    if dead:
        raise Ailing(f"{', '.join(dead)} ended without cleaning up")
    told = [f"{folder.name} (pid {single_server.read(folder).get('pid')})" for folder in folders]
    return f"running: {', '.join(told)}" if told else "none is running"


def _isolation() -> str:
    found = isolation()
    if found == NONE:
        raise Ailing("nothing keeps submissions apart; only ./lab grade needs it")
    shared = "; they share the network" if found == LANDLOCK else ""
    return f"{found} keeps submissions apart{shared}"


def _chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise Ailing("not on PATH; only the browser tests need it")
    return found
