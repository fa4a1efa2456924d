"""What `./lab grade` does: grade, write results.json and the reports, print the table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lab_utils.grading.report import table
from lab_utils.grading.report_files import write_reports
from lab_utils.grading.runner import Progress, grade

GRADED: Final = 0
INFRASTRUCTURE_FAILED: Final = 2


def grade_and_report(
    paths: Sequence[Path],
    out: Path,
    jobs: int | None,
    cell_s: float,
    total_s: float,
    console: Any,
) -> int:
    """Grade, write the reports to `out`, print the table; return the exit code.

    `console` is where progress is shown; the table goes to standard output.
    """
    with console.status("Grading") as status:
        results = grade(
            paths,
            jobs=jobs,
            cell_s=cell_s,
            total_s=total_s,
            say=lambda progress: _show(progress, console, status),
        )
    write_reports(results, out)
    sys.stdout.write(table(results) + "\n")
    console.print(f"The reports are in {out}.", markup=False, highlight=False)
    return INFRASTRUCTURE_FAILED if results.infrastructure_failed else GRADED


def _show(progress: Progress, console: Any, status: Any) -> None:
    name = progress.path.name
    if progress.result is None:
        status.update(f"{name}: {progress.doing}")
    else:
        score = f"{progress.result.points}/{progress.result.possible}"
        console.print(f"{name}: {score}", markup=False, highlight=False)
