"""What a terminal and a log are told while a class is being graded."""

from __future__ import annotations

import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab_utils.grading.grader import Board, finished
from lab_utils.grading.results import SubmissionResult


def done(name: str) -> tuple[Path, str, SubmissionResult]:
    return Path(name), "done", SubmissionResult(path=name, lab=None, status="rejected")


def test_a_log_has_a_line_for_each_submission() -> None:
    """It says how far the grading is, what came of the submission, and how long it will take."""
    lines: list[str] = []
    board = Board(2, lines.append, lambda _: None)
    for progress in ((Path("a"), "cell 1 of 2"), done("a"), done("b\x1b[2J")):
        board.show(*progress)

    assert ["1 of 2  a  rejected  0.0 s, about 0 s left", "2 of 2  b\\x1b[2J  rejected  0.0 s"] == (
        lines
    )


def test_a_terminal_shows_what_each_worker_does() -> None:
    """One line for each submission that is being graded, while it is."""
    shown: list[str] = []
    board = Board(3, lambda _: None, shown.append)
    for progress in ((Path("a"), "03.2"), (Path("b"), "starting"), done("a")):
        board.show(*progress)

    assert [
        "Grading: 0 of 3 are done\n  a: 03.2",
        "Grading: 0 of 3 are done\n  a: 03.2\n  b: starting",
        "Grading: 1 of 3 are done, about 0 s left\n  b: starting",
    ] == shown


def test_a_terminal_that_is_gone() -> None:
    """What cannot be told to anyone ends no grading."""

    def gone(_: str) -> None:
        raise OSError("Input/output error")

    board = Board(1, gone, gone)
    board.show(*done("a"))

    assert 1 == board.done


def test_a_signal_that_another_thread_takes_is_heard() -> None:
    """The main thread, which waits for submissions, hears it before one of them is done."""
    begun, over = threading.Event(), threading.Event()
    main = threading.main_thread().ident

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def take_it() -> None:
        begun.wait(10)
        while sys._current_frames()[main or 0].f_code is not threading.Condition.wait.__code__:
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        over.wait(30)

    before = signal.signal(signal.SIGUSR1, interrupt)
    with ThreadPoolExecutor(1) as pool:
        taken: Future[Any] = pool.submit(take_it)
        begun.set()
        with pytest.raises(KeyboardInterrupt):
            list(finished([taken]))
        was_over = taken.done()
        over.set()
    signal.signal(signal.SIGUSR1, before)

    assert not was_over
