"""The workloads that the checks of lab 02 perform themselves."""

from __future__ import annotations

from contextlib import suppress

from lab_utils.errors import WaitTimeout
from lab_utils.waiting import wait_until


def one_at_a_time(run, settings=None):
    """Each order with these producer settings, one after the other."""
    producer = run.producer({"acks": "all"} | (settings or {}))
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()


def through_four_moments(run):
    """Write, write with a paused follower, wait until it is back, write while the leader dies.

    The leader is asked who is in sync, and first until it says that the follower has gone: a broker
    that was paused says for a while what held before.
    """
    producer = run.producer({"acks": "all"})
    for number, order in enumerate(run.orders):
        producer.produce(run.topic, order, partition=0)
        producer.flush()
        if number == 1:
            wait_for_isr(run, [1, 2])
        if number == 2:
            wait_for_isr(run, [1, 2, 3])


def wait_for_isr(run, brokers):
    """Wait until these brokers are in sync, as broker 1 says.

    Where nothing is broken it does not come to that; the fault that never fired says so.
    """
    with suppress(WaitTimeout):
        wait_until(
            lambda: run.in_sync(broker=1) == brokers,
            f"the ISR to be {brokers}",
            timeout_s=10,
            every_s=0.1,
        )


def by_all_then_by_one(run, after=1, until_alone=False):
    """The first orders are on all replicas when acked; the leader alone answers for the rest.

    With `until_alone` it waits after the first of these until the ISR is the leader alone, too.
    """
    for acks, orders in (("all", run.orders[:after]), ("1", run.orders[after:])):
        producer = run.producer({"acks": acks})
        for order in orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()
            if until_alone and order == run.orders[after]:
                wait_for_isr(run, [1])
