"""Survival: what each setting survives, in words, marks and colours."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from lab_utils.views.survival import survival

RUN = "02-a"
HEALED_NS = 100


def setting(replicas: int, floor: int, copies: dict[int, int]) -> list[Event]:
    """One topic: by the number of dead brokers on how many disks the order is that was acked."""
    topic = f"{RUN}-rf{replicas}-min{floor}"
    detail = {"replicas": str(replicas), "min.insync.replicas": str(floor)}
    rows = [Event(run=RUN, source="workload", actor="lab", kind="topic", topic=topic, detail=detail,
                  at_ns=1)]  # fmt: skip
    for offset, (dead, _) in enumerate(copies.items()):
        rows.append(Event(run=RUN, source="client", actor="producer-1", kind="acked", topic=topic,
                          value=str(dead), offset=offset, at_ns=9))  # fmt: skip
    for number in range(replicas):
        end = sum(have > number for have in copies.values())
        rows += [
            Event(run=RUN, source="broker", actor=f"broker-{number}", kind="log_end", topic=topic,
                  offset=offset, at_ns=at_ns)
            for offset, at_ns in ((end, 50), (len(copies), HEALED_NS + 1))
        ]  # fmt: skip
    return rows


def history(*settings: list[Event]) -> list[Event]:
    """A run in which none, one and two brokers were dead, and then all were healed."""
    orders = [
        Event(run=RUN, source="workload", actor="lab", kind="order", value=str(dead), at_ns=0)
        for dead in (0, 1, 2)
    ]
    healed = Event(run=RUN, source="broker", actor="lab", kind="healing", at_ns=HEALED_NS)
    return [*orders, *(row for rows in settings for row in rows), healed]


ONE = setting(1, 1, {0: 1})
TWO = setting(2, 2, {0: 2})
CARELESS = setting(3, 1, {0: 3, 1: 2, 2: 1})
GOOD = setting(3, 2, {0: 3, 1: 2})
SETTINGS = history(ONE, TWO, CARELESS, GOOD)


def words(rows: list[Event]) -> list[str]:
    return [
        text["text"] for text in survival(rows).figure.to_plotly_json()["layout"]["annotations"]
    ]


def test_title_names_no_setting_that_is_not_good() -> None:
    """One that is refused, and one that is not safe, are not called good."""
    assert survival(history(TWO, CARELESS)).title.startswith("No setting")


def test_cell_says_what_it_is_in_words() -> None:
    """Each cell has a mark, a word, and the copies of the acked order that has the fewest.

    Where a write is refused, they are those of what had been acked.
    """
    assert words(history(CARELESS))[:3] == [
        "●<br>writable<br><b>3 copies</b>",
        "●<br>writable<br><b>2 copies</b>",
        "◑<br>writable<br><b>1 copy</b>",
    ]
    assert "◐<br>refused<br><b>2 copies</b>" == words(history(GOOD))[2]
    assert "○<br>refused<br><b>1 copy</b>" == words(history(ONE))[1]


def test_no_more_dead_than_there_are_replicas() -> None:
    """One replica has two cells, and the ones that were written on one disk stand out."""
    table = survival(history(ONE)).table

    assert [(1, 1, 0), (1, 1, 1)] == [row[:3] for row in table.rows]
    assert {0} == table.marked
