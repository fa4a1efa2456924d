"""Literal histories of three replicas, reduced from runs on a real cluster.

Times are milliseconds. Each run begins with all in sync and broker 1 as leader, as a run does.
"""

from __future__ import annotations

from typing import Any

from lab_utils.ledger.events import Event
from tests.views.histories import TOPIC, acked, event, log, sent, unknown

ALL = (1, 2, 3)


def broker(ms: float, number: int, kind: str, **columns: Any) -> Event:
    return event(ms, "broker", f"broker-{number}", kind, **columns)


def decided(ms: float, leader: int | None, *isr: int, elr: str = "") -> Event:
    detail = {
        "leader": "" if leader is None else str(leader),
        "replicas": "1 2 3",
        "isr": " ".join(map(str, isr)),
        "elr": elr,
    }
    place = {"topic": TOPIC, "partition": 0}
    return event(ms, "broker", "controller", "partition", **place, detail=detail)


def ends(ms: float, *offsets: int | None) -> list[Event]:
    """The log ends of brokers 1, 2, 3, and so on; None is one that has not changed."""
    return [
        broker(ms, number, "log_end", topic=TOPIC, partition=0, offset=offset)
        for number, offset in enumerate(offsets, start=1)
        if offset is not None
    ]


def watermark(ms: float, number: int, offset: int) -> Event:
    return broker(ms, number, "watermark", topic=TOPIC, partition=0, offset=offset)


def link(ms: float, pair: str, kind: str = "link_cut") -> Event:
    return broker(ms, int(pair[0]), kind, detail={"brokers": pair})


def finished(ms: float) -> Event:
    return event(ms, "workload", "workload", "finished")


def in_sync() -> list[Event]:
    """Nothing breaks: acks=all, two orders."""
    return [
        decided(0, 1, *ALL), *ends(1, 0, 0, 0), watermark(8, 1, 0),
        sent(9, "0"), *ends(60, 1, 1, 1), watermark(61, 1, 1), acked(62, "0", 0),
        sent(63, "1"), acked(80, "1", 1), *ends(110, 2, 2, 2), watermark(111, 1, 2),
        finished(112), *log("0", "1"),
    ]  # fmt: skip


def acked_alone() -> list[Event]:
    """acks=1, both links of the leader cut, the leader killed after its second answer."""
    return [
        *ends(0, 0, 0, 0), link(1, "1 2"), link(2, "1 3"), watermark(5, 1, 0),
        sent(60, "0"), acked(116, "0", 0), *ends(116, 1), sent(117, "1"), acked(152, "1", 1),
        broker(196, 1, "killed"), *ends(202, 2), broker(3359, 1, "fenced"), decided(3359, 2, 2, 3),
        sent(153, "2"), acked(3629, "2", 0), *ends(3650, None, 1), *ends(3700, None, None, 1),
        finished(3710), *log("2", ms=3900),
    ]  # fmt: skip


def taken_over() -> list[Event]:
    """acks=all, the leader is killed: another leads, and nothing is lost."""
    return [
        decided(0, 1, *ALL), *ends(1, 0, 0, 0), watermark(10, 1, 0), sent(11, "0"),
        *ends(20, 1, 1, 1), acked(23, "0", 0), broker(87, 1, "killed"), decided(2724, 2, 2, 3),
        broker(2724, 1, "fenced"), sent(24, "1"), *ends(2883, None, 2, 2), watermark(3001, 2, 2),
        acked(3087, "1", 1), finished(3088), *log("0", "1", ms=4000),
    ]  # fmt: skip


def last_one() -> list[Event]:
    """acks=all, both followers paused: the ISR shrinks to the leader, which is then killed."""
    return [
        decided(0, 1, *ALL), *ends(1, 0, 0, 0), sent(2, "0"), *ends(60, 1, 1, 1),
        watermark(61, 1, 1), acked(62, "0", 0), broker(70, 2, "paused"), broker(75, 3, "paused"),
        sent(80, "1"), *ends(90, 2), decided(2513, 1, 1), watermark(2520, 1, 2),
        acked(2560, "1", 1), broker(2600, 1, "killed"), broker(2610, 2, "resumed"),
        broker(2620, 3, "resumed"), decided(5000, None, 1), broker(5000, 1, "fenced"),
        finished(5010),
    ]  # fmt: skip


def too_few() -> list[Event]:
    """min.insync.replicas=2, the leader cut off: acks=all is refused, acks=1 is not readable."""
    return [
        decided(0, 1, *ALL), *ends(1, 0, 0, 0), sent(2, "0"), *ends(40, 1, 1, 1), acked(41, "0", 0),
        watermark(42, 1, 1), link(50, "1 2"), link(51, "1 3"), sent(52, "1"), acked(60, "1", 1),
        *ends(90, 2), decided(1975, 1, 1, elr="2 3"), sent(2000, "2"),
        unknown(5000, "2"), finished(5001), *log("0", ms=9000),
    ]  # fmt: skip
