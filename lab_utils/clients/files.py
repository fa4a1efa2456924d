"""The files that a run's sink of Parquet files has left: all of them, and those that Spark lists.

    files/part-….parquet            what any program finds in the folder
    files/_spark_metadata/0, 1, …   what belongs to it, as the sink says; Spark reads only these

Each row is an effect of the order in its column `value`, once for each of the two ways to read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from lab_utils.errors import LeftUnreadable
from lab_utils.ledger.events import Event

FILES: Final = "files"
LISTED: Final = "files that Spark lists"


def effects_in_files(run: str, folder: Path) -> Iterator[Event]:
    """The effects in the files of a run, if it has any; raises LeftUnreadable."""
    place = folder / FILES
    lists = [path.read_text() for path in (place / "_spark_metadata").glob("[0-9]*")]
    # The first line of a list is the version of its format.
    listed = {Path(orjson.loads(line)["path"]).name for it in lists for line in it.splitlines()[1:]}
    sinks: dict[str, Counter[str]] = {FILES: Counter(), LISTED: Counter()}
    for path in place.glob("part-*.parquet"):
        values = _values(path)
        sinks[FILES].update(values)
        sinks[LISTED].update(values if path.name in listed else ())
    for actor, times in sinks.items():
        for value, records in sorted(times.items()):
            yield Event(
                run=run, source="sink", actor=actor, kind="effect", value=value, records=records
            )


def _values(path: Path) -> list[str]:
    from pyarrow import ArrowException, parquet

    try:
        return [str(it) for it in parquet.read_table(path, columns=["value"])["value"].to_pylist()]
    except (ArrowException, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise LeftUnreadable(
            f"the file {path.name} of the sink could not be read: {reason}. It is torn, or has no "
            "column value, so the effects of this run are not known. Select the column value, and "
            "run again."
        ) from None
