"""Faults as data: what they say of themselves, what they refuse, which requests they mean."""

from __future__ import annotations

import pytest

from lab_utils.codec.frames import read_request
from lab_utils.errors import BadArgument
from lab_utils.proxy.faults import (
    Fault,
    RequestFault,
    corrupt_request,
    crash_client,
    cut_link,
    delay_response,
    drop_request,
    drop_response,
    from_json,
    heal_link,
    hold_link,
    kill_broker,
    late_request,
    pause_broker,
    power_cut,
    refuse,
    replay_request,
    resume_broker,
    slow_link,
    stall_client,
    start_broker,
    stop_broker,
    to_json,
)
from tests.proxy import wire

EACH = [
    drop_response("Produce"),
    drop_request("Fetch", nth=3, client_id="consumer-1", once=False),
    corrupt_request("Produce", 2, topic="orders", partition=1),
    refuse("Produce", 2, "NOT_LEADER_OR_FOLLOWER"),
    delay_response("Fetch", by_ms=300),
    replay_request("Produce", nth=2, times=3, later=5),
    late_request("EndTxn", nth=2, after="AddPartitionsToTxn"),
    crash_client("after_ack", nth=2),
    stall_client("after_poll", nth=2, member=2, for_ms=3000),
    kill_broker(1, api="Produce", nth=3),
    stop_broker(2),
    pause_broker(3),
    resume_broker(3, api="Produce"),
    start_broker(1),
    power_cut(1, api="Produce", nth=2, value="order 3"),
    cut_link(1, 2),
    hold_link(2, 3, api="Produce", nth=4),
    slow_link(1, 3, by_ms=50),
    hold_link(1, 1),  # what a coordinator says to its own broker
    heal_link(2, 3),
]


def test_each_fault_is_tried_here() -> None:
    """A new fault is added to the list above, or this fails."""
    of_the_lab = {name for name, it in Fault.kinds.items() if it.__module__.startswith("lab_utils")}

    assert of_the_lab == {type(fault).__name__ for fault in EACH}


@pytest.mark.parametrize("fault", EACH, ids=repr)
def test_call_with_another_name(fault: Fault) -> None:
    """What Python says of it names the fault that was called, and no base of the lab's."""
    with pytest.raises(
        TypeError, match=rf"^{type(fault).__name__}\.__init__\(\) got an unexpected"
    ):
        type(fault)(n=3)


@pytest.mark.parametrize("fault", EACH, ids=repr)
def test_call_and_json(fault: Fault) -> None:
    """What a fault prints makes the same fault again; so does what the stage server is sent."""
    assert fault == eval(repr(fault), dict(Fault.kinds))
    assert fault == from_json(to_json(fault))


REFUSED = [
    (lambda: drop_response("produce"), " names; got 'produce'. Did you mean 'Produce'?"),
    (lambda: drop_response("Produce", nth=0), "nth must be a whole number from 1 to 1,000,000"),
    (lambda: drop_response("Produce", partition=-1), "partition must be a whole number"),
    (lambda: drop_response("Produce", nth=10**400), "got a number of 1329 bits"),
    (lambda: drop_response("Produce", topic=3), "topic must be a text; got 3"),
    (lambda: drop_response("Produce", client_id="\ud800"), "character 0 is half of a surrogate"),
    (lambda: delay_response("Produce", by_ms=0), "by_ms must be a whole number from 1 to 600,000"),
    (lambda: slow_link(1, 2, by_ms=10**9), "by_ms must be a whole number from 1 to 600,000"),
    (lambda: stall_client("while_committing"), "does nothing already: it waits for the answer"),
    (lambda: stall_client("after_poll", for_ms=10**9), "for_ms must be a whole number from 1 to"),
    (lambda: crash_client("after_poll", value=3), "value must be a text; got 3"),
    (lambda: crash_client("after_poll", member=0), "member must be a whole number"),
    (lambda: drop_response("Produce", once="no"), "once must be True or False; got 'no'"),
    (lambda: crash_client("after_poll", until_expired=1), "until_expired must be True or False"),
    (lambda: crash_client("after_poll", or_at="after_pol"), "Did you mean 'after_poll'?"),
    (lambda: drop_response("Produce", value=3), "value must be a text; got 3"),
    (
        lambda: drop_response("Fetch", value="3"),
        "looked for in Produce requests, and api is 'Fetch'",
    ),
    (lambda: kill_broker(1, value="3"), 'and api is None. Write api="Produce", or leave value'),
    (lambda: kill_broker(0), "broker must be a whole number from 1"),
    (lambda: cut_link(1, 10**9), "broker must be a whole number from 1"),
    (lambda: kill_broker(1, nth=2), "nth=2 counts requests of an API, and none is named"),
    (lambda: kill_broker(1, api="Produce", when="send"), "when must be one of answered, received"),
    (lambda: late_request("EndTxn", after="Produc"), "Did you mean 'Produce'?"),
    (lambda: replay_request("Produce", times=0), "times must be a whole number from 1 to 100"),
    (lambda: replay_request("Produce", later=-1), "later must be a whole number from 0 to 1,000"),
    (lambda: corrupt_request("Fetch"), 'Use corrupt_request("Produce")'),
    (lambda: refuse("Produce", 1, "NOT_ENOUGH_REPLICA"), "Did you mean 'NOT_ENOUGH_REPLICAS'?"),
    (lambda: refuse("Produce", 1, "NONE"), "names; got 'NONE'. They are BROKER_ID_NOT"),
    (lambda: refuse("Produce", sent=-1), "sent must be a whole number from 0 to 1,000,000"),
    (lambda: refuse("Metadata"), "refuse cannot answer Metadata"),
    (lambda: refuse("EndTxn", 1, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"), "EndTxn never does"),
    (lambda: crash_client("after_sent"), "Did you mean 'after_send'?"),
    (lambda: from_json({"fault": "drop_respond"}), "Did you mean 'drop_response'?"),
    (lambda: from_json({"fault": "drop_response", "api": "Fetch", "nht": 1}), "'nth'?"),
    (lambda: from_json({}), "fault must be one of"),
    (lambda: from_json({"fault": "drop_response"}), "drop_response needs 'api'"),
    (lambda: from_json({"fault": ["x"], "api": 3}), "fault must be one of"),
    (lambda: from_json("drop_response"), "a fault must be a JSON object; got str"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refused_at_once(make: object, message: str) -> None:
    """A fault that could never fire is refused where it is written, with what is right."""
    with pytest.raises(BadArgument) as refused:
        make()  # type: ignore[operator]

    assert message in str(refused.value)


MATCHES = [
    (drop_response("Produce"), True),
    (drop_response("Fetch"), False),
    (drop_response("Produce", client_id="producer-1"), True),
    (drop_response("Produce", client_id="producer-?"), True),
    (drop_response("Produce", client_id="producer-?1"), False),
    (drop_response("Produce", client_id="03-b.producer-1"), False),
    (drop_response("Produce", topic="orders"), True),
    (drop_response("Produce", topic="order"), False),
    (drop_response("Produce", partition=2), True),
    (drop_response("Produce", partition=0), False),
    (drop_response("Produce", topic="orders", partition=2), True),
    (drop_response("Produce", topic="order", partition=2), False),
    (drop_response("Produce", value="b"), True),
    (drop_response("Produce", value="c"), False),
    (kill_broker(1, api="Produce", value="a"), True),
    (kill_broker(1, api="Produce", value="A"), False),
    (kill_broker(1), False),
]


@pytest.mark.parametrize(("fault", "expected"), MATCHES, ids=repr)
def test_matches(fault: RequestFault, expected: bool) -> None:
    """A fault means the requests that fit all that it names."""
    records = wire.batch([b"a", b"b", None])
    request = read_request(wire.produce(1, records, topic="orders", partition=2))

    assert expected == fault.matches(request)


def test_a_client_with_brackets() -> None:
    """A learner's own name of a client is that name, and no class of characters."""
    request = read_request(wire.produce(1, client_id="03-b.shop[1]"))

    assert drop_response("Produce", client_id="shop[1]").matches(request)
    assert drop_response("Produce", client_id="shop[?]").matches(request)
    assert not drop_response("Produce", client_id="shop[12]").matches(request)
