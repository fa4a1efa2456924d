"""What a change and a first cell cost: lines to read, the tests, and the first import."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

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


def suite() -> Iterator[Figure]:
    """What ./lab test and its unit tier take, of the whole machine: nothing else may run."""
    for tier, minutes, seconds in ("unit", "at most 0.75", ""), ("", "at most 10", "at most 1100"):
        before, begun = busy_s(), time.perf_counter()
        command = [sys.executable, "-m", "lab_utils.cli", "test", *tier.split()]
        tests = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        took, busy = (time.perf_counter() - begun) / 60, busy_s() - before
        printed = tests.stdout.strip().splitlines()
        wrong = [line for line in printed if line.startswith(("FAILED", "ERROR"))]
        said = "; ".join([*wrong, *printed[-1:]]).strip("= ")
        yield Figure(f"minutes of ./lab test {tier}", took, minutes, said)
        yield Figure(f"processor s of ./lab test {tier}", busy, seconds)


def busy_s() -> float:
    """The seconds that all processors of this machine have worked so far."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def lines() -> Iterator[Figure]:
    """Lines of Python that git knows, recorded evidence not among them."""
    names = subprocess.check_output(["git", "ls-files", "--", *COUNTED], cwd=ROOT, text=True)
    files = [ROOT / name for name in names.splitlines() if name.endswith(".py") or name == "lab"]
    files = [path for path in files if path.is_file()]  # the rest is deleted and not yet committed
    yield Figure(
        "lines of Python", sum(len(path.read_text().splitlines()) for path in files),
        "about 36000", f"in {len(files)} files",
    )  # fmt: skip
