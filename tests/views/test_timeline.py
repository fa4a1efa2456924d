"""The timeline: an arrow for each frame, broken where the proxy kept it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab_utils.ledger.events import Event
from lab_utils.views.picture import Label, thinned
from lab_utils.views.timeline import EXCHANGES_LIMIT, LANE_PX, PROXY, Path, paths, scene, timeline
from tests.views import histories
from tests.views.histories import event, fired, request, response


def drawn(rows: list[Event]) -> list[Path]:
    return paths(scene(rows))


def texts(rows: list[Event], **options: Any) -> list[str]:
    return [note.text for note in timeline(rows, **options).figure.layout.annotations]


DOWN, UP = [1, PROXY, -1], [-1, PROXY, 1]
WAIT = ("held", [PROXY, PROXY])
WAYS = {
    "there and back": (
        [request(1, "0", 1), response(2, 1)], [("request", DOWN), ("answer", UP)],
    ),
    "the request is dropped": (
        [request(1, "0", 1, fate="dropped")], [("lost", [1, PROXY])],
    ),
    "the answer is dropped": (
        [request(1, "0", 1), response(2, 1, fate="dropped")],
        [("request", DOWN), ("lost", [-1, PROXY])],
    ),
    "the proxy answers in the broker's place": (
        [request(1, "0", 1, fate="dropped"), response(2, 1, fate="replaced", error="E")],
        [("lost", [1, PROXY]), ("replaced", [PROXY, 1])],
    ),
    "the broker's answer is rewritten": (
        [request(1, "0", 1), response(2, 1, fate="replaced", error="E")],
        [("request", DOWN), ("answer", [-1, PROXY]), ("replaced", [PROXY, 1])],
    ),
    "the broker refuses": (
        [request(1, "0", 1, fate="corrupted"), response(2, 1, error="E")],
        [("corrupted", DOWN), ("error", UP)],
    ),
    "a held answer waits at the proxy": (
        [request(1, "0", 1), histories.held_response(2, 1, 40, offset=0)],
        [("request", DOWN), ("answer", UP[:2]), ("answer", UP[1:]), WAIT],
    ),
    "a held answer, let go when its client had hung up": (
        [request(1, "0", 1), histories.held_response(2, 1, 40, fate="undelivered")],
        [("request", DOWN), ("undelivered", [-1, PROXY, PROXY]), WAIT],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), WAYS.values(), ids=WAYS)
def test_way_of_a_request_and_its_answer(
    rows: list[Event], expected: list[tuple[str, list[float]]]
) -> None:
    """What the proxy did with both decides the lines, the lanes that they pass, and who answers."""
    assert expected == [(path.style, [y for _, y in path.points]) for path in drawn(rows)]


def test_copy_leaves_the_proxy() -> None:
    """A copy goes from the proxy to the broker, where its answer and the fault are marked, too."""
    rows = histories.replayed("OUT_OF_ORDER_SEQUENCE_NUMBER")
    found = scene(rows)
    copy, answer = (path for path in drawn(rows) if path.style in ("replayed", "lost"))

    assert [PROXY, -1] == [y for _, y in copy.points]
    assert [-1, PROXY] == [y for _, y in answer.points]
    assert [copy.event.at_ns] == [mark.at_ns for mark in found.marks]
    assert ["OUT_OF_ORDER_SEQUENCE_NUMBER to the copy"] == [label.text for label in found.errors]
    assert "The proxy sent 1 copy itself." in found.summary()


def test_a_grey_band_is_in_the_legend() -> None:
    """A long gap is named where the eye looks for it, and only where there is one."""
    named = [
        {it.name for it in timeline(rows).figure.data if it.showlegend is not False}
        for rows in (histories.lost_answer(), histories.calm(1))
    ]

    assert [True, False] == ["a pause" in names for names in named]


def test_arrows_keep_the_order_of_events() -> None:
    """An answer leaves the broker after its request has arrived there."""
    request_path, answer_path = drawn(histories.calm(1))

    assert request_path.points[-1][0] < answer_path.points[0][0]


def test_mark_stands_where_the_fault_struck() -> None:
    """A fault that fired late is marked at the frame it acted on."""
    rows = [request(1, "0", 5), response(2, 5, 0, fate="dropped"), fired(42, "drop_response", 5, 1)]
    (mark,) = scene(rows).marks

    assert (2_000_000, 'drop_response("Produce", nth=1)') == (mark.at_ns, mark.text)


def test_mark_of_a_killed_broker() -> None:
    """What was done to a broker is marked at its own moment."""
    rows = [*histories.calm(2), event(0.9, "broker", "broker-1", "killed")]

    assert ["broker-1 killed"] == [mark.text for mark in scene(rows, None).marks]


def test_batch_is_named_by_its_ends() -> None:
    """A batch of many is its first and last value, and its answer the first and last offset."""
    rows = [request(1, None, 1, records=4, detail={"values": '["0","1","2","3"]'}),
            response(2, 1, 8)]  # fmt: skip
    shown = scene(rows)

    assert ["0…3", "8…11"] == [shown.requests[0].text, shown.offsets[0].text]


def test_same_errors_are_one_label() -> None:
    """Neighbouring answers with one error are one label with their number."""
    rows = [
        row
        for at in range(3)
        for row in (request(1 + at / 9, str(at), at), response(3 + at / 9, at, error="E"))
    ]

    assert ["E (3 times)"] == [label.text for label in scene(rows).errors]


@pytest.mark.parametrize("wrong", [{"fate": "dropped"}, {"error": "E"}])
def test_long_run_is_shown_around_the_fault(wrong: dict[str, str]) -> None:
    """Of a long run the first exchange that went wrong and what is around it are shown."""
    rows = [row for at in range(400) for row in (
        request(at, str(at), at),
        response(at + 0.5, at, at, **wrong if at == 150 else {}))]  # fmt: skip
    picture = timeline(rows)

    assert EXCHANGES_LIMIT == len(picture.table.rows)
    assert "Of 400 Produce requests, 136 to 195 are shown." in picture.summary


@pytest.mark.parametrize(("api", "expected"), [("Fetch", 0), ("Produce", 1)])
def test_what_a_consumer_leaves_behind_is_nothing_odd(api: str, expected: int) -> None:
    """It closes with a Fetch under way; who gives up a Produce has not been told what became of it.

    Either ends at the proxy, and nobody dropped it.
    """
    rows = [
        replace(row, api=api) for row in (request(1, "0", 1), response(2, 1, 0, fate="undelivered"))
    ]
    picture = timeline(rows, apis=[api])

    assert expected == len(picture.table.marked)
    assert "1 answer came when the client had gone." in picture.summary
    assert "dropped" not in picture.summary


def test_loud_label_displaces_a_quiet_one() -> None:
    """Where labels would cover each other, the one that went wrong is kept."""
    labels = [Label(0, 1, "1"), Label(1, 1, "2", is_loud=True), Label(2, 1, "3")]

    assert ["2"] == [label.text for label in thinned(labels, 5, turned=True)]


def test_turned_labels_are_a_line_apart() -> None:
    """Between turned lines is less room than between the columns where they begin."""
    two = [Label(0, 1, "ListOffsets"), Label(1, 1, "ListOffsets")]

    assert [1, 2] == [len(thinned(two, column_px, turned=True)) for column_px in (14, 15)]


def test_turned_name_ends_below_the_next_lane() -> None:
    """The name of a client's request does not reach into those of the client above."""
    names = {"consumer-1": "OffsetCommit", "producer-1": "InitProducerId"}
    rows = [request(at, None, at, api=names[actor], actor=actor, records=None)
            for at, actor in enumerate(list(names) * 20)]  # fmt: skip
    above, below = scene(rows, None).clients.values()

    assert abs(above - below) * LANE_PX > len("InitProducerId") * 6


INIT = [request(1, None, 1, api="InitProducerId", records=None), request(2, "0", 2)]
TEXTS: dict[str, tuple[list[Event], dict[str, Any], set[str]]] = {
    "when a client gave up, before the late answer": (
        histories.late_answer(), {}, {"order 3 unknown: _MSG_TIMED_OUT"},
    ),
    "with apis=None a request's API": (INIT, {"apis": None}, {"Produce 0", "InitProducerId"}),
    "two clients and two brokers": (
        [request(1, "0", 1), request(2, "1", 2, actor="producer-2", detail={"broker": "2"})],
        {}, {"<b>producer-1</b>", "<b>producer-2</b>", "<b>broker 2</b>"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "options", "named"), TEXTS.values(), ids=TEXTS)
def test_what_is_named(rows: list[Event], options: dict[str, Any], named: set[str]) -> None:
    """Requests, lanes and reports have their names beside them."""
    assert [] == [it for it in named if it not in "\n".join(texts(rows, **options))]
    assert "InitProducerId" not in texts(rows)


def test_title_without_produce() -> None:
    """Requests that carry no order do not tell what became of one, nor does their title."""
    rows = [request(1, None, 1, api="EndTxn", records=None), request(2, "0", 2)]

    assert timeline(rows, apis=("EndTxn",)).title.startswith("EndTxn: 1 request")


def test_the_names_of_lanes_have_room() -> None:
    """A second process has longer names; a bold letter takes about eight pixels."""
    short = [request(1, "0", 1), request(2, "1", 2, actor="producer-2")]
    long = [request(1, "0", 1), request(2, "1", 2, actor="consumer-11")]
    left = [timeline(rows).figure.layout.margin.l for rows in (short, long)]

    assert left[1] >= left[0] + 8
    assert left[1] >= 8 * len("consumer-11") + 12


def test_legend_has_room() -> None:
    """Two long entries are a row: the fifth takes a third row, below the name of the axis."""
    few = [request(1, "0", 1), response(2, 1, offset=0)]
    many = [
        *few,
        request(3, "1", 2, fate="corrupted"),
        response(4, 2, error="CORRUPT_MESSAGE"),
        request(5, "2", 3, fate="dropped"),
    ]
    below = [timeline(rows).figure.layout.margin.b for rows in (few, many)]

    assert below[1] == below[0] + 20


def test_hover_shows_the_decoded_request() -> None:
    """Hovering shows the batch's key, its place and its connection."""
    figure = timeline([request(1, "7", 5, producer_id=4000, producer_epoch=0, sequence=2)]).figure
    (hover,) = [text for trace in figure.data for text in trace.hovertext or ()]

    assert "producer id 4000, epoch 0, sequence 2" in hover
    assert "connection c1, correlation id 5" in hover
