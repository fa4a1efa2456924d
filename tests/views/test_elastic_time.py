"""Time on a picture keeps its order and shortens what is long."""

from __future__ import annotations

from lab_utils.views.elastic_time import MS, elastic_time


def test_neighbours_have_a_column_each() -> None:
    """Instants within a millisecond are one column apart, however near."""
    assert (0, 1, 2) == elastic_time([5, 6, 900_000]).columns


def test_a_long_gap_takes_little_more() -> None:
    """A gap of a second takes no more than a few columns."""
    assert 2 < elastic_time([0, 1000 * MS]).width < 4


def test_between_two_instants() -> None:
    """A moment that has no column of its own is drawn at the one before it."""
    assert [0, 0, 1] == [elastic_time([10, 20]).column(at_ns) for at_ns in (0, 15, 25)]


def test_pauses_are_named() -> None:
    """The gap that is far longer than the others is a pause of its true length."""
    instants = [at * MS for at in (0, 1, 2, 60, 61)]

    assert [58] == [ms for *_, ms in elastic_time(instants).pauses()]


def test_even_run_has_no_pause() -> None:
    """Gaps that are all alike are no pauses, however long."""
    assert [] == elastic_time([at * 100 * MS for at in range(5)]).pauses()


def test_nothing_happened() -> None:
    """A picture of nothing has no width and no pause."""
    assert (0, []) == (elastic_time([]).width, elastic_time([]).pauses())
