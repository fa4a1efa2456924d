"""The checks of lab 04: All or nothing: who decides?"""

from confluent_kafka import KafkaException

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    FENCED,
    aborts,
    all_that_should_be_there,
    answer_equals,
    each_order_has_its_invoice,
    fenced,
    names_given,
    nothing_after_the_end,
    pairs_that_can_be_read,
    rows_equal,
    strangers,
    taken_back,
    visible,
    visible_rows,
)
from lab_utils.proxy.faults import drop_response, refuse


def mixed(run):
    """Plain orders, an aborted one, a committed one, and one whose transaction stays open."""
    producer = run.producer({"transactional.id": run.topic})
    plain = run.producer()
    producer.init_transactions()

    def write(client, order):
        client.produce(run.topic, order, partition=0)
        client.flush()

    write(plain, run.orders[0])
    producer.begin_transaction()
    write(producer, run.orders[1])
    write(plain, run.orders[2])
    producer.abort_transaction()
    producer.begin_transaction()
    write(producer, run.orders[3])
    producer.commit_transaction()
    producer.begin_transaction()
    write(producer, run.orders[4])
    write(plain, run.orders[5])


def on_two_partitions(ends):
    """A workload: transactions on two partitions, which end so; on one the last one stays open.

    It is also open in the invoices, from another offset on.
    """

    def workload(run):
        producer = run.producer({"transactional.id": run.topic})
        other = run.producer({"transactional.id": f"{run.topic}-other"})
        plain = run.producer()
        for each in (producer, other):
            each.init_transactions()
        for number, end in enumerate(ends):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(run.topic, run.orders[number], partition=partition)
            producer.flush()
            plain.produce(run.topic, run.orders[4 + number], partition=number % 2)
            plain.flush()
            producer.commit_transaction() if end == "commit" else producer.abort_transaction()
        other.begin_transaction()
        for client, order in ((plain, 4), (other, 8)):
            client.produce(run.topics["invoices"], run.orders[order], partition=0)
            client.flush()
        producer.begin_transaction()
        for client, order in ((other, 8), (plain, 9), (producer, 10), (other, 8)):
            client.produce(run.topic, run.orders[order], partition=0)
            client.flush()
        producer.produce(run.topic, run.orders[11], partition=1)
        producer.commit_transaction()

    return workload


def every_end(*ends):
    """The trial of 04.3: how do its four transactions end, one after the other?"""
    return Trial(
        name="two partitions",
        orders=12,
        partitions=2,
        topics=("invoices",),
        workload=on_two_partitions(ends),
        without=("wire", "client", "workload", "visible"),
    )


def taken_over(names):
    """A workload: each producer opens a transaction; the next one takes its name over.

    When all have been told, another one takes the name "a": it has told nobody.
    """

    def workload(run):
        producers = [run.producer({"transactional.id": f"{run.topic}-{name}"}) for name in names]
        for producer, order in zip(producers, run.orders, strict=True):
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce(run.topic, order, partition=0)
            producer.flush()
        for number, producer in enumerate(producers):
            try:
                if number % 2:
                    producer.produce(run.topic, run.orders[number], partition=0)
                producer.commit_transaction()
            except KafkaException:
                continue
        run.producer({"transactional.id": f"{run.topic}-a"}).init_transactions()

    return workload


def told_apart(run):
    """The three programs of 04.5, with either kind of producer, each on a partition of its own."""

    def opened(kind, name):
        if kind == "idempotent":
            return run.producer({"enable.idempotence": True})
        producer = run.producer({"transactional.id": f"{run.topic}-{name}"})
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    def send(producer, partition, *orders):
        for order in orders:
            producer.produce(run.topic, order, partition=partition)
            producer.flush()

    def finish(kind, name, partition):
        producer = opened(kind, name)
        send(producer, partition, "0", "1", "2")
        if kind == "transactional":
            producer.commit_transaction()

    for kind, first in (("idempotent", 0), ("transactional", 3)):
        finish(kind, "finishes", first)
        send(opened(kind, "gives-up"), first + 1, "0", "1")
        send(opened(kind, "begins-anew"), first + 2, "0", "1")
        finish(kind, "begins-anew", first + 2)


def both_levels(evidence):
    """What each isolation level was given."""
    return {
        "read_uncommitted": " ".join(evidence.stored),
        "read_committed": " ".join(visible(evidence)),
    }


KINDS = ("idempotent", "transactional")


def by_kind(evidence):
    """What can be read of each of the six programs."""
    texts = [" ".join(visible(evidence, partition=number)) for number in range(6)]
    return dict(zip(KINDS, (texts[:3], texts[3:]), strict=True))


def first_wrong(answer, evidence):
    """Kind and number of the first program whose text is not what a reader gets, and the text."""
    for kind, texts in by_kind(evidence).items():
        for number, (said, right) in enumerate(zip(answer[kind], texts, strict=True)):
            if said != right:
                return kind, number, said
    return None


def is_what_is_read(answer, evidence):
    """Is each text what a read_committed reader gets of its program?"""
    if not (wrong := first_wrong(answer, evidence)):
        return None
    kind, number, said = wrong
    return f"{kind}, program {number + 1}: you said {said!r}, and that is not what happened."


def tells_of(*kinds, program, of=lambda _: True):
    """Does the verdict tell of this program with one of these kinds, and of such a text?"""

    def is_made(answer, evidence):
        kind, number, said = first_wrong(answer, evidence)
        return kind in kinds and number == program and of(said)

    return is_made


def in_trouble(produce_at, end_at, answer_at, error="PRODUCER_FENCED"):
    """A refusal that asks for an abort, one that is fatal, and a lost answer that is neither."""
    given = {"orders": 4, "topics": ("invoices",)}
    refused = refuse("Produce", nth=produce_at, error="INVALID_RECORD")
    fatal = refuse("EndTxn", nth=end_at, error=error)
    lost = drop_response("EndTxn", nth=answer_at)
    return (
        Trial(name="a refused record", faults=(refused,), **given),
        Trial(name="a fenced producer", faults=(fatal,), **given),
        Trial(name="a lost answer", faults=(lost,), assumes=taken_back, **given),
    )


def takeovers(names):
    """A run in which these names are taken over, one after the other."""
    name = f"{len(names)} producers"
    return Trial(name=name, orders=len(names), workload=taken_over(names))


def takeovers_somewhere(place):
    """Five to seven producers: a name that is taken twice at least, and one before and after it."""
    times = {"x": 1, "a": place.randint(3, 4), "b": place.randint(1, 2)}
    return [takeovers([name for name in times for _ in range(times[name])])]


EXERCISES = {
    "04.1": Exercise(
        title="Who is given what?",
        points=4,
        kind="value",
        answer="answer_1",
        public=(Trial(name="plain orders and transactions", workload=mixed),),
        rules=(answer_equals(both_levels),),
        mistakes={
            "the aborted one is gone": Mistake(
                is_made=lambda answer, _: "1" not in answer["read_uncommitted"].split(),
                likely="you let the abort remove a record; the log is append-only.",
                look="Look at order 1 in three.transactions().",
            ),
            "uncommitted waits": Mistake(
                is_made=lambda answer, _: (
                    not ({"4", "5"} <= set(answer["read_uncommitted"].split()))
                ),
                likely="a read_uncommitted reader waits for no transaction.",
                look="Look at what the Words above say of that level.",
            ),
            "what is open is committed": Mistake(
                is_made=lambda answer, _: "4" in answer["read_committed"].split(),
                likely="the end of a program is no commit.",
                look="Look at the last lines of mixed: which call would end that transaction?",
            ),
            "what is aborted is read": Mistake(
                is_made=lambda answer, _: "1" in answer["read_committed"].split(),
                likely="the marker after that order says ABORT.",
                look="Look at three.visible: who is given order 1 there?",
            ),
            "plain records are free": Mistake(
                is_made=lambda answer, _: "5" in answer["read_committed"].split(),
                likely="a plain order is in no transaction, but it has an offset.",
                look="Think of a reader that must return the records of a partition in sequence.",
            ),
            "plain records are hidden": Mistake(
                is_made=lambda answer, _: not ({"0", "2"} <= set(answer["read_committed"].split())),
                likely="a record that is in no transaction needs no commit.",
                look="Look at who wrote orders 0 and 2, and what stands before them in the log.",
            ),
        },
        blank='Fill in answer_1 = {"read_uncommitted": "...", "read_committed": "..."}.',
    ),
    "04.2": Exercise(
        title="Commit, abort or stop",
        points=6,
        kind="workload",
        answer="send_each",
        public=in_trouble(produce_at=3, end_at=3, answer_at=2),
        unseen=drawn(
            lambda place: in_trouble(
                place.randint(2, 8), place.randint(2, 4), place.randint(1, 4), place.choice(FENCED)
            )
        ),
        rules=(each_order_has_its_invoice, all_that_should_be_there, nothing_after_the_end),
        passed=pairs_that_can_be_read,
        mistakes={
            "no transaction": Mistake(
                is_made=lambda _, seen: not seen.requests("EndTxn"),
                likely="no transaction was ever ended: no EndTxn crossed the wire.",
            ),
            "went on when fenced": Mistake(
                is_made=lambda _, seen: nothing_after_the_end(None, seen) is not None,
                likely="a fatal error was taken for one that a program can recover from.",
                look="Look at the requests after the refused EndTxn in _.timeline(apis=None).",
            ),
            "never aborted": Mistake(
                is_made=lambda _, seen: seen.trial.name == "a refused record" and not aborts(seen),
                likely="a transaction that asked for an abort was left open.",
                look="Look at what the methods of the exception's args[0] return.",
            ),
            "aborted and left out": Mistake(
                is_made=lambda _, seen: (
                    seen.trial.name == "a refused record"
                    and aborts(seen)
                    and len(visible(seen)) < len(seen.orders)
                ),
                likely="an aborted order was not written again, or only once more.",
                look="Look at which order is missing, and at what the workload raised.",
            ),
        },
        blank="Look at send_both above: it is what each order needs, if nothing goes wrong.",
    ),
    "04.3": Exercise(
        title="Read like read_committed",
        points=5,
        kind="query",
        answer="visible_records",
        public=(every_end("commit", "abort", "commit", "abort"),),
        unseen=drawn(
            lambda place: [every_end("abort", *place.sample(("abort", "commit", "commit"), 3))]
        ),
        rules=(rows_equal(visible_rows),),
        mistakes={
            "asked the reader": Mistake(
                is_made=lambda _, seen: seen.returned == (),
                likely="your query returns nothing, and the check leaves out the `visible` events.",
                look="Look at what log_of(...) returns, and decide from its columns.",
            ),
            "everything": Mistake(
                is_made=lambda _, seen: len(seen.column("value")) == len(seen.stored),
                likely="your query returns all of the log.",
            ),
            "no plain records": Mistake(
                is_made=lambda _, seen: seen.returned and not _plain(seen),
                likely="the plain records are missing; no marker belongs to them.",
                look="Look at a row of log_of(...) whose transactional is false.",
            ),
            "behind the open transaction": Mistake(
                is_made=lambda _, seen: _behind_the_open_one(seen),
                likely="your query gives what stands after the first open transaction.",
                look="Look for a transactional row of log_of(...) that has no next marker.",
            ),
            "stopped everywhere": Mistake(
                is_made=lambda _, seen: (
                    not any(
                        row.get("partition") == 1 and row.get("value") == seen.orders[11]
                        for row in seen.returned or ()
                    )
                ),
                likely="an open transaction holds back its own partition, and no other.",
                look="Look at partition 1 of the orders: is anything open there?",
            ),
            "without the topic": Mistake(
                is_made=lambda _, seen: len(_of_the_orders(seen)) < 2,
                likely="partition 0 of one topic is not partition 0 of another.",
                look="Look at where the open transaction begins in each topic.",
            ),
        },
    ),
    "04.4": Exercise(
        title="Who was fenced?",
        points=5,
        kind="query",
        answer="fenced_clients",
        public=(takeovers("aaab"),),
        unseen=drawn(takeovers_somewhere),
        rules=(rows_equal(fenced),),
        mistakes={
            "every refusal": Mistake(
                is_made=lambda _, seen: (
                    len(seen.column("api")) > len(fenced(seen))
                    or "InitProducerId" in seen.column("api")
                ),
                likely="there is more than one row for a client, or one for who was not fenced.",
                look="Look at the errors of the responses, and keep the first of each client.",
            ),
            "by itself": Mistake(
                is_made=lambda _, seen: any(
                    row.get("by") == row.get("fenced") for row in seen.returned or ()
                ),
                likely="a client cannot take its own name away.",
                look="Look at whose InitProducerId your query takes.",
            ),
            "another name": Mistake(
                is_made=lambda _, seen: any(
                    row.get("by") in strangers(seen, row) for row in seen.returned or ()
                ),
                likely="somebody started later under another name, and fenced nobody.",
                look="Look at the producer_id in the answers to InitProducerId.",
            ),
            "the last taker": Mistake(
                is_made=lambda _, seen: names_given(seen)[-1].actor in seen.column("by"),
                likely="that client took the name after the refusal.",
                look="Look at the time of the refusal, and at that of each InitProducerId.",
            ),
            "the first taker": Mistake(
                is_made=lambda _, seen: (
                    {*seen.column("by")} - {right["by"] for right in fenced(seen)}
                ),
                likely="somebody else took the name later, and before the refusal.",
                look="Look at the at_ns of the answered InitProducerId requests.",
            ),
        },
    ),
    "04.5": Exercise(
        title="Are they one thing?",
        points=5,
        kind="value",
        answer="answer_5",
        public=(
            Trial(
                name="three programs, two kinds of producer",
                faults=(drop_response("Produce", nth=2),),
                orders=3,
                partitions=6,
                workload=told_apart,
            ),
        ),
        rules=(is_what_is_read,),
        mistakes={
            "a lost answer doubles": Mistake(
                is_made=tells_of(*KINDS, program=0, of=lambda said: said.split().count("1") > 1),
                likely="both kinds of producer have their batches recognised when they come again.",
                look="Look at lab 03: in its run `once` order 2 crossed the wire twice.",
            ),
            "a lost answer loses": Mistake(
                is_made=tells_of(*KINDS, program=0),
                likely="the answer was lost, and not the request; and the client sends it again.",
                look="Look at lab 03: in its run `once` the same answer was lost.",
            ),
            "all records wait": Mistake(
                is_made=tells_of("idempotent", program=1),
                likely="what is in no transaction waits for no commit.",
                look="Look at hidden.transactions(): which plain orders can be read?",
            ),
            "idempotence survives a restart": Mistake(
                is_made=tells_of("idempotent", program=2),
                likely="idempotence knows a producer id, and a new producer is given a new one.",
                look="Look at lab 03: compare the producer ids in its run `restarted`.",
            ),
            "half a transaction": Mistake(
                is_made=tells_of("transactional", program=1),
                likely="nobody ever committed what the second program wrote.",
                look="Look at the last transaction in hidden.transactions(): who is given order 4?",
            ),
            "the successor's are gone": Mistake(
                is_made=tells_of("transactional", program=2, of=lambda said: said == ""),
                likely="the successor has committed what it wrote itself.",
                look="Look at zombie.visible: whose order is there?",
            ),
            "the dead one's orders": Mistake(
                is_made=tells_of("transactional", program=2),
                likely="the successor has the same name, and that ends its predecessor's work.",
                look="Look at zombie.diary(): what became of A's transaction?",
            ),
        },
        blank='Fill in answer_5 = {"idempotent": ["...", "...", "..."], "transactional": [...]}.',
    ),
}


def _plain(evidence):
    """The returned rows that plain producers wrote."""
    plain = set(evidence.orders[4:8]) | {evidence.orders[9]}
    return [row for row in evidence.returned or () if row.get("value") in plain]


def _of_the_orders(evidence):
    """The returned rows of partition 0 of the orders."""
    return [
        row for row in evidence.returned or ()
        if str(row.get("topic")).endswith("-orders") and row.get("partition") == 0
    ]  # fmt: skip


def _behind_the_open_one(evidence):
    """The returned rows of partition 0 of the orders from the open transaction on."""
    open_at = next(
        row.offset for row in evidence.log
        if row.value == evidence.orders[8] and row.topic.endswith("-orders")
    )  # fmt: skip
    rows = _of_the_orders(evidence)
    return [row for row in rows if row.get("offset", -1) >= open_at]
