"""`python -m tests.record [LAB…]`: record the evidence that tests/grading judges, on real stages.

What is recorded already stays, and what nothing asks for any more goes; `--all` records all anew.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

from lab_utils.checking import decide, perform
from lab_utils.grading.cases import Evidence, Trial
from tests.grading.recorded import (
    LABS,
    Case,
    all_cases,
    drawn_cases,
    keep,
    kept,
    key,
    read,
    written,
)


def main(arguments: Sequence[str]) -> None:
    """Record the labs that are named; all, if none is."""
    wanted = [it for it in arguments if it != "--all"] or LABS
    with tempfile.TemporaryDirectory(prefix="lab-record-", ignore_cleanup_errors=True) as state:
        # Killed, it takes its stages along.
        os.environ |= {"LAB_STATE": state, "LAB_OWNER": str(os.getpid())}
        with labs() as lab_of:
            for lab in wanted:
                known = {} if "--all" in arguments else dict(kept(lab))
                asked: dict[str, bytes] = {}
                for case in chain(all_cases([lab]), drawn_cases([lab])):
                    record(case, lab_of, known, asked)
                    keep(lab, (known | asked).values())  # if it is interrupted, this stays
                path = keep(lab, asked.values())
                say(f"{path.name}: {len(asked)} runs, {path.stat().st_size:,} bytes")


def record(case: Case, lab_of: Any, known: dict[str, bytes], asked: dict[str, bytes]) -> None:
    """Decide one case, with what is known already; what it asks for is added to `asked`."""
    exercise, answer = case.exercise, case.answer

    def evidence_of(trial: Trial) -> Evidence:
        name = key(exercise, trial, answer)
        if name not in known:
            say(f"{case}: {trial.name}")
            evidence = perform(lab_of(trial.brokers), exercise, trial, answer)
            known[name] = written(name, evidence)
        asked[name] = known[name]
        return read(known[name], trial)

    if exercise.is_query:  # it is asked by the tests: it needs Spark and no stage
        for trial in exercise.public:
            evidence_of(trial)
    elif case.is_drawn:
        for trial in exercise.public:
            say(f"{case}: {decide(replace(exercise, public=(trial,)), answer, evidence_of)}")
    else:
        say(f"{case}: {decide(exercise, answer, evidence_of)}")


@contextmanager
def labs() -> Iterator[Any]:
    """A lab for each number of brokers; which one it is says nothing about the checks."""
    from lab_utils.lab import Lab

    made: dict[int, Lab] = {}

    def lab_of(brokers: int) -> Lab:
        if brokers not in made:
            made[brokers] = Lab(f"record{brokers}", brokers=brokers)
        return made[brokers]

    try:
        yield lab_of
    finally:
        for lab in made.values():
            lab.close()


def say(line: str) -> None:
    """Tell how far it has come."""
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
