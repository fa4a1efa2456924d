"""The files of a sink: what lies in the folder, and what belongs to it as the sink says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pyarrow import Table, parquet

from lab_utils.clients.files import FILES, LISTED, effects_in_files
from lab_utils.errors import LedgerError


def write(folder: Path, name: str, *values: str, **columns: Any) -> None:
    """A file of the sink with these orders."""
    (folder / FILES).mkdir(exist_ok=True)
    parquet.write_table(Table.from_pydict(columns or {"value": values}), folder / FILES / name)


def enlist(folder: Path, batch: int, *names: str) -> None:
    """The sink says which files a batch has written."""
    lists = folder / FILES / "_spark_metadata"
    lists.mkdir(exist_ok=True)
    lines = (orjson.dumps({"path": f"file://{folder / name}", "action": "add"}) for name in names)
    (lists / str(batch)).write_bytes(b"\n".join((b"v1", *lines)))


def test_files_of_a_dead_driver(tmp_path: Path) -> None:
    """A batch that was written twice and listed once is there twice, and once for Spark."""
    write(tmp_path, "part-0.parquet", "0", "1")
    write(tmp_path, "part-dead.parquet", "2")
    write(tmp_path, "part-2.parquet", "2")
    enlist(tmp_path, 0, "part-0.parquet")
    enlist(tmp_path, 1, "part-2.parquet")

    assert [(FILES, "0", 1), (FILES, "1", 1), (FILES, "2", 2),
            (LISTED, "0", 1), (LISTED, "1", 1), (LISTED, "2", 1)] == [
        (row.actor, row.value, row.records) for row in effects_in_files("r", tmp_path)
    ]  # fmt: skip


def test_no_files(tmp_path: Path) -> None:
    """A run without such a sink has no effects in files."""
    assert [] == list(effects_in_files("r", tmp_path))


@pytest.mark.parametrize("is_torn", [True, False])
def test_what_cannot_be_read_is_said(tmp_path: Path, is_torn: bool) -> None:
    """A torn file, and one without the column value: the effects are not known."""
    write(tmp_path, "part-0.parquet", order=["0"])
    if is_torn:
        (tmp_path / FILES / "part-0.parquet").write_bytes(b"PAR1")

    with pytest.raises(LedgerError, match=r"part-0\.parquet"):
        list(effects_in_files("r", tmp_path))
