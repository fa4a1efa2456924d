"""The Java that Kafka and Spark run on: 17 or newer, found, or fetched once.

Looked for in LAB_JAVA (a java executable or a JDK folder), JAVA_HOME and PATH, in this order. If
none serves, cjdk fetches a JDK into the user's cache; later starts find it there without a
network. It also says what the log of a JVM that ended tells. It knows nothing of Kafka.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab_utils.errors import SetupError
from lab_utils.folders import cache_folder

MINIMUM: Final = 17
FETCHED: Final = "17"
FIX: Final = (
    "Debian and Ubuntu: apt-get install openjdk-17-jre-headless · macOS: brew install openjdk@17 "
    "· conda: conda install -c conda-forge openjdk=17"
)
# So Java can name any file, which it cannot in the locale C, and the system's errors, which are
# read, are in English.
LOCALE: Final = {"LC_ALL": "C.UTF-8"}
# So many open files are enough for a broker and for Spark.
OPEN_FILES: Final = 1024
FEW_FILES: Final = (
    "Programs may open too few files here; start the lab in a shell in which `ulimit -n` says "
    f"{OPEN_FILES} or more. "
)
# Options for every JVM of this user. A second collector beside the lab's own, a small heap or an
# agent that is not there, and none starts.
OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


@dataclass(frozen=True, slots=True)
class Java:
    """A java executable that serves, its feature version, and what it says of itself."""

    executable: Path
    version: int
    text: str

    @property
    def home(self) -> Path:
        """The folder that JAVA_HOME would name."""
        return self.executable.resolve().parents[1]


def environment() -> dict[str, str]:
    """The environment of what Java runs: its options are the lab's alone."""
    return {name: it for name, it in os.environ.items() if name not in OPTIONS} | LOCALE


def find_java(
    progress: Callable[[str], object] = lambda _: None, *, may_fetch: bool = True
) -> Java:
    """The Java to use. Raises SetupError with the command that fixes it, if there is none."""
    unfit: list[str] = []
    for place, executable in _candidates():
        java = _ask(executable)
        if java is not None and java.version >= MINIMUM:
            return java
        said = f"Java {java.version}" if java else "no Java that runs"
        unfit.append(f"{place} has {said} ({executable})")
        if place == "LAB_JAVA":
            raise SetupError(f"LAB_JAVA must name Java {MINIMUM} or newer; {unfit[-1]}. {FIX}")
    if not may_fetch:
        raise _lacking(unfit, "the next start will try to fetch one")
    progress(f"fetching a JDK {FETCHED}, once")
    return _fetched(unfit)


def _candidates() -> Iterator[tuple[str, Path]]:
    for variable in ("LAB_JAVA", "JAVA_HOME"):
        if os.environ.get(variable):
            path = Path(os.environ[variable]).absolute()  # Kafka runs in another folder
            yield variable, path / "bin" / "java" if path.is_dir() else path
    found = shutil.which("java")
    if found:
        yield "PATH", Path(found).absolute()
    if _fetched_home().exists():
        yield "the lab's cache", _fetched_home() / "bin" / "java"


def _fetched_home() -> Path:
    """A link to the JDK that was fetched: cjdk would ask the network for its index again."""
    return cache_folder() / "jdk"


def _ask(executable: Path) -> Java | None:
    """Ask an executable for its version; None if it is no Java."""
    try:
        said = subprocess.run(
            [executable, "-version"],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    version = feature_version(said)
    return Java(executable, version, said) if version else None


def feature_version(said: str) -> int:
    """The feature version in what `java -version` prints; 0 if there is none.

    >>> feature_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> feature_version('java version "1.8.0_392"'), feature_version("java: command not found")
    (8, 0)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else 0


def _fetched(unfit: list[str]) -> Java:
    import cjdk

    try:
        home = cjdk.java_home(vendor="temurin", version=FETCHED)
        java = _ask(Path(home) / "bin" / "java")
    except Exception as error:  # cjdk lets requests' errors through as they are.
        raise _lacking(unfit, f"none could be fetched ({error})") from error
    if java is None:
        raise SetupError(f"the JDK that was fetched to {home} does not run here. {FIX}")
    _fetched_home().unlink(missing_ok=True)
    _fetched_home().symlink_to(home)
    return java


def _lacking(unfit: list[str], what: str) -> SetupError:
    return SetupError(
        f"Kafka and Spark need Java {MINIMUM} or newer; {'; '.join(unfit) or 'none is here'}, "
        f"and {what}. {FIX}"
    )


def why(said: str, otherwise: str) -> str:
    """What fixes a JVM whose log says this: a sentence for some causes, and one for all others.

    >>> why("java.lang.UnsupportedClassVersionError: kafka/Kafka has been compiled", "Ask. ")
    'Its Java is too old; run ./lab doctor. '
    >>> why("Exception: something else", "Ask. ")
    'Ask. '
    """
    causes: Mapping[str, str] = {
        "Address already in use": "Another program has one of its ports; start it again. ",
        "UnsupportedClassVersionError": "Its Java is too old; run ./lab doctor. ",
        "OutOfMemoryError": "Its heap is too small for what it holds. ",
        "Too small initial heap": "Its heap is too small for a JVM. ",
        "Too small maximum heap": "Its heap is too small for a JVM. ",
        "Could not reserve enough space": "This machine has no memory left for it; end some "
        "programs, or run ./lab down. ",
        "No space left on device": "The disk is full; make room, then start it again. ",
        "Too many open files": FEW_FILES,
        "Permission denied": "It may not write to its data folder. ",
        "AccessDenied": "It may not write to its data folder. ",
    }
    # A JVM that can open nothing more may name the file, and not why.
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # it takes as many as it may have
    otherwise = FEW_FILES if 0 <= allowed < OPEN_FILES else otherwise
    return next((fix for cause, fix in causes.items() if cause in said), otherwise)


def telling(said: str) -> list[str]:
    r"""The lines of a log that tell why: no stack frames, and no INFO if there is anything else.

    >>> telling("INFO starting\nERROR Address already in use\n\tat a.b.C\nINFO shut down")
    ['ERROR Address already in use']
    """
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("\t")]
    return [line for line in lines if "INFO" not in line] or lines
