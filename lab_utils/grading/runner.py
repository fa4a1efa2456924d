"""The runner: many submissions, as many at once as there are cores, into one Results.

Each has a thread here, and a kernel and a stage that nobody shares with it. Progress is told by
callback; nothing is printed.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from lab_utils.errors import BadArgument
from lab_utils.grading import leftovers
from lab_utils.grading.cases import LABS
from lab_utils.grading.grader import Terms, grade_submission
from lab_utils.grading.results import INFRASTRUCTURE, Results, SubmissionResult
from lab_utils.grading.submission import submissions


@dataclass(frozen=True, slots=True)
class Progress:
    """What one submission is doing; `result` is there when it is done."""

    path: Path
    doing: str
    result: SubmissionResult | None = None


def grade(
    paths: Sequence[Path],
    *,
    jobs: int | None = None,
    cell_s: float = 120,
    total_s: float = 900,
    nonce: str | None = None,
    labs: Path = LABS,
    say: Callable[[Progress], object] = lambda _: None,
) -> Results:
    """Grade notebooks, sources and folders of notebooks.

    `nonce` decides the unseen schedules; the same for all, and drawn anew if it is not given.
    Raises BadArgument when there is nothing to grade.
    """
    files = submissions(paths)
    if not files:
        names = ", ".join(map(str, paths))
        raise BadArgument(f"there is no notebook in {names}. Name files or folders with *.ipynb.")
    os.environ.setdefault("LAB_OWNER", str(os.getpid()))
    with tempfile.TemporaryDirectory(prefix="lab-grade-", ignore_cleanup_errors=True) as place:
        terms = Terms(
            nonce=nonce or secrets.token_hex(8),
            cell_s=cell_s,
            total_s=total_s,
            labs=labs,
            place=Path(place),
        )
        found = _all(files, terms, jobs or os.cpu_count() or 1, say)
    return Results(nonce=terms.nonce, versions=versions(), submissions=tuple(found))


def _all(
    files: Sequence[Path], terms: Terms, jobs: int, say: Callable[[Progress], object]
) -> list[SubmissionResult]:
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            return list(pool.map(lambda path: _one(path, terms, say), files))
        except BaseException:  # Ctrl-C: end the kernels, or the threads would wait for them
            terms.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            leftovers.end(str(terms.place))
            raise


def versions() -> dict[str, str]:
    """What a grade may depend on, by name."""
    import confluent_kafka

    return {
        "lab": _lab_version(),
        "python": python_version(),
        "kafka": _kafka_version(),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "pyspark": version("pyspark"),
    }


def _one(path: Path, terms: Terms, say: Callable[[Progress], object]) -> SubmissionResult:
    try:
        result = grade_submission(path, terms, lambda doing: say(Progress(path, doing)))
    except Exception as error:  # a defect of ours must not end the other gradings
        reason = f"the grader itself failed: {type(error).__name__}: {error}"
        result = SubmissionResult(
            path=str(path), lab=None, status=INFRASTRUCTURE, seconds=0.0, reason=reason
        )
    say(Progress(path, "done", result))
    return result


def _lab_version() -> str:
    text = (LABS.parent / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def _kafka_version() -> str:
    from lab_utils.machine.jars import ROOTS

    return ROOTS["kafka"][0].rpartition(":")[2]
