"""The recorded runs: one for each choice, made with the program, ledger and Kafka of today."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from lab_utils import Lab, course
from lab_utils.errors import BadArgument, SetupError
from lab_utils.lab import perform_choice
from lab_utils.site import build, pages, recordings
from lab_utils.site.recordings import keep, page_data, recorded
from lab_utils.views.explorer.choices import OFFERS
from lab_utils.views.explorer.run_data import offered

PAGE_BYTES = 1_000_000
KEPT_BYTES = 1_000_000
page_of = cache(page_data)


def run_of(lab: str, **choice: str) -> dict[str, Any]:
    """The run that the page of a lab shows for a choice; what is not named is its default."""
    data = page_of(lab)
    options = list(OFFERS[lab].chosen(choice).values())
    return next(data["runs"][at] for given, at in data["choices"] if given == options)


@pytest.mark.parametrize("lab", OFFERS)
def test_each_choice_has_its_run(lab: str) -> None:
    """Each choice shows a run of its own program that proves something, in a page of its size.

    Where a program, the ledger's columns or Kafka's version has changed, the error has the
    command.
    """
    data = page_of(lab)
    offer = OFFERS[lab]
    programs = [data["runs"][at]["code"] for _, at in data["choices"]]

    assert [offer.code(choice) for choice in offer.every_choice()] == programs
    assert not any(it.proves_nothing for it in recorded(lab).values())
    assert len(pages.explorer(lab)) <= PAGE_BYTES


@pytest.mark.parametrize("lab", OFFERS)
def test_times_are_those_of_the_run(lab: str) -> None:
    """Whatever has a time has one between the first event of its run and the last."""
    outside = [
        (row.kind, name, at)
        for run in recorded(lab).values()
        for row in run.rows
        for name, at in row.detail.items()
        if name.endswith("_at_ns") and not 0 <= int(at) <= max(it.at_ns for it in run.rows)
    ]

    assert [] == outside


def test_recordings_are_small() -> None:
    """The recordings of all labs together are small enough for a repository."""
    found = sum(path.stat().st_size for path in recordings.FOLDER.iterdir())

    assert found <= KEPT_BYTES


@pytest.mark.parametrize(
    ("lab", "choice", "finding"),
    [
        ("00", {}, "Order 2 was stored twice: its answer was lost"),
        ("00", {"fault": "the request is lost", "nth": "1"}, "Order 0 crossed the wire twice"),
        ("00", {"fault": "the answer is late"}, "Order 2 is in the log, and the client cannot"),
        ("01", {"fault": "the leader, cut off"}, "Order 2 was acked by broker 1 alone"),
        ("03", {"idempotence": "true"}, "Order 2 crossed the wire twice and was stored once"),
        ("03", {"fault": "it is refused"}, "Order 2 was stored after order 3: its first answer"),
        ("03", {"idempotence": "true", "in_flight": "5", "fault": "it is corrupted", "nth": "1"},
         "Order 0 was acked and is not in the log"),
        ("04", {"fault": "is late"}, "transaction 2 was aborted: order 1 can be read, order 2"),
        ("04", {"fault": "arrives", "taken": "starts before the end", "second": "commit"},
         "producer-1 was told that it is fenced"),
        ("05", {}, "Order 2 was processed more than once: the bookmark had not reached the work"),
        ("05", {"body": "commits, then works", "fault": "is killed after commit()"},
         "Order 2 was skipped"),
        ("06", {}, "Order 2 is in the database more than once"),
        ("06", {"sink": "a row with a key"}, "Each of the 4 orders is in the database once"),
        ("06", {"sink": "a record, in a transaction", "fault": "is killed before its commit"},
         "Out equals in: 4 orders, each once"),
    ],
)  # fmt: skip
def test_recorded_run_has_the_finding(lab: str, choice: dict[str, str], finding: str) -> None:
    """What the labs are about is among the recorded runs."""
    data = run_of(lab, **choice)

    assert finding in data["finding"]
    assert "read" == data["steps"][-1]["style"]


@pytest.mark.parametrize(
    ("lab", "choice", "outcome"),
    [
        ("01", {"fault": "the leader, cut off"}, "lost"),
        ("01", {"fault": "the leader, cut off", "acks": "all"}, "stored once"),
        ("02", {"fault": "broker 3"}, "stored once"),
        ("02", {"replicas": "1"}, "stored once"),
    ],
)
def test_recorded_run_has_the_outcome(lab: str, choice: dict[str, str], outcome: str) -> None:
    """Also where brokers die and are paused; each replica has its lane."""
    data = run_of(lab, **choice)
    replicas = range(1, 1 + int(choice.get("replicas", 3)))

    assert [outcome] == data["outcomes"]
    assert {f"broker {number}" for number in replicas} <= set(data["lanes"])


def test_what_is_recorded_is_not_made_again() -> None:
    """No broker starts for it; a lab without an explorer has nothing to record."""
    said: list[str] = []
    recordings.record(said.append)

    assert [] == said
    assert {entry.lab for entry in course.entries()} > OFFERS.keys()


@pytest.mark.kafka
@pytest.mark.parametrize("lab", ["03", "05"])
def test_a_run_that_is_recorded_today(stage: Any, tmp_path: Path, lab: str) -> None:
    """Made again on a broker, a recorded run has the same finding and the same counts.

    So it has where its process is killed, which is given its workload by value.
    """
    offer = OFFERS[lab]
    code, choice = offer.code({}), offer.chosen({})
    perform = partial(perform_choice, Lab(stage.name), offer, choice)
    keep(lab, [recordings._proof(code, perform)], tmp_path)
    (found,) = recorded(lab, tmp_path).values()
    now = offered(offer, choice, found.rows, found.trouble)
    before = offered(offer, choice, recorded(lab)[code].rows)

    for name in ("choice", "code", "finding", "outcomes", "counts", "lanes"):
        assert before[name] == now[name], name


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    """A recording is the same after it was written."""
    runs = recorded("00")
    keep("00", runs.values(), tmp_path)

    assert runs == recorded("00", tmp_path)


@pytest.mark.parametrize("was", [{"kafka": "4.2.0"}, {"schema": "run STRING"}])
def test_recording_of_another_time_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: dict[str, str]
) -> None:
    """Another Kafka or ledger: nothing is recorded, and the error says what to type."""
    with monkeypatch.context() as earlier:
        earlier.setattr(recordings, "HEAD", recordings.HEAD | was)
        keep("00", recorded("00", recordings.FOLDER), tmp_path)

    with pytest.raises(SetupError, match=r"\./lab site --record DIR"):
        page_data("00", tmp_path)


def test_program_that_has_changed_is_missing(tmp_path: Path) -> None:
    """A run of a program that is no longer offered does not stand for the new one."""
    runs = recorded("00")
    first, *others = runs.values()
    keep("00", [recordings.Recording(first.code + "# longer", first.rows), *others], tmp_path)

    assert runs.keys() - recorded("00", tmp_path).keys() == {first.code}


def test_nothing_leaves_its_script() -> None:
    """The data of an explorer holds no character that could end the element it stands in."""
    data = re.findall(r'<script type="application/json">(.*?)</script>', pages.explorer("03"))

    assert 1 == len(data)
    assert "<" not in data[0]
    assert orjson.loads(data[0])["runs"]
    assert "</script" not in pages.MODULE + pages.START


def test_first_page() -> None:
    """It has each lab's question, minutes and points, and which notebooks call an explorer."""
    page = pages.first_page(course.entries(), course.further())
    calling = [
        entry.lab
        for entry in course.entries()
        if pages.CALL in (pages.ROOT / "labs" / entry.notebook).read_text(encoding="utf-8")
    ]

    assert f"Labs {calling[0]} to {calling[-1]} begin with an explorer" in page
    assert page.startswith(course.HEAD.partition("\n")[0])
    assert all(each.link in page for each in (*course.entries(), *course.further()))
    assert "| 50 | 20 | one broker | lab 00 |" in page


def test_pages_are_built_by_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Sphinx the error has the one command that installs it."""
    monkeypatch.setattr(build, "BUILDER", "no_such_package")

    with pytest.raises(SetupError, match=r"-m pip install -r requirements-site\.lock"):
        build.build(Path("site"), print)


def test_folder_of_somebody_else_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with something in it is refused, unless that is an earlier site."""
    monkeypatch.setattr(build, "BUILDER", "json")
    build.require_possible(tmp_path)
    (tmp_path / "thesis.txt").touch()

    with pytest.raises(BadArgument, match=r"holds something that \./lab site has not written"):
        build.build(tmp_path, print)
    (tmp_path / build.MARK).touch()
    build.require_possible(tmp_path)
