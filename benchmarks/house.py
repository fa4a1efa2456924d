"""What a change and a first cell cost: lines to read, and processor time of the first import."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Figure

ROOT = Path(__file__).parents[1]
COUNTED = ("lab", "lab_utils", "labs/checks", "tests", "benchmarks", "docs/*.py")
TIMED = """
import time
begun = time.process_time()
{statement}
print(time.process_time() - begun)
"""


def first_cell(times: int = 9) -> Iterator[Figure]:
    """Processor seconds of the first line of a notebook, and beside those of its Kafka client."""
    statements = ("from lab_utils import Lab", "import confluent_kafka")
    seconds: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(times):
        for statement, found in seconds.items():
            code = TIMED.format(statement=statement)
            found.append(float(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT)))
    ours, client = (statistics.median(found) for found in seconds.values())
    yield Figure(f"processor s of `{statements[0]}`", ours, "at most 0.3")
    yield Figure("the same beside `import confluent_kafka`", ours / client, "")


def lines() -> Iterator[Figure]:
    """Lines of Python that git knows, recorded evidence not among them."""
    names = subprocess.check_output(["git", "ls-files", "--", *COUNTED], cwd=ROOT, text=True)
    files = [ROOT / name for name in names.splitlines() if name.endswith(".py") or name == "lab"]
    files = [path for path in files if path.is_file()]  # the rest is deleted and not yet committed
    yield Figure(
        "lines of Python", sum(len(path.read_text().splitlines()) for path in files),
        "about 36000", f"in {len(files)} files",
    )  # fmt: skip
