"""What the proxy can be told to do with one frame; a fault answers with one of these.

    Forward   send it on: as it is, changed, or later
    Answer    do not send it on; answer the client instead (requests only)
    Cut       discard it and cut the client's connection
    Keep      cut the client's connection, and send it on when it is called for (requests only)

They are data. The proxy acts on them, keeps the order on the connection, and never holds up
another connection.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    At a response: it and all behind it never reach the client; what the client has sent still
    reaches the broker.
    """


@dataclass(frozen=True, slots=True)
class Keep:
    """Cut the client's connection, but keep the request, which is still on its way.

    It reaches the broker when the broker has answered the next `before` request of the same run,
    and before the client is given that answer.
    """

    before: str


Action = Forward | Answer | Cut | Keep
