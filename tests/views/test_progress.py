"""The sign of life: shown while something takes long, gone afterwards, never for what is quick."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from lab_utils.errors import own_lines
from lab_utils.stage.client import Stage
from lab_utils.views.progress import doing

pytestmark = pytest.mark.kafka

WORK = """
from threading import Event
from lab_utils.views.progress import doing
with doing("Counting <sheep>"), doing("Shearing"):
    Event().wait({seconds})
"""
SPARK = """
from threading import Event
from lab_utils.views.tables import tell_when_spark_works

class Frame:
    def collect(self):
        Event().wait({seconds})
    count = show = toPandas = collect

for _ in range(2):
    tell_when_spark_works(Frame)
Frame().collect()
"""

STARTING = """
from threading import Event
from lab_utils import Lab, lab
lab._load = lambda: Event().wait(40)
Lab._joined = lambda *_: None
Lab("03")
"""

LAB = """
from lab_utils import Lab
from lab_utils.views import progress
progress.LONG_S = 2
lab = Lab({stage.name!r})
"""
LOOP = """
def retry(run):
    while True:
        pass

lab.{verb}
"""
HELD_UP = """
def pay(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(run.topic, "0")
    lab.brokers.kill(1)
    producer.commit_transaction()

lab.run(pay)
"""


@pytest.fixture(scope="module")
def manager() -> Iterator[Any]:
    """A kernel, and nobody else's."""
    manager, client = start_new_kernel(env=dict(os.environ))
    client.stop_channels()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def client(manager: Any) -> Iterator[Any]:
    """One who runs cells in it."""
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield client
    client.stop_channels()


def shown(client: Any, seconds: float, work: str = WORK) -> list[tuple[str, str]]:
    """What the cell shows, in order: the kind of the message, and its HTML."""
    kinds = ("display_data", "update_display_data")
    messages: list[dict[str, Any]] = []
    client.execute_interactive(
        work.format(seconds=seconds), output_hook=messages.append, timeout=60
    )
    return [
        (each["msg_type"], each["content"]["data"]["text/html"])
        for each in messages
        if each["msg_type"] in kinds
    ]


def when_shown(
    client: Any, work: str, words: str, do: Callable[[], object], timeout_s: float = 60
) -> dict[str, Any]:
    """Run a cell, and do this once it shows a line with these words; return how the cell ended."""
    done: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        text = message["content"].get("data", {}).get("text/plain", "")
        if re.search(words, text) and not done:
            done.append(text)
            do()

    ended: dict[str, Any] = client.execute_interactive(work, output_hook=hear, timeout=timeout_s)
    return ended["content"]


def test_what_takes_long_is_shown_and_then_gone(client: Any) -> None:
    """It appears in the cell that is running, goes on counting, and leaves nothing.

    A check makes runs, and a run reads its log: a block within a block says nothing.
    """
    (kind, text), *others, last = shown(client, 2.5)

    assert "display_data" == kind
    assert re.fullmatch(r'<span role="status">Counting &lt;sheep&gt; … [1-9]\d* s</span>', text)
    assert others
    assert {"update_display_data"} == {kind for kind, _ in [*others, last]}
    assert all("Counting" in text for _, text in others)
    assert "" == last[1]


def test_a_query_that_a_learner_collects_is_shown(client: Any) -> None:
    """A table that is shown says that Spark is at work; what is collected says so, too, once."""
    first, *others = shown(client, 1.5, SPARK)

    assert ("display_data", '<span role="status">Spark runs the query … 1 s</span>') == first
    assert {"update_display_data"} == {kind for kind, _ in others}


def test_what_is_quick_shows_nothing(client: Any) -> None:
    """Most cells are done before anybody wonders."""
    assert [] == shown(client, 0)


def test_an_interrupt_says_what_is_next(manager: Any, client: Any) -> None:
    """Kernel, Interrupt: the line of the cell at which it waited, and no frame of ours or Python's.

    A frame of a library between them would look like a defect, and would say nothing to do.
    """
    content = when_shown(client, WORK.format(seconds=60), "Counting", manager.interrupt_kernel)
    first, *_, last = "\n".join(content["traceback"]).splitlines()

    assert first.endswith(", in <module>")
    assert "threading" not in "".join(content["traceback"])
    assert "Interrupted: Counting <sheep>. Run the cell again to begin it anew." == last


def test_a_run_that_waits_for_a_broker_says_what_is_next(client: Any, stage: Stage) -> None:
    """Its client waits in C without end, where no interrupt comes; a broker ends the wait."""
    words = rf"^Run {stage.name}-\w+ … .*start the broker in the panel, or restart the kernel\.$"
    cell = LAB.format(stage=stage) + HELD_UP
    content = when_shown(client, cell, words, stage.heal, timeout_s=300)

    assert "ok" == content["status"]


@pytest.mark.parametrize(
    ("verb", "begin"),
    [
        ("run(retry)", r"\d s\. "),
        ('check("03.2", retry)', r"Checking 03\.2 … \d s\. Run 1 of 2\. "),
    ],
    ids=["run", "check"],
)
def test_a_loop_that_never_ends_says_what_is_next(
    verb: str, begin: str, manager: Any, client: Any, stage: Stage
) -> None:
    """A retry of what no retry fixes: the learner reads how to stop it, and that stops it.

    A check makes several runs, for minutes perhaps: it also says how far it is.
    """
    words = begin + r"If a loop .* interrupt the cell: ■ in the toolbar\.$"
    cell = LAB.format(stage=stage) + LOOP.format(verb=verb)
    content = when_shown(client, cell, words, manager.interrupt_kernel)

    assert "KeyboardInterrupt" == content["ename"]


def test_an_interrupt_of_the_first_cell_waits_for_nothing(manager: Any, client: Any) -> None:
    """What the lab loads meanwhile takes seconds, and goes on for the cell that runs again."""
    content = when_shown(client, STARTING, "Starting", manager.interrupt_kernel, timeout_s=20)

    assert "KeyboardInterrupt" == content["ename"]


def test_lines_of_the_learner_are_none_of_python_itself() -> None:
    """What Python has frozen into itself, as its import, is in no folder."""
    with pytest.raises(ModuleNotFoundError) as met:
        import_module("lab_utils.nowhere")

    assert [__file__] == [line.filename for line in own_lines(met.value)]


def test_a_plain_program_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Outside of a notebook nobody looks; what the block raises is raised."""
    with pytest.raises(ZeroDivisionError), doing("Dividing"):
        1 / 0  # noqa: B018

    assert ("", "") == capsys.readouterr()


def test_ipython_that_is_just_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may import it while a block begins; the block runs."""
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    with doing("Nothing"):
        done = True

    assert done
