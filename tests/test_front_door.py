"""./lab on machines that lack something: one clear message each, and the command that fixes it.

The script is run for real in a folder of its own. What a machine lacks is really lacking: a Python
tree without ensurepip, an index that refuses, a folder of another user, a disk without room.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

from lab_utils.cli import main
from lab_utils.folders import cache_folder
from lab_utils.waiting import wait_until
from tests.called import call

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]
LEARNERS_MB = 1100
PARTS = ("lab", "requirements.lock", "requirements-test.lock", "requirements-site.lock")
CLOSED = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}
SWALLOWS = """import threading
from lab_utils.cli import _interruptible
with _interruptible("all is as it was."):
    try:
        print("begun", flush=True)
        threading.Event().wait(60)
    except:
        print("swallowed", flush=True)
    threading.Event().wait(60)
"""
CLI = """import os, sys
import lab_utils
print(lab_utils.__file__, os.getcwd(), *sys.argv[1:], sep="|")
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ./lab of a folder with the Python of this test."""
    command = [sys.executable, folder / "lab", *arguments]
    return call(command, env={**os.environ, "PYTHONPATH": "", **environment}, timeout=100)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with the front door, its locks, and a command line that says how it was called."""
    with TemporaryDirectory(prefix="lab test-") as place:
        folder = Path(place) / "the lab"
        (folder / "lab_utils").mkdir(parents=True)
        for name in PARTS:
            shutil.copy(ROOT / name, folder)
        (folder / "lab_utils" / "__init__.py").touch()
        (folder / "lab_utils" / "cli.py").write_text(CLI)
        yield folder


@pytest.fixture
def door(folder: Path) -> Any:
    """The script of that folder as a module."""
    loader = SourceFileLoader("front_door", str(folder / "lab"))
    module = module_from_spec(spec_from_loader("front_door", loader) or pytest.fail("no spec"))
    loader.exec_module(module)
    return module


@pytest.fixture
def installed(folder: Path, door: Any) -> Path:
    """That folder with an environment that has nothing but the stamp of a learner's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (packages,) = (folder / ".venv" / "lib").glob("*/site-packages")
    (packages / "lab.pth").write_text(f"{folder}\n")
    door.write(door.stamp(door.LOCK), door.expected(door.LOCK))
    return folder


@pytest.mark.parametrize("typed", [["--help"], ["grade", "-h"], []])
def test_help_installs_nothing(folder: Path, typed: list[str]) -> None:
    """Asked before anything is installed it says what the commands are, and makes nothing."""
    done = run(folder, *typed)

    assert (0, "Usage: ./lab COMMAND", "") == (done.returncode, done.stdout[:20], done.stderr)
    assert not (folder / ".venv").exists()


def test_a_second_start_runs_the_command_line(installed: Path) -> None:
    """With a stamp, the command line runs at once, where the person is, with what was typed."""
    command = [installed / "lab", "grade", "my work.ipynb"]
    done = call(command, cwd="/", env={**os.environ, "PYTHONPATH": ""}, check=True)

    assert f"{installed}/lab_utils/__init__.py|/|grade|my work.ipynb\n" == done.stdout


def test_a_stamp_is_for_one_lock(installed: Path, door: Any) -> None:
    """Neither a lock that has changed, nor one of another folder, nor the tests' is installed."""
    assert [True, False] == [door.is_installed(door.LOCK), door.is_installed(door.TEST_LOCK)]
    with door.LOCK.open("a") as lock:
        lock.write("# changed")
    assert not door.is_installed(door.LOCK)
    shutil.copy(ROOT / "requirements.lock", door.LOCK)
    assert door.is_installed(door.LOCK)
    door.ROOT = installed.with_name("elsewhere")
    assert not door.is_installed(door.LOCK)


@pytest.mark.parametrize(
    ("typed", "more"),
    [(["up"], []), (["test"], ["TEST_LOCK"]), (["site", "pages"], ["SITE_LOCK"]),
     (["test", "long"], ["TEST_LOCK", "SITE_LOCK"]), ([], []), (["site", "--help"], []),
     (["test", "long", "-h"], [])],
)  # fmt: skip
def test_a_command_needs_its_locks(door: Any, typed: list[str], more: list[str]) -> None:
    """Only what a command uses is installed for it."""
    assert [door.LOCK, *(getattr(door, name) for name in more)] == door.needed(typed)


def test_python_too_old(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old Python names itself, what is needed, and what to type on each system."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(door.SetupError) as raised:
        door.become_newer([])

    assert "The lab needs Python 3.11 or newer; this is 3." in str(raised.value)
    assert "apt-get install python3 python3-venv" in str(raised.value)


def test_an_old_python_starts_a_newer_one(installed: Path) -> None:
    """An old python3 hands over to the newer one that PATH has."""
    name = f"python3.{sys.version_info.minor}"
    (installed / "bin").mkdir()
    (installed / "bin" / name).symlink_to(sys.executable)
    code = "import runpy; runpy.run_path('lab')['become_newer'](['up'])"
    environment = {"PATH": str(installed / "bin"), "HOME": str(installed)}
    done = call([sys.executable, "-c", code], cwd=installed, env=environment)

    assert "|up\n" == done.stdout[-4:], done.stderr


def test_no_module_that_makes_environments(folder: Path) -> None:
    """A Python without venv and ensurepip, as Debian ships it, names the package that has them."""
    library = folder / "python" / "lib" / f"python3.{sys.version_info.minor}"
    library.mkdir(parents=True)
    for path in Path(sysconfig.get_path("stdlib")).iterdir():
        if path.name not in ("venv", "ensurepip", "site-packages"):
            (library / path.name).symlink_to(path)
    done = run(folder, "up", PYTHONHOME=str(folder / "python"))

    assert 1 == done.returncode
    assert "it lacks the module venv and ensurepip" in done.stderr
    assert "apt-get install python3-venv" in done.stderr


def test_no_network(folder: Path, door: Any) -> None:
    """An index that refuses: the message says what could not be had; nothing is called whole.

    Which index it is, pip knows from its own settings. What a learner's environment has serves
    every command but `test` and `site`, which ask for packages of their own.
    """
    for command, lock in (("up", door.LOCK), ("test", door.TEST_LOCK), ("site", door.SITE_LOCK)):
        done = run(folder, command, **CLOSED)

        assert 1 == done.returncode
        assert f"Setting up {folder}/.venv from {lock.name}, once." in done.stderr
        assert f"pip could not install {lock.name}; the lines above say" in done.stderr
        assert "Connect this machine to the network, then run ./lab again" in done.stderr
        assert "127.0.0.1" in done.stderr
        assert not door.is_installed(lock)
        door.write(door.stamp(lock), door.expected(lock))


def test_no_room(door: Any) -> None:
    """A disk with less than is needed is named, with both numbers."""
    with pytest.raises(door.SetupError, match=r"need 1000000000000 MB in .*, and \d+ MB are free"):
        door.check_machine(10**12)


def test_a_folder_of_another_user(folder: Path) -> None:
    """In a folder that takes no files, the message names it and two ways out."""
    folder.parent.chmod(0o755)
    folder.chmod(0o555)
    other = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    done = call([python, folder / "lab", "up"], **other)
    folder.chmod(0o755)

    assert 1 == done.returncode
    assert f"You may not write to {folder}, where the lab's packages go." in done.stderr
    assert "clone the lab into a folder of yours" in done.stderr


def test_ctrl_c(folder: Path) -> None:
    """Ctrl-C while it installs ends with one sentence, and the next start begins again."""
    door = subprocess.Popen(
        [sys.executable, folder / "lab", "up"],
        env={**os.environ, **CLOSED},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until((folder / ".venv").exists, "the environment to be begun", timeout_s=60)
    os.killpg(door.pid, signal.SIGINT)
    said = door.communicate()[1]

    assert 130 == door.returncode
    assert "Stopped. Run ./lab again: it goes on where it was." == said.splitlines()[-1]
    assert "Traceback" not in said


def test_ctrl_c_ends_the_tests_in_order(tmp_path: Path) -> None:
    """The tests are the process that Ctrl-C reaches, and nobody kills them while they clear up."""
    here = tmp_path / "here"
    (tmp_path / "test_it.py").write_text(
        f"""
import os, pathlib, signal
import pytest

HERE = pathlib.Path({str(here)!r})

@pytest.fixture
def file():
    yield HERE
    HERE.unlink()

def test_waits(file):
    file.with_suffix(".new").write_text(str(os.getpid()))
    file.with_suffix(".new").rename(file)
    signal.pause()
"""
    )
    alone = ["-n0", f"--rootdir={tmp_path}", "-p", "no:cacheprovider", str(tmp_path)]
    tests = subprocess.Popen(
        [sys.executable, "-m", "lab_utils.cli", "test", "unit", *alone],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(here.exists, "the test to begin", timeout_s=60)
    process = int(here.read_text())
    os.killpg(tests.pid, signal.SIGINT)

    assert "KeyboardInterrupt" in tests.communicate()[0]
    assert (tests.pid, pytest.ExitCode.INTERRUPTED) == (process, tests.returncode)
    assert not here.exists()


def test_ctrl_c_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is interrupted ends as a signal ends one: of an audit, 1 says a breach."""
    monkeypatch.setattr(
        "lab_utils.machine.doctor.examine", lambda: signal.raise_signal(signal.SIGINT)
    )
    done = CliRunner().invoke(main, ["doctor"])

    assert (130, "Interrupted.\n") == (done.exit_code, done.stderr)


def test_what_the_system_refuses_is_a_sentence(tmp_path: Path) -> None:
    """A command that cannot write where it has to says where, and shows no line of ours."""
    (tmp_path / "state" / "jupyter.log").mkdir(parents=True)
    chosen = {"LAB_STATE": str(tmp_path / "state"), "LAB_FOLDER": str(tmp_path / "work")}
    done = CliRunner(env=chosen).invoke(main, ["up", "--port", "0"])

    assert 1 == done.exit_code
    assert "jupyter.log'. Look at that file or folder, then run" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--help"]], ids=" ".join)
def test_an_output_that_takes_nothing(arguments: list[str]) -> None:
    """A full disk is named, and not met again as Python ends, which then exits with 120."""
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "lab_utils.cli", *arguments]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert 1 == ended.returncode
    said = "the output cannot be written: No space left on device. Send it where there is room."
    assert f"Error: {said}\n" == ended.stderr


@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_being_prepared_goes(tmp_path: Path, number: signal.Signals) -> None:
    """A first start that is ended, as by closing its terminal, leaves no half of what it made."""
    (tmp_path / "jars").symlink_to(cache_folder() / "jars")
    command = [sys.executable, "-m", "lab_utils.cli", "prepare"]
    with subprocess.Popen(command, env={**os.environ, "LAB_CACHE": str(tmp_path)}) as start:
        wait_until(lambda: list(tmp_path.glob("making-*")), "a beginning", timeout_s=60)
        start.send_signal(number)

    assert 130 == start.returncode
    assert [] == list(tmp_path.glob("making-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_is_swallowed_comes_again(number: signal.Signals) -> None:
    """A library that is being imported may hold every exception for its own."""
    command = [sys.executable, "-c", SWALLOWS]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert "begun\n" == process.stdout.readline()
        process.send_signal(number)
        said, told = process.communicate(timeout=60)

    assert ("swallowed\n", "Interrupted: all is as it was.\n") == (said, told)
    assert 128 + number == process.returncode


def test_an_image_installs_nothing(folder: Path) -> None:
    """With LAB_INSTALL=no the Python at hand runs the command line; no environment is made."""
    done = run(folder, "doctor", LAB_INSTALL="no")

    assert f"{folder}/lab_utils/__init__.py" == done.stdout.partition("|")[0]
    assert not (folder / ".venv").exists()


def test_what_nothing_runs_is_deleted(door: Any, tmp_path: Path) -> None:
    """A package's own tests and Arrow's servers go; what is imported stays."""
    gone = ("pandas/tests/io/test_sql.py", "zmq/tests/a.py", "pyarrow/include/arrow/api.h",
            "pyarrow/libarrow_flight.so.2600", "pyarrow/_flight.cpython-311.so")  # fmt: skip
    kept = ("pandas/io/sql.py", "pyarrow/libarrow.so.2600", "pyarrow/tests.py", "zmq/error.py")
    for name in (*gone, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    door.prune(tmp_path)
    left = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")]

    assert sorted(kept) == sorted(left)


@pytest.mark.install
@pytest.mark.timeout(900)
def test_a_learners_installation(tmp_path: Path) -> None:
    """Killed midway, then started twice at once: one completes it, and both run.

    It is what a learner's lock says, without the tests' packages, in at most 1.1 GB.
    """
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    command = [sys.executable, clone / "lab", "doctor", "--json"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    packages = clone / ".venv" / "lib"
    wait_until(lambda: list(packages.glob("*/site-packages/pyz*")), "packages", timeout_s=400)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    starts = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    shown = [start.communicate(timeout=500) for start in starts]
    said = [lines for _, lines in shown]
    rows = {row["name"]: row for row in json.loads(shown[0][0])}
    names = {path.name for path in packages.glob("*/site-packages/*")}
    used = sum(path.lstat().st_size for path in (clone / ".venv").rglob("*") if path.is_file())

    assert 1 == sum("Setting up" in text for text in said), said
    assert 1 == sum("Another ./lab is installing; waiting for it." in text for text in said), said
    assert rows["packages"]["ok"], rows["packages"]
    assert set() == names & {"pytest", "hypothesis", "playwright", "mypy", "ruff", "sphinx", "furo"}
    assert used <= LEARNERS_MB * 1_000_000
