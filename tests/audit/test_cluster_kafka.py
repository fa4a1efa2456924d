"""The audit on Spark's own standalone cluster: the same findings, also when a worker dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.ledgers import LEDGERS
from benchmarks.spark_cluster import SparkCluster
from lab_utils.audit import spark_server
from lab_utils.audit.command import audit
from lab_utils.audit.session import spark

pytestmark = [pytest.mark.kafka, pytest.mark.long]

EVENTS = 25_000


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
