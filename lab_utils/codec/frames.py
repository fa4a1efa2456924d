"""Kafka's requests and responses, read from the bytes that crossed the wire.

    length │ API key │ version │ correlation id │ client id │ (tags) │ body      a request
    length │ correlation id │ (tags) │ body                                      its response

The first line is read by hand, because every frame needs it; the body is read by kio when
somebody asks, and is None when it cannot be read. A frame is never changed here: what a fault
makes of it is in answers.py. It knows nothing of sockets, of faults or of the ledger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from lab_utils.codec.apis import API_NAMES
from lab_utils.codec.batches import BatchHeader, DamagedBatch, read_headers
from lab_utils.codec.entities import first_error, topic_name, topic_partitions
from lab_utils.codec.produce import read_produce

LENGTH: Final = struct.Struct(">i")
REQUEST_START: Final = struct.Struct(">ihhih")
RESPONSE_START: Final = struct.Struct(">ii")

TopicNames = Mapping[UUID, str]


class Unreadable(ValueError):
    """These bytes are no frame of Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Produced:
    """What a Produce request brings to one partition, and where its records end in the frame."""

    topic: str
    partition: int
    batches: tuple[BatchHeader, ...]
    end: int


@dataclass(eq=False)
class Request:
    """One request frame, length and all. What was read of it stays when the frame is forgotten."""

    frame: bytes
    api: str
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    topic_names: TopicNames

    @property
    def run(self) -> str:
        """The run that the sender belongs to: its client id up to the first dot."""
        return self.client_id.partition(".")[0] if "." in self.client_id else ""

    @property
    def client(self) -> str:
        """The sender's name within its run."""
        return self.client_id.partition(".")[2] if "." in self.client_id else self.client_id

    @cached_property
    def body(self) -> Any:
        """The request as kio's dataclass, or None if it cannot be read.

        Produce is read by produce.py, which leaves the records where they are.
        """
        return self._read()

    @cached_property
    def topic_partitions(self) -> tuple[tuple[str, int], ...]:
        """The partitions that the request names; -1 stands for a topic named without one."""
        return tuple(topic_partitions(self.body, self.topic_names))

    @property
    def has_response(self) -> bool:
        """Will the broker answer? It does, but for a Produce with acks=0."""
        return not (self.api == "Produce" and self.body is not None and self.body.acks == 0)

    @cached_property
    def produced(self) -> tuple[Produced, ...]:
        """What a Produce request brings, partition by partition; nothing for other requests."""
        return tuple(self._produced()) if self.api == "Produce" and self.body else ()

    def forget_frame(self) -> None:
        """Read what may be asked for, then let the bytes go.

        They are a megabyte each, and waiting for its answer a request needs none of them: with
        the memory used again at once, the proxy takes 0.7 s of processor for a gigabyte, not 1.1.
        """
        _ = self.body, self.topic_partitions, self.produced
        self.frame = b""

    def _read(self) -> Any:
        try:
            schema = _request_schema(self.api_key, self.version)
            start = _body_start(schema, self.frame)
            if self.api == "Produce":
                return read_produce(self.frame, start, self.version)
            return entity_reader(schema)(self.frame, start)[0]
        except Exception:  # kio has an error of its own for each way to be unreadable.
            return None

    def _produced(self) -> Iterator[Produced]:
        for topic in self.body.topic_data:
            name = topic_name(topic, self.topic_names) or ""
            for data in topic.partition_data:
                headers = _headers(self.frame, data.start, data.end)
                yield Produced(name, data.index, headers, data.end)


@dataclass(frozen=True)
class Response:
    """One response frame, length and all, and the request that it answers."""

    frame: bytes
    request: Request

    @property
    def correlation_id(self) -> int:
        """The number that a response shares with its request."""
        return int(RESPONSE_START.unpack_from(self.frame)[1])

    @cached_property
    def body(self) -> Any:
        """The response as kio's dataclass, or None if it cannot be read."""
        request = self.request
        # A broker that does not know the client's version of ApiVersions answers in version 0.
        versions = (request.version, 0) if request.api == "ApiVersions" else (request.version,)
        bodies = (self._read(version) for version in versions)
        return next((body for body in bodies if body is not None), None)

    @cached_property
    def error(self) -> str | None:
        """The name of the first error in the response, if there is one."""
        code = first_error(self.body)
        return None if code is None else error_name(code)

    def _read(self, version: int) -> Any:
        try:
            schema = _response_schema(self.request.api_key, version)
            return entity_reader(schema)(self.frame, _body_start(schema, self.frame))[0]
        except Exception:  # As above.
            return None


def read_request(frame: bytes, topic_names: TopicNames | None = None) -> Request:
    """The request in a frame; Unreadable if it does not begin as one."""
    try:
        _, api_key, version, correlation_id, size = REQUEST_START.unpack_from(frame)
    except struct.error:
        raise Unreadable(f"{len(frame)} bytes are too few for a request") from None
    if api_key not in API_NAMES:
        raise Unreadable(f"API key {api_key} is unknown")
    client_id = frame[REQUEST_START.size : REQUEST_START.size + max(size, 0)]
    return Request(
        frame,
        API_NAMES[api_key],
        api_key,
        version,
        correlation_id,
        client_id.decode("utf-8", errors="replace"),
        topic_names if topic_names is not None else {},
    )


def topic_ids(response: Response) -> dict[UUID, str]:
    """The topic ids that a response puts names to; later versions name topics by id alone."""
    if response.request.api not in ("Metadata", "CreateTopics") or response.body is None:
        return {}
    return {
        topic.topic_id: topic.name
        for topic in response.body.topics
        if getattr(topic, "topic_id", None) and topic.name
    }


def error_name(code: ErrorCode) -> str:
    """Kafka's own name of an error.

    >>> error_name(ErrorCode.corrupt_message)
    'CORRUPT_MESSAGE'
    """
    return code.name.upper()


def _body_start(schema: Any, frame: bytes) -> int:
    """Where the body begins: behind the header, which has a form of its own for each version."""
    return LENGTH.size + int(entity_reader(schema.__header_schema__)(frame, LENGTH.size)[1])


# kio looks a schema up by name each time.
_request_schema = cache(load_request_schema)
_response_schema = cache(load_response_schema)


def _headers(frame: bytes, start: int, end: int) -> tuple[BatchHeader, ...]:
    try:
        return tuple(read_headers(frame, start, end))
    except DamagedBatch:
        return ()
