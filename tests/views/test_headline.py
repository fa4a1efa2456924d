"""The headline names what happened, and its cause where the wire shows one."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from lab_utils.views.headline import headline
from tests.views import histories
from tests.views.histories import acked, exchange, log, request, response, sent, unknown


def test_calm() -> None:
    """A run in which nothing went wrong says so."""
    assert "3 orders sent, and each is stored once" == headline(histories.calm())


def test_lost_answer() -> None:
    """A duplicate of a dropped answer is named with its cause."""
    expected = "Order 2 was stored twice: its answer was lost and the client sent it again"

    assert expected == headline(histories.lost_answer())


def test_many_are_counted() -> None:
    """More orders than can be named are counted."""
    expected = "6 orders were stored twice: their answers were lost and the client sent them again"

    assert expected == headline(histories.flood())


def test_recognised() -> None:
    """A retry that the broker knew by its sequence number was stored once."""
    expected = (
        "Order 2 crossed the wire twice and was stored once: the broker knew its sequence number"
    )

    assert expected == headline(histories.recognised())


def test_retry_of_a_lost_request_was_not_recognised() -> None:
    """What never reached the broker cannot be recognised by it."""
    key = {"producer_id": 0, "producer_epoch": 0, "sequence": 0}
    rows = [sent(0, "0"), request(1, "0", 1, fate="dropped", **key),
            *exchange(60, "0", 2, 0, **key), acked(61, "0", 0), *log("0")]  # fmt: skip
    expected = "Order 0 crossed the wire twice and was stored once: " \
               "its request was lost and the client sent it again"  # fmt: skip

    assert expected == headline(rows)


def test_reordered() -> None:
    """An order that was refused and sent again comes last."""
    expected = ("Order 0 was stored after order 3: its first answer was CORRUPT_MESSAGE, "
                "and the client sent it again")  # fmt: skip

    assert expected == headline(histories.last())


def test_hole() -> None:
    """An acked order that is not in the log is named before all else."""
    expected = ("Order 0 was acked and is not in the log: the answer was CORRUPT_MESSAGE, "
                "and the client did not send it again")  # fmt: skip

    assert expected == headline(histories.hole())


def test_undrained_log_shows_no_loss() -> None:
    """Without the end of the log nothing is called lost."""
    rows = [row for row in histories.hole() if row.kind != "end"]

    assert "4 Produce requests crossed the wire" == headline(rows)


def test_twin() -> None:
    """A success without an offset is named, also when the order is in the log."""
    expected = "Order 1 was acked without an offset and is in the log"

    assert expected == headline(histories.twin())


def test_unknown_and_stored() -> None:
    """A report that does not know is set against the log."""
    expected = "Order 3 is in the log, and the client cannot know it"

    assert expected == headline(histories.late_answer())


def test_unknown_and_absent() -> None:
    """An order without an ack that is nowhere is no loss."""
    rows = [sent(0, "0"), request(1, "0", 1, fate="dropped"), unknown(9, "0"), *log()]

    assert "Order 0 was not acked and is not in the log" == headline(rows)


def test_program_sent_it_again() -> None:
    """A second call of produce() is not blamed on the client."""
    rows = [sent(0, "0"), *exchange(1, "0", 1, 0), acked(2, "0", 0),
            sent(3, "0"), *exchange(4, "0", 2, 1), acked(5, "0", 1), *log("0", "0")]  # fmt: skip

    assert "Order 0 was stored twice: the program sent it again" == headline(rows)


def test_fault_that_never_fired() -> None:
    """An armed fault that did not fire makes a quiet run prove nothing."""
    rows = [histories.armed(0, "drop_response", 30), *histories.calm()]

    assert "The fault never fired, so this run proves nothing" == headline(rows)


def test_no_common_cause_is_no_cause() -> None:
    """Two orders with two causes are named without one."""
    rows: list[Event] = []
    for value, number, fate in (("0", 1, "dropped"), ("1", 2, "forwarded")):
        rows += [sent(0, value), request(1, value, number), response(2, number, 0, fate=fate)]
        rows += exchange(60, value, number + 5, 1)

    assert "Orders 0 and 1 were stored twice" == headline([*rows, *log("0", "1", "0", "1")])
