"""The checks of a tiny lab with one exercise of each kind, for the tests of the grader."""

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    acked,
    answer_equals,
    each_order_is_stored,
    no_order_is_stored_twice,
    nothing_else_is_stored,
    rows_equal,
    taken_back,
    taken_back_alone,
    the_process_was_restarted,
)
from lab_utils.proxy.faults import crash_client, drop_request, drop_response

ONCE = (each_order_is_stored, no_order_is_stored_twice, nothing_else_is_stored)


def one_at_a_time(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()


def second_copy(evidence):
    """The order that is stored twice, and the offset of its second copy."""
    seen = set()
    for row in evidence.log:
        if row.value in seen:
            return {"order": row.value, "second_copy": row.offset}
        seen.add(row.value)
    return {}


def breaks_for_a_list(answer, _):
    """A rule that is broken: it raises where the answer is a list."""
    return 1 / 0 if isinstance(answer, list) else None


def lost_at(nth):
    fault = drop_response("Produce", nth=nth)
    return Trial(name="a lost answer", faults=(fault,), assumes=taken_back)


def lost_somewhere(place):
    """At the first request nothing can have been sent in vain, to meet the fault."""
    fault = drop_request("Produce", nth=place.randint(2, 6))
    lost_request = Trial(name="a lost request", faults=(fault,), assumes=taken_back)
    return [lost_at(place.randint(2, 6)), lost_request]


def reference(orders):
    faults = (drop_response("Produce", nth=3),)
    return Trial(name="a lost answer", faults=faults, orders=orders, workload=one_at_a_time)


def crash_at(nth):
    faults = (crash_client("after_ack", nth=nth),)
    return Trial(name="a crash", faults=faults, orders=5, assumes=taken_back_alone)


EXERCISES = {
    "90.1": Exercise(
        title="A value",
        points=2,
        kind="value",
        answer="answer_1",
        public=(reference(5),),
        rules=(breaks_for_a_list, answer_equals(second_copy)),
        mistakes={
            "first copy": Mistake(
                is_made=lambda answer, _: answer["second_copy"] == 2,
                likely="that is the offset of the first copy.",
            ),
        },
    ),
    "90.2": Exercise(
        title="A workload",
        points=4,
        kind="workload",
        answer="send_once",
        public=(lost_at(3),),
        unseen=drawn(lost_somewhere),
        rules=ONCE,
        mistakes={
            "no idempotence": Mistake(
                is_made=lambda _, seen: all(row.producer_id == -1 for row in seen.requests()),
                likely="the retry carried no producer id.",
                look="Look at the Produce requests of the run.",
            ),
        },
    ),
    "90.3": Exercise(
        title="A query",
        points=3,
        kind="query",
        answer="count_acked",
        public=(reference(4),),
        unseen=drawn(lambda place: [reference(place.randint(4, 9))]),
        rules=(rows_equal(lambda seen: [{"acked": len(acked(seen))}]),),
    ),
    "90.4": Exercise(
        title="A fault",
        points=1,
        kind="faults",
        answer="fault_4",
        public=(Trial(name="your fault", workload=one_at_a_time),),
        rules=(each_order_is_stored,),
    ),
    "90.5": Exercise(
        title="A restart",
        points=2,
        kind="workload",
        answer="send_the_rest",
        public=(crash_at(2),),
        unseen=drawn(lambda place: [crash_at(place.randint(1, 4))]),
        rules=(the_process_was_restarted, *ONCE),
    ),
}
