"""The replicas: a lane a broker, with its log, its role, and what happened to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab_utils.ledger.events import Event
from lab_utils.views.picture import MS, PLOTLY
from lab_utils.views.replica_history import ELIGIBLE, IN_SYNC, LEADER, OUT, Replication, title
from lab_utils.views.replicas import COLUMNS_LIMIT, Frame, replicas
from tests.views import replica_histories as histories
from tests.views.histories import acked, log, request, response, unknown
from tests.views.replica_histories import broker, decided, ends, link, watermark

DEAD_ALONE = [*ends(0, 0, 0, 0), watermark(1, 1, 0), acked(5, "0", 0), broker(9, 1, "killed"),
              *log(ms=20)]  # fmt: skip
TWO_HAD_IT = [*ends(0, 0, 0, 0), watermark(1, 1, 0), *ends(4, 1, 1), acked(5, "0", 0),
              broker(9, 1, "killed"), broker(9, 2, "killed"), decided(90, 3, 3),
              *log(ms=99)]  # fmt: skip
# Before the death, followers had what was acked first; what was acked last, they had not.
SOME_HAD_IT = [*ends(0, 0, 0, 0), watermark(1, 1, 0), *ends(4, 1, 1), acked(5, "0", 0),
               *ends(6, 2), acked(7, "1", 1), broker(9, 1, "killed"), decided(90, 3, 3),
               *log(ms=99)]  # fmt: skip
TWICE = [row for row in histories.taken_over() if row.source != "log"] + log("0", "1", "1", ms=4000)
NOT_READ = [row for row in histories.too_few() if row.source != "log"]
BOTH_REFUSED = [*NOT_READ, unknown(1500, "x")]
TWO = {"replicas": "1 2", "isr": "1 2"}
OF_TWO = [
    replace(row, detail={**row.detail, **TWO}) if row.kind == "partition" else row
    for row in histories.in_sync() if row.actor != "broker-3"
]  # fmt: skip
# What happened, worst first, and the words that say it.
TITLES = [
    (histories.in_sync(), "All 3 replicas were in sync, and broker 1 led"),
    (OF_TWO, "Both replicas were in sync, and broker 1 led"),
    (ends(0, 0), "The only replica is on broker 1"),
    (DEAD_ALONE, "Order 0 was acked by broker 1 alone, and broker 1 was killed"),
    (
        TWO_HAD_IT,
        "Order 0 was acked when brokers 1 and 2 had it, and broker 3 became leader without it",
    ),
    (
        histories.taken_over(),
        "Broker 2 took over from broker 1, and every acked order is in the log",
    ),
    (SOME_HAD_IT, "Orders 0 and 1 were acked, and broker 3 became leader without them"),
    (
        TWICE,
        "Broker 2 took over from broker 1, and every acked order is in the log. "
        "Order 1 was stored more than once",
    ),
    (
        [row for row in histories.acked_alone() if row.source != "log"],
        "Broker 2 took over from broker 1",
    ),
    (histories.last_one(), "Nobody leads the partition from 5,000 ms on"),
    (NOT_READ, "Order 2 was not acked while broker 1 alone was in the ISR"),
    (BOTH_REFUSED, "Orders x and 2 were not acked"),
    (
        [row for row in NOT_READ if row.kind != "unknown"],
        "Order 1 was acked, and no reader could see it in the 4,941 ms that followed",
    ),
]


def roles(rows: list[Event], number: int) -> list[str]:
    return [span.word for span in Replication(rows).roles(number)]


def drawn(rows: list[Event]) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = replicas(rows).bundle()[PLOTLY]["data"]
    return traces


@pytest.mark.parametrize(("rows", "words"), TITLES)
def test_title_is_the_finding(rows: list[Event], words: str) -> None:
    """The picture's title says what happened to the replicas, worst first."""
    assert words == title(Replication(rows))


def test_roles_follow_the_controller() -> None:
    """A lane says what the controller made of the replica, one span for each role."""
    rows = histories.acked_alone()

    assert [[LEADER, OUT], [IN_SYNC, LEADER], [IN_SYNC]] == [roles(rows, it) for it in (1, 2, 3)]
    assert [IN_SYNC, ELIGIBLE] == roles(histories.too_few(), 2)


def test_what_a_dead_broker_holds_was_there_before() -> None:
    """A log end that is seen after the kill is drawn at the kill."""
    steps = [(it.at_ns // MS, it.offset) for it in Replication(histories.acked_alone()).ends
             if it.broker == 1]  # fmt: skip

    assert [(0, 0), (116, 1), (196, 2)] == steps


def test_started_again_and_fenced_until_registered() -> None:
    """A broker is killed, then fenced while it runs, then neither."""
    rows = [*ends(0, 0, 0, 0), broker(1, 2, "killed"), broker(5, 2, "fenced"),
            broker(9, 2, "started"), broker(12, 2, "unfenced"), decided(20, 1, 1)]  # fmt: skip
    spans = [(it.start_ns // MS, it.end_ns // MS, it.word) for it in Replication(rows).states(2)]

    assert [(1, 9, "killed"), (9, 12, "fenced")] == spans


def test_links_are_bars_until_they_heal() -> None:
    """A link that is cut, and then whole again, is a bar for that time."""
    rows = [*ends(0, 0, 0, 0), link(3, "1 2"), link(7, "2 3", "link_held"),
            link(9, "1 2", "link_open")]  # fmt: skip
    spans = {pair: [(it.start_ns // MS, it.end_ns // MS, it.word) for it in found]
             for pair, found in Replication(rows).links.items()}  # fmt: skip

    assert {(1, 2): [(3, 9, "cut")], (2, 3): [(7, 9, "held")]} == spans


def test_watermark_stands_in_the_lane_of_its_leader() -> None:
    """The watermark is drawn where its leader is, and ends when it runs no more."""
    lines = [it for it in drawn(histories.taken_over()) if it["name"] == "high watermark"]
    frame = Frame(Replication(histories.taken_over()))

    assert [frame.log_y(0), frame.log_y(1, 2)] == [it["y"][-1] for it in lines]
    assert frame.column(87 * MS) == lines[0]["x"][-1]


def test_answer_to_acks_all_moves_the_watermark() -> None:
    """A leader that answers acks=all has seen the watermark pass; with acks=1 it says nothing."""
    rows = [*ends(0, 0, 0, 0), watermark(1, 1, 0),
            request(2, "0", 3, detail={"acks": "-1"}), response(4, 3, 0),
            request(5, "1", 4, detail={"acks": "1"}), response(6, 4, 1),
            request(7, "2", 5, detail={"acks": "-1"}),
            response(8, 5, 2, error="NOT_ENOUGH_REPLICAS"), watermark(9, 1, 1)]  # fmt: skip
    marks = [(it.at_ns // MS, it.broker, it.offset) for it in Replication(rows).watermarks]

    assert [(1, 1, 0), (4, 1, 1)] == marks


def test_answer_with_an_offset_says_what_the_leader_holds() -> None:
    """The leader's log end moves with each answer, and not again when it is looked at."""
    rows = [*ends(0, 0, 0, 0), request(5, "1", 4, detail={"acks": "1"}), response(6, 4, 0),
            *ends(50, 1), request(60, "2", 5, detail={"acks": "0"}), *ends(70, 2)]  # fmt: skip
    steps = [(it.at_ns // MS, it.offset) for it in Replication(rows).ends if it.broker == 1]

    assert [(0, 0), (6, 1), (70, 2)] == steps


def test_table_marks_the_lost() -> None:
    """Every change is a row, and an ack whose order is lost stands out."""
    table = replicas(histories.acked_alone()).table
    marked = [table.rows[number][2] for number in sorted(table.marked)]

    expected = ["order 0 acked at offset 0, and not in the log",
                "order 1 acked at offset 1, and not in the log"]  # fmt: skip
    assert expected == marked
    assert ("2.0", "link 1-3", "cut") in table.rows


def test_long_run_fits() -> None:
    """A run with a thousand acks has a picture with a limited number of columns."""
    rows = [*ends(0, 0, 0, 0), *(acked(at * 3, str(at), at) for at in range(1000))]

    assert COLUMNS_LIMIT >= len(Frame(Replication(rows)).time.instants) > 10


def test_other_partitions_are_left_out() -> None:
    """What is about another partition is in its own picture."""
    rows = [*histories.in_sync(), acked(50, "9", 0, partition=1)]

    assert replicas(histories.in_sync()).table == replicas(rows).table


def test_healing_is_shown_in_its_time() -> None:
    """What a leader that came back cuts off, it cuts while it starts, behind the mark."""
    rows = [*ends(0, 0, 0, 0), decided(1, 1, 1, 2, 3), acked(5, "0", 0), *ends(6, 1),
            broker(9, 1, "killed"), decided(20, 2, 2, 3), histories.finished(30),
            broker(40, 0, "healing"), broker(41, 1, "starting"), *ends(50, 0),
            broker(60, 1, "started"), *log(ms=70)]  # fmt: skip
    seen = Replication(rows)
    texts = [
        text["text"] for text in replicas(rows).figure.to_plotly_json()["layout"]["annotations"]
    ]

    assert [(1, 6 * MS), (0, 50 * MS)] == [(it.offset, it.at_ns) for it in seen.ends
                                           if it.broker == 1][1:]  # fmt: skip
    assert ["killed", "starting"] == [span.word for span in seen.states(1)]
    assert {"workload done", "healing"} <= set(texts)
