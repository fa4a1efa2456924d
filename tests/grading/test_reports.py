"""A verdict as a learner sees it, and the reports, each a function of the results."""

from __future__ import annotations

import csv
import json
import re
import stat
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab_utils.grading.reports import (
    csv_text,
    feedback,
    table,
    to_csv,
    to_gradescope,
    to_junit,
    write_reports,
)
from lab_utils.grading.results import (
    Results,
    Score,
    SubmissionResult,
    Verdict,
    read_submission_result,
)

ONCE = Verdict(
    item="03.2",
    title="Once",
    kind="workload",
    status="FAIL",
    points=0,
    possible=5,
    reason='=order "k<3>" is there twice\x00.',
    hint="Likely: no id.\nLook at the wire.",
    evidence=("lost answer: log <0> 0",),
    notes=("The check cell was edited.",),
)
WHICH = Verdict(item="03.1", title="Which", kind="value", status="PASS", points=3, possible=3,
                   reason="that is what happened.")  # fmt: skip
WEAK = Verdict(item="03.3", title="Weak", kind="query", status="INCONCLUSIVE", points=0,
                  possible=4, reason="the fault never fired.")  # fmt: skip
HALF = SubmissionResult(
    path="a/03.ipynb", lab="03", status="graded", seconds=12.5, items=(WHICH, ONCE, WEAK),
    learner="ada",
)  # fmt: skip
NONE = SubmissionResult(
    path="b/03.ipynb", lab=None, status="rejected", seconds=0.1, reason="not a notebook."
)
DOWN = SubmissionResult(
    path="c/x.ipynb", lab="03", status="infrastructure", seconds=9.0, reason="no Java."
)
RESULTS = Results(nonce="n0", versions={"kafka": "4.3.1"}, submissions=(HALF, NONE))


def test_results_json() -> None:
    """results.json holds everything, with its schema first and the sums beside the items."""
    written = json.loads(RESULTS.to_json())

    assert (HALF, NONE) == tuple(map(read_submission_result, written["submissions"]))
    assert ["schema", "nonce", "isolation", "versions", "submissions"] == list(written)
    assert "delivery-lab-results/1" == written["schema"]
    assert (3, 12) == tuple(written["submissions"][0][name] for name in ("points", "possible"))


def test_infrastructure_is_told_apart() -> None:
    """A learner's failures are none of the machinery; one submission or item of it is enough."""
    broken = Verdict(item="1", title="", kind="value", status="INFRASTRUCTURE", points=0,
                        possible=1, reason="")  # fmt: skip
    with_item = SubmissionResult(path="x", lab="03", status="graded", seconds=1, items=(broken,))

    assert [False, True, True] == [
        Results(nonce="", versions={}, submissions=each).infrastructure_failed
        for each in ((HALF, NONE), (HALF, DOWN), (with_item,))
    ]


def test_table() -> None:
    """Each submission has its points or its status, and below it what is missing."""
    assert (
        "a/03.ipynb            3/12    12.5 s\n"
        '    FAIL 03.2: =order "k<3>" is there twice\\x00.\n'
        "    INCONCLUSIVE 03.3: the fault never fired.\n"
        "b/03.ipynb        rejected     0.1 s\n"
        "    not a notebook."
    ) == table(RESULTS)


def test_csv_holds_no_formula() -> None:
    """A cell of the sheet that would be a formula is text."""
    assert (
        "learner,path,lab,item,status,points,possible,reason\n"
        "ada,a/03.ipynb,03,03.1,PASS,3,3,that is what happened.\n"
        'ada,a/03.ipynb,03,03.2,FAIL,0,5,"\'=order ""k<3>"" is there twice\\x00."\n'
        "ada,a/03.ipynb,03,03.3,INCONCLUSIVE,0,4,the fault never fired.\n"
        ",b/03.ipynb,,,rejected,0,0,not a notebook.\n"
    ) == to_csv(RESULTS)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        (" -1", "' -1"),
        ("＝1", "'＝1"),  # noqa: RUF001 - as a Japanese keyboard writes it
        ("a;=1+1;b; @x", "a;'=1+1;b;' @x"),
        ("Eve\n=1+1", "Eve\n'=1+1"),
        ("acks=all; 2 + 3; a-b", "acks=all; 2 + 3; a-b"),
    ],
)
def test_no_text_is_a_formula(text: str, cell: str) -> None:
    """Also not where a semicolon is what lies between two cells, as in half of Europe."""
    assert [["name"], [cell]] == [*csv.reader(StringIO(csv_text(["name"], [[text]]), newline=""))]


def test_junit_has_a_case_for_each_item() -> None:
    """FAIL is a failure, INCONCLUSIVE is skipped, what was not graded is an error."""
    root = ElementTree.fromstring(to_junit(RESULTS))

    outcomes = [
        (case.get("name"), [child.tag for child in case if child.tag != "system-out"])
        for case in root.iter("testcase")
    ]
    assert [
        ("03.1", []),
        ("03.2", ["failure"]),
        ("03.3", ["skipped"]),
        ("rejected", ["error"]),
    ] == (outcomes)


def test_gradescope() -> None:
    """Gradescope's fields: score, and for each test number, name, score, max_score and output."""
    written = json.loads(to_gradescope(HALF))

    assert (3, 12.5, 3) == (written["score"], written["execution_time"], len(written["tests"]))
    assert {
        "number": "03.1",
        "name": "03.1 Which",
        "score": 3,
        "max_score": 3,
        "status": "passed",
        "output": "PASS: that is what happened.",
        "output_format": "text",
    } == written["tests"][0]
    assert "Look at the wire.\nThe check cell was edited." in written["tests"][1]["output"]


def test_feedback_is_complete_and_escaped() -> None:
    """The page shows reason, hint, note and evidence as text, and loads nothing."""
    page = feedback(HALF)

    assert "<title>ada, lab 03: 3 of 12 points</title>" in page
    assert "=order &quot;k&lt;3&gt;&quot; is there twice" in page
    assert "<p>Look at the wire.</p>" in page
    assert "lost answer: log &lt;0&gt; 0" in page
    assert not any(word in page for word in ("http:", "https:", "<script", "@import", "url("))


def test_feedback_of_a_rejected_file() -> None:
    """A file that was not graded has its reason."""
    assert "<p>not a notebook.</p>" in feedback(NONE)


def test_reports_are_written(tmp_path: Path) -> None:
    """Submissions with the same name get reports of their own, which only the teacher reads."""
    write_reports(RESULTS, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert RESULTS.to_json() == (tmp_path / "results.json").read_text(encoding="utf-8")
    assert {"grades.csv": 1, "junit.xml": 1, "results.json": 1, "a-03.html": 1, "b-03.html": 1,
            "a-03.json": 1, "b-03.json": 1} == Counter(
        re.sub(r"-\w{12}(?=\.)", "", path.name) for path in files
    )  # fmt: skip
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in files}


FAIL = replace(ONCE, reason="order <3> is there twice.")


def test_reasons_stand_in_one_column() -> None:
    """Status and item take nineteen characters; hints stand below the reason."""
    assert "INCONCLUSIVE 03.3  no fault." == repr(replace(WEAK, reason="no fault."))
    assert (
        "FAIL 03.2          order <3> is there twice.\n"
        "                   Likely: no id.\n"
        "                   Look at the wire."
    ) == repr(FAIL)


def test_long_reasons_are_wrapped() -> None:
    """No line is longer than a hundred characters."""
    lines = repr(replace(WEAK, reason="word " * 60)).splitlines()

    assert 100 >= max(map(len, lines))
    assert all(line.startswith(" " * 19 + "word") for line in lines[1:])


def test_html_escapes() -> None:
    """What an answer holds is shown, never interpreted."""
    html = FAIL._repr_html_()

    assert "order &lt;3&gt; is there twice.<br>Likely: no id.<br>Look at the wire." in html
    assert "<strong>FAIL 03.2</strong>" in html


def test_a_card_links_its_claims_where_the_page_is() -> None:
    """In a notebook each claim is a link into the page beside it; a feedback page has none."""
    row = {
        "schedule": "s",
        "status": "FAIL",
        "finding": "f",
        "claim": "B5",
        "reason": "",
        "hint": "",
    }
    carded = replace(ONCE, card=(row,))

    assert '<a href="Claims.md#B5">B5</a>' in carded._repr_html_()
    assert "<td" in (page := feedback(replace(HALF, items=(carded,))))
    assert "href" not in page


def test_score_counts_what_was_checked() -> None:
    """Every exercise has a line; those not checked have no points yet."""
    rows = (("03.1", "Which", "PASS", 3, 3), ("03.2", "Once", "not checked", 0, 5))

    assert (
        "PASS 03.1           3 of  3  Which\n"
        "not checked 03.2    0 of  5  Once\n"
        "Lab 03              3 of  8"
    ) == repr(Score("03", rows))
