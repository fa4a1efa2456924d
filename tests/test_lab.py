"""A Lab performs runs, also several at once, and each is closed whatever its workload did."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from lab_utils import Lab, checking, corrupt_request, drop_response, refuse
from lab_utils.checking import Checked
from lab_utils.errors import BadArgument, LedgerError, SetupError, StageError
from lab_utils.experiment import order_values
from lab_utils.folders import runs_folder, stage_folder
from lab_utils.grading.inside import raised
from lab_utils.ledger.store import read_ledger
from lab_utils.machine.jars import MIRROR
from lab_utils.proxy.faults import crash_client, start_broker
from tests.called import call
from tests.notebooks import solutions
from tests.performed import sending, transactional

pytestmark = pytest.mark.kafka


send_orders = sending()


@pytest.fixture(scope="module")
def lab(stage: Any) -> Lab:
    """A lab on the stage that the tests share; it is not closed, for that would end the stage."""
    return Lab(stage.name)


def open_runs(lab: Lab) -> list[str]:
    return [run for run in lab.stage.state()["runs"] if run.startswith(lab.name)]


def test_a_check_shows_its_runs(lab: Lab) -> None:
    """What was done for a verdict can be looked at; without a run there is nothing to draw."""
    failed = lab.check("03.2", send_orders)
    lazy = lab.check("03.2", yielding)
    blank = lab.check("03.2", ...)

    assert "FAIL" == failed.status
    assert ("FAIL", ()) == (lazy.status, lazy.runs)
    assert "yielding has a yield" in lazy.reason
    assert "0" == failed.runs[-1].log[0]
    assert "Produce" in repr(failed.timeline())
    assert "_.timeline()" in repr(failed)
    assert "_.timeline()" in failed._repr_html_()
    assert () == blank.runs
    with pytest.raises(BadArgument, match="decided without a run"):
        blank.timeline()
    given = lab.run(send_orders, orders=5, faults=[drop_response("Produce", nth=3)])
    assert (given,) == lab.check("03.1", {"order": "2"}, run=given).runs
    assert () == lab.check("03.1", {"order": ...}, run=given).runs


def test_a_check_shows_where_the_function_raised(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict has what it was, and its line is shown where errors are read, once."""
    verdict = lab.check("03.2", divide)
    said = capsys.readouterr().err

    assert verdict.reason.startswith("your function raised ZeroDivisionError")
    assert (1, 1) == (said.count("1 / 0"), said.count("ZeroDivisionError: division by zero"))
    assert lab.check("03.2", send_orders).raised is None
    assert not capsys.readouterr().err


def test_a_check_names_what_there_is_to_see(lab: Lab) -> None:
    """A run that sent nothing has no requests to draw: its sinks are named, or the run alone."""

    def books(run: Any) -> None:
        with run.database().begin() as connection:
            connection.exec_driver_sql("CREATE TABLE bookings (value TEXT)")
            connection.exec_driver_sql("INSERT INTO bookings VALUES ('0')")

    verdict = lab.check("03.2", ...)
    booked, idle = (lab.run(it, orders=1, filled=True) for it in (books, lambda _: None))

    assert "Its last run: _.runs[-1].sinks()" in repr(Checked.of(verdict, [booked]))
    assert repr(Checked.of(verdict, [booked, idle])).endswith("Its last run: _.runs[-1]")
    about_the_first = repr(Checked.of(verdict, [booked, idle], 0))
    assert about_the_first.endswith("The run that it is about: _.runs[0].sinks()")


def test_fault_of_one_run(lab: Lab) -> None:
    """A run says in one line what was sent, reported and stored; its fault is gone with it.

    If it waited for a request that never came, that is said, too.
    """
    broken = lab.run(send_orders, orders=4, faults=[drop_response("Produce", nth=2)])
    calm = lab.run(send_orders, orders=4)
    idle = lab.run(send_orders, orders=2, faults=[drop_response("Produce", nth=9)])

    assert (["0", "1", "1", "2", "3"], ["0", "1", "2", "3"]) == (broken.log, calm.log)
    assert repr(broken).endswith("1 duplicated; the fault fired once>")
    assert f"<Run {calm.run}: 4 sent, 4 acked, 4 in the log>" == repr(calm)
    assert repr(idle).endswith("2 in the log; the fault never fired>")
    assert 4 == len([row for row in calm.requests() if row.kind == "request"])


def test_a_client_that_is_not_recorded_is_named(lab: Lab) -> None:
    """A plain one has sent what is in the log, and nobody knows what it was told of it."""

    def send(run: Any) -> None:
        producer = Producer({"bootstrap.servers": run.bootstrap, "log_level": 0})
        producer.produce(run.topic, "0")
        producer.flush()

    assert "1 in the log; no client was recorded: make it with run.producer()" in repr(
        lab.run(send, orders=1)
    )


def test_a_topic_that_is_not_of_the_run_is_named(lab: Lab) -> None:
    """A name that lab.run was not given is refused; a topic that is another's is told."""

    def elsewhere(run: Any) -> None:
        run.producer({"message.timeout.ms": 500}).produce("nowhere", "0")

    with pytest.raises(BadArgument, match=r"no further topic 'invoices'; it has bills\..*topics="):
        lab.run(lambda run: run.topics["invoices"], topics=["bills"])
    assert "; sent to nowhere, which is not run.topic" in repr(lab.run(elsewhere, orders=1))


def test_a_flush_that_is_missing_is_named(lab: Lab) -> None:
    """The run says why its orders have failed, and what to do; an abort drops orders, too."""

    def send(run: Any) -> None:
        producer = run.producer({"linger.ms": 5_000})
        for order in run.orders:
            producer.produce(run.topic, order)

    def abort(run: Any) -> None:
        producer = transactional(run, **{"linger.ms": 5_000})
        producer.begin_transaction()
        producer.produce(run.topic, run.orders[0])
        producer.abort_transaction()

    assert "3 failed; the workload returned before 3 left" in repr(lab.run(send, orders=3))
    assert repr(lab.run(abort, orders=1)).endswith("1 failed>")


def test_sweep_finds_the_hole(lab: Lab) -> None:
    """An idempotent producer loses an order when its first batch goes wrong, and no other."""

    def send(run: Any, settings: dict[str, Any]) -> None:
        producer = run.producer(settings)
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
        producer.flush()

    faults = [fault("Produce", nth=nth) for fault in (refuse, corrupt_request) for nth in (1, 2)]
    table = lab.sweep(send, faults=faults, settings=[{"enable.idempotence": True}], orders=3)

    assert [("lost",), ("stored once",)] * 2 == [cell.words for cell in table.cells]
    assert "Order 0 was acked and is not in the log" in table.runs[0]["finding"]
    assert "settings = {'enable.idempotence': True}" in table.runs[0]["code"]


@pytest.mark.parametrize(
    ("orders", "value"), [(3, "1"), (["a", "ü", "c"], "ü"), (["a", "ü", "c"], "1")]
)
def test_fault_of_one_order(lab: Lab, orders: Any, value: str) -> None:
    """A fault knows an order by its text or its number, however often another comes again."""
    faults = [drop_response("Produce"), drop_response("Produce", value=value)]
    first, second, third = order_values(orders)

    run = lab.run(send_orders, orders=orders, faults=faults)

    assert [first, first, second, second, third] == run.log


def test_fault_that_was_not_carried_out(lab: Lab) -> None:
    """Its moment came, so it has fired; the run says what became of it. At once, it is refused."""
    run = lab.run(send_orders, orders=2, faults=[start_broker(1, api="Produce")])
    with pytest.raises(BadArgument, match="broker 1 is running already"):
        lab.stage.arm("", start_broker(1))

    assert [] == lab.stage.state()["faults"]
    assert repr(run).endswith(
        '; INCONCLUSIVE: start_broker(1, api="Produce") was not carried out: broker 1 is running '
        "already. There is nothing to start.>"
    )


def test_one_run_of_a_lab_at_a_time(lab: Lab) -> None:
    """A click in a widget may come while a cell runs: its run would repair what that run broke."""
    begun, other = Event(), Event()
    met = []

    def first(_: Any) -> None:
        begun.set()
        met.append(other.wait(1.5))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lab.run, first, orders=0)
        assert begun.wait(30)
        lab.run(lambda _: other.set(), orders=0)

    assert [False] == met


def test_two_labs_at_once(lab: Lab) -> None:
    """Two kernels on one stage: the faults and events of each are its own."""
    other = Lab(lab.name)

    def broken(which: Lab) -> Any:
        return which.run(send_orders, orders=20, faults=[drop_response("Produce", nth=7)])

    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(broken, (lab, other)))
    assert 2 == len({run.run for run in runs})
    for run in runs:
        assert {run.run} == {row.run for row in run.rows}
        assert ["6"] == [value for value, times in Counter(run.log).items() if times == 2]
        assert 21 == len([row for row in run.requests() if row.kind == "request"])


def test_kafka_error_is_an_outcome(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """What confluent_kafka raises is in the run and not in the learner's face."""

    def elsewhere(run: Any) -> None:
        producer = run.producer()
        producer.produce(run.topic, "0", partition=7)
        producer.flush()

    run = lab.run(lambda run: run.producer({"transactional.id": "t"}).produce(run.topic, "0"))

    assert repr(lab.run(elsewhere)).endswith(", 1 failed; failed with _UNKNOWN_PARTITION>")
    assert "; the workload raised KafkaException (_STATE): Unable to produce" in repr(run)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("faults", [[], [crash_client("after_ack", nth=1)]], ids=["here", "child"])
def test_refused_setting(lab: Lab, faults: list[Any]) -> None:
    """A setting that the client does not take is the program's mistake, which it has to see."""

    def misspelt(run: Any) -> None:
        run.producer({"enable.idempotent": True})

    run = lab.run(misspelt, faults=faults)
    said = 'No such configuration property: "enable.idempotent"'

    assert f"KafkaException (_INVALID_ARG): {said}" in repr(run)
    assert f"your function raised KafkaException: {said}" == raised(run.raised)


def divide(run: Any) -> None:
    send_orders(run)
    1 / 0  # noqa: B018


def leave(run: Any) -> None:
    send_orders(run)
    sys.exit(3)


def interrupt(run: Any) -> None:
    send_orders(run)
    signal.raise_signal(signal.SIGINT)


def interrupt_the_parent(run: Any) -> None:
    send_orders(run)
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()


def mistyped() -> None:
    pass


def yielding(run: Any) -> Any:
    yield send_orders(run)


async def awaited(run: Any) -> None:
    send_orders(run)


@pytest.mark.parametrize("faults", [[], [crash_client("after_ack", nth=9)]], ids=["here", "child"])
@pytest.mark.parametrize(
    ("workload", "stored", "error", "line"),
    [
        (divide, 2, "ZeroDivisionError('division by zero') at line ", "1 / 0"),
        (leave, 2, "SystemExit('3') at line ", "SystemExit: 3"),
        (mistyped, 0, "TypeError('mistyped() takes 0 positional", "takes 0 positional arguments"),
    ],
    ids=["error", "exit", "typo"],
)
def test_error_of_the_learner(
    lab: Lab,
    workload: Any,
    faults: list[Any],
    stored: int,
    error: str,
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is an outcome: the run says what and where, and its traceback is shown."""
    run = lab.run(workload, orders=2, faults=faults)

    assert f"; the workload raised {error}" in repr(run)
    assert stored == len(run.log)
    assert run.raised is not None
    assert line in capsys.readouterr().err
    assert [] == open_runs(lab)


@pytest.mark.parametrize(
    ("workload", "faults"),
    [(interrupt, []), (interrupt_the_parent, [crash_client("after_ack", nth=9)])],
    ids=["here", "child"],
)
def test_interrupt(lab: Lab, workload: Any, faults: list[Any]) -> None:
    """Ctrl-C comes out of lab.run; the run is closed and the next one works."""
    known = set(runs_folder(lab.name).glob("*"))
    with pytest.raises(KeyboardInterrupt):
        lab.run(workload, orders=2, faults=faults)

    (folder,) = set(runs_folder(lab.name).glob("*")) - known
    rows = read_ledger(folder)
    assert ["0", "1"] == [row.value for row in rows if (row.source, row.kind) == ("log", "record")]
    assert [] == open_runs(lab)
    assert ["0"] == lab.run(send_orders, orders=1).log


def test_interrupt_of_members(lab: Lab) -> None:
    """Ctrl-C ends all processes of a run: none is waited for until its 120 s are over."""
    began_s = time.monotonic()

    def interrupt_once(run: Any) -> None:
        if run.member == 1:
            os.kill(os.getppid(), signal.SIGINT)
        signal.pause()

    with pytest.raises(KeyboardInterrupt):
        lab.run(interrupt_once, members=2)

    assert time.monotonic() - began_s < 100
    assert [] == open_runs(lab)


def test_no_room_for_a_run(lab: Lab, state: Path, tmp_path: Path) -> None:
    """Where no run can be kept, that is said; nothing was begun."""
    (state / "runs").mkdir(parents=True)
    (state / "runs" / lab.name).touch()
    with pytest.raises(LedgerError, match=r"no run can be kept in .*: File exists\. Make room"):
        lab.run(send_orders, orders=1)
    (tmp_path / "wire.jsonl").mkdir()
    with pytest.raises(LedgerError, match=r"ledger cannot be kept in .*: Is a directory\."):
        lab.stage.open_run("98-f", tmp_path)

    assert [] == open_runs(lab)


def test_prediction_comes_first(lab: Lab) -> None:
    """A prediction is stored before there is a run, and then compared with it."""
    known = list(runs_folder(lab.name).glob(f"{lab.name}-*"))
    guess = lab.predict(acked=3, log="0 1 2", because="nothing breaks")
    *_, last = (runs_folder(lab.name) / "predictions.jsonl").read_text().splitlines()

    assert known == list(runs_folder(lab.name).glob(f"{lab.name}-*"))
    assert {"expected": {"acked": "3", "log": "0 1 2"}, "because": "nothing breaks"} == (
        json.loads(last)
    )
    assert "0 1 2" in guess.compare(lab.run(send_orders, orders=3))._repr_html_()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workload": "send_orders"}, "needs a function that takes the run; got 'send_orders'"),
        ({"workload": yielding}, "the workload yielding has a yield: .* Leave the yield out"),
        ({"workload": partial(awaited)}, "awaited.* is async: .* Write `def` without async"),
        *(({"faults": [crash_client("after_ack", member=it + 1)], "members": it},
           f"is for process {it + 1} of the run, which has {it}") for it in (1, 2)),
        ({"partitions": 0}, "partitions must be a whole number from 1 to 1,000; got 0"),
        ({"members": 5}, "members must be a whole number from 1 to 4; got 5"),
        ({"topics": "abc"}, "topics is a list of further topics.* got 'abc'"),
        ({"topics": ["orders"]}, r"none is called orders, .* got \['orders'\]"),
        ({"topics": ["a", "a"]}, "topics is a list of further topics, each once"),
        ({"topics": {"jürgen": {}}}, "A name has up to 100 letters"),
        ({"topics": [["a"]]}, r"topics is a list of further topics.* got \[\['a'\]\]"),
        ({"orders": -1}, "orders must be a whole number from 0 to 100,000; got -1"),
        (
            {"orders": 10**400},
            "orders must be a whole number from 0 to .*; got a number of 1329 bits",
        ),
        ({"orders": ["0"] * 100_001}, "orders has 100,001 texts, and 100,000 are the most"),
        *(({"orders": it}, "orders is a number or a list of texts; got")
          for it in (2.5, None, "ab", b"ab", ["a", 1])),
        ({"orders": True}, "orders must be a whole number from 0 to 100,000; got True"),
        ({"orders": ["a", "\ud800"]}, "an order must be a text that UTF-8 can hold; got"),
        ({"topic_config": {"\ud800": 1}}, "a setting's name must be a text that UTF-8 can hold"),
        ({"topic_config": 5}, "settings are given by name, as in .*; got 5"),
        ({"topics": {"one": 5}}, "settings are given by name, as in .*; got 5"),
        ({"topics": {"one": {"replicas": 0}}}, "replicas must be a whole number from 1 to 9"),
        ({"filled": "no"}, "filled must be True or False; got 'no'"),
        ({"timeout_s": float("nan")}, "timeout_s must be a number of seconds, .* got nan"),
        ({"timeout_s": "5"}, "timeout_s must be a number of seconds, .* got '5'"),
        *(({"faults": it}, r'faults is a list .* faults=\[drop_response\("Produce", nth=3\)\]')
          for it in (drop_response("Produce"), drop_response, ["drop_response"], None)),
    ],
)  # fmt: skip
def test_bad_argument(lab: Lab, given: dict[str, Any], message: str) -> None:
    """What cannot be run is refused in one sentence, and leaves no run behind."""
    runs_folder(lab.name).mkdir(parents=True, exist_ok=True)
    known = set(runs_folder(lab.name).iterdir())
    with pytest.raises(BadArgument, match=message):
        lab.run(**{"workload": send_orders, **given})

    assert (known, []) == (set(runs_folder(lab.name).iterdir()), open_runs(lab))


NO_LAB = [
    *((("90",), {"brokers": it}, "brokers must be a whole number from 1 to 9; got")
      for it in (0, -1, True, 1.5, "2", None, 10, 10**400)),
    *(((it,), {}, "a lab is named by up to 40 letters and digits")
      for it in ("", "_", "0 3", "../03", 3, "jürgen", "٣", 41 * "a")),
    (("90",), {"kafka": "2.8"}, r"kafka must be one of 3\.9, 4\.3; got '2\.8'"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "named", "said"), NO_LAB)
def test_no_lab(given: Any, named: Any, said: str) -> None:
    """Its name becomes a folder and part of a topic; its brokers are as many as a machine holds."""
    with pytest.raises(BadArgument, match=said):
        Lab(*given, **named)


def test_cluster_of_ones_own(lab: Lab) -> None:
    """It is refused with its address, the reason and what to do; no stage is started for it."""
    with pytest.raises(BadArgument) as refused:
        Lab("90_elsewhere", bootstrap="kafka.example:9092")

    said = str(refused.value)
    assert "got bootstrap='kafka.example:9092'" in said
    assert "only where its proxy stands between clients and brokers" in said
    assert "./lab audit ledger/ --out audit/" in said
    assert not stage_folder("90_elsewhere").exists()


def test_kafka_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network an older Kafka is refused, with what fetches it; no stage is started."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:9")
    with pytest.raises(SetupError, match=r"network, then run \./lab prepare --kafka 3\.9 again"):
        Lab("90", brokers=3, kafka="3.9")

    assert not stage_folder("90-3.9").exists()


def test_what_is_not_there(lab: Lab) -> None:
    """A question, an item or a request that does not exist is refused with the nearest one."""
    with pytest.raises(BadArgument, match="Did you mean 'stored'"):
        lab.predict(store=3, because="")
    with pytest.raises(BadArgument, match="because must be a text that UTF-8 can hold"):
        lab.predict(stored=3, because="\ud800")
    with pytest.raises(BadArgument, match=r"Did you mean '03\.1'"):
        lab.check("03.11", None)
    of_06 = cast("Lab", SimpleNamespace(name="06"))
    with pytest.raises(BadArgument, match=r"07\.1 is an exercise of another lab.* has 06\.1, "):
        checking.check(of_06, "07.1", {"kept": 1}, [])
    with pytest.raises(BadArgument, match="Did you mean 'Produce'"):
        lab.run(send_orders, orders=0).requests("produce")
    idle = lab.run(send_orders, orders=0, topics=["invoices"])
    with pytest.raises(BadArgument, match="Did you mean 'Produce'"):
        idle.timeline(["EndTxn", "produce"])
    with pytest.raises(BadArgument, match=r"apis is a list of requests, .*; got 3\."):
        idle.timeline(3)
    with pytest.raises(BadArgument, match=r"api must be one of \d+ names; got 3\."):
        idle.requests(3)
    with pytest.raises(BadArgument, match=r"a function that takes a DataFrame; got 3\. Pass"):
        idle.streamed(3)
    with pytest.raises(BadArgument, match="partition must be a whole number from 0 to 0; got 1"):
        idle.bookmarks(1)
    with pytest.raises(BadArgument, match="partition must be a whole number from 0 to 0; got '0'"):
        idle.replicas("0")
    with pytest.raises(BadArgument, match="Did you mean 'invoices'"):
        idle.in_and_out("invoice")
    with pytest.raises(BadArgument, match="has no topic 'invoices' beside"):
        lab.run(send_orders, orders=0).in_and_out("invoices")
    assert idle.timeline("EndTxn").title == idle.timeline(["EndTxn"]).title


FULL = """
import resource, sys
from lab_utils import Lab
from lab_utils.audit.session import spark
from lab_utils.proxy.faults import crash_client

def send_orders(run):
    producer = run.producer()
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()

lab = Lab(sys.argv[1])
spark()  # what it starts in the background must not inherit the limit
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for faults in ([], [crash_client("after_ack", nth=500)]):
    print(lab.run(send_orders, orders=60, faults=faults))
"""


def test_full_disk(lab: Lab) -> None:
    """A client whose ledger may not grow (a real limit) makes its run INCONCLUSIVE, and ends it."""
    child = call([sys.executable, "-c", FULL, lab.name], timeout=150)

    assert 1 == child.stdout.count("a workload's process lost events")
    assert ["", 2] == [child.stderr, child.stdout.count("INCONCLUSIVE: the ledger could not")]


IMPORTED = """
import sys
from lab_utils import Lab
lab = Lab(sys.argv[1])
names = ("pandas", "plotly.graph_objects", "pyspark.sql", "lab_utils.experiment")
print(any(sys.modules[name].__spec__._initializing for name in names))
"""


def test_what_is_loaded_is_whole(lab: Lab) -> None:
    """When a lab is open all is there that the first cells need; Plotly would take half of it."""
    child = call([sys.executable, "-c", IMPORTED, lab.name], timeout=100)

    assert ("False\n", "") == (child.stdout, child.stderr)


def test_closed() -> None:
    """A closed lab has ended its stage; opened again it has another, and counts its runs on.

    What was asked of it in between is no run.
    """
    first = Lab("closing")
    run = first.run(send_orders, orders=1)
    first.close()
    with pytest.raises(StageError, match="'closing' was closed, as lab"):
        first.brokers.kill(1)
    for ask in (lambda: first.run(send_orders), first.cost_of_transactions):
        with pytest.raises(StageError, match="'closing' was closed, as lab"):
            ask()
    with pytest.raises(StageError, match="no broker answers at 127"):
        run.topic_log()
    second = Lab("closing")
    later = second.run(send_orders, orders=1)
    second.close()

    assert first.stage.pid != second.stage.pid
    assert ["closing-a", "closing-b"] == [run.run, later.run]
    assert [runs_folder("closing") / "closing-a", ["0"]] == [run.folder, run.log]


def test_sink_is_elsewhere(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAB_DATABASE is for runs that open the sink; a check uses SQLite, as a grader does."""
    monkeypatch.setenv("LAB_DATABASE", "postgresql://learner@127.0.0.1:1/orders")
    with pytest.raises(SetupError, match="does not answer"):
        lab.run(lambda run: run.database(), orders=1)
    with pytest.raises(BadArgument, match="unset LAB_DATABASE for this run"):
        lab.run(
            send_orders, faults=[crash_client("after_ack", value="1", or_at="before_db_commit")]
        )

    assert ["0"] == lab.run(send_orders, orders=1).log
    assert "PASS" == lab.check("06.2", solutions("06")["booked_once"]).status
    assert [] == open_runs(lab)
