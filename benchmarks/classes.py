"""A class of any size whose structure is known, and how long ./lab class takes over it.

Learner i of n has the ability i / n. Of lab 03, item by item:

    03.1  passed from 0.1 on      03.4  passed by every other learner, whatever the ability
    03.2  passed from 0.4 on      03.5  passed by those below 0.25 alone
    03.3  passed from 0.7 on, and blank below 0.2

Of ten learners seven expect the log without copies, two what happened, one something else. Whoever
is on a tenth place handed in lab 03 twice, at first without a point. n is a multiple of 40.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks import Figure
from lab_utils.gradebook.understood import understand
from lab_utils.grading import records
from lab_utils.grading.results import Believed, SubmissionResult, Verdict

SIZES: Final = (300, 100_000)
HAPPENED: Final = "0 1 2 0 1 2 3"
WITHOUT_COPIES: Final = "0 1 2 3"
SOMETHING_ELSE: Final = "3 2 1 0"
NO_ID: Final = "Likely: the retry carried no producer id.\nLook at the wire."
BY_HAND: Final = "Likely: your program sent it again.\nCount the batches."
POINTS: Final = {"03.1": 3, "03.2": 5, "03.3": 4, "03.4": 4, "03.5": 4}
PASSED: Final[dict[str, Callable[[int, int], bool]]] = {
    "03.1": lambda i, n: 10 * i >= n,
    "03.2": lambda i, n: 10 * i >= 4 * n,
    "03.3": lambda i, n: 10 * i >= 7 * n,
    "03.4": lambda i, _: i % 2 == 0,
    "03.5": lambda i, n: 4 * i < n,
}


def submission(i: int, n: int, *, first: bool = False) -> SubmissionResult:
    """What learner i of n handed in: the `first` time, or at last."""
    believed = WITHOUT_COPIES if i % 10 < 7 else HAPPENED if i % 10 < 9 else SOMETHING_ELSE
    seen = HAPPENED if i % 2 else None  # the others have cleared their outputs
    belief = Believed(cell="cell-21", where="Several in flight", question="log",
                      predicted=believed, observed=seen)  # fmt: skip
    sure = Believed(cell="cell-9", where="Predict, then break", question="acked",
                    predicted="5", observed="5")  # fmt: skip
    return SubmissionResult(
        path=f"learner-{i:06}/03{'-first' if first else ''}.ipynb",
        lab="03",
        status="graded",
        learner=f"learner-{i:06}",
        handed_in="2026-11-01T08:00:00+00:00" if first else "2026-11-02T08:00:00+00:00",
        graded_at="2026-11-03T08:00:00+00:00",
        items=tuple(_verdict(item, i, n, first=first) for item in POINTS),
        predictions=(sure, belief),
        worked_s={} if i % 2 else dict.fromkeys(POINTS, 300.0) | {"03.3": 1800.0},
        sha256=f"{i:064x}",
    )


def _verdict(item: str, i: int, n: int, *, first: bool) -> Verdict:
    is_passed = PASSED[item](i, n) and not first
    is_blank = item == "03.3" and 10 * i < 2 * n
    reason = f"order {i} is in the log twice, at offsets {i} and {i + 1}."
    hints = {"03.2": BY_HAND if i % 4 == 3 else NO_ID}
    return Verdict(
        item=item,
        title=f"Title of {item}",
        kind="value",
        status="PASS" if is_passed else "FAIL",
        points=POINTS[item] if is_passed else 0,
        possible=POINTS[item],
        reason="all right." if is_passed
        else "there is no answer yet." if is_blank else reason,
        hint=None if is_passed or is_blank else hints.get(item),
        evidence=("an unseen schedule: drop_response('Produce', nth=3); 9 requests; log 0 1 2 3",)
        * 3,
    )  # fmt: skip


def handed_in(n: int) -> Iterator[SubmissionResult]:
    """All that a class of n handed in."""
    for i in range(n):
        if i % 10 == 0:
            yield submission(i, n, first=True)
        yield submission(i, n)


def write_class(out: Path, n: int) -> None:
    """Write the folder of a grading, as a grading writes it."""
    folder = out / records.FOLDER
    folder.mkdir(parents=True)
    (out / records.ABOUT).write_text(json.dumps({"schema": records.SCHEMA, "nonce": "5eed"}))
    for number, each in enumerate(handed_in(n)):
        line = json.dumps({"schema": records.SCHEMA, **each.to_json(), "nonce": "5eed"})
        (folder / f"{number}.json").write_text(line + "\n")


def class_analysis(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Seconds of ./lab class for each size, with the start of Spark and the page."""
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="lab-class-") as folder:
            out = Path(folder, "grades")
            write_class(out, n)
            begun = time.perf_counter()
            found = understand([out], Path(folder, "class"))
            seconds = time.perf_counter() - begun
            size = sum(file.stat().st_size for file in (out / records.FOLDER).iterdir()) // 10**6
        detail = {"submissions": found.submissions, "megabytes": size}
        yield Figure(f"./lab class over {n:,} learners, in s", seconds, "at most 60", detail)
