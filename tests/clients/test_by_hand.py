"""Transactions by hand: each call is answered in a sentence, and a run can be ended any time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab_utils.clients.by_hand import ByHand
from lab_utils.errors import BadArgument
from lab_utils.waiting import wait_until
from tests.clients.opened import Opened

pytestmark = pytest.mark.kafka


@pytest.fixture
def by_hand(opened: Opened, reader: Any) -> Iterator[ByHand]:
    experiment = opened.experiment
    hand = ByHand(reader, lambda: (experiment.begin(), experiment.finish))
    yield hand
    hand.close()


def act(hand: ByHand, *calls: str) -> list[str]:
    """Do these things, each as in "A init"; what was told."""
    return [hand.act(*call.split()) for call in calls]


def given(hand: ByHand) -> tuple[list[str | None], list[str | None]]:
    """What a read_uncommitted and a read_committed reader are given."""
    rows = hand.rows()
    uncommitted = [row.value for row in rows if (row.source, row.kind) == ("log", "record")]
    return uncommitted, [row.value for row in rows if (row.source, row.kind) == ("log", "visible")]


def test_commit(by_hand: ByHand) -> None:
    """What is produced is there for one level at once, and for the other when it is committed.

    A new run begins with nothing written.
    """
    act(by_hand, "A init", "A begin", "A produce")
    before = given(by_hand)
    act(by_hand, "A commit")  # the coordinator's word; the marker follows

    assert (["1"], []) == before
    wait_until(lambda: given(by_hand) == (["1"], ["1"]), "the marker", timeout_s=60)
    assert "txn_committed" in [row.kind for row in by_hand.rows()]
    by_hand.begin_again()
    assert [] == by_hand.rows()


def test_second_instance(by_hand: ByHand) -> None:
    """B takes the name over, and A is told so when it commits."""
    act(by_hand, "A init", "A begin", "A produce", "B init")
    (told,) = act(by_hand, "A commit")

    assert told.startswith("A commit: _FENCED.")


def test_wrong_order_is_explained(by_hand: ByHand) -> None:
    """Who begins before the name is taken is told what is missing, and what verbs there are."""
    (told,) = act(by_hand, "A begin")

    assert told.startswith("A begin: _STATE.")
    with pytest.raises(BadArgument, match="commit"):
        by_hand.act("A", "comit")
