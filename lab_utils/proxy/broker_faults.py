"""Faults of brokers and of the links between them, at once or at a moment on the wire.

    kill_broker(1)                              before the workload starts
    kill_broker(1, api="Produce", nth=3)        when the third Produce has been answered

They are data, like the faults of the wire: the stage acts on them. At a moment on the wire, the
proxies of a broker that is to be killed or paused pass nothing more on, so that what its clients
know is the same each time.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from lab_utils.codec.apis import API_KEYS
from lab_utils.errors import BadArgument, at_least, one_of
from lab_utils.proxy.faults import Fault

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request


ANSWERED: Final = "answered"
RECEIVED: Final = "received"


@dataclass(frozen=True, repr=False)
class StageFault(Fault):
    """A fault of the stage: something is done to a broker or a link.

    api, nth   the moment: the nth request of this API, counted over all brokers from when the
               fault is armed; without an api, at once
    when       when that request has been answered, or already when the broker has received it;
               whether a broker that is killed then still passes it on to its followers is chance,
               unless their links are cut before
    """

    verb: ClassVar[str] = ""
    once: ClassVar[bool] = True

    def matches(self, request: Request) -> bool:
        """Is this one of the requests that the fault counts?"""
        return bool(self.api) and request.api == self.api

    def targets(self) -> tuple[int, ...]:
        """The brokers that the stage is to act on, in the order of the verb."""
        raise NotImplementedError

    if TYPE_CHECKING:
        api: str | None
        nth: int
        when: str

    def _require_moment(self) -> None:
        if self.api is not None:
            one_of("api", self.api, API_KEYS)
        at_least("nth", self.nth, 1)
        one_of("when", self.when, (ANSWERED, RECEIVED))
        if self.api is None and self.nth != 1:
            raise BadArgument(
                f"nth={self.nth} counts requests of an API, and none is named. Name it, as in "
                f'api="Produce", or leave nth out.'
            )


@dataclass(frozen=True, repr=False)
class _BrokerFault(StageFault):
    broker: int
    _: KW_ONLY
    api: str | None = None
    nth: int = 1
    when: str = ANSWERED

    def __post_init__(self) -> None:
        at_least("broker", self.broker, 1)
        self._require_moment()

    def targets(self) -> tuple[int, ...]:
        return (self.broker,)


class kill_broker(_BrokerFault):  # noqa: N801 - called as a function
    """SIGKILL: nothing is handed over, nothing is flushed."""

    verb = "kill"


class stop_broker(_BrokerFault):  # noqa: N801
    """SIGTERM: the broker hands its leaderships over, flushes and ends."""

    verb = "stop"


class pause_broker(_BrokerFault):  # noqa: N801
    """SIGSTOP: connections stay, nothing is answered."""

    verb = "pause"


class resume_broker(_BrokerFault):  # noqa: N801
    """SIGCONT: it goes on where it stood."""

    verb = "resume"


class start_broker(_BrokerFault):  # noqa: N801
    """Start it again, with the log that it has."""

    verb = "start"


class power_cut(_BrokerFault):  # noqa: N801
    """A simulation: SIGKILL, and the log is cut back to what had been flushed to disk."""

    verb = "power_cut"


@dataclass(frozen=True, repr=False)
class _LinkFault(StageFault):
    """A fault of a link. A broker has one to itself: its coordinator sends markers there."""

    a: int
    b: int
    _: KW_ONLY
    api: str | None = None
    nth: int = 1
    when: str = ANSWERED

    def __post_init__(self) -> None:
        at_least("a", self.a, 1)
        at_least("b", self.b, 1)
        self._require_moment()

    def targets(self) -> tuple[int, ...]:
        return (self.a, self.b)

    def __repr__(self) -> str:
        moment = f", api={self.api!r}, nth={self.nth}, when={self.when!r}" if self.api else ""
        return f"{type(self).__name__}({self.a}, {self.b}{moment})"


class cut_link(_LinkFault):  # noqa: N801
    """Two brokers lose their connections, with what is in flight, and get no new ones."""

    verb = "cut"


class hold_link(_LinkFault):  # noqa: N801
    """What two brokers say to each other is held until the link is healed."""

    verb = "hold"


@dataclass(frozen=True, repr=False)
class slow_link(_LinkFault):  # noqa: N801
    """What two brokers say to each other arrives by so many milliseconds later, each way."""

    verb = "slow"
    by_ms: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("by_ms", self.by_ms, 1)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, by_ms={self.by_ms})"


class heal_link(_LinkFault):  # noqa: N801
    """The link between two brokers is whole again; what was held goes on."""

    verb = "heal"
