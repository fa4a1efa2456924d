"""Generated ledgers: each anomaly that was sown comes back, and nothing else; in linear time.

On Spark's own standalone cluster the findings are the same, also when a worker dies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import lab_utils.audit
from benchmarks.audit import findings
from benchmarks.ledgers import LEDGERS
from benchmarks.spark_cluster import SparkCluster
from lab_utils.audit import spark_server
from lab_utils.audit.command import audit
from lab_utils.audit.session import spark

EVENTS = 25_000


@pytest.mark.kafka
@pytest.mark.long  # What these sow, random histories hold too.
@pytest.mark.parametrize("kind", LEDGERS)
def test_what_was_sown_is_found(kind: str, tmp_path: Path) -> None:
    """The number of each finding is exactly what the ledger was made with."""
    ledger, sown = LEDGERS[kind](spark(), EVENTS)
    ledger.write.parquet(str(tmp_path / "ledger"))
    events = spark().read.parquet(str(tmp_path / "ledger"))

    assert sown == findings(events)


def test_no_frame_ends_at_the_last_row() -> None:
    """Spark goes through the rest of the partition for each row of such a frame: quadratic."""
    modules = Path(lab_utils.audit.__file__).parent.rglob("*.py")

    assert [] == [it.name for it in modules if "UNBOUNDED FOLLOWING" in it.read_text("utf-8")]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """A ledger of a kind that needs joins and windows."""
    events, _ = LEDGERS["replicated"](spark(), EVENTS)
    events.write.parquet(str(tmp_path / "ledger"))
    return str(tmp_path / "ledger")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    """Two workers, which call a driver on this machine, and settings of the cluster's own."""
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 2\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with closing(SparkCluster(tmp_path)) as started:
        yield started


def found(ledger: str, out: Path, say: Callable[[str], object] = print) -> list[list[Any]]:
    """Each finding of an audit, sorted."""
    audit([ledger], None, out, say)
    return sorted(pd.read_parquet(out / "findings").astype(str).to_numpy().tolist())


@pytest.mark.kafka
@pytest.mark.long
def test_cluster_finds_what_this_machine_finds(
    ledger: str, cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a Spark Connect server and through the master, while a worker is killed."""
    here = found(ledger, tmp_path / "here")
    assert here

    server = spark_server.join(cluster.address, tmp_path / "server", large=True, owner=os.getpid())
    with monkeypatch.context() as remote:
        remote.setenv("SPARK_REMOTE", server.address)
        assert here == found(ledger, tmp_path / "remote")
    spark_server.stop(tmp_path / "server")

    killed: list[str] = []

    def kill(said: str) -> None:
        """Kill a worker once a task of the judging has ended."""
        ended = said.partition(": ")[2].partition(" of ")[0]
        if said.startswith("Judging") and ended not in ("", "0") and not killed:
            cluster.kill_worker()
            killed.append(said)

    monkeypatch.setenv("SPARK_MASTER", cluster.address)
    assert here == found(ledger, tmp_path / "killed", kill)
    assert killed
