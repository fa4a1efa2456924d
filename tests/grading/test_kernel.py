"""The grader survives whatever a kernel does, and a session goes on across its deaths."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from lab_utils.audit.queries import planned
from lab_utils.grading import kernel as kernel_module
from lab_utils.grading import sandbox as sandbox_module
from lab_utils.grading.cases import exercises
from lab_utils.grading.examination import Examiner
from lab_utils.grading.kernel import (
    Budget,
    Kernel,
    KernelSession,
    SharedSpark,
    keep_bytecode,
    parsed,
)
from lab_utils.grading.sandbox import Sandbox
from lab_utils.grading.submission import Cell, Submission
from lab_utils.machine.confinement import BUBBLEWRAP, isolation
from lab_utils.stage.lending import Lending
from tests.histories import in_run, log

pytestmark = [pytest.mark.labs, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def started() -> Iterator[Kernel]:
    """A kernel in a folder with a short name: a socket's path is limited to a hundred letters."""
    with TemporaryDirectory(prefix="lab-test-") as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder}
        kernel = Kernel(Sandbox(isolation(), Path(folder)), environment, Path(folder))
        kernel.wait_until_ready()
        yield kernel
        kernel.kill()


# For one test alone, which may end it; and for tests that do it no harm.
kernel, shared = pytest.fixture(started), pytest.fixture(scope="module")(started)


def test_state_lasts_and_stderr_is_no_error(shared: Kernel) -> None:
    """Cells share a state, a cell that writes to stderr is well, and values come back as text."""
    first = shared.execute("import sys; x = 20; print('!', file=sys.stderr)", 20)
    second = shared.execute("", 20, said="__import__('json').dumps({'x': x + 1})")

    assert ("ok", {"x": 21}) == (first.status, parsed(second.values["said"]))


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        # What the repr of its value raised: the cell's own code raised nothing.
        ("class Value:\n    def __repr__(self):\n        return 1 / 0\nValue()",
         "ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_a_cell_that_raises(shared: Kernel, cell: str, error: str) -> None:
    """What a cell raised comes back as one line, and the kernel goes on."""
    raised = shared.execute(cell, 20)

    assert ("error", error) == (raised.status, raised.error)
    assert "ok" == shared.execute("1", 20).status


def test_an_expression_that_raises(shared: Kernel) -> None:
    """A name that nobody defined is a reason, not an error of the grader's."""
    reply = shared.execute("", 20, said="answer_1")

    assert {"raised": "NameError: name 'answer_1' is not defined"} == parsed(reply.values["said"])


def test_an_endless_loop_is_interrupted(shared: Kernel) -> None:
    """A loop is interrupted when its time is up; the state stays."""
    shared.execute("x = 1", 20)

    assert "late" == shared.execute("while True: pass", 1).status
    assert "ok" == shared.execute("x", 20).status


def test_a_loop_that_will_not_end_is_killed(kernel: Kernel) -> None:
    """What takes no interrupt is killed, and from then on the kernel is dead."""
    stubborn = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True: signal.pause()"""

    assert ["late", "dead"] == [kernel.execute(code, 1).status for code in (stubborn, "1")]


def test_endless_output_is_nobodys_problem(shared: Kernel) -> None:
    """Output is never read, on either way out, so no amount of it matters."""
    loud = "import os\nfor _ in range(200):\n  print('x' * 1_000_000)\n  os.write(1, b'x' * 10**6)"

    assert "ok" == shared.execute(loud, 60).status


def test_an_answer_too_large_is_no_answer(kernel: Kernel) -> None:
    """A message beyond the limit never reaches the grader's memory."""
    assert "ok" != kernel.execute("", 1, said="'x' * 50_000_000").status


TALKS = """
def send(stream, *_, ident=None, **__):
    stream.send_multipart([*ident, *[b"x" * 1_000_000] * 1000])
get_ipython().kernel.session.send = send
"""


def test_an_answer_of_too_many_parts(kernel: Kernel) -> None:
    """Each is small enough: what may come altogether is limited, and who says more is ended."""
    Path("/proc/self/clear_refs").write_text("5")  # the most memory that was held, from now on
    before = psutil.Process().memory_info().rss
    reply = kernel.execute(TALKS, 30)
    said = Path("/proc/self/status").read_text()
    most = int(re.findall(r"VmHWM:\s*(\d+) kB", said)[0]) * 1024

    assert "dead" == reply.status
    assert "its kernel said more than 100 MB" == kernel.sandbox.exceeded
    assert most - before < 300_000_000


@pytest.mark.skipif(isolation() != BUBBLEWRAP, reason="there its socket is a port")
def test_a_link_in_place_of_its_socket(kernel: Kernel) -> None:
    """Nobody follows it: it might lead to another kernel, or back to who follows it, for ever."""
    folder = str(kernel.sandbox.folder)
    path, back = f"{folder}/ipc-1", f"{folder}-kernel-1"
    kernel.execute(f"import os; os.unlink({path!r}); os.symlink({back!r}, {path!r})", 20)
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(back)
            caller.settimeout(10)
            assert b"" == caller.recv(1)

    assert "ok" == kernel.execute("1", 20).status


@pytest.mark.parametrize(
    "cell",
    [
        "get_ipython().user_expressions = lambda _: [1]",
        "get_ipython().user_expressions = lambda _: {'said': 5}",
        "get_ipython().kernel.session.msg_header = lambda _: 5",
        "session = get_ipython().kernel.session; header = session.msg_header\n"
        "session.msg_header = lambda it: {**header(it), 'date': '9999-12-31T24:00:00Z'}",
        "get_ipython().kernel.session.send = lambda stream, *a, **k: stream.send(b'?')",
    ],
)
def test_a_kernel_whose_messages_have_another_form(kernel: Kernel, cell: str) -> None:
    """It is late or dead, which costs its own item, and nothing breaks that reads them."""
    kernel.execute(cell, 2)

    assert kernel.execute("", 2, said="1").status in ("late", "dead")


@pytest.mark.parametrize(
    "text", ["", "[1]", "'[1]'", "'{'", "{'a': 1}", "__import__('os')", "'" + "[" * 100_000 + "'",
             "'{\"a\": " + "[" * 400 + "]" * 400 + "}'"],
)  # fmt: skip
def test_what_is_no_json_object(text: str) -> None:
    """Nothing but the text of a JSON object in quotes is read, and nothing is evaluated."""
    assert {} == parsed(text)


SAID = "__import__('json').dumps({'x': x})"
Opened = Callable[..., KernelSession]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens sessions of cells, and closes them."""
    sessions: list[KernelSession] = []
    with TemporaryDirectory(prefix="lab-test-") as place:

        def open_session(*sources: str, cell_s: float = 30, total_s: float = 100) -> KernelSession:
            cells = tuple(Cell(source) for source in sources)
            folder = Path(place) / f"s{len(sessions)}"
            submission = Submission(folder, "90", (), cells, ())
            sessions.append(KernelSession(submission, folder, Budget(cell_s, total_s), isolation()))
            return sessions[-1]

        yield open_session
        for session in sessions:
            session.close()


def run(session: KernelSession) -> list[str]:
    """How each cell of the session ended."""
    return [session.run_cell(position).status for position in range(len(session.submission.cells))]


def test_a_killer_costs_itself_alone(opened: Opened) -> None:
    """After a death the cells so far run again, less each killer; the next finds their state."""
    killer = "x += 1; import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    session = opened("x = 1", "x += 1; import os; os._exit(3)", "x += 10", killer, "1 / 0")

    assert ["ok", "dead", "ok", "dead", "error"] == run(session)
    assert ("ok", {"x": 11}) == session.evaluate(4, SAID)


def test_an_examination_that_kills(opened: Opened) -> None:
    """A function that ends the kernel when it is called leaves the cells as they were."""
    session = opened("x = 1", "x = 2")

    run(session)

    assert "dead" == session.evaluate(0, "__import__('os')._exit(0)")[0]
    assert ("ok", {"x": 2}) == session.evaluate(1, SAID)


@pytest.mark.parametrize(
    ("cells", "ends"),
    [
        (("while True: pass", "x = 3"), ["late", "spent"]),
        # The cell that needs a Spark was not too slow: its submission has no time left.
        ((f"raise RuntimeError({kernel_module.WITHOUT_SPARK!r})",), ["spent"]),
    ],
)
def test_time_that_is_spent(opened: Opened, cells: tuple[str, ...], ends: list[str]) -> None:
    """When the submission's time is over nothing more is run, and nothing waits."""
    session = opened("x = 1", *cells)
    session.run_cell(0)  # with the start of the kernel
    session.budget.total_s = time.monotonic() - session.budget.started + 1

    assert ends == [session.run_cell(1 + number).status for number in range(len(cells))]


class Contended(threading.Semaphore):
    """A lock that others have for the first second."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Wait for them first."""
        threading.Event().wait(1)
        return super().acquire(blocking, timeout)


def test_time_of_others(
    opened: Opened, shared_spark: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a submission waits for others takes nothing of its own time."""
    query = exercises("03")[2]
    session = opened(f"def {query.answer}(events):\n    return events.where('offset > 1')")
    run(session)
    monkeypatch.setattr(shared_spark, "_lock", Contended())
    shared_spark._starts_left = 0  # whose turn it is finds that none can be started any more
    examiner = Examiner(session, session.folder, "7", "one", Lending("tests", 0), shared_spark)

    assert examiner._asked_as_a_plan(query, [], 0) is None
    assert session.budget.total_s > 101


def test_each_cell_has_its_time(opened: Opened) -> None:
    """A loop takes its own time and no one else's; the state stays."""
    session = opened("x = 1", "while True: pass", "x += 1", cell_s=2)

    assert ["ok", "late", "ok"] == run(session)


def test_the_kernel_knows_nothing_of_the_grader(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grader's environment stays the grader's; the kernel has folders of its own."""
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    session = opened("import os; x = [dict(os.environ), os.getcwd()]")

    run(session)
    environment, working = session.evaluate(0, SAID)[1]["x"]

    assert "s3cret" not in environment.values()
    own = [environment[name] for name in ("HOME", "LAB_STATE", "TMPDIR")]
    assert all(Path(folder).is_relative_to(session.folder) for folder in [*own, working])


DIES = ("import os; os._exit(3)", "twice(x)")


@pytest.mark.parametrize("then", [(), pytest.param(DIES, marks=pytest.mark.long)])
def test_columns_before_there_is_a_spark(opened: Opened, then: tuple[str, ...]) -> None:
    """A cell may make them above its query, as in a notebook, whose first cell prepares for it.

    For what only a server can read, here a type, one is started; also when the kernel has died and
    the cells are run again.
    """
    session = opened(
        "from pyspark.sql import functions as F, Window",
        "w = Window.partitionBy('value').orderBy(F.desc('offset')); x = F.col('kind') == 'acked'",
        "twice = F.udf(lambda it: 2 * it, 'long'); twice(F.col('offset'))",
        *then,
        total_s=300,  # three kernels and two JVMs, beside other work, too
    )

    assert ["ok", "ok", "ok", "dead", "ok"][: 3 + len(then)] == run(session)


def test_half_of_the_bytecode_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the machine is too busy to compile in time, the next grading begins anew."""
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setattr(kernel_module, "find_spec", lambda _: None)  # as pip has left it
    monkeypatch.setattr(kernel_module, "COMPILE_S", 1)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    keep_bytecode(lambda _: None)

    assert [] == [*tmp_path.glob("bytecode-*/*")]


def test_a_kernel_compiles_nothing(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it imports was compiled outside, once, and it could not write there.

    Of the lab, and what a process needs that books, too.
    """
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setattr(kernel_module, "find_spec", lambda _: None)  # as pip has left it
    keep_bytecode(lambda _: None)
    session = opened(
        "import os, sys, pyspark.sql.connect.session as it, sqlalchemy.dialects.sqlite\n"
        "import lab_utils.lab, lab_utils.views.timeline, lab_utils.clients.workload\n"
        "names = ('pyspark', 'sqlalchemy', 'lab_utils', 'confluent_kafka', 'plotly')\n"
        "cached = {name: module.__cached__ for name, module in sys.modules.items()"
        " if name.partition('.')[0] in names and hasattr(module, '__cached__')}\n"
        "x = [sys.dont_write_bytecode, len(cached) > 300,"
        " [name for name in cached if not os.path.exists(cached[name])],"
        " os.access(os.path.dirname(it.__cached__), os.W_OK)]"
    )

    run(session)

    assert ("ok", {"x": [True, True, [], False]}) == session.evaluate(0, SAID)


def test_a_kernel_that_finds_too_much(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended the one before it ends it as it starts: the machine is not to blame."""
    many = (
        "for number in range(20_001): open(str(number), 'w').close()\n__import__('time').sleep(60)"
    )
    monkeypatch.setattr(sandbox_module, "LOOK_S", 0.05)
    session = opened("x = 1", many, "x = 2")

    assert ["ok", "dead", "dead"] == run(session)
    assert "dead" == session.evaluate(2, SAID)[0]
    assert "more files than can be counted on disk" in session.exceeded[-1]


def test_no_module_of_the_kernels_own_is_a_cells(opened: Opened) -> None:
    """A cell's files lie where cells run, and no kernel starts there; what a cell imports does."""
    session = opened(
        "for name in ('ipykernel_launcher', 'comm', 'debugpy', 'jupyter_client'):\n"
        "    open(f'{name}.py', 'w').write('1 / 0')\n"
        "open('mine.py', 'w').write('x = 7')",
        "__import__('os')._exit(0)",
        "from mine import x",
    )

    assert ["ok", "dead", "ok"] == run(session)
    assert ("ok", {"x": 7}) == session.evaluate(2, SAID)


FORGOTTEN = """
import gc, sys
from jupyter_client.connect import write_connection_file
from lab_utils.grading.kernel import _client
gc.disable()  # they are all collected at once
for number in range(5):
    file = f"{sys.argv[1]}/{number}.json"
    write_connection_file(file, transport="ipc", ip=f"{sys.argv[1]}/{number}")
    client = _client(file)
    client.start_channels(iopub=False, stdin=False, hb=False, control=False)
    client.kernel_info()
    del client
gc.collect()
print("collected")
"""


def test_a_client_that_nobody_has_closed() -> None:
    """As where the end of its kernel took too long: what collects it waits for nothing."""
    with TemporaryDirectory(prefix="lab-test-") as folder:
        command = [sys.executable, "-c", FORGOTTEN, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert (0, "collected\n") == (done.returncode, done.stdout), done.stderr


@pytest.fixture
def shared_spark() -> Iterator[SharedSpark]:
    """Asks plans in a sandbox of its own."""
    with (
        TemporaryDirectory(prefix="lab-test-") as folder,
        closing(SharedSpark(Path(folder), isolation())) as shared_spark,
    ):
        yield shared_spark


def plan(query: Callable[[Any], Any]) -> str:
    """A query as a kernel hands it over."""
    return b64encode(planned(query)[1]).decode()


@pytest.fixture
def count() -> str:
    return plan(lambda events: events.where("kind = 'record'").selectExpr("count(*) AS n"))


ONE, TWO = (in_run("00-a", log(*values)) for values in ("1", "123"))


def test_one_spark_asks_for_all(
    shared_spark: SharedSpark, count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started once, and goes on after what it cannot ask, or not in time.

    Who asked without an end is the only one who gets no rows for it.
    """
    started: list[str] = []
    start = kernel_module.Kernel.__init__

    def counted(self: Kernel, *given: Any) -> None:
        started.append("a kernel")
        start(self, *given)

    monkeypatch.setattr(kernel_module.Kernel, "__init__", counted)
    shared_spark.warm_up()

    assert [[{"n": 1}], [{"n": 3}]] == [shared_spark.rows(count, ledger) for ledger in (ONE, TWO)]
    # What is no plan, what is refused, and what Spark refuses, cost nothing more.
    no_column = plan(lambda events: events.select("nothing"))
    java = plan(lambda events: events.selectExpr("reflect('java.lang.System', 'exit', 1)"))
    odd = ("", "!", "\ud800", "x" * 4_000_000, no_column, java, "'); import os; os.abort(); ('")
    assert [None] * len(odd) == [shared_spark.rows(each, ONE) for each in odd]
    assert [{"n": 1}] == shared_spark.rows(count, ONE)
    assert 1 == len(started)

    monkeypatch.setattr(kernel_module, "PLAN_S", 1)
    assert shared_spark.rows(plan(endless), ONE * 20) is None
    monkeypatch.undo()
    assert [{"n": 3}] == shared_spark.rows(count, TWO)

    shared_spark.close()
    assert shared_spark.rows(count, TWO) is None


@pytest.mark.long
def test_a_spark_that_is_gone(shared_spark: SharedSpark, count: str) -> None:
    """Whoever asks next finds it killed, or its session closed, and the one after has another."""
    assert [{"n": 1}] == shared_spark.rows(count, ONE)
    shared_spark._kernel.sandbox.end_for("nothing")
    shared_spark._kernel._process.wait(20)
    assert [None, [{"n": 3}]] == [shared_spark.rows(count, TWO) for _ in range(2)]
    closed = "__import__('lab_utils.audit.session', fromlist=['_']).spark().client.close()"
    assert shared_spark._kernel.execute("", 20, said=closed).values == {"said": "None"}
    assert [None, [{"n": 3}]] == [shared_spark.rows(count, TWO) for _ in range(2)]


def endless(events: Any) -> Any:
    """A query with an answer that nobody will see: ten times as many rows with each join."""
    for _ in range(12):
        events = events.select("value").crossJoin(events.selectExpr("value AS other"))
    return events.selectExpr("count(*) AS n")
