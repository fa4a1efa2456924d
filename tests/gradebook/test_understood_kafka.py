"""What was planted in a class is what ./lab class finds in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import correlation
from typing import Any
from unicodedata import normalize

import pandas as pd
import pytest

from benchmarks.classes import (
    HAPPENED,
    PASSED,
    POINTS,
    WITHOUT_COPIES,
    handed_in,
    submission,
    write_class,
)
from lab_utils.audit import session
from lab_utils.errors import BadArgument
from lab_utils.gradebook.class_page import SECTIONS
from lab_utils.gradebook.understood import Understood, understand
from lab_utils.grading import records
from lab_utils.grading.results import SubmissionResult

pytestmark = pytest.mark.kafka
N = 280


@pytest.fixture(scope="module", autouse=True)
def shared_spark(spark_address: str) -> Iterator[None]:
    """The suite's Spark, as if it were a cluster; that each audit starts its own is seen there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_REMOTE", spark_address)
        yield
    session.stop_session()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of 280, in the folder of a grading."""
    folder = tmp_path_factory.mktemp("class")
    write_class(folder / "grades", N)
    return folder


@pytest.fixture(scope="module")
def found(place: Path) -> Understood:
    return understand([place / "grades"], place / "class")


def table(found: Understood, name: str) -> dict[str, dict[str, Any]]:
    return {row["item"]: row for row in found.tables[name]}


def test_the_generator_writes_what_a_grading_writes(place: Path) -> None:
    """Its files are read as a grading's own are."""
    told: list[str] = []
    results = records.results(place / "grades", told.append)

    assert [] == told
    assert {it.learner: it.items for it in handed_in(N)} == {
        it.learner: it.items for it in results.submissions if "first" not in it.path
    }


def test_difficulty(found: Understood) -> None:
    """The facility of an item is the share of the class that passes it; blank is told apart."""
    items = table(found, "items")

    assert {"03.1": 0.9, "03.2": 0.6, "03.3": 0.3, "03.4": 0.5, "03.5": 0.25} == {
        item: pytest.approx(row["facility"]) for item, row in items.items()
    }
    assert (0.2, 0.5) == (pytest.approx(items["03.3"]["blank"]), items["03.3"]["failed"])
    assert {N} == {row["answers"] for row in items.values()}, "the first, pointless ones are out"


def test_discrimination(found: Understood) -> None:
    """It is the correlation with the rest: none of chance, negative of what only the weak know."""
    items = table(found, "items")
    passed = {item: [float(rule(i, N)) for i in range(N)] for item, rule in PASSED.items()}
    total = [sum(POINTS[it] * passed[it][i] for it in POINTS) for i in range(N)]
    for item, points in POINTS.items():
        rest = [total[i] - points * passed[item][i] for i in range(N)]
        assert correlation(passed[item], rest) == pytest.approx(items[item]["discrimination"])

    assert 0 == pytest.approx(items["03.4"]["discrimination"], abs=0.02)
    assert items["03.5"]["discrimination"] < 0 < items["03.3"]["discrimination"]


def test_mistakes(found: Understood) -> None:
    """Three of four who fail 03.2 made the same mistake; numbers make no other one."""
    mistakes = [
        (row["item"], row["mistake"], row["share"], row["learners"])
        for row in found.tables["mistakes"]
    ]

    assert [
        ("03.2", "the retry carried no producer id.", 0.75, 84),
        ("03.2", "your program sent it again.", 0.25, 28),
    ] == [row for row in mistakes if row[0] == "03.2"]
    assert [("03.4", "order … is in the log twice, at offsets … and …", 1.0, 140)] == [
        row for row in mistakes if row[0] == "03.4"
    ]
    assert [140] == [row[3] for row in mistakes if row[0] == "03.3"], "no answer is no mistake"


def test_beliefs(found: Understood) -> None:
    """What fewest expected comes first, with what most expected in its place."""
    log, acked = found.tables["predictions"]

    assert (HAPPENED, 0.2) == (log["happened"], pytest.approx(log["right"]))
    assert (WITHOUT_COPIES, 0.7) == (log["believed"], pytest.approx(log["believed_share"]))
    assert ("Several in flight", N) == (log["where"], log["learners"])
    assert (1.0, None) == (acked["right"], acked["believed"])


def test_stuck(found: Understood) -> None:
    """The first item that somebody has not passed, counted by the rules of the class."""
    first = [next((it for it in PASSED if not PASSED[it](i, N)), None) for i in range(N)]

    assert {it: first.count(it) for it in PASSED if it in first} == {
        item: row["learners"] for item, row in table(found, "stuck").items()
    }


def test_time(found: Understood) -> None:
    """Half an hour went into 03.3, for those whose notebooks know it."""
    items = table(found, "items")

    assert (30, 5, 140) == (items["03.3"]["minutes"], items["03.1"]["minutes"],
                            items["03.1"]["timed"])  # fmt: skip


def test_who_needs_help(found: Understood, place: Path) -> None:
    """The learners with the least points; for each what is open, and what most others solve."""
    least = sorted(submission(i, N).points for i in range(N))[:20]
    learners = pd.read_parquet(place / "class" / "learners")

    assert least == [row["points"] for row in found.tables["learners"]]
    assert {"03.1": N // 10} == learners["solved_by_most"].explode().value_counts().to_dict()
    assert N // 2 == learners["open"].explode().eq("03.4").sum()


def test_every_table_is_beside_the_page(found: Understood, place: Path) -> None:
    """In full, as Parquet."""
    kept = {name: len(pd.read_parquet(place / "class" / name)) for name in SECTIONS}

    assert all(kept[name] >= len(found.tables[name]) > 0 for name in SECTIONS)


def test_nobody_is_named(found: Understood, place: Path) -> None:
    """Neither on the page nor in the tables; the page loads nothing."""
    page = (place / "class" / "class.html").read_text()
    assert f"{N} submissions of {N} learners" in page
    assert not any(it in page for it in ("learner-0", "http:", "https:", "<script", "url("))
    for name in ("submissions", "answers", "beliefs", "learners"):
        named = pd.read_parquet(place / "class" / name)["learner"]
        assert named.str.fullmatch("learner [0-9a-f]{10}").all()
        assert N == named.nunique()


def test_the_command_with_names(tmp_path: Path, state: Path) -> None:
    """Names when they are asked for; what learners wrote is text; what was written before goes."""
    evil = "<script>\x1b[31m"
    given = submission(7, 40)
    with records.opened(tmp_path / "grades", {}, 1, None) as kept:
        kept.keep(tmp_path / "a.ipynb", given)
        for n, learner in enumerate((evil, "Ada", "Jörg", normalize("NFD", "Jörg"))):
            belief = tuple(it.__class__(cell="c", where=evil, question="log", predicted=evil)
                           for it in given.predictions[:1])  # fmt: skip
            its = SubmissionResult(path=f"{n}", lab="03", status="graded", learner=learner,
                                   items=given.items, predictions=belief)  # fmt: skip
            kept.keep(tmp_path / f"{n}.ipynb", its)
    (tmp_path / "class" / "items").mkdir(parents=True)
    for old in ("items/part-old", "class.html"):
        (tmp_path / "class" / old).touch()
    command = "from lab_utils.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "class", "grades", "--out", "class", "--names"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    page = (tmp_path / "class" / "class.html").read_text()

    assert (0, "Open class/class.html.\n") == (done.returncode, done.stderr)
    assert "<td>Ada</td>" in page
    assert 1 == page.count("rg</td>"), "a Mac spells Jörg otherwise"
    assert "&lt;script&gt;\\x1b[31m" in page
    assert not any(it in page for it in ("<script", "\x1b"))
    assert not (tmp_path / "class" / "items" / "part-old").exists()
    assert [] == [*(tmp_path / "class").glob(".*")]


@pytest.mark.parametrize("name", ["submissions", "learners"])
def test_what_somebody_else_has_put_there(place: Path, tmp_path: Path, name: str) -> None:
    """The folder of a grading, or of hand-ins, has names of tables: nothing is touched."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "07.json").touch()
    with pytest.raises(BadArgument, match=f"has a {name} that this command has not made"):
        understand([place / "grades"], tmp_path)

    assert [tmp_path / name, tmp_path / name / "07.json"] == sorted(tmp_path.rglob("*"))


def test_nothing_to_analyse(tmp_path: Path) -> None:
    """A folder that is none of a grading is refused before Spark starts."""
    with pytest.raises(BadArgument, match="not the folder of a grading"):
        understand([tmp_path], tmp_path / "class")
    (tmp_path / "submissions").mkdir()
    with pytest.raises(BadArgument, match="there is no submission in"):
        understand([tmp_path], tmp_path / "class")
