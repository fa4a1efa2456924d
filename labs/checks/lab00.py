"""The checks of lab 00: Where is my message?"""

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import acked, answer_equals, rows_equal, times
from lab_utils.ledger.history import REPORTS
from lab_utils.proxy.faults import delay_response, drop_response


def send_orders(run):
    """The workload of the lab's first run."""
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order)
        producer.flush()


def impatient(run):
    """The workload that gives an order one second."""
    producer = run.producer({"message.timeout.ms": 1000})
    for order in run.orders:
        producer.produce(run.topic, order)
        producer.flush()


def impatient_and_again(run):
    """The impatient one, whose program sends its first order four times."""
    producer = run.producer({"message.timeout.ms": 1000})
    for order in [*run.orders[:1] * 3, *run.orders]:
        producer.produce(run.topic, order)
        producer.flush()


def eventful(orders, lost, late):
    """A run in which sent, reported, ordered, acked and stored are five different numbers.

    One order is sent four times: its first and its last answer are late, so it is unknown, acked
    and unknown again, and one is lost, so one more record is stored. The only answers about some
    other orders are late, too.
    """
    faults = (
        drop_response("Produce", nth=lost),
        *(delay_response("Produce", nth=nth, by_ms=4000) for nth in (1, 5, *late)),
    )
    return Trial(
        name="late answers and a lost one",
        faults=faults,
        orders=orders,
        workload=impatient_and_again,
    )


def eventful_somewhere(place):
    """An eventful run at positions drawn anew, and nobody knows how many orders are late."""
    late = place.choice(((7, 9), (6, 7, 9), (7, 8, 9), (6, 7, 8, 9)))
    return [eventful(place.randint(9, 10), place.randint(2, 3), late)]


def returned_count(evidence):
    """The one number that the learner's query returned, or None."""
    rows = evidence.returned or ()
    return next(iter(rows[0].values()), None) if len(rows) == 1 else None


def outcome_of_order_3(evidence):
    """What the report of order 3 said, and at which offset the log holds it.

    A run proves nothing on a machine that is too slow for it: another order was late, too, so the
    offsets are others; or the client looked at its clock so late that it still took the answer.
    """
    if {*evidence.orders} - acked(evidence) != {"3"}:
        raise StopIteration
    reports = evidence.history.of("client", *REPORTS)
    kinds = [row.kind for row in reports if row.value == "3"]
    offsets = {row.value: row.offset for row in evidence.log}
    return {"outcome": kinds[-1], "offset": offsets.get("3")}


EXERCISES = {
    "00.1": Exercise(
        title="Count the acked orders",
        points=2,
        kind="query",
        answer="count_acked",
        public=(eventful(6, lost=3, late=(7, 9)),),
        unseen=drawn(eventful_somewhere),
        rules=(rows_equal(lambda evidence: [{"acked": len(acked(evidence))}]),),
        mistakes={
            "counted reports": Mistake(
                is_made=lambda _, seen: (
                    returned_count(seen) == len(seen.history.of("client", "acked"))
                ),
                likely="you counted reports, and an order that was sent again has several.",
                look="Look at how often each value occurs among the acked events.",
            ),
            "counted what was sent": Mistake(
                is_made=lambda _, seen: (
                    returned_count(seen)
                    in (len(seen.history.of("client", "sent")), len(seen.orders))
                ),
                likely="your number includes an order that no report calls a success.",
                look="Look at the kinds of events that the client wrote.",
            ),
            "took away what is unknown": Mistake(
                is_made=lambda _, seen: (
                    returned_count(seen)
                    == len(
                        {*seen.orders} - {row.value for row in seen.history.of("client", "unknown")}
                    )
                ),
                likely="an order that was sent more than once may be both unknown and acked.",
                look="Look at all reports about the first order.",
            ),
            "counted the log": Mistake(
                is_made=lambda _, seen: returned_count(seen) == len(seen.stored),
                likely="you counted records in the log, and acked is a word about the client.",
                look="Look at the column `source`.",
            ),
        },
    ),
    "00.2": Exercise(
        title="Name the outcome",
        points=2,
        kind="value",
        answer="answer_2",
        public=(
            Trial(
                name="a late answer",
                faults=(delay_response("Produce", nth=4, by_ms=4000),),
                orders=6,
                workload=impatient,
            ),
        ),
        rules=(answer_equals(outcome_of_order_3),),
        mistakes={
            "an error is a failure": Mistake(
                is_made=lambda answer, _: answer["outcome"] == "failed",
                likely="you read an error report as a statement about the log.",
                look="Look at late.log, then at the two words that have to do with errors.",
            ),
            "a stored order is acked": Mistake(
                is_made=lambda answer, _: answer["outcome"] == "acked",
                likely="you named what the log shows; the client had no answer when it reported.",
                look="Look at the row of order 3 among the reports.",
            ),
            "not in the log": Mistake(
                is_made=lambda answer, _: answer["offset"] is None,
                likely="you took the offset from the report, which has none.",
                look="Look at late.log.",
            ),
            "another place": Mistake(
                is_made=lambda answer, seen: (
                    answer["offset"] in {row.offset for row in seen.log if row.value != "3"}
                ),
                likely="another order has that offset.",
                look="Look at late.log: its first order has offset 0.",
            ),
            "a number as text": Mistake(
                is_made=lambda answer, _: isinstance(answer["offset"], str),
                likely="`offset` is a text, and the question asks for a number.",
            ),
        },
        blank='Fill in both names, as in answer_2 = {"outcome": "...", "offset": ...}.',
    ),
    "00.3": Exercise(
        title="A run that proves nothing",
        points=1,
        kind="faults",
        answer="fault_3",
        public=(Trial(name="your fault", orders=10, workload=send_orders),),
        rules=(),
        mistakes={
            "too late": Mistake(
                is_made=lambda _, seen: any(
                    getattr(fault, "nth", 1) > len(seen.requests(getattr(fault, "api", "")))
                    for fault in seen.trial.faults
                ),
                likely="the fault waits for a request that never comes.",
                look="Count the requests of that API in _.timeline(apis=None), then look at nth.",
            ),
        },
        passed=lambda _, evidence: (
            f"the fault fired {times(len(evidence[0].faults('fired')))}, so this run proves "
            f"something: {len(evidence[0].orders)} orders, {len(evidence[0].stored)} in the log."
        ),
    ),
}
