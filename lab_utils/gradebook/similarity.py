"""Answers that are alike: a hint for a teacher to look, and never a grade.

    answer ─▶ tokens, own names taken out ─▶ runs of eight ─▶ less what was handed out, less what
    many have ─▶ the share of runs that two answers have in common

Comments, layout and the names of variables do not count. Short answers have nothing to compare.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import combinations, pairwise
from typing import Final, NamedTuple

RUN: Final = 8  # tokens
SHARED_MIN: Final = 12  # runs that two answers must have in common
ALIKE: Final = 0.7
# What more than so many of a class have is the way to write it.
COMMON: Final = 0.1
COMMON_MIN: Final = 3
COMMON_MAX: Final = 50
SKIPPED: Final = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip

Run = tuple[str, ...]


class Alike(NamedTuple):
    """Two learners whose answers have much in common."""

    first: str
    second: str
    share: float
    runs: int


def alike(answers: Mapping[str, str], handed_out: str = "") -> list[Alike]:
    """Pairs of answers that are alike, by learner, the most alike first."""
    base = runs(handed_out)
    found = {learner: runs(source) - base for learner, source in answers.items()}
    having: dict[Run, list[str]] = defaultdict(list)
    for learner, its in found.items():
        for run in its:
            having[run].append(learner)
    common = min(max(COMMON_MIN, COMMON * len(found)), COMMON_MAX)
    shared: Counter[tuple[str, str]] = Counter()
    rare: Counter[str] = Counter()
    for learners in having.values():
        if len(learners) <= common:
            rare.update(learners)
            shared.update(combinations(sorted(learners), 2))
    pairs = [
        Alike(first, second, number / (rare[first] + rare[second] - number), number)
        for (first, second), number in shared.items()
        if number >= SHARED_MIN
    ]
    return sorted((it for it in pairs if it.share >= ALIKE), key=lambda it: (-it.share, *it[:2]))


def runs(source: str) -> set[Run]:
    """The runs of eight tokens in a piece of code."""
    tokens = list(_tokens(source))
    return {tuple(tokens[at : at + RUN]) for at in range(len(tokens) - RUN + 1)}


def _tokens(source: str) -> Iterable[str]:
    """The tokens of code, with one name for all that its author named; up to the first error."""
    given: list[tuple[int, str]] = []
    with suppress(tokenize.TokenError, SyntaxError, ValueError):
        given.extend(
            (token.type, token.string)
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type not in SKIPPED
        )
    for (_, before), (kind, text) in pairwise([(0, ""), *given]):
        is_own = kind == tokenize.NAME and before != "." and not keyword.iskeyword(text)
        yield "name" if is_own else text
