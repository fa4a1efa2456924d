"""A learner sees aligned text; the HTML says the same and holds nothing that could run."""

from __future__ import annotations

from lab_utils.audit.verdicts import Verdict
from lab_utils.grading.cases import Exercise
from lab_utils.grading.shown import Checked, score

PASS = Checked("03.1", Verdict("PASS", "10 orders, 10 in the log.", 3, 3, None, []))
FAIL = Checked(
    "03.2",
    Verdict("FAIL", "order <3> is there twice.", 0, 5, "Likely: no id.\nLook at the wire.", []),
)
UNCLEAR = Checked("03.3", Verdict("INCONCLUSIVE", "the fault never fired.", 0, 4, None, []))


def test_reasons_stand_in_one_column() -> None:
    """Status and item take nineteen characters; hints stand below the reason."""
    assert "PASS 03.1          10 orders, 10 in the log." == repr(PASS)
    assert "INCONCLUSIVE 03.3  the fault never fired." == repr(UNCLEAR)
    assert (
        "FAIL 03.2          order <3> is there twice.\n"
        "                   Likely: no id.\n"
        "                   Look at the wire."
    ) == repr(FAIL)


def test_long_reasons_are_wrapped() -> None:
    """No line is longer than a hundred characters."""
    long = Checked("03.1", Verdict("FAIL", "word " * 60, 0, 3, None, []))

    assert 100 >= max(map(len, repr(long).splitlines()))
    assert all(line.startswith(" " * 19 + "word") for line in repr(long).splitlines()[1:])


def test_html_escapes() -> None:
    """What an answer holds is shown, never interpreted."""
    html = FAIL._repr_html_()

    assert "order &lt;3&gt; is there twice.<br>Likely: no id.<br>Look at the wire." in html
    assert "<strong>FAIL 03.2</strong>" in html


def test_score_counts_what_was_checked() -> None:
    """Every exercise has a line; those not checked have no points yet."""
    exercises = [
        Exercise(item=item, title=title, points=points, kind="value", answer="a", public=(),
                 rules=())
        for item, title, points in (("03.1", "Which", 3), ("03.2", "Once", 5), ("03.9", "Six", 2))
    ]  # fmt: skip

    assert (
        "PASS 03.1           3 of  3  Which\n"
        "FAIL 03.2           0 of  5  Once\n"
        "not checked 03.9    0 of  2  Six\n"
        "Lab 03              3 of 10"
    ) == repr(score("03", exercises, {"03.1": PASS, "03.2": FAIL}))
