"""Drawing at random, in the words of Hypothesis: what it draws in a minute takes a second here.

Nothing is shrunk: of the histories that differ the smallest is shown, and many are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True)
class Drawn:
    """A way to draw something; `one | other` draws from either."""

    draw: Callable[[Random], Any]

    def __or__(self, other: Drawn) -> Drawn:
        return one_of(self, other)

    def filter(self, is_kept: Callable[[Any], bool]) -> Drawn:
        """Draw until one is kept."""
        return Drawn(lambda chance: next(filter(is_kept, iter(lambda: self.draw(chance), self))))


def just(it: Any) -> Drawn:
    return Drawn(lambda _: it)


def none() -> Drawn:
    return just(None)


def sampled_from(them: Sequence[Any]) -> Drawn:
    return Drawn(lambda chance: chance.choice(them))


def booleans() -> Drawn:
    return sampled_from([True, False])


def integers(first: int, last: int) -> Drawn:
    return Drawn(lambda chance: chance.randint(first, last))


def one_of(*ways: Drawn) -> Drawn:
    return Drawn(lambda chance: chance.choice(ways).draw(chance))


def tuples(*parts: Drawn) -> Drawn:
    return Drawn(lambda chance: tuple(part.draw(chance) for part in parts))


def lists(part: Drawn, min_size: int = 0, max_size: int = 3) -> Drawn:
    return Drawn(
        lambda chance: [part.draw(chance) for _ in range(chance.randint(min_size, max_size))]
    )


def builds(make: Callable[..., Any], *parts: Drawn, **named: Drawn) -> Drawn:
    return Drawn(
        lambda chance: make(
            *(part.draw(chance) for part in parts),
            **{name: part.draw(chance) for name, part in named.items()},
        )
    )
