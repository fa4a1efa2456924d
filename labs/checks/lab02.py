"""The checks of lab 02: Who must have it before I am safe?"""

from contextlib import suppress

from lab_utils.errors import WaitTimeout
from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import Misshapen, orders_in_runs, rows_equal
from lab_utils.proxy.faults import cut_link, drop_response, kill_broker, pause_broker, resume_broker
from lab_utils.waiting import wait_until

# Until another broker leads, a slow machine may take longer than the lab's own 15 s. A wrong answer
# is given up then, within the time that its run has (90 s).
GIVEN_UP_MS = 45_000


def one_at_a_time(run, settings=None):
    """Each order with these producer settings, one after the other."""
    producer = run.producer({"acks": "all"} | (settings or {}))
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()


def until_given_up(last):
    """Each order, one after the other, until one is given up: then writes do not go on.

    last   the number of the Produce request at which the trial's last fault fires: each order is
           at least one, so before that many nothing is proved
    """

    def workload(run, settings):
        producer = run.producer({"message.timeout.ms": GIVEN_UP_MS} | settings)
        errors = []
        for number, order in enumerate(run.orders, 1):
            producer.produce(
                run.topic, order, partition=0, on_delivery=lambda error, _: errors.append(error)
            )
            producer.flush()
            if number >= last and any(errors):
                return

    return workload


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


def by_all_then_by_one(run):
    """The first order is on every in-sync replica when acked; the leader alone acks the rest."""
    for acks, orders in (("all", run.orders[:1]), ("1", run.orders[1:])):
        producer = run.producer({"acks": acks})
        for order in orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()


def either_way(run, alone):
    """Orders that the leader alone acks, and others that all in sync do, before `alone` and after.

    So neither acks nor the producer tells which orders one broker had: all have the very first with
    the next one, and who is in sync is the leader alone when it has number `alone`.
    """
    by_one, by_all = run.producer({"acks": "1", "retries": 0}), run.producer({"acks": "all"})
    for number, order in enumerate(run.orders):
        producer = by_all if 0 < number < alone or number == alone + 2 else by_one
        producer.produce(run.topic, order, partition=0)
        producer.flush()
        if number == alone:
            wait_for_isr(run, [1])


def decided(evidence):
    """The ISRs of the run's partition, each as it was decided, oldest first."""
    rows = evidence.history.of("broker", "partition")
    return [row for row in rows if row.topic.endswith("-orders")]


MOMENTS = ("at the start", "3 is paused", "3 is back", "1 is dead")


def members(row):
    """The ISR of one decision as numbers."""
    return sorted(int(broker) for broker in row.detail["isr"].split())


def four_moments(evidence):
    """The ISR at the start, with 3 paused, with 3 back, and with 1 dead.

    Where it did not change so, the run proves nothing.
    """
    seen = [members(row) for row in decided(evidence)]
    before_the_end = seen[: next((i for i, isr in enumerate(seen) if 1 not in isr), len(seen)) + 1]
    found = [isr for i, isr in enumerate(before_the_end) if i == 0 or isr != before_the_end[i - 1]]
    if len(found) != len(MOMENTS):
        raise StopIteration
    return dict(zip(MOMENTS, found, strict=True))


def first_wrong(answer, right):
    """The first name that has not the right list of brokers, and what the answer says; or None."""
    for name, brokers in right.items():
        said = answer.get(name)
        if not isinstance(said, list) or sorted(map(str, said)) != [str(it) for it in brokers]:
            return name, said
    return None


def each_list_is(right_of):
    """A rule: has each name the list of brokers that this finds? The right one is not told."""

    def is_right(answer, evidence):
        if not (wrong := first_wrong(answer, right_of(evidence))):
            return None
        name, said = wrong
        if not isinstance(said, list):
            return Misshapen(f"{name}: you said {said!r}, and that is no list of brokers.")
        return f"{name}: you said {said}, and that is not what happened."

    return is_right


def tells_of(right_of, *names, of=lambda _: True):
    """Does the verdict tell of one of these names, and of such a list of brokers?"""

    def is_made(answer, evidence):
        name, said = first_wrong(answer, right_of(evidence))
        return name in names and of(said)

    return is_made


def acked_alone(evidence):
    """The orders that were acked and that, before anything was repaired, one broker had."""
    return [{"value": value} for value, brokers in acked_by(evidence).items() if brokers < 2]


def acked_by(evidence):
    """Each acked order, and how many brokers had it before anything was repaired."""
    history = evidence.history
    acked = history.of("client", "acked")
    ends = history.log_ends(acked[0].topic).values() if acked else ()
    return {row.value: sum(end > row.offset for end in ends) for row in acked}


def acked_in_an_isr_of_one(evidence):
    """The orders that were acked while the ISR had one member: some of those above."""
    decisions = decided(evidence)
    found = set()
    for row in evidence.history.of("client", "acked"):
        before = [each for each in decisions if each.at_ns <= row.at_ns]
        if before and len(members(before[-1])) == 1:
            found.add(row.value)
    return found


def alone(after):
    """The leader loses one link after so many answers to acks=all, the other after one more.

    So an order is on two brokers, and then each is on the leader alone. The answer to one of these
    is lost, and nothing sends it again: it is stored, and not acked. Then the followers lose their
    link, which changes nothing.
    """
    return Trial(
        name="a leader on its own",
        faults=(
            cut_link(1, 2, api="Produce", nth=after + 1),
            cut_link(1, 3, api="Produce", nth=after + 2),
            drop_response("Produce", nth=after + 4),
            cut_link(2, 3, api="Produce", nth=after + 5),
        ),
        orders=8,
        brokers=3,
        workload=lambda run: either_way(run, after + 2),
    )


def outcome(evidence):
    """What became of a run: lost, unavailable, duplicated or nothing."""
    stored = evidence.stored
    if evidence.history.told_stored - set(stored):
        return "lost"
    if len(set(stored)) < len(evidence.orders):
        return "unavailable"
    return "duplicated" if len(stored) > len(set(stored)) else "nothing"


def it_survives(_, evidence):
    """Is nothing acked lost, and do writes go on until every order is stored?"""
    lost = evidence.history.told_stored - set(evidence.stored)
    if lost:
        return f"{evidence.trial.name}: {len(lost)} acked orders are not in the log."
    for row in evidence.history.of("client", "failed", "unknown"):
        return f"{evidence.trial.name}: {row.value} was given up ({row.error}); writes ended."
    stored, sent = len(set(evidence.stored)), len(evidence.orders)
    return None if stored == sent else f"{evidence.trial.name}: {stored} of {sent} are stored."


def leader_dies_cut_off(nth, last):
    """The leader has no followers behind the nth request, and dies with the last in its hands.

    Without the cuts it could still pass that one on, or not, before it is gone.
    """
    return (
        cut_link(1, 2, api="Produce", nth=nth),
        cut_link(1, 3, api="Produce", nth=nth),
        kill_broker(1, api="Produce", nth=last, when="received"),
    )


def failures(nth, follower):
    """A leader that dies cut off, a follower that dies."""
    return tuple(
        Trial(name=name, faults=faults, orders=8, brokers=3, workload=until_given_up(last))
        for name, faults, last in (
            ("the leader dies, cut off", leader_dies_cut_off(nth, nth + 2), nth + 2),
            ("a follower dies", (kill_broker(follower, api="Produce", nth=nth),), nth),
        )
    )  # fmt: skip


def without(line, faults, *, config=None, producer=None, orders=5):
    """A run that breaks one line of the checklist; its name is that line."""
    return Trial(
        name=line,
        faults=faults,
        orders=orders,
        brokers=3,
        topic_config=config if config is not None else {"min.insync.replicas": 2},
        workload=lambda run: one_at_a_time(run, producer),
    )


LEADER_DIES = (cut_link(1, 2), cut_link(1, 3), kill_broker(1, api="Produce", nth=3))
ALONE_THEN_DEAD = (
    pause_broker(2, api="Produce", nth=1),
    pause_broker(3, api="Produce", nth=1),
    kill_broker(1, api="Produce", nth=4),
    resume_broker(2, api="Produce", nth=4),
    resume_broker(3, api="Produce", nth=4),
)
CHECKLIST = (
    without("acks=all", LEADER_DIES, producer={"acks": "1"}),
    without("replicas > min.insync.replicas", (kill_broker(3, api="Produce", nth=2),),
            config={"min.insync.replicas": 3},
            producer={"message.timeout.ms": 6000}, orders=4),
    without("unclean election off", ALONE_THEN_DEAD,
            config={"min.insync.replicas": 1, "unclean.leader.election.enable": "true"}, orders=5),
    without("retries", leader_dies_cut_off(nth=1, last=2),
            producer={"retries": 0, "message.timeout.ms": 5000}, orders=3),
)  # fmt: skip


def the_line_matters(answer, evidence):
    """Is the outcome of the run without this line the one that was answered?"""
    line, seen = evidence.trial.name, outcome(evidence)
    if answer.get(line) == seen:
        return None
    return f"without {line!r}: you said {answer.get(line)!r}, and that is not what happened."


def places(evidence):
    """On which brokers two orders were when the leader died: what survived was on all of them."""
    run = evidence.history
    # The moment on the wire; that a broker has ended is seen later, on a busy machine by seconds.
    killed = next(it.at_ns for it in run.of("fault", "fired") if it.actor == "kill_broker")
    acked = [row.value for row in run.of("client", "acked") if row.at_ns < killed]
    return {
        name: [1, 2, 3] if value in evidence.stored else [1]
        for name, value in (("the first order", acked[0]), ("the last order before", acked[-1]))
    }


EXERCISES = {
    "02.1": Exercise(
        title="Who is in sync?",
        points=4,
        kind="value",
        answer="answer_1",
        public=(
            Trial(
                name="four moments",
                faults=(
                    pause_broker(3, api="Produce", nth=1),
                    resume_broker(3, api="Produce", nth=3),
                    kill_broker(1, api="Produce", nth=4),
                ),
                orders=5,
                brokers=3,
                workload=through_four_moments,
            ),
        ),
        rules=(each_list_is(four_moments),),
        mistakes={
            "paused is in sync": Mistake(
                is_made=tells_of(four_moments, "3 is paused", of=lambda said: 3 in said),
                likely="a follower that fetches nothing leaves after replica.lag.time.max.ms.",
                look="Look at watched.replicas(), at the lane of broker 3.",
            ),
            "once out, always out": Mistake(
                is_made=tells_of(four_moments, "3 is back", of=lambda said: 3 not in said),
                likely="a follower that has caught up is in sync again.",
                look="Look at the last ISR of the run `watched`.",
            ),
            "the dead are in sync": Mistake(
                is_made=tells_of(four_moments, "1 is dead", of=lambda said: 1 in said),
                likely="the controller takes a dead leader out of the ISR when it picks another.",
                look="Look at unclean.replicas(): who is in the ISR when broker 1 is dead?",
            ),
            "others leave, too": Mistake(
                is_made=tells_of(four_moments, *MOMENTS),
                likely="who keeps up stays in the ISR, whoever else leaves it.",
                look="Look at watched.replicas(), at the lanes of brokers 1 and 2.",
            ),
        },
        blank="Fill in a list of brokers, as [1, 2], for each of the four moments.",
    ),
    "02.2": Exercise(
        title="Acked by one alone",
        points=4,
        kind="query",
        answer="acked_alone",
        public=(alone(1),),
        unseen=drawn(lambda place: [alone(place.randint(2, 3))]),
        rules=(rows_equal(acked_alone),),
        mistakes={
            "stored, and not acked": Mistake(
                is_made=lambda _, seen: {*seen.column("value")} - acked_by(seen).keys(),
                likely="your query returns an order that no report calls a success.",
                look="Look at the kinds of events that the client wrote of that order.",
            ),
            "all acked": Mistake(
                is_made=lambda _, seen: {*seen.column("value")} == acked_by(seen).keys(),
                likely="your query returns what more than one broker had, too.",
                look="Look at where the log of each follower ended when the links were cut.",
            ),
            "acks=1 is one broker": Mistake(
                is_made=lambda _, seen: 3 in map(acked_by(seen).get, seen.column("value")),
                likely="acks=1 waits for no follower, and yet the followers may have the order.",
                look="Look at how many log ends are above the offset of the first order.",
            ),
            "not on every broker": Mistake(
                is_made=lambda _, seen: 2 in map(acked_by(seen).get, seen.column("value")),
                likely="two brokers had one of these orders: the leader lost one link first.",
                look="Look at how many log ends are above the offset of each order.",
            ),
            "an ISR of one": Mistake(
                is_made=lambda _, seen: {*seen.column("value")} == acked_in_an_isr_of_one(seen),
                likely="who is in the ISR need not have the order: it shrinks a second later.",
                look="Look at the log ends between the cut of the links and the smaller ISR.",
            ),
            "since the last cut": Mistake(
                is_made=lambda _, seen: (
                    seen.returned
                    and {*seen.column("value")} < {row["value"] for row in acked_alone(seen)}
                ),
                likely="an order that one broker had is not in your result.",
                look="Look at which brokers are at the two ends of each link that was cut.",
            ),
            "when all was repaired": Mistake(
                is_made=lambda _, seen: not seen.returned,
                likely="in the end every broker has every order: the lab has repaired the links.",
                look="Look at the time of the event `healing`, and at the log ends before it.",
            ),
        },
    ),
    "02.3": Exercise(
        title="Settings that survive",
        points=6,
        kind="settings",
        answer="answer_3",
        public=failures(2, 3),
        unseen=drawn(lambda place: failures(place.randint(1, 4), place.choice((2, 3)))),
        rules=(it_survives,),
        mistakes={
            "acks too low": Mistake(
                is_made=lambda answer, _: str(answer["producer"].get("acks", "all")) in "01",
                likely="the leader answered for itself alone.",
                look="Look at which replicas had the record when the leader died.",
            ),
            "too few replicas": Mistake(
                is_made=lambda answer, _: answer["replicas"] < 3,
                likely="with fewer than three replicas there is none to spare.",
                look="Look at the run in which a follower dies.",
            ),
            "no replica to spare": Mistake(
                is_made=lambda answer, _: (
                    str(answer["topic"].get("min.insync.replicas")) == str(answer["replicas"])
                ),
                likely="min.insync.replicas is as high as the number of replicas.",
                look="Look at the error of the reports when one follower is dead.",
            ),
            "one is enough": Mistake(
                is_made=lambda answer, _: (
                    str(answer["topic"].get("min.insync.replicas", "1")) == "1"
                ),
                likely="with min.insync.replicas=1 a leader on its own goes on answering.",
                look="Look at who could lead when that leader died.",
            ),
        },
        passed=orders_in_runs("failures, nothing acked was lost, and writes went on."),
        blank="Fill in all settings that are `...`.",
    ),
    "02.4": Exercise(
        title="The checklist, line by line",
        points=4,
        kind="value",
        answer="answer_4",
        public=CHECKLIST,
        rules=(the_line_matters,),
        mistakes={
            "refused is lost": Mistake(
                is_made=lambda answer, seen: (
                    answer.get(seen.trial.name) == "lost" and outcome(seen) == "unavailable"
                ),
                likely="the broker refused that order: it never said that it had stored it.",
                look="Look at the reports of that run: were the missing orders acked?",
            ),
            "acked is stored": Mistake(
                is_made=lambda _, seen: outcome(seen) == "lost",
                likely="orders of that run were acked when only the leader had them, and it died.",
                look="Look at unclean.replicas(): what became of the orders that broker 1 had?",
            ),
            "given up is stored": Mistake(
                is_made=lambda _, seen: outcome(seen) == "unavailable",
                likely="an order of that run was given up: it was not acked, and it is not stored.",
                look="Look at floor.log: which of its three orders is not there, and why?",
            ),
        },
        blank='Fill in "lost", "unavailable", "duplicated" or "nothing" for each line.',
    ),
    "02.5": Exercise(
        title="Where was it?",
        points=2,
        kind="value",
        answer="answer_5",
        public=(
            Trial(
                name="the leader dies",
                faults=(
                    cut_link(1, 2, api="Produce", nth=1),
                    cut_link(1, 3, api="Produce", nth=1),
                    kill_broker(1, api="Produce", nth=3),
                ),
                orders=4,
                brokers=3,
                topic_config={"min.insync.replicas": 2},
                workload=by_all_then_by_one,
            ),
        ),
        rules=(each_list_is(places),),
        mistakes={
            "acked is everywhere": Mistake(
                is_made=tells_of(places, "the last order before"),
                likely="with acks=1 the leader acks as soon as it has the order, and nobody else.",
                look="Look at where the log of each follower ended in the picture above.",
            ),
            "acked by all is on one": Mistake(
                is_made=tells_of(places, "the first order"),
                likely="with acks=all each in-sync replica has the order before it is acked.",
                look="Look at who was in sync in the picture above, before the links were cut.",
            ),
        },
        blank="Fill in a list of brokers for both orders.",
    ),
}
