"""A classroom over HTTP: sixty seats at once, a teacher, and who is neither."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tornado.httpserver import HTTPServer

from lab_utils import processes
from lab_utils.classroom.classroom_server import (
    BODY_LIMIT,
    OF_A_SEAT,
    OF_AN_ADDRESS,
    Limits,
    application,
)
from lab_utils.classroom.room import Room
from lab_utils.classroom.seat import CLASSROOM, KEPT, Seat, take_seat
from lab_utils.ledger.predictions import predict
from lab_utils.waiting import wait_until
from tests.called import result_of
from tests.classroom.test_room import FIRST, VOTE

pytestmark = pytest.mark.processes

SEATS = 60


class Classroom:
    """./lab classroom, as a teacher starts it: where it is, its code and the teacher's token."""

    def __init__(self, out: Path, port: int = 0) -> None:
        self.out = out
        where = ["--out", str(out), "--port", str(port)]
        self.process: subprocess.Popen[str] = processes.spawn(
            [sys.executable, "-m", "lab_utils.cli", "classroom", *where],
            environment=dict(os.environ), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        page, seats = (self.process.stderr.readline() for _ in range(2))
        self.address, self.token = page.split()[-1].split("/#")
        self.code = seats.partition('"')[2].partition('"')[0].split()[1]
        self.port = int(self.address.rpartition(":")[2])

    def client(self, token: str = "") -> httpx.Client:
        """Somebody with this token, who waits for an answer as long as it takes."""
        return httpx.Client(
            base_url=self.address, headers=bearer(token), timeout=None, verify=False
        )

    def sit(self) -> dict[str, str]:
        """Take a seat: its name and its token."""
        with self.client() as client:
            joined: dict[str, str] = client.post("/join", json={"code": self.code}).json()
        return joined

    def board(self) -> dict[str, Any]:
        """What the projector is told."""
        with self.client(self.token) as client:
            said = client.get("/board")
        assert said.is_success, said.text
        found: dict[str, Any] = said.json()
        return found

    def end(self, how: signal.Signals = signal.SIGINT) -> str:
        """End it so; return what it still says."""
        self.process.send_signal(how)
        _, said = self.process.communicate()
        assert 0 == self.process.returncode or how == signal.SIGKILL, said
        return said


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}" if token else "none"}


def opened(tmp_path: Path) -> Iterator[Classroom]:
    """A classroom that is ended after a test."""
    classroom = Classroom(tmp_path / "classroom")
    yield classroom
    processes.kill_group(classroom.process)


classroom = pytest.fixture(opened, name="classroom")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classroom]:
    """A classroom for all tests that take a seat and leave the rest as it is."""
    yield from opened(tmp_path_factory.mktemp("shared"))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seat waits as long as it takes; for a learner it works on without its classroom."""
    monkeypatch.setattr("lab_utils.classroom.seat.ANSWER_S", 60)


def test_sixty_seats_at_once(classroom: Classroom) -> None:
    """Each joins, predicts and has a verdict; the board counts them all, and the results are."""

    def sit(number: int) -> str:
        joined = classroom.sit()
        log = "0 1 2" if number % 3 else "0 1 1 2"
        told = ({**VOTE, "predicted": {"log": log}}, {"item": FIRST, "status": "PASS"})
        with classroom.client(joined["token"]) as client:
            assert all(client.post("/tell", json=each).is_success for each in told)
        return joined["seat"]

    with ThreadPoolExecutor(SEATS) as pool:
        names = list(pool.map(sit, range(SEATS)))
    board = classroom.board()
    (vote,) = board["votes"]

    assert SEATS == len(set(names)) == board["seats"] == vote["voted"]
    assert [("0 1 2", 40), ("0 1 1 2", 20)] == [
        (bar["answer"], len(bar["seats"])) for bar in vote["questions"][0]["answers"]
    ]
    assert SEATS == board["items"][0]["PASS"]
    said = classroom.end()
    assert f"60 results are in {classroom.out}. To analyse them: ./lab class" in said
    assert SEATS == len(list((classroom.out / "submissions").iterdir()))


def test_a_seat_tells_by_itself(
    classroom: Classroom, state: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The learner is told of it; a kernel that is restarted keeps the seat."""
    monkeypatch.setenv(CLASSROOM, f"{classroom.address} {classroom.code}")
    first, again = take_seat(), take_seat()
    assert first is not None
    assert again is not None
    first.tell(item=FIRST, status="FAIL")
    again.tell(item=FIRST, status="PASS")

    wait_until(
        lambda: [it for it in classroom.board()["items"] if it["PASS"]], "the verdict", timeout_s=60
    )
    assert "seat 1" == first.name == again.name
    assert 0o600 == (state / KEPT).stat().st_mode & 0o777
    said = capsys.readouterr().err
    assert f"You are seat 1 in the classroom at {classroom.address}." in said


# A process of its own: its signals are those of its main thread, which has no other loop.
HURRIED: Final = """
import signal, sys
from pathlib import Path
from lab_utils import processes
from lab_utils.classroom.classroom_server import serve
from lab_utils.classroom.room import Room

def press(*_):
    signal.raise_signal(signal.SIGINT)

class Hurried(Room):
    def write(self):
        press()
        return super().write()

room = Hurried(Path(sys.argv[1]))
room.tell(room.join(room.code).token, {"item": sys.argv[2], "status": "PASS"})
print(serve(room, "127.0.0.1", processes.free_port(0), press))
"""


def test_who_presses_ctrl_c_twice_has_the_results(tmp_path: Path) -> None:
    """The second one, while they are written, ends nothing that the first one has begun."""
    command = [sys.executable, "-c", HURRIED, str(tmp_path / "class"), FIRST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (0, "1\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_classroom_that_was_killed_hears_what_was_told_meanwhile(
    classroom: Classroom, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seat works on without it, and finds it again at its address, with its seat."""
    monkeypatch.setattr("lab_utils.classroom.seat.AGAIN_S", 0.1)
    seat = Seat(classroom.address, classroom.code)
    assert "seat 1" in seat.welcome()
    classroom.end(signal.SIGKILL)
    seat.tell(item=FIRST, status="PASS")
    again = Classroom(classroom.out, classroom.port)
    try:
        wait_until(lambda: again.board()["items"], "the verdict", timeout_s=60)
        assert 1 == again.board()["seats"]
        assert (classroom.code, classroom.token) == (again.code, again.token)
    finally:
        again.end(signal.SIGTERM)


@pytest.mark.skipif(sys.platform == "darwin", reason="no limit can be set on another process")
@pytest.mark.parametrize("sits", [True, False])
def test_a_classroom_without_room_hears_it_later(
    classroom: Classroom, state: Path, monkeypatch: pytest.MonkeyPatch, sits: bool
) -> None:
    """What cannot be kept (a real limit) is told again, be it a seat, and is there in the end."""
    limit = partial(resource.prlimit, classroom.process.pid, resource.RLIMIT_FSIZE)
    answers: list[bool] = []
    is_told = Seat._is_told

    def seen(*given: Any) -> bool:
        answers.append(is_told(*given))
        return answers[-1]

    monkeypatch.setattr("lab_utils.classroom.seat.AGAIN_S", 0.1)
    monkeypatch.setattr(Seat, "_is_told", seen)
    if not sits:
        limit((0, resource.RLIM_INFINITY))
    seat = Seat(classroom.address, classroom.code)
    assert ("seat 1" if sits else "does not answer") in seat.welcome()
    limit((0, resource.RLIM_INFINITY))
    seat.tell(item=FIRST, status="PASS")
    wait_until(lambda: False in answers, "a refusal", timeout_s=60)
    refused = classroom.board()["items"]
    limit((resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_until(lambda: classroom.board()["items"], "the verdict", timeout_s=60)

    assert [] == refused


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("http://127.0.0.1:9 ABCDEFGH", "does not answer; the lab works without it"),
        ("127.0.0.1:8890 ABCDEFGH", "must be an address and a code"),
        ("http://127.0.0.1:8890", "must be an address and a code"),
    ],
)
def test_no_classroom_is_no_error(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    said: str, told: str,
) -> None:  # fmt: skip
    """The learner is told, and the lab goes on."""
    monkeypatch.setenv(CLASSROOM, said)
    seat = take_seat()
    if seat is not None:
        seat.predicted("03", predict({"log": "0 1"}, ""))
        seat.tell(item=FIRST, status="PASS")

    assert told in capsys.readouterr().err


def test_a_code_of_another_classroom(
    shared: Classroom, state: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Who mistypes the code is told so, and not that nobody answers."""
    monkeypatch.setenv(CLASSROOM, f"{shared.address} MISTYPED")
    assert take_seat() is not None

    assert "no seat for the code 'MISTYPED': that is not the code" in capsys.readouterr().err


def test_without_a_classroom_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who learns alone never hears of it."""
    monkeypatch.setenv(CLASSROOM, " ")

    assert take_seat() is None
    assert "" == capsys.readouterr().err


def test_who_is_neither_sees_nothing(shared: Classroom) -> None:
    """Without a token, with a seat's at the teacher's doors, with too much, with no JSON."""
    seat = shared.sit()["token"]

    def status(method: str, path: str, token: str, body: Any = None) -> int:
        content = body if isinstance(body, bytes) else None
        given = {"json": body} if content is None and body is not None else {"content": content}
        with shared.client(token) as client:
            return client.request(method, path, **given).status_code

    assert 401 == status("GET", "/board", "")
    assert 401 == status("GET", "/board", seat)
    assert 401 == status("POST", "/close", seat, VOTE)
    assert 401 == status("POST", "/tell", "", {"item": FIRST, "status": "PASS"})
    assert 401 == status("POST", "/join", "", {"code": "AAAAAAAA"})
    assert 400 == status("POST", "/tell", seat, b"no JSON")
    assert 400 == status("POST", "/tell", seat, ["a list"])
    # Refused for what it announces: were it sent, it would lie unread, and a reset be the answer.
    announced = HTTPConnection(shared.address.removeprefix("http://"))
    announced.putrequest("POST", "/tell")
    for name, value in (bearer(seat) | {"Content-Length": str(BODY_LIMIT + 1)}).items():
        announced.putheader(name, value)
    announced.endheaders()
    assert announced.getresponse().status in (400, 413)
    announced.close()
    with shared.client() as client:
        assert shared.token not in client.get("/").text


@pytest.mark.parametrize(("a_second", "at_once"), [OF_A_SEAT, OF_AN_ADDRESS])
def test_who_asks_too_much_waits(a_second: float, at_once: int) -> None:
    """So many at once, and then so many a second; another caller has their own."""
    limits = Limits(a_second, at_once)
    now = [limits.take("one", 100.0) for _ in range(at_once + 1)]
    later = [limits.take("one", 101.0) for _ in range(int(a_second) + 1)]

    assert [*[True] * at_once, False] == now
    assert [*[True] * int(a_second), False] == later
    assert limits.take("other", 101.0)


def test_of_callers_that_are_made_up_nothing_is_kept(tmp_path: Path) -> None:
    """Whoever invents tokens is refused, and the server does not grow by it."""
    room = Room(tmp_path)
    token = room.join(room.code).token
    app = application(room)

    async def ask(port: int) -> list[int]:
        HTTPServer(app).listen(port, "127.0.0.1")
        url, told = f"http://127.0.0.1:{port}/tell", {"item": FIRST, "status": "PASS"}
        async with httpx.AsyncClient(timeout=None) as client:
            return [
                (await client.post(url, json=told, headers=bearer(each))).status_code
                for each in (token, *(f"{token}{number}" for number in range(20)))
            ]

    seen = result_of(ask(processes.free_port(0)))
    assert [200, *[401] * 20] == seen
    assert ["seat 1"] == list(app.settings["of_a_seat"]._left)


def test_a_seat_that_asks_too_much_is_told(shared: Classroom) -> None:
    """429, and the room lives on."""
    told = {"item": FIRST, "status": "FAIL"}
    with shared.client(shared.sit()["token"]) as client:
        seen = {client.post("/tell", json=told).status_code for _ in range(3 * OF_A_SEAT[1])}

    assert {200, 429} == seen
    assert 1 == shared.board()["items"][0]["FAIL"]
