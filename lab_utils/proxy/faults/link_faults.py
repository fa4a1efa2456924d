"""What can become of a link between two brokers. Each is a fault, and a verb of the panel."""

from __future__ import annotations

from dataclasses import dataclass

from lab_utils.errors import within
from lab_utils.proxy.faults.broker_fault import LinkFault, Stage
from lab_utils.proxy.faults.fault import MS_LIMIT


@dataclass(frozen=True, repr=False)
class cut_link(LinkFault):  # noqa: N801 - called as a function
    """Two brokers lose their connections, with what is in flight, and get no new ones."""

    sentence = "Cut the link between brokers {a} and {b}"
    verb, state = "cut", "cut"


@dataclass(frozen=True, repr=False)
class hold_link(LinkFault):  # noqa: N801
    """What two brokers say to each other is held until the link is healed."""

    sentence = "Hold the link between brokers {a} and {b}"
    verb, state = "hold", "held"


@dataclass(frozen=True, repr=False)
class slow_link(LinkFault):  # noqa: N801
    """What two brokers say to each other arrives by so many milliseconds later, each way."""

    sentence = "Slow the link between brokers {a} and {b} by {by_ms} ms"
    verb, state = "slow", "slow"

    by_ms: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        within("by_ms", self.by_ms, 1, MS_LIMIT)


@dataclass(frozen=True, repr=False)
class heal_link(LinkFault):  # noqa: N801
    """The link between two brokers is whole again; what was held goes on.

    At a moment on the wire it comes after what is being done to brokers: one that is killed then
    is dead before a follower can fetch what it has.
    """

    sentence = "Heal the link between brokers {a} and {b}"
    verb, state = "heal", "open"

    async def carry_out(self, stage: Stage, at_ns: int | None = None) -> None:  # noqa: ARG002, D102
        async with stage.turn:
            stage.link(self.a, self.b, self.verb)
