"""Claims F and G that no other test decides: bookmarks of threads, new partitions, and sinks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab_utils.audit.session import read_events
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import crash_client, stall_client
from tests.notebooks import further, solutions
from tests.performed import Perform, bookmarks, values

pytestmark = [pytest.mark.kafka, pytest.mark.long]

REBALANCES = "05_lost_commits_and_rebalances"
SLOW = stall_client("before_process", value="1", for_ms=2500)


def test_automatic_commits_and_threads(perform: Perform) -> None:
    """What no worker had finished when the process died is committed, and never done."""
    dies = (
        stall_client("after_poll", value="5", for_ms=500),
        crash_client("after_poll", value="5"),
    )
    handed_to_threads = further("05_automatic_commits")["handed_to_threads"]
    rows = perform(handed_to_threads, SLOW, *dies, orders=6, filled=True)

    assert {"0", "2", "3", "4"} == set(values(rows, "processed", "client").split())
    assert [6] == bookmarks(rows)


@pytest.mark.parametrize(
    ("name", "expected"), [("highest", "0 2 3 4 5"), ("lowest", "0 1 2 3 4 5")]
)
def test_bookmark_of_threads(perform: Perform, name: str, expected: str) -> None:
    """Killed while order 1 is in work: behind the highest it is lost, at the lowest it is not."""
    lab = solutions("05")
    highest = partial(lab["by_threads"], bookmark=lab["highest"])
    work = highest if name == "highest" else lab["with_four_threads"]
    rows = perform(work, SLOW, crash_client("after_commit"), orders=6, filled=True)

    assert expected == " ".join(sorted(set(values(rows, "processed", "client").split())))


@pytest.mark.parametrize(
    ("reset", "given"), [("latest", "0 1 2 6 7"), ("earliest", "0 1 2 3 4 5 6 7")],
    ids=["latest", "earliest"],
)  # fmt: skip
def test_partition_that_nobody_knew(perform: Perform, reset: str, given: str) -> None:
    """What was written before a consumer learns of a partition is skipped, or is not.

    What is on the first partition has a bookmark behind it: it is not read again.
    """
    rows = perform(partial(further(REBALANCES)["grows"], reset=reset), orders=8)

    assert given == values(rows, "delivered", "client")


CLASSIC = {"session.timeout.ms": 2000, "max.poll.interval.ms": 2000}
COOPERATIVE = CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"}


@pytest.mark.parametrize(
    ("settings", "then", "timeout_ms"),
    [(CLASSIC, "revoked", 2000), (COOPERATIVE, "assigned", 2000),
     ({"group.protocol": "consumer"}, "assigned", 1000)],
    ids=["range", "cooperative", "KIP-848"],
)  # fmt: skip
def test_assignment_until_a_member_dies(
    perform: Perform, tmp_path: Path, settings: dict[str, Any], then: str, timeout_ms: int
) -> None:
    """Each reads one partition; when one dies the other reads on there, at the bookmark.

    With range what it has is first taken back from it. What had been done and not committed is done
    again. The notebook's query finds the move, after the time-out.
    """
    notebook = further(REBALANCES)
    dies = crash_client("after_process", nth=3, member=2)
    shares = partial(notebook["shares"], settings=settings)
    rows = perform(shares, dies, orders=12, filled=True, partitions=2, members=2)
    (found,) = notebook["taken_over"](read_events(tmp_path / rows[0].run)).collect()
    given: dict[tuple[str, int | None], list[Event]] = {}
    for row in rows:
        if row.kind == "delivered":
            given.setdefault((row.actor, row.partition), []).append(row)
    moved = next(partition for actor, partition in given if actor == "consumer-2")
    last, first = given["consumer-2", moved][-1], given["consumer-1", moved][0]
    crashed_ns = next(row.at_ns for row in rows if row.kind == "crashed")
    after = [row.kind for row in rows if row.at_ns > crashed_ns and row.actor == "consumer-1"]

    assert then == next(kind for kind in after if kind in ("assigned", "revoked"))
    assert {who: [row.offset for row in them] for who, them in given.items()} == {
        ("consumer-1", 1 - (moved or 0)): [0, 1, 2, 3, 4, 5],
        ("consumer-2", moved): [0, 1, 2],
        ("consumer-1", moved): [2, 3, 4, 5],
    }
    assert ([6, 6], 13) == (bookmarks(rows), len(values(rows, "processed", "client").split()))
    assert (moved, 2, "consumer-2") == (found["partition"], found["offset"], found["before"])
    assert found["silent_ms"] > timeout_ms / 2
    assert found["silent_ms"] == pytest.approx((first.at_ns - last.at_ns) / 1_000_000)
