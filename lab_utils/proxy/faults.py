"""The faults: what is to go wrong, where, and at which time; data without state.

    drop_response("Produce", nth=3)      the third Produce is stored, its answer is lost
    refuse("Produce", 1, "NOT_ENOUGH_REPLICAS")

A fault says what to do with a frame that it was matched with (actions.py); the board counts
matches and the proxy acts. A class derived from WireFault is a fault; there is nothing to register
(docs/adding-a-fault.md). Nothing here loads a protocol library: a notebook imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lab_utils.codec.apis import API_KEYS, ERRORS
from lab_utils.errors import BadArgument, at_least, one_of
from lab_utils.proxy.actions import Action, Answer, Cut, Forward, Keep

if TYPE_CHECKING:
    from lab_utils.codec.frames import Produced, Request, Response

# Where a workload's process can be killed or stalled; clients/crash.py says what each one is.
CRASH_POINTS: Final = (
    "after_send", "after_ack", "after_poll", "before_process", "after_process", "before_commit",
    "while_committing", "after_commit", "after_send_offsets",
    "after_db_write", "before_db_commit", "after_db_commit",
)  # fmt: skip

# What the proxy can answer in the broker's place: the answer is an error and nothing else.
REFUSABLE: Final = (
    "AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "FindCoordinator", "Heartbeat",
    "InitProducerId", "JoinGroup", "OffsetCommit", "Produce", "SyncGroup", "TxnOffsetCommit",
)  # fmt: skip


class Fault:
    """Something that is to go wrong; each subclass is one kind of it."""

    kinds: ClassVar[dict[str, type[Fault]]] = {}

    def __init_subclass__(cls) -> None:
        if cls.__name__[0].islower():  # the others are what several kinds share
            Fault.kinds[cls.__name__] = cls

    def __repr__(self) -> str:
        """The call that makes this fault; what is left at its default is left out."""
        given = parameters(self)
        first, *_ = [column.name for column in fields(self)]  # type: ignore[arg-type]
        others = [f"{name}={value!r}" for name, value in given.items() if name != first]
        return f"{type(self).__name__}({', '.join([repr(given[first]), *others])})"


@dataclass(frozen=True, repr=False)
class WireFault(Fault):
    """A fault of the proxy, matched with the nth request of an API.

    nth         counted from the moment it is armed, from 1, among the requests that match
    client_id   only requests of this client of the run
    topic, partition   only requests that name them; lab.run knows its topics by their short names
    once        fire at the nth match only, or at each one from the nth on
    """

    api: str
    nth: int = 1
    _: KW_ONLY
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    once: bool = True

    def __post_init__(self) -> None:
        one_of("api", self.api, API_KEYS)
        at_least("nth", self.nth, 1)
        if self.partition is not None:
            at_least("partition", self.partition, 0)

    def matches(self, request: Request) -> bool:
        """Is this one of the requests that the fault counts?"""
        return (
            request.api == self.api
            and self.client_id in (None, request.client)
            and ((self.topic is None and self.partition is None) or self._names(request))
        )

    def on_request(self, request: Request) -> Action | None:  # noqa: ARG002
        """What to do with the request; None leaves it alone."""
        return None

    def on_response(self, response: Response) -> Action | None:  # noqa: ARG002
        """What to do with the response to the request; None leaves it alone."""
        return None

    def names(self, topic: str, partition: int) -> bool:
        """Is this topic and partition among those that the fault is about?"""
        return self.topic in (None, topic) and self.partition in (None, partition)

    def _names(self, request: Request) -> bool:
        return any(self.names(*place) for place in request.topic_partitions)


class drop_response(WireFault):  # noqa: N801 - called as a function
    """The broker does what was asked; its answer is lost with the connection."""

    def on_response(self, response: Response) -> Action:  # noqa: D102, ARG002
        return Cut()


class drop_request(WireFault):  # noqa: N801
    """The request is lost with the connection, before the broker sees it."""

    def on_request(self, request: Request) -> Action:  # noqa: D102, ARG002
        return Cut()


class corrupt_request(WireFault):  # noqa: N801
    """One byte of the records is flipped; the broker itself answers CORRUPT_MESSAGE."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.api != "Produce":
            raise BadArgument(
                f"corrupt_request works on Produce; got {self.api!r}. Only record batches carry a "
                'checksum that shows the broker the damage. Use corrupt_request("Produce").'
            )

    def on_request(self, request: Request) -> Action | None:  # noqa: D102
        from lab_utils.codec.answers import corrupted

        chosen = self._chosen(request)
        if chosen is None:
            return None
        return Forward(corrupted(request, chosen))

    def _chosen(self, request: Request) -> Produced | None:
        return next(
            (
                item
                for item in request.produced
                if item.batches and self.names(item.topic, item.partition)
            ),
            None,
        )


@dataclass(frozen=True, repr=False)
class refuse(WireFault):  # noqa: N801
    """The broker never sees the request; the client is answered with the named Kafka error.

    NOT_ENOUGH_REPLICAS_AFTER_APPEND says that the records are stored, so there the broker does
    see the request, and only its answer is replaced.
    """

    error: str = "NOT_ENOUGH_REPLICAS"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("error", self.error, ERRORS)
        if self.api not in REFUSABLE:
            raise BadArgument(
                f"refuse cannot answer {self.api}: only a broker knows what to say there. It can "
                f"answer {', '.join(REFUSABLE)}. Use drop_request to lose the request instead."
            )
        if self._is_stored and self.api != "Produce":
            raise BadArgument(
                f"{self.error} says that records were stored, which {self.api} never does. "
                'Use it with "Produce", or choose another error.'
            )

    def on_request(self, request: Request) -> Action | None:  # noqa: D102
        from lab_utils.codec.answers import refusal

        if self._is_stored:
            return None
        # With acks=0 nobody waits for an answer; a broker cuts the connection, and so do we.
        return Answer(refusal(request, self.error)) if request.has_response else Cut()

    def on_response(self, response: Response) -> Action | None:  # noqa: D102
        from lab_utils.codec.answers import with_error

        if not self._is_stored:
            return None
        return Forward(with_error(response, self.error))

    @property
    def _is_stored(self) -> bool:
        return self.error.endswith("_AFTER_APPEND")


@dataclass(frozen=True, repr=False)
class _Delay(WireFault):
    by_ms: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("by_ms", self.by_ms, 1)


class delay_request(_Delay):  # noqa: N801
    """The request reaches the broker `by_ms` later, also when its sender has gone by then."""

    def on_request(self, request: Request) -> Action:  # noqa: D102, ARG002
        return Forward(after_ms=self.by_ms)


@dataclass(frozen=True, repr=False)
class late_request(WireFault):  # noqa: N801
    """The connection is cut while the request is on its way; it arrives too late, but it does.

    after   the broker has answered a later request of this API when it arrives, and the client
            has not been given that answer yet
    """

    after: str = "Produce"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("after", self.after, API_KEYS)

    def on_request(self, request: Request) -> Action:  # noqa: D102, ARG002
        return Keep(self.after)


class delay_response(_Delay):  # noqa: N801
    """The answer reaches the client `by_ms` later."""

    def on_response(self, response: Response) -> Action:  # noqa: D102, ARG002
        return Forward(after_ms=self.by_ms)


@dataclass(frozen=True, repr=False)
class ClientFault(Fault):
    """A fault of the workload's process when it reaches a point (CRASH_POINTS) the nth time.

    The client acts on it, not the proxy.

    value   only points that are about this order: it was polled, or is processed
    member  which process of the run, from 1, if it has several
    """

    at: str
    nth: int = 1
    _: KW_ONLY
    value: str | None = None
    member: int = 1

    def __post_init__(self) -> None:
        one_of("at", self.at, CRASH_POINTS)
        at_least("nth", self.nth, 1)
        at_least("member", self.member, 1)


class crash_client(ClientFault):  # noqa: N801
    """The workload's process is killed when it reaches a point for the nth time.

    Points: after_send, after_ack, after_poll, before_process, after_process, before_commit,
    while_committing, after_commit, after_send_offsets, after_db_write, before_db_commit,
    after_db_commit.
    """


@dataclass(frozen=True, repr=False)
class stall_client(ClientFault):  # noqa: N801
    """The workload's process does nothing for a while; the threads of its clients live on."""

    for_ms: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("for_ms", self.for_ms, 1)


def parameters(fault: Fault) -> dict[str, Any]:
    """What a fault was made with, without what was left at its default."""
    return {
        column.name: getattr(fault, column.name)
        for column in fields(fault)  # type: ignore[arg-type]
        if column.default is MISSING or getattr(fault, column.name) != column.default
    }


def to_json(fault: Fault) -> dict[str, Any]:
    """A fault as JSON: its kind as `fault`, and all its parameters.

    >>> to_json(crash_client("after_ack", nth=2))
    {'fault': 'crash_client', 'at': 'after_ack', 'nth': 2, 'value': None, 'member': 1}
    """
    columns = fields(fault)  # type: ignore[arg-type]
    return {"fault": type(fault).__name__} | {
        column.name: getattr(fault, column.name) for column in columns
    }


def from_json(data: Mapping[str, Any]) -> Fault:
    """The fault that `to_json` made this of; BadArgument for what is no fault.

    >>> from_json({"fault": "drop_response", "api": "Produce", "nth": 3})
    drop_response('Produce', nth=3)
    """
    given = dict(data)
    name = one_of("fault", str(given.pop("fault", None)), Fault.kinds)
    kind = Fault.kinds[name]
    for parameter in given:
        one_of(f"a parameter of {name}", parameter, [column.name for column in fields(kind)])  # type: ignore[arg-type]
    return kind(**given)
