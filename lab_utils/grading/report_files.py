"""The files of a grading: results.json, and each report made from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

from lab_utils.grading.feedback import feedback
from lab_utils.grading.report import to_csv, to_gradescope, to_junit
from lab_utils.grading.results import Results, SubmissionResult


def write_reports(results: Results, out: Path) -> None:
    """Write results.json and everything that is made from it."""
    for folder in (out, out / "feedback", out / "gradescope"):
        folder.mkdir(parents=True, exist_ok=True)
    texts = {"results.json": results.to_json(), "grades.csv": to_csv(results)}
    texts["junit.xml"] = to_junit(results)
    for name, each in _named(results.submissions).items():
        texts[f"feedback/{name}.html"] = feedback(each)
        texts[f"gradescope/{name}.json"] = to_gradescope(each)
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def _named(submissions: Sequence[SubmissionResult]) -> dict[str, SubmissionResult]:
    """Each submission by its file's name; where names repeat, with its folder's, then a number."""
    stems = Counter(Path(each.path).stem for each in submissions)
    named: dict[str, SubmissionResult] = {}
    for each in submissions:
        path = Path(each.path)
        first = path.stem if stems[path.stem] == 1 else f"{path.parent.name}-{path.stem}"
        others = (f"{first}-{number}" for number in count(2))
        named[next(name for name in chain([first], others) if name not in named)] = each
    return named
