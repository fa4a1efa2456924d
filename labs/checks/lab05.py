"""The checks of lab 05: Which bookmark survives the crash?"""

from collections import Counter

from confluent_kafka import TopicPartition

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    and_more,
    missing,
    nothing_else_is_stored,
    repeated,
    rows_equal,
    the_process_was_restarted,
)
from lab_utils.ledger.history import carried, topic_partition
from lab_utils.proxy.faults import crash_client, stall_client

RECEIPTS = ("receipts",)
LAST_SKIPPED = 9  # of 05.4; the bookmark is after it
# The points at which 05.1 kills the loop, while it is busy with the third order.
BUSY = ("after_poll", "after_process", "after_commit")


def process_then_commit(run):
    """The lab's first workload."""
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        consumer.commit(message, asynchronous=False)


def both_ways(run):
    """Odd offsets are committed before the work, even ones after it.

    The last but one is polled and left as it is, and the last one is not read. The bookmark goes
    past the last but one and comes back: where it was is not where it is.
    """
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        if message.offset() > 9:
            for offset in (message.offset() + 1, message.offset()):
                place = TopicPartition(run.topic, message.partition(), offset)
                consumer.commit(offsets=[place], asynchronous=False)
            break
        steps = [lambda it: consumer.commit(it, asynchronous=False), run.processed]
        for step in steps if message.offset() % 2 else reversed(steps):
            step(message)


def shares(run):
    """One of two consumers that share the partitions; each commits after every second order."""
    settings = {"session.timeout.ms": 2000, "max.poll.interval.ms": 2000}
    consumer = run.consumer({"enable.auto.commit": False} | settings)
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        if message.offset() % 2:
            consumer.commit(message, asynchronous=False)


def committed(evidence, when):
    """The offsets that the broker held as committed at a crash or at the end, by partition."""
    return {
        row.partition: row.offset
        for row in evidence.rows
        if (row.source, row.kind, row.detail.get("when")) == ("log", "committed", when)
    }


def it_reads_on_there(answer, evidence):
    """Is the answer for this trial's crash the offset from which the next process read?"""
    point = evidence.trial.faults[0].at
    if answer[point] == committed(evidence, "crash")[0] and type(answer[point]) is int:
        return None
    return f"{point} = {answer[point]!r}, and that is not where the next process read on."


def receipts_are_of_the_work(_, evidence):
    """Has run.processed written each receipt? Of each process it has one producer."""
    wrote = {
        (row.actor, row.producer_id)
        for row in evidence.requests() if row.topic == f"{row.run}-receipts"
    }  # fmt: skip
    workers = {actor for actor, _ in wrote if actor.startswith("worker-")}
    if len(workers) == len(wrote):
        return None
    return "your function wrote receipts itself. Leave that to run.processed(message)."


def each_order_is_processed(_, evidence):
    """Is there a receipt for every order?"""
    undone = missing(evidence, Counter(evidence.stored))
    return f"order {undone[0]} was never processed{and_more(undone)}." if undone else None


def no_bookmark_is_ahead(_, evidence):
    """Was there a receipt for each order before a bookmark was set after it, by whom ever?

    So it needs no kill to see that a later process is careless, or one that a kill has missed.
    """
    done_ns = told_of_receipts(evidence)
    for asked, set_ns in bookmarks(evidence):
        if asked.topic is None:
            return "a request set the bookmarks of several partitions, and run.topic has one."
        for row in evidence.given:
            is_past = topic_partition(row) == topic_partition(asked) and row.offset < (
                asked.offset or 0
            )
            if is_past and done_ns.get(row.value, set_ns) >= set_ns:
                return (
                    f"a bookmark was set to {asked.offset} when order {row.value}, at offset "
                    f"{row.offset}, was not processed yet."
                )
    return None


def told_of_receipts(evidence):
    """When the broker first said of each order that its receipt is stored."""
    told_ns = {}
    for exchange in evidence.history.exchanges:
        for row in exchange.requests if exchange.response else ():
            if row.topic == f"{row.run}-receipts" and exchange.told_stored(row):
                for value in carried(row):
                    told_ns.setdefault(value, exchange.response.at_ns)
    return told_ns


def bookmarks(evidence):
    """The requests that set a bookmark, each with its moment: in a transaction this is the end."""
    for row in evidence.requests("OffsetCommit"):
        yield row, row.at_ns
    ends = [row for row in evidence.requests("EndTxn") if row.detail["committed"] == "True"]
    for row in evidence.requests("TxnOffsetCommit"):
        own = (it.at_ns for it in ends if it.producer_id == row.producer_id)
        if (set_ns := next((it for it in own if it > row.at_ns), None)) is not None:
            yield row, set_ns


def the_bookmark_is_at_the_end(_, evidence):
    """Does the group read on behind the last order?"""
    held = committed(evidence, "end")
    for partition, given in Counter(row.partition for row in evidence.given).items():
        if held.get(partition) != given:
            where = held.get(partition, "nowhere")
            return f"the bookmark of partition {partition} is {where}; there are {given} orders."
    return None


def says_what_was_processed(_, evidence):
    """What is said of a loop that passed; each receipt is of an order that was processed."""
    orders = sum(len(each.orders) for each in evidence)
    again = sum(len(repeated(each, Counter(each.stored))) for each in evidence)
    return f"{orders} orders, each processed; {again} of them more than once."


def commits(evidence):
    """The OffsetCommit requests of the process that was killed."""
    return [row for row in evidence.requests("OffsetCommit") if row.actor == "consumer-1"]


def receipts(evidence):
    """The receipts that the process wrote that was killed."""
    return [row for row in evidence.requests() if row.actor == "worker-1"]


def lost(evidence):
    """The places of the orders that have no receipt."""
    return [row.offset for row in evidence.given if row.value not in evidence.stored]


def killed(at_work, done):
    """One process is killed with an order in hand, and one after an order.

    The successor of the first is killed with the last order in hand: it has to be as careful. Each
    order takes longer than automatic commits wait, in each process.
    """
    slow = stall_client("before_process", for_ms=250, once=False)
    in_hand = (crash_client("before_process", value=it) for it in (str(at_work), "5"))
    after = crash_client("after_process", value=str(done))
    return (
        Trial(name="killed at work", faults=(slow, *in_hand), filled=True, topics=RECEIPTS),
        Trial(name="killed after the work", faults=(slow, after), filled=True, topics=RECEIPTS),
    )


def one_is_slow(order):
    """One of four threads is slow, in each process.

    One is killed at its first commit, and the next one when a commit is past the slow order.
    """
    slow = stall_client("before_process", value=str(order), for_ms=3000, once=False)
    faults = (slow, crash_client("after_commit"), crash_client("after_commit", value=str(order)))
    return Trial(
        name="a slow order", faults=faults, filled=True, topics=RECEIPTS, assumes=nobody_waited
    )


def nobody_waited(evidence):
    """What the trial lacks if no order was done before an earlier one: one thread loses none."""
    first_ns = min((row.at_ns for row in commits(evidence)), default=None)
    done = {
        value
        for row in receipts(evidence) if first_ns is None or row.at_ns < first_ns
        for value in carried(row)
    }  # fmt: skip
    in_work = [row.offset for row in evidence.given if row.value not in done]
    if any(row.value in done and row.offset > min(in_work) for row in evidence.given if in_work):
        return None
    return (
        "when the bookmark was first set, no order was done before an earlier one, as is the case "
        "when four threads work"
    )


def skipped_and_repeated(evidence):
    """The outcome of each order that was not processed once, though the bookmark is behind it."""
    run = evidence.history
    skipped = [{"value": row.value, "outcome": "skipped"} for row in run.skipped]
    return skipped + [{"value": value, "outcome": "repeated"} for _, _, value in run.repeated]


def four_crashes(skip, repeat):
    """An odd order is skipped, an even one after it is repeated, and one only delivered again.

    The last crash skips the order right before the bookmark.
    """
    faults = (
        crash_client("before_process", nth=skip + 1),
        crash_client("after_process", nth=repeat - skip),
        crash_client("after_poll", nth=2),
        crash_client("before_process", nth=LAST_SKIPPED - repeat),
    )
    return Trial(name="four crashes", faults=faults, orders=12, filled=True, workload=both_ways)


def who_may_commit(evidence):
    """Who was given the partition before the refused commit, its error, and what was done twice."""
    run = evidence.history
    refused = next(row for row in run.of("client", "error") if row.detail.get("of") == "commit")
    mine = next(row for row in run.of("client", "delivered") if row.actor == refused.actor)
    owner = [
        row.actor
        for row in run.of("client", "assigned")
        if row.partition == mine.partition and row.at_ns < refused.at_ns
    ][-1]
    return {"owner": owner, "refused": refused.error, "repeated": len(run.repeated)}


def is_who_may_commit(answer, evidence):
    """Is the answer what happened?"""
    right = who_may_commit(evidence)
    wrong = [name for name in right if answer[name] != right[name]]
    return f"{wrong[0]} = {answer[wrong[0]]!r}, and that is not what happened." if wrong else None


LOSES_NOTHING = (
    receipts_are_of_the_work,
    nothing_else_is_stored,
    each_order_is_processed,
    the_bookmark_is_at_the_end,
    the_process_was_restarted,
    no_bookmark_is_ahead,
)

EXERCISES = {
    "05.1": Exercise(
        title="Where does it read on?",
        points=3,
        kind="value",
        answer="answer_1",
        public=tuple(
            Trial(
                name=point,
                faults=(crash_client(point, nth=3),),
                filled=True,
                workload=process_then_commit,
            )
            for point in BUSY
        ),
        rules=(it_reads_on_there,),
        mistakes={
            "text": Mistake(
                is_made=lambda answer, _: any(isinstance(it, str) for it in answer.values()),
                likely="an offset is a number.",
            ),
            "the last one": Mistake(
                is_made=lambda answer, _: answer["after_commit"] == 2 and answer["after_poll"] == 1,
                likely="you named the last record that was done; a bookmark names another one.",
                look="Look at what committed says in the Words above.",
            ),
            "done is committed": Mistake(
                is_made=lambda answer, seen: (
                    seen.trial.name == "after_process" and answer["after_process"] == 3
                ),
                likely="you took the work that was done for the position that was committed.",
                look="Look at repeated.bookmarks(): what came first, the crash or the commit?",
            ),
            "delivered is committed": Mistake(
                is_made=lambda answer, seen: (
                    seen.trial.name == "after_poll" and answer["after_poll"] == 3
                ),
                likely="the client knew its position; the broker knows only what was committed.",
                look="Look at which line of the workload comes after poll().",
            ),
            "nothing is committed": Mistake(
                is_made=lambda answer, seen: (
                    seen.trial.name == "after_commit" and answer["after_commit"] == 2
                ),
                likely="after that commit the broker had heard of order 2.",
                look="Look at what committed says in the Words above.",
            ),
            "an earlier one": Mistake(
                is_made=lambda answer, seen: answer[seen.trial.name] < committed(seen, "crash")[0],
                likely="the orders before had been committed, each after its own work.",
                look="Look at repeated.bookmarks(): where was the bookmark at the crash?",
            ),
        },
        blank='Fill in answer_1 = {"after_poll": ..., "after_process": ..., "after_commit": ...}.',
    ),
    "05.2": Exercise(
        title="Lose nothing",
        points=5,
        kind="workload",
        answer="loses_nothing",
        public=killed(at_work=3, done=2),
        unseen=drawn(lambda place: killed(place.randint(2, 4), place.randint(1, 4))),
        rules=LOSES_NOTHING,
        passed=says_what_was_processed,
        mistakes={
            "does nothing": Mistake(
                is_made=lambda _, seen: not seen.stored,
                likely="the records were polled, and nothing was done with them.",
                look="Look at what the loop does with each message.",
            ),
            "careful once": Mistake(
                is_made=lambda _, seen: lost(seen) == [len(seen.given) - 1],
                likely="the process that was killed first lost nothing, and its successor did.",
                look="Look at what your loop does in another way when it is started again.",
            ),
            "commits first": Mistake(
                is_made=lambda _, seen: lost(seen) and commits(seen),
                likely="the bookmark was moved before the work was done, by you or by the client.",
                look="Look at what comes first, and at `enable.auto.commit`: what is it "
                "if the program does not set it?",
            ),
            "commits nothing": Mistake(
                is_made=lambda _, seen: not seen.requests("OffsetCommit"),
                likely="no OffsetCommit request crossed the wire, so every restart begins at 0.",
            ),
            "careless later": Mistake(
                is_made=no_bookmark_is_ahead,
                likely="one of the processes did not do its work before its commit.",
                look="Look at what your loop does in another way when it is started again.",
            ),
        },
        blank="Look at what the loop does with each message, and whether it does anything.",
    ),
    "05.3": Exercise(
        title="The bookmark of four threads",
        points=5,
        kind="workload",
        answer="with_four_threads",
        public=(one_is_slow(1),),
        unseen=drawn(lambda place: [one_is_slow(place.randint(1, 4))]),
        rules=LOSES_NOTHING,
        passed=says_what_was_processed,
        mistakes={
            "past the slow one": Mistake(
                is_made=no_bookmark_is_ahead,
                likely="the bookmark was set after an order that a thread was still busy with.",
                look="Look at the smallest offset that is given and not yet done.",
            ),
            "stays behind": Mistake(
                is_made=lambda _, seen: (
                    not lost(seen)
                    and any(offset < len(seen.given) for offset in committed(seen, "end").values())
                ),
                likely="nothing is lost, but the bookmark does not reach the end.",
                look="Look at what bookmark returns when everything is done.",
            ),
        },
        blank="Look at the run `threads` above: it hands `highest` to by_threads.",
    ),
    "05.4": Exercise(
        title="Find them in the ledger",
        points=4,
        kind="query",
        answer="skipped_and_repeated",
        public=(four_crashes(skip=1, repeat=4),),
        unseen=drawn(lambda place: [four_crashes(*place.choice(((1, 6), (3, 4), (3, 6))))]),
        rules=(rows_equal(skipped_and_repeated),),
        mistakes={
            "not read yet": Mistake(
                is_made=lambda _, seen: any(
                    it.value in seen.column("value") for it in seen.given[10:]
                ),
                likely="the bookmark is not after that order: it may still be processed.",
                look="Look at the offset of the last committed event.",
            ),
            "counted deliveries": Mistake(
                is_made=lambda _, seen: (
                    seen.column("outcome").count("repeated")
                    > sum(1 for row in skipped_and_repeated(seen) if row["outcome"] == "repeated")
                ),
                likely="you counted deliveries; a record that comes again need not be done again.",
                look="Look for an order that was delivered twice and processed once.",
            ),
            "one short": Mistake(
                is_made=lambda _, seen: (
                    seen.given[LAST_SKIPPED].value not in seen.column("value")
                    and "skipped" in seen.column("outcome")
                ),
                likely="the order right before the bookmark can be skipped, too.",
                look="Look at what the Words above say of the committed offset.",
            ),
            "only one kind": Mistake(
                is_made=lambda _, seen: len({*seen.column("outcome")}) < 2,
                likely="one of the two outcomes is not in your result.",
                look="Look at the orders that have no processed event.",
            ),
        },
    ),
    "05.5": Exercise(
        title="Who may commit?",
        points=3,
        kind="value",
        answer="answer_5",
        public=(
            Trial(
                name="a busy consumer",
                faults=(stall_client("before_commit", nth=2, for_ms=9000, member=2),),
                orders=12,
                partitions=2,
                filled=True,
                members=2,
                workload=shares,
            ),
        ),
        rules=(is_who_may_commit,),
        mistakes={
            "the old owner": Mistake(
                is_made=lambda answer, _: answer["owner"] == "consumer-2",
                likely="you named the one that was busy; meanwhile its partition had moved.",
                look="Look at the last assigned event before the error.",
            ),
            "the poll's error": Mistake(
                is_made=lambda answer, _: answer["refused"] == "_MAX_POLL_EXCEEDED",
                likely="a poll raised that error; the question asks for the error of the commit.",
                look="Look at the error that carries of=commit in its detail.",
            ),
            "another name": Mistake(
                is_made=lambda answer, _: answer["refused"] != "UNKNOWN_MEMBER_ID",
                likely="the commit was refused with another error.",
                look="Look at the column error of the table.",
            ),
            "counted one": Mistake(
                is_made=lambda answer, _: (
                    answer["repeated"] < 2
                    and (answer["owner"], answer["refused"]) == ("consumer-1", "UNKNOWN_MEMBER_ID")
                ),
                likely="it commits after every second order, so more than one was still open.",
                look="Look at which orders have two processed events.",
            ),
        },
        blank='Fill in answer_5 = {"owner": "...", "refused": "...", "repeated": ...}.',
    ),
}
