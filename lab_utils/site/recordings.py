"""The recorded runs of the explorers: for each program that a choice makes, the ledger of one run.

    labs/recorded/03.jsonl.gz   {"kafka": "4.3.1", "schema": "run STRING, …"}
                                {"code": "def send_orders(run): …", "trouble": [], "rows": [{…}, …]}

What a page shows is computed from the ledger when the site is built, so a sentence or a picture
that changes needs no new run. A recording counts as long as the program that is offered, the
columns of the ledger and Kafka's version are those that it was made with.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from lab_utils import course
from lab_utils.errors import SetupError
from lab_utils.ledger.events import Event, spark_schema
from lab_utils.ledger.history import History
from lab_utils.machine.jars import ROOTS
from lab_utils.views.explorer.choices import OFFERS, Offer
from lab_utils.views.explorer.run_data import RunData, offered
from lab_utils.views.picture import Picture
from lab_utils.views.timeline import timeline
from lab_utils.working_folder import ROOT

if TYPE_CHECKING:
    from lab_utils.run import Run

FOLDER: Final = ROOT / "labs" / "recorded"
KAFKA: Final = ROOTS["kafka"][0].rpartition(":")[2]
HEAD: Final = {"kafka": KAFKA, "schema": spark_schema()}
ATTEMPTS: Final = 3
STATE: Final = "LAB_STATE"

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Recording:
    """One run: the program that made it, its ledger, and what was not whole about the evidence."""

    code: str
    rows: tuple[Event, ...]
    trouble: tuple[str, ...] = ()

    @property
    def proves_nothing(self) -> bool:
        """Did its fault never fire, or is a part of the evidence missing?"""
        return bool(self.trouble) or History(self.rows).is_unproven


def recorded(lab: str, folder: Path = FOLDER) -> dict[str, Recording]:
    """The recordings of a lab that count today, by their programs."""
    if not _path(lab, folder).exists():
        return {}
    lines = gzip.decompress(_path(lab, folder).read_bytes()).splitlines()
    head, *runs = map(orjson.loads, lines)
    offered_today = programs(OFFERS[lab]) if head == HEAD else {}
    return {it["code"]: _read(it) for it in runs if it["code"] in offered_today}


def programs(offer: Offer) -> dict[str, dict[str, str]]:
    """Each program that an explorer can show, with the first choice that makes it."""
    found: dict[str, dict[str, str]] = {}
    for choice in offer.every_choice():
        found.setdefault(offer.code(choice), choice)
    return found


def page_data(lab: str, folder: Path = FOLDER) -> dict[str, Any]:
    """All that the page of a lab shows: the runs, and for each choice which of them is its own.

    Raises SetupError with the command that records what is missing.
    """
    offer, known = OFFERS[lab], recorded(lab, folder)
    runs: dict[str, RunData] = {}
    choices = []
    for choice in offer.every_choice():
        code = offer.code(choice)
        if code not in known:
            raise SetupError(
                f"Of lab {lab} no run is recorded for {choice}: its program, the ledger or Kafka's "
                "version has changed since, and the explorer on the page would have nothing to "
                "show. Record it on a real broker: ./lab site --record DIR"
            )
        if code not in runs:
            runs[code] = offered(offer, choice, known[code].rows, known[code].trouble)
        choices.append((list(choice.values()), list(runs).index(code)))
    return {"offer": offer.to_json(), "choices": choices, "runs": list(runs.values())}


def first_picture(lab: str) -> Picture:
    """What crossed the wire in the run that an explorer begins with, drawn."""
    offer = OFFERS[lab]
    return timeline(recorded(lab)[offer.code({})].rows, offer.apis)


def record(say: Say) -> None:
    """Make the runs that are missing, on real brokers.

    What was made is kept when this is interrupted. Raises SetupError for a run that proves nothing
    in three attempts.
    """
    with own_state():
        for entry in course.entries():
            if entry.lab in OFFERS:  # A lab whose runs are long has no explorer.
                _record_lab(entry, say)


@contextmanager
def own_state() -> Iterator[None]:
    """A state folder for these runs alone, so that no learner's run is among them."""
    from lab_utils.audit.session import stop_session
    from lab_utils.machine.down import down

    before = os.environ.get(STATE)
    with tempfile.TemporaryDirectory(prefix="lab-record-", ignore_cleanup_errors=True) as state:
        os.environ[STATE] = state
        try:
            yield
        finally:
            stop_session()
            down()
            os.environ.pop(STATE)
            os.environ.update({STATE: before} if before is not None else {})


def _record_lab(entry: course.Entry, say: Say) -> None:
    """Make what is missing of one lab, and keep it."""
    from lab_utils.lab import Lab, perform_choice

    offer = OFFERS[entry.lab]
    wanted = programs(offer)
    found = recorded(entry.lab)
    left = [code for code in wanted if code not in found]
    if not left:
        return
    brokers = 3 if entry.runs_on.startswith("three") else 1
    with closing(Lab(entry.lab, brokers=brokers)) as lab:
        try:
            for number, code in enumerate(left, start=1):
                say(f"Lab {entry.lab}: run {number} of {len(left)}")
                found[code] = _proof(code, partial(perform_choice, lab, offer, wanted[code]))
        finally:
            keep(entry.lab, [found[code] for code in wanted if code in found])


def _proof(code: str, perform: Callable[[], Run]) -> Recording:
    """A run that proves something."""
    for _ in range(ATTEMPTS):
        run = perform()
        made = Recording(code, tuple(run.rows), run.trouble)
        if not made.proves_nothing:
            return made
    why = "; ".join(made.trouble) or "its fault never fired"
    raise SetupError(
        f"A run proved nothing {ATTEMPTS} times, so it is not recorded: {why}. Its program:\n"
        f"{code}\nEnd what else keeps this machine busy, then run the same command again: what "
        "was made is kept."
    )


def keep(lab: str, found: Iterable[Recording], folder: Path = FOLDER) -> None:
    """Write the recordings of a lab; equal runs make equal bytes."""
    lines = [orjson.dumps(it) for it in (HEAD, *map(_written, found))]
    folder.mkdir(exist_ok=True)
    _path(lab, folder).write_bytes(gzip.compress(b"\n".join(lines), mtime=0))


def _path(lab: str, folder: Path) -> Path:
    return folder / f"{lab}.jsonl.gz"


def _written(recording: Recording) -> dict[str, Any]:
    """A recording as what JSON knows; columns without a value are left out."""
    first = min(row.at_ns for row in recording.rows)
    columns = [column.name for column in fields(Event)]
    rows = [
        {it: value for it in columns if (value := getattr(row, it)) not in (None, {})}
        for row in (_since(first, it) for it in recording.rows)
    ]
    return {"code": recording.code, "trouble": recording.trouble, "rows": rows}


def _since(first: int, row: Event) -> Event:
    """The event with its times as if the run had begun at 0; some are in its detail."""
    times = {it: str(int(at) - first) for it, at in row.detail.items() if it.endswith("_at_ns")}
    return replace(row, at_ns=row.at_ns - first, detail={**row.detail, **times})


def _read(columns: Mapping[str, Any]) -> Recording:
    rows = tuple(Event(**row) for row in columns["rows"])
    return Recording(columns["code"], rows, tuple(columns["trouble"]))
