"""Of what a group committed: smallest histories and near misses, as in tests.audit.cases."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from tests.histories import (
    bookmark,
    created,
    delivered,
    log,
    offsets,
    placed,
    position,
    processed,
    told,
)

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

# One group did the work for each record, and the other for the last one.
GIVEN = [delivered("0", 0), delivered("1", 1)]
GROUPS = [created("consumer-1", group__id="group"), created("consumer-2", group__id="other")]
OF_OTHER = [
    it for at in (0, 1)
    for it in (delivered("0", at, "consumer-2"), processed("0", at, actor="consumer-2"))
]  # fmt: skip
WORK = processed("1", 1, actor="consumer-1")
COPIES = [*GROUPS, *log("0", "0", "1"), *OF_OTHER, delivered("1", 2),
          processed("1", 2, actor="consumer-1"), bookmark(3)]  # fmt: skip
OF_TWO_GROUPS: dict[str, tuple[list[Event], ...]] = {
    "another group did the work": (
        [*GROUPS, *log("0", "1"), *GIVEN, *OF_OTHER[:2], WORK, bookmark(2)],
        # its worker is in no group
        [GROUPS[0], *log("0", "1"), *GIVEN, processed("0", 0), WORK, bookmark(2)],
    ),
    "another group did the work for each copy": (
        COPIES,
        # the group did it for one
        [*COPIES, delivered("0", 1), processed("0", 1, actor="consumer-1")],
    ),
}
