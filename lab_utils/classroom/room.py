"""What the seats of a classroom have told, and what its projector and ./lab class make of it.

    a seat ── predicted, observed, verdict ──▶ Room ──▶ board()      what the projector shows
                                                └─────▶ submissions  what ./lab class reads

Nothing else is taken: no name, no code, no text of one's own. Each line that is told is kept in
OUT/told.jsonl as it comes, so a classroom that was ended or killed goes on with its seats.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from lab_utils.audit.report import plain
from lab_utils.course import entries
from lab_utils.errors import BadArgument, LabError, one_of
from lab_utils.grading import records
from lab_utils.grading.cases import Exercise, exercises
from lab_utils.grading.handed_in import Asked, asked
from lab_utils.grading.notebook import handed_in_notebook
from lab_utils.grading.results import FAIL, GRADED, INCONCLUSIVE, PASS, Believed, SubmissionResult
from lab_utils.ledger.predictions import QUESTIONS
from lab_utils.ledger.store import append
from lab_utils.working_folder import ROOT

TOLD: Final = "told.jsonl"
# Without letters and digits that look alike: it is read from a wall. 40 bits.
ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_LENGTH: Final = 8
SEATS_MAX: Final = 1_000
ANSWER_MAX: Final = 200
BOARD_BARS: Final = 12


class Refused(LabError):
    """A caller without the code of the classroom, or without a seat in it."""


class Vote(NamedTuple):
    """The prediction that is asked for in one cell of a lab."""

    lab: str
    cell: str


@dataclass(slots=True)
class Seat:
    """What one seat has told: answers by question for each vote, the best verdict of each item."""

    name: str
    token: str
    predicted: dict[Vote, dict[str, str]] = field(default_factory=dict)
    observed: dict[Vote, dict[str, str]] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)


class Room:
    """The classroom whose lines are in this folder; a new one if there is none."""

    def __init__(self, out: Path) -> None:
        records.make_folder(out)
        self._out = out
        self._seats: dict[str, Seat] = {}
        self._closed: set[Vote] = set()
        self._latest: Vote | None = None
        self.code, self.teacher = "", secrets.token_urlsafe(24)
        kept = (out / TOLD).read_bytes() if (out / TOLD).exists() else b""
        self._file = os.open(out / TOLD, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for line in kept.splitlines():
            # The last one may be torn; and what is of a seat that was lost is nobody's.
            with suppress(ValueError, KeyError, TypeError):
                self._take(orjson.loads(line))
        if not self.code:
            code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
            self._keep({"code": code, "teacher": self.teacher})
        elif not kept.endswith(b"\n"):
            os.write(self._file, b"\n")

    def join(self, code: object) -> Seat:
        """A new seat. Raises Refused for another code, or where every seat is taken."""
        if not hmac.compare_digest(str(code).strip().upper().encode(), self.code.encode()):
            raise Refused("that is not the code of this classroom.")
        if len(self._seats) >= SEATS_MAX:
            raise Refused(f"all {SEATS_MAX} seats of this classroom are taken.")
        token = secrets.token_urlsafe(24)
        self._keep({"seat": f"seat {len(self._seats) + 1}", "token": token})
        return self._seats[token]

    def seat(self, token: str) -> Seat:
        """The seat with this token. Raises Refused if there is none."""
        if token not in self._seats:
            raise Refused("this seat is not of this classroom: join it.")
        return self._seats[token]

    def tell(self, token: str, told: Mapping[str, Any]) -> None:
        """Take in what a seat tells. Raises Refused for no seat, BadArgument for what is no news.

        {lab, cell, predicted: {question: answer}}, the same with `observed`, or {item, status}.
        """
        self.seat(token)
        if "item" in told:
            exercise = self._exercise(str(told["item"]))
            status = one_of("status", str(told.get("status")), (PASS, FAIL, INCONCLUSIVE))
            self._keep({"of": token, "item": exercise.item, "status": status})
            return
        vote = self.vote(told)
        kind = "predicted" if "predicted" in told else "observed"
        if kind == "predicted" and vote in self._closed:
            raise BadArgument("the vote is closed: what you expected then is what counts.")
        self._keep({"of": token, **vote._asdict(), kind: _answers(told.get(kind))})

    def close(self, vote: Vote, *, closed: bool) -> None:
        """Close a vote, or open it again."""
        self._keep({**vote._asdict(), "closed": closed})

    def vote(self, given: Mapping[str, Any]) -> Vote:
        """The vote that a request names; raises BadArgument for a cell that asks for nothing."""
        lab, cell = str(given.get("lab")), str(given.get("cell"))
        if not any(cell == each.cell for each in self._asked.get(lab, ())):
            raise BadArgument(f"no prediction is asked for in cell {plain(cell, 80)!r} of a lab.")
        return Vote(lab, cell)

    def board(self) -> dict[str, Any]:
        """What the projector shows: the votes that somebody has answered, and the items."""
        return {
            "code": self.code,
            "seats": len(self._seats),
            "latest": self._latest and self._latest._asdict(),
            "votes": [
                self._vote_on_board(Vote(lab, each.cell), each.where)
                for lab, asked_for in self._asked.items()
                for each in asked_for
                if any(Vote(lab, each.cell) in seat.predicted for seat in self._seats.values())
            ],
            "items": [each for it in entries() for each in self._items_on_board(it.lab)],
        }

    def write(self) -> int:
        """Write a result for each seat and lab to OUT, as a grading does; return how many."""
        results = [
            self._result(seat, lab) for seat in self._seats.values() for lab in self._labs_of(seat)
        ]
        with records.opened(self._out, {}, len(results), None) as store:
            for result in results:
                store.keep(self._out / result.path, result)
        return len(results)

    @cached_property
    def _asked(self) -> dict[str, tuple[Asked, ...]]:
        """The cells that ask for a prediction, by lab."""
        return {
            each.lab: asked(handed_in_notebook(ROOT / "labs" / each.notebook).cells)
            for each in entries()
        }

    def _exercise(self, item: str) -> Exercise:
        known = {it.item: it for lab in self._asked for it in exercises(lab)}
        return known[one_of("item", item, known)]

    def _keep(self, line: dict[str, Any]) -> None:
        """Write a line down, whole, and take it in. Raises OSError if the disk has no room for it.

        A seat without its line would be nobody's when the classroom goes on.
        """
        append(self._file, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        """The change that a line is, when it is told and when it is read again."""
        if "code" in line:
            self.code, self.teacher = line["code"], line.get("teacher", self.teacher)
        elif "token" in line:
            self._seats[line["token"]] = Seat(line["seat"], line["token"])
        elif "closed" in line:
            change = self._closed.add if line["closed"] else self._closed.discard
            change(Vote(line["lab"], line["cell"]))
        elif "item" in line:
            verdicts = self._seats[line["of"]].verdicts
            if verdicts.get(line["item"]) != PASS:  # The best one stays, as in lab.score().
                verdicts[line["item"]] = line["status"]
        else:
            vote, seat = Vote(line["lab"], line["cell"]), self._seats[line["of"]]
            if "predicted" in line:
                seat.predicted[vote] = line["predicted"]
                self._latest = vote
            else:
                seat.observed[vote] = line["observed"]

    def _vote_on_board(self, vote: Vote, where: str) -> dict[str, Any]:
        voted = [seat for seat in self._seats.values() if vote in seat.predicted]
        is_closed = vote in self._closed
        names = list(dict.fromkeys(name for seat in voted for name in seat.predicted[vote]))
        return {
            **vote._asdict(),
            "where": where,
            "closed": is_closed,
            "voted": len(voted),
            "questions": [self._question_on_board(vote, name, voted) for name in names],
        }

    def _question_on_board(self, vote: Vote, name: str, voted: list[Seat]) -> dict[str, Any]:
        answers = _bars(
            (seat.predicted[vote][name], seat.name)
            for seat in voted
            if name in seat.predicted[vote]
        )
        # What happened is nobody's to see before all have voted.
        happened = _bars(
            (seat.observed[vote][name], seat.name)
            for seat in self._seats.values()
            if vote in self._closed and name in seat.observed.get(vote, {})
        )[:BOARD_BARS]
        right = [bar["answer"] for bar in happened]
        shown = [bar for at, bar in enumerate(answers) if at < BOARD_BARS or bar["answer"] in right]
        others = len(answers) - len(shown)
        return {"question": name, "answers": shown, "others": others, "happened": happened}

    def _items_on_board(self, lab: str) -> list[dict[str, Any]]:
        found = []
        for each in exercises(lab):
            seen = Counter(seat.verdicts.get(each.item) for seat in self._seats.values())
            counts = {status: seen[status] for status in (PASS, FAIL, INCONCLUSIVE)}
            if any(counts.values()):
                found.append({"item": each.item, "title": each.title, **counts})
        return found

    def _labs_of(self, seat: Seat) -> list[str]:
        voted = {vote.lab for vote in seat.predicted}
        return sorted(voted | {item.partition(".")[0] for item in seat.verdicts})

    def _result(self, seat: Seat, lab: str) -> SubmissionResult:
        return SubmissionResult(
            path=f"{seat.name}/{lab}",
            lab=lab,
            status=GRADED,
            learner=seat.name,
            items=tuple(
                each.verdict(status, "as its lab.check said.")
                if (status := seat.verdicts.get(each.item))
                else each.verdict(FAIL, "there is no answer yet.")
                for each in exercises(lab)
            ),
            notes=("Told by a seat of a live class: the verdicts are those of its lab.check.",),
            predictions=tuple(
                Believed(
                    cell=each.cell,
                    where=each.where,
                    question=name,
                    predicted=answer,
                    observed=seat.observed.get(Vote(lab, each.cell), {}).get(name),
                )
                for each in self._asked[lab]
                for name, answer in seat.predicted.get(Vote(lab, each.cell), {}).items()
            ),
        )


def _answers(given: object) -> dict[str, str]:
    """Answers by question, as text that is safe to show. Raises BadArgument."""
    if not isinstance(given, dict) or not given:
        raise BadArgument("a prediction has answers by question, as in {'log': '0 1 1 2'}.")
    return {
        one_of("question", str(name), QUESTIONS): plain(str(answer), ANSWER_MAX)
        for name, answer in given.items()
    }


def _bars(answers: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """The commonest answers first, each with the seats that gave it."""
    seats: dict[str, list[str]] = {}
    for answer, seat in answers:
        seats.setdefault(answer, []).append(seat)
    bars = sorted(seats.items(), key=lambda it: -len(it[1]))
    return [{"answer": answer, "seats": names} for answer, names in bars]
