"""Faults of brokers and of the links between them, at once or at a moment on the wire.

    kill_broker(1)                              before the workload starts
    kill_broker(1, api="Produce", nth=3)        when the third Produce has been answered

They are data, like the faults of the wire, and say how the stage carries them out. At a moment on
the wire, `strike` acts before the proxies pass anything more on, so that what the clients of a
broker know is the same each time.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol, TypeVar

from lab_utils.errors import BadArgument, one_of, within
from lab_utils.proxy.faults.fault import ID_LIMIT, Fault, RequestFault

if TYPE_CHECKING:
    from asyncio import Lock
    from pathlib import Path
    from signal import Signals

LinkState = Literal["open", "held", "slow", "cut"]
ANSWERED: Final = "answered"
RECEIVED: Final = "received"
# What is said of a fault that did not fit what the broker was, as of a pause of a paused one.
REFUSED: Final = "was not carried out"


class Process(Protocol):
    """The process of a broker, as a fault may treat it; each verb returns when it is so."""

    @property
    def data_folder(self) -> Path:
        """Where its log is."""

    def stop(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""


class Stage(Protocol):
    """What a fault may do to the brokers of a stage."""

    async def do(self, broker: int, verb: str, at_ns: int | None = None) -> None:
        """Carry out a verb of a broker; return when it is so and the ledger has it."""

    def link(self, a: int, b: int, verb: str, *, by_ms: int = 0) -> None:
        """Carry out a verb of a link, in both directions."""

    @property
    def turn(self) -> Lock:
        """Held while something is done to a broker; who waits for it takes turns."""

    def send_signal(self, broker: int, how: Signals) -> None:
        """Send a signal to a broker; it is not waited for, other than a pause."""

    def turn_away(self, broker: int) -> None:
        """Cut the connections of a broker's clients, and let no new one through."""


@dataclass(frozen=True, repr=False)
class StageFault(RequestFault):
    """A fault of the stage: something is done to a broker or a link.

    It waits for a request to any broker; without an api it is done at once.

    when       "answered": when that request has been answered, or its producer has hung up, as
               after socket.timeout.ms; "received": already when the broker has it. Whether a
               broker that is killed then still passes it on to its followers is chance, unless
               their links are cut before.
    """

    narrowing = ("api",)
    once: ClassVar[bool] = True
    verb: ClassVar[str] = ""

    _: KW_ONLY
    api: str | None = None
    nth: int = 1
    value: str | None = None
    when: str = ANSWERED

    def targets(self) -> tuple[int, ...]:
        """The brokers that this is about."""
        raise NotImplementedError

    def strike(self, stage: Stage) -> None:
        """Do what cannot wait: nothing more passes the proxies before this returns."""

    async def carry_out(self, stage: Stage, at_ns: int | None = None) -> None:
        """Do it, and return when it is so; `at_ns` is when `strike` returned, if it was called."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        """Raises BadArgument for a broker, a link or a moment that cannot be."""
        super().__post_init__()
        for broker in self.targets():
            within("broker", broker, 1, ID_LIMIT)
        one_of("when", self.when, (ANSWERED, RECEIVED))
        if self.api is None and self.nth != 1:
            raise BadArgument(
                f"nth={self.nth} counts requests of an API, and none is named. Name it, as in "
                f'api="Produce", or leave nth out.'
            )


@dataclass(frozen=True, repr=False)
class BrokerFault(StageFault):
    """A fault of one broker.

    verb     what it is called in POST /brokers/<id>/<verb>, and in a call of lab.brokers
    event    what the ledger says of it
    signal   what is sent at the moment itself
    is_deaf  are its clients turned away at that moment?
    """

    event: ClassVar[str] = ""
    signal: ClassVar[Signals | None] = None
    is_deaf: ClassVar[bool] = False

    broker: int

    @classmethod
    def perform(cls, process: Process) -> None:
        """What is done to the broker's process, in a thread: its verb."""
        getattr(process, cls.verb)()

    def targets(self) -> tuple[int, ...]:
        """The broker."""
        return (self.broker,)

    def strike(self, stage: Stage) -> None:
        """Turn its clients away and send it the signal."""
        if self.is_deaf:
            stage.turn_away(self.broker)
        if self.signal is not None:
            stage.send_signal(self.broker, self.signal)

    async def carry_out(self, stage: Stage, at_ns: int | None = None) -> None:
        """Perform the verb."""
        await stage.do(self.broker, self.verb, at_ns)


@dataclass(frozen=True, repr=False)
class LinkFault(StageFault):
    """A fault of a link. A broker has one to itself: its coordinator sends markers there.

    verb    what it is called in POST /links/<a>/<b>/<verb>, and in a call of lab.brokers
    state   what becomes of the link
    """

    state: ClassVar[LinkState] = "open"

    a: int
    b: int

    def targets(self) -> tuple[int, ...]:
        """Its two ends."""
        return (self.a, self.b)

    async def carry_out(self, stage: Stage, at_ns: int | None = None) -> None:  # noqa: ARG002
        """Perform the verb."""
        stage.link(self.a, self.b, self.verb, by_ms=getattr(self, "by_ms", 0))


Kind = TypeVar("Kind", bound=StageFault)


def verbs(of: type[Kind]) -> dict[str, type[Kind]]:
    """The kinds of BrokerFault or of LinkFault that are one verb, by that verb."""
    kinds = [kind for kind in Fault.kinds.values() if issubclass(kind, of)]
    return {kind.verb: kind for kind in kinds if kind.verb}
