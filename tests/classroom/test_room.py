"""What a classroom makes of what its seats tell."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab_utils.classroom.room import BOARD_BARS, TOLD, Refused, Room, Vote
from lab_utils.errors import BadArgument
from lab_utils.grading import records

# The first prediction of lab 03, and two of its items.
VOTE = {"lab": "03", "cell": "cell-04"}
FIRST, SECOND = "03.1", "03.2"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_vote(room: Room) -> None:
    """The commonest answer comes first; what happened is shown when the vote is closed."""
    seats = [room.join(room.code).token for _ in range(3)]
    for seat, log in zip(seats, ("0 1", "0 1 1", "0 1"), strict=True):
        room.tell(seat, {**VOTE, "predicted": {"log": log}})
    room.tell(seats[1], {**VOTE, "observed": {"log": "0 1 1"}})
    (open_vote,) = room.board()["votes"]
    room.close(Vote(**VOTE), closed=True)
    (closed,) = room.board()["votes"]

    (question,) = open_vote["questions"]
    assert [("0 1", ["seat 1", "seat 3"]), ("0 1 1", ["seat 2"])] == [
        (bar["answer"], bar["seats"]) for bar in question["answers"]
    ]
    assert [] == question["happened"]
    assert [{"answer": "0 1 1", "seats": ["seat 2"]}] == closed["questions"][0]["happened"]
    with pytest.raises(BadArgument, match="the vote is closed"):
        room.tell(seats[0], {**VOTE, "predicted": {"log": "0 1 1"}})


def test_what_happened_is_shown_however_few_expected_it(room: Room) -> None:
    """Of many answers the commonest are shown, and how many others there are."""
    for number in range(BOARD_BARS + 3):
        seat = room.join(room.code).token
        room.tell(seat, {**VOTE, "predicted": {"log": str(number)}})
    room.tell(seat, {**VOTE, "observed": {"log": str(number)}})
    room.close(Vote(**VOTE), closed=True)
    (question,) = room.board()["votes"][0]["questions"]

    assert [*map(str, range(BOARD_BARS)), str(number)] == [
        bar["answer"] for bar in question["answers"]
    ]
    assert 2 == question["others"]


def test_the_best_verdict_stays(room: Room) -> None:
    """A PASS is not taken back by a later FAIL."""
    seat = room.join(room.code).token
    for status in ("FAIL", "PASS", "FAIL"):
        room.tell(seat, {"item": FIRST, "status": status})
    room.tell(seat, {"item": SECOND, "status": "INCONCLUSIVE"})

    assert [(FIRST, 1, 0, 0), (SECOND, 0, 0, 1)] == [
        (row["item"], row["PASS"], row["FAIL"], row["INCONCLUSIVE"])
        for row in room.board()["items"]
    ]


def test_it_goes_on_where_it_was(room: Room, tmp_path: Path) -> None:
    """A room that was killed in the middle of a line has its code, seats, votes and verdicts.

    A line that nothing can be made of, as what a lost seat told, costs nobody else what they told.
    """
    seat = room.join(room.code).token
    room.tell(seat, {**VOTE, "predicted": {"log": "0 1"}})
    room.close(Vote(**VOTE), closed=True)
    with (tmp_path / TOLD).open("a") as file:
        for line in ({"of": "lost", "item": FIRST, "status": "PASS"}, 7, {}, {"of": seat}):
            file.write(json.dumps(line) + "\n")
        file.write('{"of": "')
    again = Room(tmp_path)
    again.tell(seat, {"item": FIRST, "status": "PASS"})
    third = Room(tmp_path)

    assert room.code == again.code
    assert 1 == third.board()["items"][0]["PASS"]
    assert third.board()["votes"][0]["closed"]
    assert "seat 2" == third.join(room.code).name


FULL = """
import resource, signal, sys
from pathlib import Path
from lab_utils.classroom.room import Room
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
room = Room(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    for _ in range(50):
        room.tell(room.join(room.code).token, {"item": "03.1", "status": "PASS"})
except OSError as error:
    print(room.board()["seats"], error.errno)
"""


@pytest.mark.processes
def test_a_full_disk_makes_no_seat(tmp_path: Path) -> None:
    """What does not fit (a real limit) is refused and not taken in; a room that goes on has all."""
    child = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path], capture_output=True, text=True, check=True
    )
    seats, number = map(int, child.stdout.split())
    again = Room(tmp_path)

    assert number in (errno.ENOSPC, errno.EFBIG)
    assert 2 <= seats < 50
    assert seats == again.board()["seats"]
    assert f"seat {seats + 1}" == again.join(again.code).name


def test_only_the_code_opens_the_door(room: Room) -> None:
    """It may be typed in lower case; any other is refused, and so is a token of elsewhere."""
    assert "seat 1" == room.join(f" {room.code.lower()} ").name
    for code in ("", "AAAAAAAA", room.code[:-1], None):
        with pytest.raises(Refused):
            room.join(code)
    with pytest.raises(Refused):
        room.tell("no token", {"item": FIRST, "status": "PASS"})


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"lab": "03", "cell": "cell-00", "predicted": {"log": "0"}},
        {"lab": "../../etc", "cell": "cell-04", "predicted": {"log": "0"}},
        {**VOTE, "predicted": {"name": "Ada"}},
        {**VOTE, "predicted": {}},
        {**VOTE, "predicted": ["log"]},
        {"item": "03.99", "status": "PASS"},
        {"item": FIRST, "status": "GREAT"},
    ],
)
def test_what_is_no_news_is_refused(room: Room, told: dict[str, object]) -> None:
    """Only predictions that a lab asks for, and verdicts on exercises that there are."""
    seat = room.join(room.code).token
    with pytest.raises(BadArgument):
        room.tell(seat, told)
    board = room.board()

    assert ([], []) == (board["votes"], board["items"])


def test_its_results_are_those_of_a_grading(room: Room, tmp_path: Path) -> None:
    """One for each seat and lab, as ./lab class reads it, also after a second end."""
    seat = room.join(room.code).token
    room.tell(seat, {**VOTE, "predicted": {"log": "\x1b[31m0 1"}})
    room.tell(seat, {**VOTE, "observed": {"log": "0 1 1"}})
    room.tell(seat, {"item": FIRST, "status": "PASS"})
    room.tell(room.join(room.code).token, {"item": "00.1", "status": "FAIL"})
    assert 2 == room.write()
    assert 2 == room.write()
    told: list[str] = []
    results = records.results(tmp_path, told.append)

    assert [] == told
    one, two = results.submissions
    assert ("seat 1", "03", "seat 2", "00") == (one.learner, one.lab, two.learner, two.lab)
    (belief,) = one.predictions
    assert ("log", "\\x1b[31m0 1", "0 1 1") == (belief.question, belief.predicted, belief.observed)
    by_item = {item.item: item for item in one.items}
    assert by_item[FIRST].points == by_item[FIRST].possible > 0
    assert ("FAIL", "there is no answer yet.") == (by_item[SECOND].status, by_item[SECOND].reason)


def test_what_was_told_is_read_by_its_owner_alone(room: Room, tmp_path: Path) -> None:
    """The file holds the tokens of the seats and of the teacher."""
    assert 0o600 == (tmp_path / TOLD).stat().st_mode & 0o777
    kept = {"code": room.code, "teacher": room.teacher}
    assert kept == json.loads((tmp_path / TOLD).read_text())
