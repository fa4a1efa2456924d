"""The checks of lab 07: Would you sign it off?"""

import random
from collections import Counter
from dataclasses import replace

from confluent_kafka import KafkaException
from sqlalchemy import text

from lab_utils.grading.cases import Exercise, Mistake, Trial
from lab_utils.grading.rules import (
    aborts,
    and_more,
    billed_twice,
    each_has_one,
    effects,
    final,
    had,
    invoices,
    low_acks,
    missing,
    nothing_else_is_stored,
    repeated,
    unbilled,
    what_became,
)
from lab_utils.grading.weakness import gone_on
from lab_utils.ledger.history import carried
from lab_utils.proxy.faults import (
    crash_client,
    cut_link,
    heal_link,
    power_cut,
    refuse,
    stall_client,
    start_broker,
    stop_broker,
)

OUTPUTS = ("invoices", "notices")
# Longer than the client's interval of automatic commits, 100 ms.
SLOW_MS = 400
# The claims behind the twelve, in their sequence.
CLAIMS = ("F2", "F2", "F2", "G2", "G2", "G1", "G1", "E13", "E13", "B2", "B5", "C6")
UPGRADED = "a broker is upgraded, and offsets are refused"


def handed_out(run):
    """The pipeline as the lab hands it out."""
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
    notices = run.producer({"acks": 1})
    billing = run.producer({"transactional.id": f"{run.topic}-billing"})
    billing.init_transactions()
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        with database.begin() as connection:
            for message in batch:
                row = {"order": message.value().decode()}
                connection.execute(text("INSERT INTO bookings VALUES (:order)"), row)
        for message in batch:
            notices.produce(run.topics["notices"], message.value(), partition=0)
        notices.flush()
        billing.begin_transaction()
        try:
            for message in batch:
                billing.produce(run.topics["invoices"], message.value(), partition=0)
            offsets = consumer.position(consumer.assignment())
            billing.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            billing.commit_transaction()
        except KafkaException:
            billing.abort_transaction()


def schedule(name, *faults, patient=False):
    """A run of a pipeline under these faults, in three batches of two orders.

    `patient` is for those in which a broker is away: how long it takes to come back is chance.
    """
    return Trial(
        name=name, faults=faults, orders=6, brokers=3,
        filled=True, topics=OUTPUTS, until_stable=True, patient=patient,
    )  # fmt: skip


def killed(name, point, *orders):
    """One process after another is slow at this point of an order, and dies there.

    The last one does so in the last batch: nobody can be careful in the first processes only.
    """
    deaths = ((slow(point, value=it), crash_client(point, value=it)) for it in map(str, orders))
    faults = (fault for death in deaths for fault in death)
    return replace(schedule(name, *faults), assumes=gone_on)


def slow(point, nth=1, value=None):
    """The process is slow: time enough for what goes on without it. With an order each one is."""
    return stall_client(point, nth=nth, value=value, for_ms=SLOW_MS, once=value is None)


def leader_loses_power(name, batch, notices=1):
    """The leader is cut off as a batch's first notice comes, and loses power when it has answered.

    It has answered so many `notices` by then; or none, for want of followers, and the producer
    waits no more. Nothing that comes after them is waited for: the transaction before may not have
    ended on the leader, and then no other can begin while its followers are away (seen on a slow
    machine). A producer's very first batch is left alone: a broker accepts any from a producer that
    it does not know (KAFKA-15591).
    """
    first = 2 * (batch - 1)
    comes = {"api": "Produce", "value": str(first), "when": "received"}
    acked = {"api": "Produce", "value": str(first + notices - 1)}
    return schedule(
        name,
        slow("after_db_commit", batch),
        cut_link(1, 2, **comes),
        cut_link(1, 3, **comes),
        power_cut(1, **acked),
        heal_link(1, 2, **acked),
        heal_link(1, 3, **acked),
        start_broker(1, **acked),
        patient=True,
    )


def aborted(nth):
    """The coordinator refuses the offsets of a transaction, which then has to be aborted."""
    return refuse("TxnOffsetCommit", nth=nth, error="ILLEGAL_GENERATION")


def schedules(nonce):
    """The twelve, in batches of two orders: the last one, and others drawn from the nonce."""
    place = random.Random(nonce)
    twice = place.randint(1, 2)

    def early():
        return place.choice((0, 2))

    return (
        killed("killed when it has read", "after_poll", early() + 1, 5),
        killed("killed with a row written", "after_db_write", early(), 4),
        killed("killed before the database's commit", "before_db_commit", early(), 4),
        killed("killed after the database's commit", "after_db_commit", early(), 4),
        killed("killed with a notice sent", "after_ack", early() + 1, 5),
        killed("killed with the offsets sent", "after_send_offsets", early() + 1, 5),
        # The first one that is about the order: of its invoice, or of its bookmark.
        killed("killed after a commit", "after_commit", early(), 4),
        schedule("offsets are refused twice", aborted(twice), aborted(twice + 1)),
        schedule(
            # The first batch: the bookmark is past it when the process dies. Who aborts the second
            # and does not rewind is given it again after the death, which hides the mistake.
            "offsets are refused, and killed later",
            aborted(1),
            slow("before_commit", 2),
            crash_client("before_commit", nth=2),
        ),
        leader_loses_power("the leader loses power", 2),
        leader_loses_power("the leader loses power late", 3),
        schedule(
            UPGRADED,
            stop_broker(2),
            start_broker(2, api="Produce", nth=8),
            aborted(place.randint(2, 3)),
            patient=True,
        ),
    )


def batch_of(row):
    """What the requests with one batch have in common: idempotence may have several answered."""
    if row.sequence is not None and row.sequence >= 0:
        return row.producer_id, row.producer_epoch, row.sequence
    return row.detail.get("connection"), row.correlation_id


def gone(evidence):
    """The orders of which notices holds fewer copies than were acked, whoever sent them again.

    A transaction that the power cut ends is rewound, and its notices come again: that is chance,
    and the ones that were acked before are gone all the same.
    """
    acked = {
        (value, batch_of(row))
        for exchange in evidence.history.exchanges
        for row in exchange.requests
        if row.topic == f"{row.run}-notices" and exchange.told_stored(row)
        for value in carried(row)
    }
    told, stored = Counter(value for value, _ in acked), had(evidence, "notices", "record")
    return [order for order in evidence.orders if told[order] > stored[order]]


def each_has_its_notice(_, evidence):
    """Is each order in notices at least once, and as often as it was acked?"""
    if lost := gone(evidence):
        return f"a notice of order {lost[0]} was acked, and is gone{and_more(lost)}."
    lost = missing(evidence, final(evidence, "notices"))
    return f"order {lost[0]} has no notice{and_more(lost)}." if lost else None


def unless_power_was_cut(rule):
    """The rule; after a power cut it is not asked.

    Whether a transaction outlives that is chance, and so is whether its batch comes again.
    """
    return lambda answer, seen: None if was_cut(seen) else rule(answer, seen)


def no_write_was_refused(_, evidence):
    """Did the brokers that were left take every write, while one was being upgraded?"""
    refused = too_few(evidence) if evidence.trial.name == UPGRADED else []
    return f"with one broker away, {len(refused)} writes were refused." if refused else None


def has_no_spare(answer):
    """Must every replica be in sync for a write?"""
    return int(answer["replicas"]) <= int(answer["topic"]["min.insync.replicas"])


def too_few(evidence):
    """The answers that a record could not be written: too few replicas are in sync."""
    return [
        row for row in evidence.history.of("wire", "response")
        if row.api == "Produce" and (row.error or "").startswith("NOT_ENOUGH_REPLICAS")
    ]  # fmt: skip


def unrepaired(name, faults):
    """A run of the pipeline as it is handed out, on the topics that go with it."""
    return replace(
        schedule(name, *faults), workload=handed_out, replicas=2,
        topic_config={"min.insync.replicas": 1},
    )  # fmt: skip


def of_each_output(evidence):
    """Of each output: is an order lost, is one there twice, or is each there once?

    Whether a transaction outlives a power cut of the leader is chance, so it is not asked.
    """
    asked = ("notices",) if was_cut(evidence) else OUTPUTS
    copies = {topic: final(evidence, topic) for topic in asked}
    copies["bookings"] = evidence.history.effects
    return {name: what_became(evidence, each) for name, each in copies.items()}


def first_wrong(answer, evidence):
    """The first output of which the answer does not say what became of it, and what it says."""
    said = answer[evidence.trial.name]
    became = of_each_output(evidence).items()
    return next(((name, said.get(name)) for name, right in became if said.get(name) != right), None)


def is_what_became(answer, evidence):
    """Is the answer for this trial's run what became of the three outputs?"""
    if not (wrong := first_wrong(answer, evidence)):
        return None
    return f"{evidence.trial.name}, {wrong[0]}: {wrong[1]!r} is not what happened."


def tells_of(said, runs, outputs):
    """Does the verdict tell of one of these runs and outputs, and that the answer says this?"""

    def is_made(answer, seen):
        name, word = first_wrong(answer, seen)
        return word == said and seen.trial.name in runs and name in outputs

    return is_made


def was_cut(seen):
    """Did a broker lose its power in this run?"""
    return any(row.actor == "power_cut" for row in seen.faults("fired"))


VISIBLE = {
    "killed": (slow("after_db_commit", 2), crash_client("after_db_commit", nth=2)),
    "refused": (aborted(2),),
    "dark": leader_loses_power("dark", 2, notices=2).faults,
}
PUBLIC = schedules("public")

EXERCISES = {
    "07.1": Exercise(
        title="What will it do?",
        points=4,
        kind="value",
        answer="answer_1",
        public=(
            unrepaired("killed", VISIBLE["killed"]),
            unrepaired("refused", VISIBLE["refused"]),
            unrepaired("dark", VISIBLE["dark"]),
        ),
        rules=(is_what_became,),
        mistakes={
            "twice": Mistake(
                is_made=tells_of("twice", VISIBLE, (*OUTPUTS, "bookings")),
                likely="what is never read again is never done again.",
                look="Look at the bookmarks() of that run: how often was each order delivered?",
            ),
            "an abort undoes reading": Mistake(
                is_made=tells_of("once", ("refused",), ("invoices",)),
                likely="an abort takes back what was written, not what was read.",
                look='Look at refused.in_and_out("invoices").',
            ),
            "an abort undoes everything": Mistake(
                is_made=tells_of("lost", ("refused",), ("notices",)),
                likely="an abort takes back what its transaction wrote, and nothing else.",
                look="Look at which producer sends the notices.",
            ),
            "the bookmark waits": Mistake(
                is_made=tells_of("once", ("killed",), OUTPUTS),
                likely="two things commit offsets here, and one does not wait for the work.",
                look='Look at killed.timeline(apis=["OffsetCommit", "TxnOffsetCommit"]).',
            ),
            "acked is safe": Mistake(
                is_made=tells_of("once", ("dark",), ("notices",)),
                likely="an ack says what was asked of it, and here it was asked of one broker.",
                look="Look at which replicas had the notice when broker 1 lost its power.",
            ),
            "the database waits": Mistake(
                is_made=tells_of("lost", VISIBLE, ("bookings",)),
                likely="the rows of a batch are committed before its notices are sent.",
                look="Look at the effects of that run.",
            ),
        },
        blank='Fill in "once", "lost" or "twice" for each output of each run.',
    ),
    "07.2": Exercise(
        title="The report card",
        points=36,
        kind="pipeline",
        answer="answer_2",
        public=PUBLIC,
        unseen=schedules,
        rules=(
            nothing_else_is_stored,
            no_write_was_refused,
            each_has_its_notice,
            unless_power_was_cut(each_has_one("invoice", invoices)),
            unless_power_was_cut(each_has_one("row", effects, " in bookings")),
        ),
        mistakes={
            "nothing is processed": Mistake(
                is_made=lambda _, seen: not seen.stored and not seen.history.effects,
                likely="the orders were there to be read, and no output has any.",
                look="Look at what the loop does with each batch.",
            ),
            "acks too weak": Mistake(
                is_made=lambda _, seen: was_cut(seen) and gone(seen) and low_acks(seen),
                likely="the leader answered for itself alone, and then it was gone.",
                look="Look at what each of the two producers asks of the brokers.",
                finding="lost-write",
                claim="B2",
            ),
            "floor too low": Mistake(
                is_made=lambda answer, seen: (
                    was_cut(seen)
                    and gone(seen)
                    and str(answer["topic"].get("min.insync.replicas", 1)) == "1"
                ),
                likely="every replica in sync had the record, and there was one of them.",
                look="Look at how few replicas may be in sync while writes go on.",
                finding="lost-write",
                claim="B5",
            ),
            "no replica to spare": Mistake(
                # After a power cut a notice is refused until broker 1 is back, or is given up.
                is_made=lambda answer, seen: (
                    too_few(seen)
                    and (seen.trial.name == UPGRADED or (was_cut(seen) and has_no_spare(answer)))
                ),
                likely="with one broker away, writes were refused until it was back.",
                look="Look at how many replicas there are, and how many of them must be in sync.",
                finding="unavailable",
                claim="C6",
            ),
            "gave up": Mistake(
                is_made=lambda _, seen: (
                    not seen.crashes and not aborts(seen) and not was_cut(seen) and unbilled(seen)
                ),
                likely="the pipeline ended at an error that asks for an abort.",
                look="Look at the txn_failed event and what it asks for.",
                finding="unavailable",
                claim="E13",
            ),
            "not rewound": Mistake(
                is_made=lambda _, seen: (
                    aborts(seen)
                    and not (seen.crashes and seen.requests("OffsetCommit"))
                    and unbilled(seen)
                ),
                likely="an aborted batch was never read again.",
                look="Look at where the consumer stands after abort_transaction().",
                finding="aborted-output",
                claim="E13",
            ),
            "committed before the work": Mistake(
                is_made=lambda _, seen: (
                    seen.crashes and seen.requests("OffsetCommit") and unbilled(seen)
                ),
                likely="the bookmark was past a batch that was still being worked on.",
                look="Look at which requests commit offsets, and who asked for them.",
                finding="skipped-processing",
                claim="F2",
            ),
            "no bookmark": Mistake(
                is_made=lambda _, seen: not seen.requests("TxnOffsetCommit") and billed_twice(seen),
                likely="the transactions hold invoices, and no bookmark.",
                look="Look for what makes the offsets part of a transaction.",
                finding="duplicate-effect",
                claim="G1",
            ),
            "two commits": Mistake(
                is_made=lambda _, seen: (
                    seen.crashes and seen.requests("OffsetCommit") and billed_twice(seen)
                ),
                likely="invoices and bookmark were committed one after the other.",
                look="Look at what a process finds if it is killed between the two.",
                finding="duplicate-effect",
                claim="G1",
            ),
            "no key": Mistake(
                is_made=lambda _, seen: repeated(seen, seen.history.effects),
                likely="a batch came again, and the table could not know that it had it already.",
                look="Look at the two rows of that order: what tells them apart?",
                finding="duplicate-effect",
                claim="G2",
            ),
        },
        blank="Write `repaired`, beginning with a copy of `pipeline`, and fill in both settings.",
        claims=dict(zip((each.name for each in PUBLIC), CLAIMS, strict=True)),
    ),
}
