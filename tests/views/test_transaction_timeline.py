"""The transaction timeline: its finding, its words, its table, and what is drawn where."""

from __future__ import annotations

from dataclasses import replace

from lab_utils.ledger.events import Event
from lab_utils.views.transaction_scene import scene
from lab_utils.views.transaction_timeline import transaction_timeline
from tests.views.transaction_histories import (
    MS,
    commit_and_abort,
    left_open,
    torn,
    txn,
)

HOSTILE = "<b>0</b>"


def traces(rows: list[Event]) -> dict[str, list[object]]:
    """What the legend names, with the columns of its points."""
    return {trace.name: list(trace.x) for trace in transaction_timeline(rows).figure.data}


def written(rows: list[Event]) -> list[str]:
    return [str(text.text) for text in transaction_timeline(rows).figure.layout.annotations]


def test_title_counts_who_reads_what() -> None:
    """A run without trouble says how many records each isolation level is given."""
    title = "1 record for every reader, 1 for read_uncommitted only"

    assert title == transaction_timeline(commit_and_abort()).title


def test_title_of_a_torn_transaction() -> None:
    """What was told, what can be read and what cannot."""
    assert (
        "Transaction 2 of producer-1 was told aborted: order 1 can be read, order 2 cannot"
        == transaction_timeline(torn()).title
    )


def test_title_of_an_open_transaction() -> None:
    """The partition whose readers wait."""
    title = "An open transaction holds back the readers of orders 0"

    assert title == transaction_timeline(left_open()).title


def test_title_of_a_fenced_producer() -> None:
    """Who was told so."""
    fenced = txn(9, "failed", error="_FENCED")

    assert (
        "producer-1 was told that it is fenced"
        == transaction_timeline([*commit_and_abort(), fenced]).title
    )


def test_nothing_to_draw() -> None:
    """A run without a transaction says so."""
    picture = transaction_timeline([])

    assert ("No transaction was begun", "There is nothing to draw.") == (
        picture.title, picture.summary
    )  # fmt: skip


def test_summary_says_what_was_told() -> None:
    """Each transaction with its end, and where a read_committed reader stops."""
    assert (
        "Transaction 1 of producer-1 was told: committed. "
        "Transaction 2 of producer-1 was told: aborted. "
        "In orders 0 a read_committed reader stops at offset 4 of 4."
    ) == transaction_timeline(commit_and_abort()).summary


def test_table_has_each_record_and_marker() -> None:
    """Every offset of the log, and who is given it."""
    assert [
        ("orders 0", 0, "0", "every reader"),
        ("orders 0", 1, "COMMIT", "nobody"),
        ("orders 0", 2, "1", "read_uncommitted"),
        ("orders 0", 3, "ABORT", "nobody"),
    ] == list(transaction_timeline(commit_and_abort()).table.rows)


def test_each_kind_has_its_own_symbol() -> None:
    """Records, markers and ends are told apart by more than their colour."""
    figure = transaction_timeline(commit_and_abort()).figure
    symbols = [
        trace.marker.symbol for trace in figure.data
        if trace.mode == "markers+text"
    ]  # fmt: skip

    assert 6 == len(symbols) == len(set(symbols))


def test_readers_wait_from_the_first_record_to_the_marker() -> None:
    """The last stable offset stands at the first record of the open transaction."""
    first, second = scene(commit_and_abort()).waits

    assert (0, 5 * MS, 9 * MS + MS // 2) == (first.offset, first.from_ns, first.to_ns)
    assert (2, 15 * MS) == (second.offset, second.from_ns)


def test_open_transaction_has_no_end() -> None:
    """Its readers wait to the end of the picture, and its program was told nothing."""
    shown = scene(left_open())

    assert [None] == [wait.to_ns for wait in shown.waits]
    assert [None] == [span.end for span in shown.spans]


def test_late_request_arrives_when_it_was_sent_on() -> None:
    """The late EndTxn has a line of its own, that ends in the next transaction."""
    shown = scene(torn())
    start, end, _ = traces(torn())["EndTxn that was late"]

    assert (shown.time.column(6 * MS), shown.time.column(16 * MS)) == (start, end)
    assert "commit, late" in written(torn())


def test_states_of_the_diary_are_written() -> None:
    """What the coordinator wrote stands below its lane, with the epoch where it is new."""
    states = ["Empty, epoch 0", "Ongoing", "PrepareCommit", "CompleteCommit"]

    assert states == [text for text in written(commit_and_abort()) if text in states][:4]


def test_hostile_value_is_shown_and_not_believed() -> None:
    """What an order holds is text, whatever it says."""
    rows = [replace(row, value=HOSTILE) if row.value == "0" else row for row in commit_and_abort()]
    figure = transaction_timeline(rows).figure
    texts = [text for trace in figure.data if trace.text for text in trace.text]

    assert [] == [text for text in texts if "<" in text]
