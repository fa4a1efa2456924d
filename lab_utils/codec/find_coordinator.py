"""What one broker answers as a coordinator: of transactions, of groups, and of producer ids.

A fresh broker creates the topics of its coordinators when it is first asked for them, reads them,
and asks the controller for its first producer ids. Until then it refuses what clients ask for with
COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS, and they wait before they ask again.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from lab_utils.codec.cursor import (  # the first to load kio
    ErrorCode,
    entity_reader,
    framed,
    load_response_schema,
)

# isort: split
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.types import GroupId, TransactionalId
from kio.static.primitive import i8, i32, i32Timedelta

TIMEOUT_S: Final = 2
# Names that no client uses: nothing is created by them. __consumer_offsets has one partition.
GROUPS: Final = ("lab",)
# One for each of the 50 partitions of __transaction_state: the hash of a character is its number.
TRANSACTIONAL_IDS: Final = tuple(map(chr, range(50, 100)))
KEYS: Final = ((0, GROUPS), (1, TRANSACTIONAL_IDS))  # of a group, of a transaction
NAMES: Final = frozenset(GROUPS + TRANSACTIONAL_IDS)
ANSWERED: Final = (ErrorCode.none, ErrorCode.transactional_id_not_found)


@dataclass(frozen=True, slots=True)
class Answered:
    """Which broker is the coordinator of each name, as one says; and what it answers for itself."""

    found: Mapping[str, int]
    names: frozenset[str]


async def ask(port: int) -> Answered:
    """Ask the broker at this port where the coordinators are, and what it coordinates itself.

    That creates their topics, and nothing else. A broker that does not answer knows nothing.
    """
    finds = [FindCoordinatorRequest(key_type=i8(it), coordinator_keys=keys) for it, keys in KEYS]
    groups = DescribeGroupsRequest(
        groups=tuple(map(GroupId, GROUPS)), include_authorized_operations=False
    )
    transactions = DescribeTransactionsRequest(
        transactional_ids=tuple(map(TransactionalId, TRANSACTIONAL_IDS))
    )
    said = await _answers(port, *finds, groups, transactions)
    if said is None:
        return Answered({}, frozenset())
    *found, of_groups, of_transactions = said
    names = [(it.group_id, it.error_code) for it in of_groups.groups]
    names += [(it.transactional_id, it.error_code) for it in of_transactions.transaction_states]
    return Answered(
        {it.key: int(it.node_id) for each in found for it in each.coordinators},
        frozenset(str(name) for name, error in names if error in ANSWERED),
    )


async def gives_producer_id(port: int) -> bool:
    """Has the broker at this port producer ids to give? It has one less then."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout=i32Timedelta.parse(timedelta(0))
    )
    said = await _answers(port, request)
    return said is not None and said[0].error_code == ErrorCode.none


async def _answers(port: int, *requests: Any) -> list[Any] | None:
    """The answers to these requests; None if the broker does not give all of them in time."""
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return [await _answer(reader, writer, each) for each in requests]
            finally:
                writer.close()
    return None


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Any) -> Any:
    header = request.__header_schema__(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(0),
        client_id=None,
    )
    writer.write(framed(header, request))
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    read: Any = entity_reader(load_response_schema(request.__api_key__, request.__version__))
    response, _ = read(await reader.readexactly(size), 5)  # correlation id and tags
    return response
