"""The rules of the house, read from the files themselves; a failure names each offending line."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from lab_utils.machine.java import FETCHED
from tests.called import call

ROOT: Final = Path(__file__).parents[1]
TEST_LOCK: Final = "requirements-test.lock"
SITE_LOCK: Final = "requirements-site.lock"
HUB_LOCK: Final = "docker/hub/requirements.lock"
PACKAGE: Final = ROOT / "lab_utils"

# Limits in lines, and of a room in files. They stop what nobody could read, and push nothing else.
MODULE: Final = 600
DEFINITIONS: Final = {ast.FunctionDef: 70, ast.AsyncFunctionDef: 70, ast.ClassDef: 350}
ROOM_FILES: Final = 15
# Who may be imported everywhere, and what it may know itself.
LEAVES: Final = {
    "errors": set[str](),
    "folders": {"errors"},
    "waiting": {"errors"},
    "processes": {"errors", "waiting"},
    "single_server": {"errors", "folders", "processes", "waiting"},
}
# Who may import whom, beside the leaves. What knows all rooms is small: the lab and its commands.
ROOMS: Final = {"ledger", "machine", "codec", "proxy", "stage", "clients", "audit", "views",
                "grading", "gradebook", "classroom", "site"}  # fmt: skip
KNOWS: Final = {
    "proxy": {"ledger", "codec"},
    "stage": {"ledger", "machine", "codec", "proxy"},
    "clients": {"ledger"},
    "audit": {"ledger"},
    "views": {"ledger", "audit"},
    "grading": {"ledger", "audit"},
    "gradebook": {"audit", "grading"},
    # its seat knows the ledger alone
    "classroom": {"ledger", "audit", "grading", "course", "working_folder"},
    "course": {"working_folder"},
    "jupyter": {"course"},
    "readback": {"ledger", "codec", "clients", "stage"},
    "experiment": {"ledger", "proxy", "clients", "stage", "readback"},
    "run": {"ledger", "codec", "audit", "views"},  # the names of Kafka's requests
    "sweep": {"proxy", "views", "run"},
    "checking": {"ledger", "clients", "grading", "experiment", "run", "lab"},
    "site": {"ledger", "machine", "audit", "views", "working_folder", "course", "run", "lab"},
    "lab": ROOMS - {"codec", "grading", "gradebook", "site"}
    | {"experiment", "run", "sweep", "checking", "course"},
    "cli": ROOMS - {"codec", "views"} | {"jupyter", "working_folder", "course"},
    "__init__": {"proxy", "run", "lab"},
}
# Modules that join rooms, each with its reason.
JOIN: Final = {
    # Spark's Java, and how an archive is made once
    "audit/spark_server.py": {"machine"},
    "clients/java_client.py": {"machine"},  # which Java, and whose jars
    "clients/program.py": {"machine"},  # the guardian ends what it started
    # Spark's Java, and the jars of its Kafka source
    "audit/streams.py": {"machine"},
    # the driver of a workload that is a stream, and the faults of its processes
    "clients/live_run.py": {"audit", "proxy"},
    "clients/crash.py": {"proxy"},  # reaches the points that a fault may name
    "clients/workload.py": {"proxy"},  # chooses which process a fault is for
    # runs the learner's function
    "grading/examination.py": {"clients", "machine", "proxy", "stage", "experiment"},
    "grading/kernel.py": {"machine"},  # what is made once for a machine
    "grading/inside.py": {"clients", "proxy"},  # is that function's process
    "grading/judge.py": {"proxy"},  # what a stage refuses
    "grading/weakness.py": {"proxy"},  # the faults by their names
    "grading/sandbox.py": {"machine"},  # which Java it may read, and what there is to isolate with
    # prepares it, says which Kafka it graded with, and ends the stages
    "grading/grader.py": {"machine", "stage"},
    "views/panel/__init__.py": {"proxy", "stage"},  # its buttons speak to a stage
}
# What is imported under another name than it is installed by.
IMPORTED_AS: Final = {"ipython": "IPython", "pyzmq": "zmq"}
EVERYWHERE: Final = {"orjson"}
PROGRAMS: Final = {"jupyterlab", "jupyter_server_proxy"}
BANNED_NAMES: Final = {"utils", "helpers", "common", "base", "manager", "handler"}
REGISTRIES: Final = (
    r"pypi\.org", r"pythonhosted", r"maven\.org", r"maven\.apache\.org/maven2",
    r"deb\.debian\.org", r"npmjs\.org", r"crates\.io", r"proxy\.golang",
)  # fmt: skip
MACHINE_PATHS: Final = r"""(?<![\w.$}/*-])/(work|root)(?=[/\s"'`]|$)|/tmp/[\w-]{3,}"""


@dataclass(frozen=True)
class Import:
    """One import: where it stands, what it names, and whether only type checkers see it."""

    path: Path
    line: int
    name: str
    typing_only: bool

    @property
    def room(self) -> str:
        """The room, or the module that is in none, where it stands."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def known(self) -> set[str]:
        """The rooms that may be imported there."""
        if self.room in LEAVES:
            return LEAVES[self.room] | {self.room}
        module = self.path.relative_to(PACKAGE).as_posix()
        known = KNOWS.get(self.room, set()) | JOIN.get(module, set())
        return known | LEAVES.keys() | {self.room}

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.name}"


@cache
def modules() -> tuple[Path, ...]:
    """The package's modules."""
    return tuple(path for path in tracked() if PACKAGE in path.parents and path.suffix == ".py")


@cache
def imports() -> tuple[Import, ...]:
    """Every import of the package, those within functions too."""
    return tuple(found for path in modules() for found in imports_of(path))


def imports_of(path: Path) -> Iterator[Import]:
    """The imports of one module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    typing = [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]
    hidden = {id(child) for node in typing for child in ast.walk(node)}
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if node.module == "lab_utils":
                names = [f"lab_utils.{alias.name}" for alias in node.names]
        for name in names:
            yield Import(path, node.lineno, name, id(node) in hidden)


@cache
def tracked() -> tuple[Path, ...]:
    """The files of the repository."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file())


def lines(pattern: str, *names: str) -> list[str]:
    """The tracked lines that a pattern is found in, in files whose names end so."""
    seen = re.compile(pattern)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in tracked()
        if path.name.endswith(names or ("",)) and path.name not in ("test_house.py", "LICENSE")
        for number, line in enumerate(text(path).splitlines(), start=1)
        if seen.search(line)
    ]


def text(path: Path) -> str:
    """A file's text; what is no text has none."""
    return path.read_bytes().decode(errors="replace")


def test_imports_point_one_way() -> None:
    """A room imports only rooms that it may know."""
    wrong = [
        f"{found}: may know {sorted(found.known)}"
        for found in imports()
        if found.name.startswith("lab_utils.")
        if found.name.split(".")[1] not in found.known
    ]

    assert [] == wrong


@cache
def homes() -> dict[str, set[str]]:
    """Where each library may be imported, as pyproject.toml says beside it, before the reason."""
    said = re.findall(r'(?m)^  "([\w-]+).*",  +# ([\w, ]+): ', text(ROOT / "pyproject.toml"))
    asked = {name: set(rooms.split(", ")) for name, rooms in said if name in asked_for()[0]}
    return {IMPORTED_AS.get(it, it.replace("-", "_")): rooms for it, rooms in asked.items()}


def test_each_library_has_one_home() -> None:
    """A third-party library is imported in its home alone; types may be named anywhere."""
    wrong = [
        f"{found}: its home is {sorted(homes()[library])}"
        for found in imports()
        if (library := found.name.partition(".")[0]) in homes().keys() - EVERYWHERE
        if found.room not in homes()[library] and not found.typing_only
    ]

    assert [] == wrong


def test_every_dependency_has_a_home() -> None:
    """What pyproject.toml asks for is imported, or is a program; nothing else is imported.

    Each home is a room, or a module that is in none, in which the library is imported.
    """
    found = {(it.name.partition(".")[0], it.room) for it in imports() if not it.typing_only}
    imported = {library for library, _ in found} - sys.stdlib_module_names
    named = {(library, room) for library, rooms in homes().items() for room in rooms}

    assert len(asked_for()[0]) == len(homes())
    assert homes().keys() - PROGRAMS | {"lab_utils", "benchmarks"} == imported
    assert PROGRAMS == {library for library, _ in named - found}


def asked_for() -> tuple[set[str], set[str], set[str]]:
    """The packages that pyproject.toml asks for: a learner's, the tests' and the site's."""
    project = tomllib.loads(text(ROOT / "pyproject.toml"))
    groups = project["dependency-groups"]
    asked = project["project"]["dependencies"], groups["test"], groups["site"]
    learners, tests, site = ({re.split(r"[\[<>=]", line)[0] for line in group} for group in asked)
    return learners, tests, site


def test_importing_the_package_loads_nothing_heavy() -> None:
    """The first line of a notebook brings in no client, no Spark, no pictures and no server."""
    names = f"[name for name in {sorted(homes().keys() - EVERYWHERE)} if name in sys.modules]"
    code = f"import sys; from lab_utils import Lab, drop_response, source; print({names})"
    loaded = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)

    assert "['platformdirs']\n" == loaded, "where folders are, which is small"


def test_nothing_sleeps() -> None:
    """Only lab_utils/waiting.py sleeps; everything else waits for something."""
    found = lines(r"^(?!.*[\"'].*sleep).*\b(time|asyncio)\.sleep\(", ".py", ".ipynb")

    assert [] == [line for line in found if not line.startswith("lab_utils/waiting.py")]


def test_no_test_runs_a_loop_where_one_may_run() -> None:
    """A worker of the suite that had a browser has its loop; tests.called.result_of() has its own.

    Such a test passes alone, and fails behind one of a browser.
    """
    found = lines(r"\basyncio\.(run|Runner|new_event_loop)\b|run_until_complete", ".py")
    # The proxy's rig has a loop for the life of a module, in a thread of its own.
    own = ("tests/called.py", "tests/proxy/rig.py")

    assert [] == [it for it in found if it.startswith("tests/") and not it.startswith(own)]


def test_no_test_is_skipped_in_silence() -> None:
    """A test that is left out somewhere says why; none is expected to fail."""
    found = lines(r"pytest\.skip\(\)|importorskip|xfail|mark\.skip\b|skipif\((?!.*reason=)", ".py")

    assert [] == found


def test_sizes() -> None:
    """A module is one idea, a function fits a screen, and a room can be looked over."""
    python = [path for path in tracked() if path.suffix == ".py" and path.parent.name != "source"]
    sizes = [(str(path.relative_to(ROOT)), len(text(path).splitlines()), MODULE) for path in python]
    for path in modules():
        for node in ast.walk(ast.parse(text(path))):
            limit = DEFINITIONS.get(type(node))
            if limit:
                name = f"{path.relative_to(ROOT)}: {node.name}"
                sizes.append((name, node.end_lineno - node.lineno + 1, limit))
    rooms = Counter(path.parent for path in modules() if path.name != "__init__.py")
    sizes += [(str(room.relative_to(ROOT)), files, ROOM_FILES) for room, files in rooms.items()]

    assert [] == [each for each in sizes if each[1] > each[2]]


def test_no_two_modules_share_a_name() -> None:
    """A module is known by its name alone."""
    names = Counter(path.stem for path in modules() if path.name != "__init__.py")

    assert [] == [name for name, times in names.items() if times > 1]


def test_names_say_something() -> None:
    """No module is called after nothing."""
    assert [] == [str(path) for path in modules() if path.stem in BANNED_NAMES]


def test_no_paths_of_one_machine() -> None:
    """No file names a folder that only one machine has; an image's folders are its own."""
    assert [] == [line for line in lines(MACHINE_PATHS) if "Dockerfile:" not in line]


def test_no_addresses_of_registries() -> None:
    """Packages are had from where the machine's own clients look."""
    assert [] == lines("|".join(REGISTRIES))


def test_prose_is_calm() -> None:
    """No sentence of the documents ends with an exclamation mark."""
    assert [] == lines(r"\w!(\s|$)", ".md")


def test_the_conda_environment_is_the_lock() -> None:
    """environment.yml installs the lock itself, the JDK that is fetched, a Python that serves."""
    environment = yaml.safe_load(text(ROOT / "environment.yml"))
    named = dict(line.split("=") for line in environment["dependencies"] if "=" in line)
    pip = [line["pip"] for line in environment["dependencies"] if isinstance(line, dict)]

    assert [["-r requirements.lock"]] == pip
    assert FETCHED == named["openjdk"]
    assert (3, 11) <= tuple(int(part) for part in named["python"].split("."))
    assert {"LAB_INSTALL": "no"} == environment["variables"]


def locked(name: str) -> dict[str, set[str]]:
    """The versions of each package of a lock. There may be one for each Python."""
    pins: dict[str, set[str]] = {}
    blocks = re.split(r"\n(?=[a-z])", re.sub(r"(?m)^ *#.*\n", "", text(ROOT / name)))
    assert [] == [block for block in blocks if "--hash=sha256:" not in block]
    for package, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", "\n".join(blocks)):
        pins.setdefault(package, set()).add(version)
    return pins


def test_the_locks_have_what_the_project_asks_for() -> None:
    """Every dependency is in its group's lock, with hashes; all locks have the same versions.

    What the tests or the site alone need is not in a learner's lock.
    """
    (learners, tests, site), pins = asked_for(), locked("requirements.lock")
    more, sites, hubs = locked(TEST_LOCK), locked(SITE_LOCK), locked(HUB_LOCK)

    assert set() == learners - pins.keys()
    assert set() == tests - more.keys()
    assert set() == site - sites.keys()
    for one, other in ((more, pins), (sites, pins), (hubs, pins), (sites, more)):
        assert {} == {name: one[name] for name in one.keys() & other if one[name] != other[name]}
    assert {"nbclient", "pyyaml"} == tests & pins.keys(), "JupyterLab needs these two itself"
    assert set() == site & pins.keys()


@pytest.mark.lint
@pytest.mark.timeout(900)  # mypy without a cache, beside two brokers and Spark
@pytest.mark.parametrize(
    "command",
    [("ruff", "check", "--quiet", "--output-format=concise"), ("ruff", "format", "--check"),
     ("mypy", "--no-error-summary")],
    ids=["lint", "format", "types"],
)  # fmt: skip
def test_tools_have_nothing_to_say(command: tuple[str, ...]) -> None:
    """Ruff and mypy --strict are content."""
    names = [".", "lab"] if command[0] == "ruff" else []
    done = call([sys.executable, "-m", *command, *names], cwd=ROOT)

    assert ("", 0) == (done.stdout.strip() if done.returncode else "", done.returncode)


def test_a_module_keeps_its_worker(request: pytest.FixtureRequest) -> None:
    """A test's id carries its group, or each worker would start every stage and every Spark."""
    if "PYTEST_XDIST_WORKER" in os.environ and request.config.getoption("loadgroup", False):
        assert request.node.nodeid.endswith("@test_house")
