"""The Spark session, and what it reads of a ledger."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import start_new_kernel
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions

from lab_utils.audit import session, spark_server
from lab_utils.audit.spark_server import SparkServer
from lab_utils.errors import LedgerError
from lab_utils.grading.inside import run_query
from lab_utils.ledger.events import COLUMNS
from lab_utils.ledger.store import write_ledger
from lab_utils.views.tables import show_tables_of_spark
from tests.histories import in_run, log, sent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.kafka

LONG_QUERY = """
from lab_utils.audit.session import spark
from lab_utils.views.tables import show_tables_of_spark
show_tables_of_spark()
session = spark()
query = session.sql("SELECT 1 + 0 * length(reflect('java.lang.Thread', 'sleep', 2000L)) AS done")
query
"""


def test_warm_up_does_not_block() -> None:
    """warm_up() returns at once, and spark() gives the session that it started."""
    session.warm_up()

    assert session.spark().range(3).count() == 3
    assert session.spark() is session.spark()


def test_a_function_in_a_query_has_the_notebooks_python() -> None:
    """A learner may write a UDF; the first Python in PATH need not have Spark's libraries."""
    which = functions.udf(lambda _: sys.executable)

    ((path,),) = session.spark().range(1).select(which("id")).collect()
    assert sys.executable == path


def test_it_is_active_in_each_thread_that_has_it() -> None:
    """A lab starts it in a thread of its own, and a learner's cell asks pyspark for it."""
    session.spark()
    with ThreadPoolExecutor() as another:
        asked = another.submit(lambda: (session.spark(), SparkSession.getActiveSession()))

    assert asked.result() == (session.spark(),) * 2


ASKS_AND_DIES = """
import os
from lab_utils.audit.session import spark
print(spark().session_id, flush=True)
os.kill(os.getpid(), 9)
"""


def is_closed(server: SparkServer, number: str) -> bool:
    """Has the server no such session any more?"""
    from pyspark.sql.connect.session import SparkSession

    other = SparkSession.builder.remote(f"{server.address};session_id={number}").create()
    try:
        return other.range(3).count() != 3
    except PySparkException as error:
        return error.getCondition() == "INVALID_HANDLE.SESSION_CLOSED"
    finally:
        other.client.close()


def test_a_proxy_for_the_internet_is_not_asked() -> None:
    """Also where the environment names other machines that are reached without one."""
    proxied = {"http_proxy": "http://127.0.0.1:9", "no_grpc_proxy": "corp.example"}
    code = "from lab_utils.audit.session import spark; print(spark().range(3).count())"
    command = [sys.executable, "-c", code]
    asked = subprocess.run(command, env=os.environ | proxied, capture_output=True, timeout=200)

    assert b"3\n" == asked.stdout


def test_a_killed_process_leaves_no_session() -> None:
    """Who joins next gives it up, with the plans that it kept: all share one memory."""
    server = spark_server.join(spark_server.LOCAL_MASTER)
    died = subprocess.Popen([sys.executable, "-c", ASKS_AND_DIES], stdout=-1, text=True)
    number = died.communicate()[0].strip()
    session.stop_session()
    assert session.spark().range(3).count() == 3

    assert is_closed(server, number)
    assert not is_closed(server, session.spark().session_id)
    assert not (spark_server.spark_folder() / "users" / str(died.pid)).exists()


def test_a_session_that_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that somebody else runs closes what was idle for long; a new one is asked for."""
    server = spark_server.join(spark_server.LOCAL_MASTER)
    monkeypatch.setenv("SPARK_REMOTE", server.address)
    session.stop_session()
    closed = session.spark()
    closed.client.release_session()
    try:
        assert session.spark().range(3).count() == 3
        assert session.spark() is not closed
        assert session.spark() is session.spark()
    finally:
        session.stop_session()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has mapped")
def test_classes_are_mapped_from_the_archive() -> None:
    """A Spark that is started has its classes from the archive that ./lab prepare has made."""
    jvm = spark_server.join(spark_server.LOCAL_MASTER).jvm

    assert str(spark_server.class_archive()) in Path(f"/proc/{jvm}/maps").read_text()


@pytest.fixture
def notebook() -> Iterator[Callable[[DataFrame], dict[str, str]]]:
    """Gives what a notebook of a lab holds of a query that it shows, by MIME type."""
    shell = InteractiveShell.instance()
    show_tables_of_spark()
    yield lambda table: shell.display_formatter.format(table)[0]
    InteractiveShell.clear_instance()


def test_the_head_of_a_column_says_what_it_is(
    tmp_path: Path, notebook: Callable[[DataFrame], dict[str, str]]
) -> None:
    """A notebook shows a table of Spark with the ledger's columns explained, and no others."""
    write_ledger(tmp_path, in_run("00-a", [sent("<b>")]))
    table = session.read_events(tmp_path).selectExpr("value", "kind AS it", "kind")
    html = notebook(table)["text/html"]

    assert f'<th>it</th><th title="{COLUMNS["kind"]}">kind</th>' in html
    assert "&lt;b&gt;" in html


def test_a_query_that_is_shown_runs_once(notebook: Callable[[DataFrame], dict[str, str]]) -> None:
    """Its HTML and its text are of one run, and say that there are more rows."""
    table = session.spark().range(51).selectExpr("uuid() AS `<it>`")
    shown = notebook(table)
    first, *_, last = shown["text/plain"].splitlines()[1:]

    assert shown["text/plain"].startswith("<it>")
    assert f"<td>{first.strip()}</td>" in shown["text/html"]
    assert "only showing top 50 rows" == last


@pytest.mark.parametrize("way", ["{}", "{}.show()", "{}.toPandas()", "{}.columns"])
@pytest.mark.parametrize(
    ("query", "said", "advice"),
    [
        ('it.select("client")', "`client` cannot be resolved", "lab.ledger_card()"),
        ('it.join(it.toDF("id"), how="cross").select("id")', "`id` is ambiguous", "Two of the"),
    ],
)
@pytest.mark.usefixtures("notebook")
def test_what_spark_refuses_is_said_once(
    capsys: pytest.CaptureFixture[str], query: str, said: str, advice: str, way: str
) -> None:
    """In its own sentence, without its plan and pyspark's frames, and with what to do next."""
    shell = InteractiveShell.instance()
    shell.push({"it": session.spark().range(3)})
    shell.run_cell(way.format(query))
    lines = [it for it in capsys.readouterr().out.splitlines() if it]

    assert lines[-1].startswith(advice)
    assert said in lines[-2]
    assert ["AnalysisException"] == re.findall(r"AnalysisException|pyspark", " ".join(lines))


def test_a_notebook_says_that_spark_is_at_work() -> None:
    """Until the rows of a query are there, a line of the cell says what takes so long."""
    manager, client = start_new_kernel(env=dict(os.environ))
    shown: list[dict[str, Any]] = []
    try:
        client.execute_interactive(LONG_QUERY, output_hook=shown.append, timeout=120)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    said = [each["content"]["data"]["text/plain"] for each in shown if "data" in each["content"]]

    assert re.fullmatch(r"Spark runs the query … [1-9]\d* s", said[0])
    assert ["", "done\n1"] == said[-2:]


def test_the_size_chooses(tmp_path: Path) -> None:
    """A large run is compiled for and read in parts, its torn lines are counted; and back again."""
    large, small = tmp_path / "large", tmp_path / "small"
    write_ledger(large, in_run("00-a", [sent("x" * 17_000)] * 1000))
    write_ledger(small, in_run("00-b", log("1")))
    with (large / "client.jsonl").open("w", encoding="utf-8") as file:
        file.write('{"torn\n' * 2)
    with pytest.warns(UserWarning, match=r"client.jsonl \(2 lines\)"):
        events = session.read_events(large)

    assert 1000 == events.count()
    assert "true" == session.spark().conf.get("spark.sql.codegen.wholeStage")
    assert 2 == session.read_events(small).count()
    assert "false" == session.spark().conf.get("spark.sql.codegen.wholeStage")


def test_more_parts_for_more_bytes() -> None:
    """As many as fit the memory of a core each, and at least as many as keep all cores busy."""
    parts = [
        int(session.settings_for(size)["spark.sql.shuffle.partitions"])
        for size in (0, session.LARGE, 100 * session.PART)
    ]

    assert 1 == parts[0] <= parts[1] < parts[2] == 100


def test_no_ledger(tmp_path: Path) -> None:
    """A folder without a ledger is refused by name."""
    with pytest.raises(LedgerError, match="there is no ledger in"):
        session.read_events(tmp_path)


def test_columns_of_a_ledger(tmp_path: Path) -> None:
    """A ledger's detail is a map, and what an event does not say is null."""
    write_ledger(tmp_path, in_run("00-a", log("1")))
    rows = session.read_events(tmp_path).orderBy("at_ns").collect()

    assert [(row.offset, row.value, row.error) for row in rows] == [(0, "1", None), (None,) * 3]
    assert rows[1].detail == {"drained": "true"}


def test_a_wrong_query_is_told_in_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark's error says what is wrong first; nothing is printed, and no Scala is in it."""
    write_ledger(tmp_path, in_run("00-a", log("1")))
    said = run_query(lambda events: events.where("ofset = 1"), str(tmp_path))

    assert "`ofset` cannot be resolved. Did you mean" in json.loads(said)["raised"]
    assert ("", "") == capfd.readouterr()
