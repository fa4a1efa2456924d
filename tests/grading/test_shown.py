"""A learner sees aligned text; the HTML says the same and holds nothing that could run."""

from __future__ import annotations

from typing import Any

from lab_utils.grading.results import Score, Verdict


def verdict(status: str, reason: str, **columns: Any) -> Verdict:
    return Verdict(item="03.2", title="Once", kind="workload", status=status, points=0, possible=5,
                   reason=reason, **columns)  # fmt: skip


FAIL = verdict("FAIL", "order <3> is there twice.", hint="Likely: no id.\nLook at the wire.")


def test_reasons_stand_in_one_column() -> None:
    """Status and item take nineteen characters; hints stand below the reason."""
    assert "INCONCLUSIVE 03.2  no fault." == repr(verdict("INCONCLUSIVE", "no fault."))
    assert (
        "FAIL 03.2          order <3> is there twice.\n"
        "                   Likely: no id.\n"
        "                   Look at the wire."
    ) == repr(FAIL)


def test_long_reasons_are_wrapped() -> None:
    """No line is longer than a hundred characters."""
    lines = repr(verdict("FAIL", "word " * 60)).splitlines()

    assert 100 >= max(map(len, lines))
    assert all(line.startswith(" " * 19 + "word") for line in lines[1:])


def test_html_escapes() -> None:
    """What an answer holds is shown, never interpreted."""
    html = FAIL._repr_html_()

    assert "order &lt;3&gt; is there twice.<br>Likely: no id.<br>Look at the wire." in html
    assert "<strong>FAIL 03.2</strong>" in html


def test_score_counts_what_was_checked() -> None:
    """Every exercise has a line; those not checked have no points yet."""
    rows = (("03.1", "Which", "PASS", 3, 3), ("03.2", "Once", "not checked", 0, 5))

    assert (
        "PASS 03.1           3 of  3  Which\n"
        "not checked 03.2    0 of  5  Once\n"
        "Lab 03              3 of  8"
    ) == repr(Score("03", rows))
