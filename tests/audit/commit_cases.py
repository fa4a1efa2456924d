"""Of what a group committed: smallest histories and near misses, as in tests.audit.cases."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from tests.histories import bookmark, created, delivered, offsets, placed, position, told

# A member that committed 2 and was to commit no other, and one that is given what is before that.
COMMITTED = [created("consumer-1", group__id="a"), created("consumer-2", role="consumer",
             group__id="a"), position(2)]  # fmt: skip
LOST_COMMITS: dict[str, dict[str, tuple[list[Event], ...]]] = {
    "lost-commit": {
        "the broker holds an earlier one": (
            [*COMMITTED, bookmark(1, group="a")],
            [*COMMITTED, bookmark(2, group="a")],
            [*COMMITTED, position(1), bookmark(1, group="a")],
            # of another group, at the crash, or from before the commit
            [*COMMITTED, bookmark(1, group="b")],
            [*COMMITTED, bookmark(1, "crash", group="a")],
            [*COMMITTED[:-1], bookmark(1, group="a"), COMMITTED[-1]],
            # nobody knows whose the commit is
            [position(2), bookmark(1, group="the group of consumer-1")],
        ),
        "a consumer begins before it": (
            [*COMMITTED, placed("assigned", "consumer-2"), delivered("1", 1, "consumer-2")],
            [*COMMITTED, placed("assigned", "consumer-2"), delivered("2", 2, "consumer-2")],
            # it was assigned the partition before that, or another one, or moved
            [
                *COMMITTED[:-1],
                placed("assigned", "consumer-2"),
                COMMITTED[-1],
                delivered("1", 1, "consumer-2"),
            ],
            [
                *COMMITTED,
                placed("assigned", "consumer-2", partition=1),
                *(delivered("1", 1, "consumer-1"), delivered("2", 2, "consumer-2")),
            ],
            [
                *COMMITTED,
                placed("assigned", "consumer-2"),
                placed("sought", "consumer-2", offset=1),
                delivered("1", 1, "consumer-2"),
            ],
            [
                *COMMITTED,
                placed("sought", "consumer-2", detail={"to": "bookmark"}),
                delivered("1", 1, "consumer-2"),
            ],
        ),
        "a consumer is created again, and begins before it": (
            [*COMMITTED, COMMITTED[1], delivered("1", 1, "consumer-2")],
            [*COMMITTED, delivered("1", 1, "consumer-2")],
        ),
        "a transaction committed it": (
            [offsets(1, 2, "a"), told("committed", 1), bookmark(1, group="a")],
            [offsets(1, 2, "a"), told("aborted", 1), bookmark(1, group="a")],
            [offsets(1, 2), told("committed", 1), bookmark(1, group="a")],
        ),
        "it committed two, and the broker holds the first": (
            [*COMMITTED, position(3), bookmark(2, group="a")],
            [*COMMITTED, bookmark(2, group="a"), position(3)],
        ),
    },
}
