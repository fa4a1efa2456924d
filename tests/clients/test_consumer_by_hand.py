"""A consumer by hand: each step is the real client's, and a crash really ends its process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from lab_utils.clients.consumer_by_hand import ORDERS, ConsumerByHand
from lab_utils.errors import BadArgument
from lab_utils.ledger.store import read_ledger
from tests.clients.opened import Opened

pytestmark = pytest.mark.kafka


@pytest.fixture
def hand(opened: Opened, stage: Any) -> Iterator[ConsumerByHand]:
    experiment = opened.experiment
    experiment.orders, experiment.filled = ORDERS, True
    hand = ConsumerByHand(stage.direct, experiment.begin, experiment.finish)
    yield hand
    hand.close()


def act(hand: ConsumerByHand, steps: str) -> list[str]:
    """Take these steps; what was said of each."""
    return [hand.act(step) for step in steps.split()]


def test_process_then_commit_repeats(hand: ConsumerByHand, opened: Opened) -> None:
    """Killed before the commit, it reads on at the bookmark: the same order again."""
    act(hand, "start poll process commit poll process")
    pid = int(hand.standing()["process"].split()[1])
    act(hand, "crash")
    crashed = hand.standing()
    act(hand, "start poll process commit")
    stands = hand.standing()

    assert not psutil.pid_exists(pid)
    assert ("killed", None, 1) == tuple(crashed[it] for it in ("process", "position", "committed"))
    assert [1, 2, 0, 0, 0, 0] == stands["delivered"] == stands["processed"]
    assert (2, 2) == (stands["position"], stands["committed"])
    rows = read_ledger(opened.experiment.folder)
    assert 1 == sum(row.kind == "crashed" for row in rows)
    assert ["a", "b", "b"] == [row.value for row in rows if row.kind == "processed"]


def test_commit_then_process_skips(hand: ConsumerByHand) -> None:
    """Killed behind the commit with the work not done, it never sees the order again."""
    act(hand, "start poll commit crash start poll process")

    assert [0, 1, 0, 0, 0, 0] == hand.standing()["processed"]
    assert 1 == hand.standing()["committed"]


def test_end_of_the_topic(hand: ConsumerByHand) -> None:
    """Who polls on at the end is told that there is nothing, and soon."""
    act(hand, "start" + " poll" * len(ORDERS))

    assert ["poll: was given nothing: it has read the topic to its end"] == act(hand, "poll")
    assert len(ORDERS) == hand.standing()["position"]


def test_wrong_order_is_explained(hand: ConsumerByHand) -> None:
    """A step that cannot be taken yet says which one is missing."""
    said = act(hand, "poll start process commit start crash crash")

    assert (
        said[0] == said[6].replace("crash", "poll") == "poll: there is no process. Start it first."
    )
    assert said[2] == "process: nothing is in hand. Poll first."
    assert said[4].endswith("runs already")


def test_new_run(hand: ConsumerByHand) -> None:
    """A new run begins with nothing read, and the process of the old one is gone."""
    act(hand, "start poll process")
    pid = int(hand.standing()["process"].split()[1])
    hand.begin_again()

    assert not psutil.pid_exists(pid)
    assert [0] * 6 == hand.standing()["processed"]
    assert "not started" == hand.standing()["process"]


def test_unknown_verb(hand: ConsumerByHand) -> None:
    """A verb that does not exist is refused with the nearest right one."""
    with pytest.raises(BadArgument, match="commit"):
        hand.act("comit")
