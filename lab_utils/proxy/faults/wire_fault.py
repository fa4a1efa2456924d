"""A fault of the proxy: which request it means, and what is to be done with a frame.

    Forward   send it on: as it is, changed, or later
    Answer    do not send it on; answer the client instead (requests only)
    Cut       discard it and cut the client's connection
    Keep      cut the client's connection, and send it on when it is called for (requests only)
    Replay    send it on, and copies of it later on the same connection (requests only)

A fault says what to do with a frame; the proxy does it, keeps the order on the connection, and
never holds up another connection. Nothing here loads a protocol library: a notebook imports it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from lab_utils.errors import text, truth, within
from lab_utils.proxy.faults.fault import ID_LIMIT, NTH_LIMIT, RequestFault

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request, Response

# How long an answer waits for the requests that are to be sent before it is given.
SENT_LIMIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Forward:
    """Send the frame on: as it came, or `frame` instead of it; at once, or `after_ms`."""

    frame: bytes | None = None
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the client with `frame`; the broker never sees the request."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """Discard the frame and cut the connection.

    At a request: it and all behind it never reach the broker; earlier ones are answered first.
    At a response: it and all behind it never reach the client; the connection ends when the
    broker has answered what the client has sent so far.
    """


@dataclass(frozen=True, slots=True)
class Keep:
    """Cut the client's connection, but keep the request, which is still on its way.

    It reaches the broker when the broker has answered the next `before` request of the same run,
    and before the client is given that answer.
    """

    before: str


@dataclass(frozen=True, slots=True)
class Replay:
    """Send the frame on, and so many copies of it when `later` more matches have been sent on.

    The copies follow on the same connection, where a broker works on one request after the other:
    so it is no chance what it has had before them. Their answers end at the proxy.
    """

    later: int
    times: int


Action = Forward | Answer | Cut | Keep | Replay


@dataclass(frozen=True, repr=False)
class WireFault(RequestFault):
    """A fault of the proxy, matched with the nth request of an API.

    client_id   only requests of this client of the run; in it, ? is any character and * any text
    topic, partition   only requests that name them; lab.run knows its topics by their short names
    once        fire at the nth match only, or at each one from the nth on; if the process that it
                has met is killed, the next one is left alone
    """

    narrowing = ("client_id", "topic", "partition", "value")

    api: str
    nth: int = 1
    _: KW_ONLY
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    value: str | None = None
    once: bool = True

    def __post_init__(self) -> None:
        """Raises BadArgument for what no request can match."""
        super().__post_init__()
        truth("once", self.once)
        for name in ("client_id", "topic"):
            if (given := getattr(self, name)) is not None:
                text(name, given)
        if self.partition is not None:
            within("partition", self.partition, 0, ID_LIMIT)

    def matches(self, request: Request) -> bool:
        """Is this one of the requests that the fault counts?"""
        names_all = self.topic is None and self.partition is None
        return (
            super().matches(request)
            and (self.client_id is None or self._is_of(request.client))
            and (names_all or any(self.names(*place) for place in request.topic_partitions))
        )

    def on_request(self, request: Request) -> Action | None:  # noqa: ARG002
        """What to do with the request; None leaves it alone."""
        return None

    def on_response(self, response: Response) -> Action | None:  # noqa: ARG002
        """What to do with the response to the request; None leaves it alone."""
        return None

    def _is_of(self, client: str) -> bool:
        assert self.client_id is not None
        return fnmatchcase(client, self.client_id.replace("[", "[[]"))  # a name may have brackets

    def names(self, topic: str, partition: int) -> bool:
        """Is this topic and partition among those that the fault is about?"""
        return self.topic in (None, topic) and self.partition in (None, partition)


@dataclass(frozen=True, repr=False)
class AnswerFault(WireFault):
    """A fault by which the client gets another answer, or none.

    sent   the client gets it, or loses it, when so many requests that match have been sent, counted
           as nth counts; after SENT_LIMIT_S at the latest, as not every client sends so many. A
           client sends several batches back to back, and it is chance how many it has sent when the
           broker answers the first; where the outcome depends on that, `sent` settles it.
    """

    _: KW_ONLY
    sent: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        within("sent", self.sent, 0, NTH_LIMIT)

    @property
    def words(self) -> str:
        """What this fault will do, and when if that is settled."""
        told = super().words
        return told if not self.sent or told == self.code else f"{told} when {self.sent} are sent"
