"""What all tiers share: one state folder, the pooled stages and Spark, and nothing left behind."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

# A shell that starts something in the background lets it ignore Ctrl-C, nohup a hang-up, and so do
# its children: what the tests start has to hear both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How these tests were started is not how those of the front door start theirs.
os.environ.pop("LAB_INSTALL", None)
# Where a learner's Python holds back what it prints, so does that of each test.
os.environ.pop("PYTHONUNBUFFERED", None)

# jsonschema, which nbformat loads, would build the grammar of international addresses: two seconds
# of processor time for a format that no notebook has.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# Before anything of the lab is imported: a run of the suite has a state of its own, so that
# several, labs and graders do not meet. Its workers share it, and with it one Spark server.
# The cache is the machine's: jars are large.
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not IS_WORKER:
    _STATE = tempfile.TemporaryDirectory(prefix="lab-test-", ignore_cleanup_errors=True)
    os.environ["LAB_STATE"] = _STATE.name
    os.environ["LAB_OWNER"] = str(os.getpid())
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
    )

from lab_utils.folders import cache_folder  # noqa: E402
from lab_utils.machine.jars import locked  # noqa: E402
from lab_utils.processes import ended_with  # noqa: E402

# Hundreds of processes are started, each of which would compile the lab and its libraries anew
# where an environment says that no bytecode is to be written. It is kept beside the jars.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = str(cache_folder() / "bytecode")
sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ["PYTHONPYCACHEPREFIX"]

# Whoever asks for Spark first starts it for all, and some read topics.
os.environ.setdefault("LAB_SPARK_JARS", ",".join(str(jar.path) for jar in locked("spark")))

_POOLED: dict[str, Any] = {}
# Markers, and fixtures of which a whole run needs one. A broker costs seven seconds of a processor
# until both its coordinators answer, and three in each hundred while nobody asks it.
ONE_WORKER = ("lint", "solutions", "stage_of_three", "postgres", "jupyterlab", "stage", "browser")
# The order of groups and tiers, the longest first: what is left for the end of a run is small.
FIRST = ("lint", "stage", "solutions", "jupyterlab", "labs", "browser", "kafka")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a module on one worker, with its fixtures, and all that share a stage on one."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_place)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Let a worker that crashes say where it was."""
    if IS_WORKER:
        faulthandler.enable(_last_words(os.environ["PYTEST_XDIST_WORKER"]).open("wb"))


def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    """Put it into the report of the test that the worker was running, with how it ended."""
    gateway = report.node.gateway  # type: ignore[attr-defined]
    how = ended_with(gateway._io.popen.wait(10))
    report.longrepr = f"{report.longrepr}: it {how}\n{_last_words(gateway.id).read_text()}"


def _last_words(worker: str) -> Path:
    return Path(os.environ["LAB_STATE"], f"{worker}.crash")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Start Spark for a run that will need it: until it is asked for, half a minute of work."""
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" and any(
        item.get_closest_marker("labs") for item in session.items
    ):
        from lab_utils.audit import spark_server

        Thread(target=spark_server.join, args=(spark_server.LOCAL_MASTER,), daemon=True).start()


def _group(item: pytest.Item) -> str:
    for name in ONE_WORKER:
        if name in _fixtures(item) or item.get_closest_marker(name):
            return "solutions" if name == "stage_of_three" else name
    return item.path.stem


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def _place(item: pytest.Item) -> tuple[int, int]:
    """Of a group; and in it, so that who needs a stage comes after another that does."""
    marks = {mark.name for mark in item.iter_markers()} | {_group(item)}
    needs = _fixtures(item)
    return (
        next((place for place, name in enumerate(FIRST) if name in marks), len(FIRST)),
        ("stage" in needs) + ("stage_of_three" not in needs),
    )


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder for one test alone, with what paths of people's own have in them."""
    folder = tmp_path / "Jürgen's state"
    monkeypatch.setenv("LAB_STATE", str(folder))
    return folder


@pytest.fixture(scope="session")
def pooled() -> dict[str, Any]:
    """The stages that the tests of this worker share, by the name of their fixture."""
    from tests.pool import Pooled

    _POOLED.update(stage=Pooled("tests", 1), stage_of_three=Pooled("three", 3))
    return _POOLED


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a stage with the last test that needs it: its brokers are never quite at rest."""
    for name in _POOLED.keys() & set(_fixtures(item)):
        if nextitem is None or name not in _fixtures(nextitem):
            _POOLED[name].end()


@pytest.fixture(scope="module")
def stage(pooled: dict[str, Any]) -> Any:
    """A stage with one real broker, made whole after each test; nobody may end it."""
    return pooled["stage"].join()


@pytest.fixture(scope="module")
def stage_of_three(pooled: dict[str, Any]) -> Any:
    """A stage with three brokers and a controller, the only one of the whole run."""
    return pooled["stage_of_three"].join()


@pytest.fixture(scope="module")
def spark_address() -> str:
    """Where the Spark of all tests answers: who is given it in SPARK_REMOTE starts none."""
    from lab_utils.audit import spark_server

    return spark_server.join(spark_server.LOCAL_MASTER).address


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium: Playwright's loop stays in its thread, where no second one can begin."""
    from tests.browser import rig

    with rig.chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def reader(stage: Any) -> Iterator[Any]:
    """The lab's own connection to the broker, past the proxy."""
    from lab_utils.clients.reader import HonestReader

    reader = HonestReader(stage.direct)
    yield reader
    reader.close()


@pytest.fixture
def perform(stage: Any, tmp_path: Path) -> Iterator[Any]:
    """A function that performs a workload on the shared stage, and returns the rows of its run."""
    from tests.performed import performing

    with performing(stage, tmp_path) as perform:
        yield perform


@pytest.fixture(autouse=True)
def whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test, make whole the shared stages that it was given."""
    yield
    for name in {"stage", "stage_of_three"} & set(request.fixturenames):
        request.getfixturevalue("pooled")[name].make_whole()


@pytest.hookimpl(trylast=True)  # An interrupted test is torn down first, and needs its stage.
def pytest_sessionfinish() -> None:
    """End what the tests have started, once all workers are done."""
    if IS_WORKER:
        return
    # Nobody looks again for the bytecode of what was in a temporary folder.
    bytecode = Path(os.environ["PYTHONPYCACHEPREFIX"])
    shutil.rmtree(bytecode / Path(tempfile.gettempdir()).relative_to("/"), ignore_errors=True)
    if not any(Path(os.environ["LAB_STATE"]).glob("s*")):  # Neither stages nor spark.
        return
    from lab_utils.audit import session, spark_server
    from lab_utils.machine.down import down

    session.stop_session()
    spark_server.stop()
    down()
