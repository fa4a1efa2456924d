"""How a judgement asks Spark: each plan anew, or one that Spark has analysed for a run before.

    ledger of a run ──╮
    small tables ─────┴─▶ files of one name ──▶ view (an analysed plan) ──▶ rows

A lab's run is so small that Spark reads and analyses a query for longer than it answers it, and the
next run asks the same of other files. So a plan is kept as a temporary view, whose files are looked
at anew. Its name is a hash of the whole plan: what differs in anything but the files is another.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

from lab_utils.audit import ledgers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

# Three a judgement, of 3 MB each; a session of the labs has runs of a few kinds.
KEPT_MAX: Final = 18
NAME: Final = "events.jsonl"
PART: Final = re.compile(r"plan_id: \d+")


class Plans:
    """Each plan is analysed, and a small table is a part of it."""

    def table(self, spark: SparkSession, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
        """A small table that this process knows."""
        return spark.createDataFrame(rows, schema).coalesce(1)

    def rows(self, frame: DataFrame) -> list[Row]:
        """What a query returns; findings and counts, and never events."""
        return frame.collect()


ANEW: Final = Plans()


class KeptPlans(Plans):
    """Plans that a session has analysed, and the folder of the files that they read."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="plans-", dir=folder))
        self._views: OrderedDict[str, None] = OrderedDict()
        self._tables: dict[str, list[list[tuple[Any, ...]]]] = {}
        self._lock = Lock()

    @contextmanager
    def of(self, ledger: Path) -> Iterator[Path]:
        """Let the plans read the ledger in this folder; yields where they find it."""
        with self._lock:
            self._tables.clear()
            with (self._folder / NAME).open("wb") as whole:
                for file in sorted(ledger.glob("*.jsonl")):
                    with file.open("rb") as lines:
                        shutil.copyfileobj(lines, whole)
                    whole.write(b"\n")  # the last line of a killed witness has no end
            yield self._folder / NAME

    def table(self, spark: SparkSession, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
        """The same as a file, whose content is no part of the plan."""
        known = self._tables.setdefault(schema, [])
        is_new = rows not in known
        if is_new:
            known.append(rows)
        place = self._folder / f"{_hash(schema)}-{known.index(rows)}.parquet"
        if is_new:
            _write(place, rows, schema)
        return spark.read.schema(schema).parquet(ledgers.root(place)).coalesce(1)

    def rows(self, frame: DataFrame) -> list[Row]:
        """What a query returns, by the plan that is kept, if there is one."""
        catalog, name = frame.sparkSession.catalog, f"kept_{_plan(frame)}"
        if name in self._views:
            catalog.refreshTable(name)
        else:
            frame.createOrReplaceTempView(name)
        self._views[name] = None
        self._views.move_to_end(name)
        while len(self._views) > KEPT_MAX:
            catalog.dropTempView(self._views.popitem(last=False)[0])
        return frame.sparkSession.table(name).collect()

    def close(self) -> None:
        """Remove the files; the views end with their session."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _plan(frame: DataFrame) -> str:
    """A hash of all that a query asks for: the message that its session would send.

    The numbers by which its parts name each other are new in each message.
    """
    it: Any = frame  # pyspark has no public name for it
    numbers: dict[str, str] = {}
    message = str(it._plan.plan(it.sparkSession.client))
    return _hash(PART.sub(lambda it: numbers.setdefault(it[0], f"part {len(numbers)}"), message))


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _write(place: Path, rows: list[tuple[Any, ...]], schema: str) -> None:
    import pyarrow.parquet
    from pyspark.sql.conversion import LocalDataToArrowConversion
    from pyspark.sql.pandas.types import to_arrow_schema

    empty = to_arrow_schema(_type(schema)).empty_table()
    table = LocalDataToArrowConversion.convert(rows, _type(schema), False) if rows else empty
    pyarrow.parquet.write_table(table, place, compression="NONE")


@cache
def _type(schema: str) -> StructType:
    """A schema; it is the server that reads it."""
    from pyspark.sql.types import StructType

    return cast("StructType", StructType.fromDDL(schema))
