"""More histories with their judgement: of what was over, and of what clients write down."""

from __future__ import annotations

from dataclasses import replace

from lab_utils.ledger.events import Event
from tests.audit.judged_compacted import OUTLIVED
from tests.histories import (
    FINISHED,
    acked,
    asked,
    created,
    decision,
    delivered,
    effect,
    end,
    log,
    placed,
    power_cut,
    processed,
    record,
    sent,
    sent_in,
    stop,
    told,
    topic,
    visible,
    watermark,
    written,
)

Judged = dict[str, tuple[list[Event], str, str, str | None]]

PRODUCER = created("producer-1", role="producer", acks="all", enable__idempotence="true")
OTHER = replace(PRODUCER, actor="producer-2")
EARLIEST = {"role": "consumer", "auto__offset__reset": "earliest", "enable__auto__commit": "false"}
OF_B = created("consumer-2", group__id="b", **EARLIEST)
KEYED = [
    PRODUCER, created("consumer-1", group__id="a", **EARLIEST),
    created("consumer-2", group__id="b", **EARLIEST), placed("assigned", "consumer-2"),
    sent("1", key="k"), acked("1", 0, key="k"), sent("2", key="k"),
    delivered("1", 0, key="k"), delivered("2", 1, key="k"),
    record("1", 0, key="k"), record("2", 1, key="k"), end(offset=2),
]  # fmt: skip
NO_KEY = [*KEYED, delivered("1", 0, "consumer-2"), delivered("2", 1, "consumer-2")]
UNLIKE: Judged = {
    "a consumer that writes down no key, beside one that does": (
        NO_KEY, "unseen", "undecided", None,
    ),
    "the same, and what it was given is what the log holds": (
        NO_KEY, "inconsistent-offsets", "undecided", None,
    ),
    "the same, and it does, and was not given one": (
        [*KEYED, delivered("2", 1, "consumer-2", key="k")], "unseen", "breach", None,
    ),
    "no consumer writes down a key, and an order is lost": (
        [PRODUCER, sent("1", key="k"), acked("1", 0, key="k"), sent("2", key="k"),
         acked("2", 1, key="k"), delivered("1", 0), record("1", 0, key="k"), end(offset=2)],
        "lost-write", "breach", None,
    ),
}  # fmt: skip


def elected(isr: str, elr: str) -> Event:
    """The controller decides, and says who else may lead."""
    return replace(decision(isr), detail=decision(isr).detail | {"elr": elr})


STARTED = replace(power_cut(), kind="started")
GONE, MADE = asked("DeleteTopics"), replace(asked("CreateTopics"), kind="response")
STAYS = replace(GONE, kind="response", error="UNKNOWN_TOPIC_OR_PARTITION")
ON_1, NOT_HELD = [PRODUCER, topic(1, replicas=1)], [sent("1"), acked("1", 0), end()]
NAMED = [PRODUCER, topic(1, replicas=1), decision("1", replicas="1")]
LATEST = created("consumer-1", role="consumer", group__id="a", auto__offset__reset="latest")
FORGOT = asked("DeleteGroups", topic=None)
BEGUN = [PRODUCER, LATEST, sent("1"), acked("1", 1), delivered("0", 0),
         placed("committed", offset=1)]  # fmt: skip
WENT_ON = [placed("assigned"), delivered("2", 2)]
IN_TURN = [PRODUCER, topic(2), decision("1 2 3"), sent("1"), acked("1", 0), power_cut(),
           decision("2 3"), STARTED, power_cut(2), decision("3"), end()]  # fmt: skip
ACTS: Judged = {
    "the groups were deleted before the first send": (
        [FORGOT, *BEGUN, *WENT_ON], "unseen", "breach", None,
    ),
    "the same, and once more later": (
        [FORGOT, *BEGUN, FORGOT, *WENT_ON], "unseen", "allowed", None,
    ),
    "its only replica lost power, and had flushed each record": (
        [PRODUCER, topic(1, replicas=1, flush__messages="1"), sent("1"), acked("1", 0),
         power_cut(), end()],
        "lost-write", "breach", None,
    ),
    "the same, and it had flushed every second one": (
        [PRODUCER, topic(1, replicas=1, flush__messages="2"), sent("1"), acked("1", 0),
         power_cut(), end()],
        "lost-write", "allowed", "replicas=1",
    ),
    "the same, and the setting has a misspelt name": (
        [PRODUCER, topic(1, replicas=1, flush__message="1"), sent("1"), acked("1", 0),
         power_cut(), end()],
        "lost-write", "undecided", None,
    ),
    "the same, and the leader alone had it": (
        [created("producer-1", role="producer", acks="1"),
         topic(1, replicas=1, flush__messages="1"), sent("1"), acked("1", 0), power_cut(), end()],
        "lost-write", "allowed", "acks=1",
    ),
    "a broker that is called otherwise lost power": (
        [*NAMED, *NOT_HELD[:-1], replace(power_cut(), actor="kafka1"), end()],
        "lost-write", "allowed", "replicas=1",
    ),
    "the same, and its name has another number": (
        [*NAMED, *NOT_HELD[:-1], replace(power_cut(), actor="kafka2"), end()],
        "lost-write", "breach", None,
    ),
    "the same, and its name has no number": (
        [*NAMED, *NOT_HELD[:-1], replace(power_cut(), actor="10.0.0.2:9092"), end()],
        "lost-write", "allowed", "replicas=1",
    ),
    "its broker was back from a power cut before the first send": (
        [*ON_1, power_cut(), STARTED, *NOT_HELD], "lost-write", "breach", None,
    ),
    "the same, and it lost power again": (
        [*ON_1, power_cut(), STARTED, NOT_HELD[0], power_cut(), *NOT_HELD[1:]],
        "lost-write", "allowed", "replicas=1",
    ),
    "it was back when the first order had been sent": (
        [*ON_1, power_cut(), NOT_HELD[0], STARTED, *NOT_HELD[1:]],
        "lost-write", "allowed", "replicas=1",
    ),
    "the same as the first, and nobody recorded what was sent": (
        [*ON_1, power_cut(), STARTED, *NOT_HELD[1:]], "lost-write", "allowed", "replicas=1",
    ),
    "it was sent when its broker was back, and another was sent before": (
        [*ON_1, sent("0"), power_cut(), STARTED, *NOT_HELD], "lost-write", "breach", None,
    ),
    "the same, and it was sent before, too": (
        [*ON_1, sent("1"), power_cut(), STARTED, *NOT_HELD],
        "lost-write", "allowed", "replicas=1",
    ),
    "the same, and one of its acks is of a send that nobody recorded": (
        [*ON_1, sent("0"), power_cut(), STARTED, acked("1", 1), *NOT_HELD],
        "lost-write", "allowed", "replicas=1",
    ),
    "the same, and another broker lost power and did not start": (
        [*ON_1, sent("0"), power_cut(), STARTED, power_cut(2), *NOT_HELD],
        "lost-write", "allowed", "replicas=1",
    ),
    "it was sent when its topic was there again, and another was sent before": (
        [PRODUCER, sent("0"), GONE, MADE, *NOT_HELD], "lost-write", "breach", None,
    ),
    "the last in sync lost power, and none was eligible": (
        [PRODUCER, topic(2), decision("1 2"), *NOT_HELD[:-1], elected("1", ""), power_cut(),
         elected("", ""), end()],
        "lost-write", "allowed", None,
    ),
    "the same, and one was": (
        [PRODUCER, topic(2), decision("1 2"), *NOT_HELD[:-1], elected("1", "2"), power_cut(),
         elected("2", ""), end()],
        "lost-write", "breach", None,
    ),
    "the same, and it lost power, too, of a partition that was to be on three": (
        [PRODUCER, topic(3), *NOT_HELD[:-1], elected("1", "2"), power_cut(), power_cut(2), end()],
        "lost-write", "allowed", None,
    ),
    "the same as the first, and nobody recorded who was eligible": (
        [PRODUCER, topic(2), *NOT_HELD[:-1], decision("1"), power_cut(), end()],
        "lost-write", "undecided", None,
    ),
    "the same, and it had flushed each record": (
        [PRODUCER, topic(2, flush__messages="1"), *NOT_HELD[:-1], decision("1"), power_cut(),
         end()],
        "lost-write", "breach", None,
    ),
    "the same, and two were in sync": (
        [PRODUCER, topic(2), *NOT_HELD[:-1], decision("1 2"), power_cut(), end()],
        "lost-write", "breach", None,
    ),
    "the same, and the other one was alone in sync when it lost power": (
        [PRODUCER, topic(2), *NOT_HELD[:-1], decision("1"), decision("2"), power_cut(), end()],
        "lost-write", "breach", None,
    ),
    "the same, and the last in sync lost it when the log had been read": (
        [PRODUCER, topic(2), *NOT_HELD, decision("1"), power_cut()], "lost-write", "breach", None,
    ),
    "the last in sync lost power, and a copy is no loss": (
        [PRODUCER, topic(2), sent("1"), decision("1"), power_cut(), acked("1", 1), *log("1", "1")],
        "duplicate", "breach", None,
    ),
    "its brokers lost power in turn, each when the others were in sync": (
        [*IN_TURN[:8], decision("1 2 3"), *IN_TURN[8:]], "lost-write", "breach", None,
    ),
    "the same, and the first was not back when the second lost it": (
        IN_TURN, "lost-write", "allowed", "min.insync.replicas=2",
    ),
    "the same, and nobody recorded that it was ever out of sync": (
        [*IN_TURN[:6], STARTED, decision("1 2 3"), *IN_TURN[8:]],
        "lost-write", "allowed", "min.insync.replicas=2",
    ),
    "its topic was created again before the first send": (
        [PRODUCER, GONE, MADE, *NOT_HELD], "lost-write", "breach", None,
    ),
    "the same, and the broker refused that": (
        [PRODUCER, GONE, replace(MADE, error="TOPIC_ALREADY_EXISTS"), *NOT_HELD],
        "lost-write", "allowed", None,
    ),
    "its only replica had been moved to another broker when the first one lost power": (
        [*NAMED, sent("1"), acked("1", 0), decision("2", replicas="2"), power_cut(), end()],
        "lost-write", "breach", None,
    ),
    "the same, and it was moved after that": (
        [*NAMED, sent("1"), acked("1", 0), power_cut(), decision("2", replicas="2"), end()],
        "lost-write", "allowed", "replicas=1",
    ),
    "the same, and the other one lost power before it had it": (
        [*NAMED, sent("1"), acked("1", 0), power_cut(2), decision("2", replicas="2"), end()],
        "lost-write", "breach", None,
    ),
    "its topic was not deleted, as the broker had to slow its client down": (
        [PRODUCER, GONE, replace(GONE, kind="response", error="THROTTLING_QUOTA_EXCEEDED"),
         *NOT_HELD],
        "lost-write", "breach", None,
    ),
    "the same, and the controller was replaced while it waited": (
        [PRODUCER, GONE, replace(GONE, kind="response", error="NOT_CONTROLLER"), *NOT_HELD],
        "lost-write", "allowed", None,
    ),
    "its topic was created again before the first send, and it was deleted again": (
        [PRODUCER, GONE, MADE, NOT_HELD[0], GONE, *NOT_HELD[1:]], "lost-write", "allowed", None,
    ),
    "the same, and the broker refused to delete it again": (
        [PRODUCER, GONE, MADE, NOT_HELD[0], GONE, STAYS, *NOT_HELD[1:]],
        "lost-write", "breach", None,
    ),
    "it was not deleted before the log was read, as the broker refused that, but afterwards": (
        [PRODUCER, GONE, STAYS, *NOT_HELD, GONE], "lost-write", "breach", None,
    ),
}  # fmt: skip
ACKS_0, ACKS_1 = (created("producer-1", role="producer", acks=it) for it in "01")
REPLICATED: Judged = {
    "acked by the leader alone, given to a consumer, and lost": (
        [ACKS_1, sent("1"), acked("1", 0), delivered("1", 0), *log("2")],
        "lost-write", "breach", None,
    ),
    "the same, and it was given from another place, where the log has it": (
        [ACKS_1, sent("1"), acked("1", 0), sent("1"), acked("1", 1), delivered("1", 1),
         record("1", 1), end()],
        "lost-write", "allowed", "acks=1",
    ),
    "the same as the first, of two that are lost": (
        [ACKS_1, sent("1"), acked("1", 0), sent("1"), acked("1", 1), delivered("1", 0), end()],
        "lost-write", "breach", None,
    ),
    "the same, and one of the two is there, where nobody was told it is": (
        [ACKS_1, sent("1"), acked("1", 0), sent("1"), acked("1", 1), delivered("1", 0),
         record("1", 2), end()],
        "lost-write", "allowed", "acks=1",
    ),
    "the same as the first, and a replica that was not in sync led": (
        [topic(1, unclean__leader__election__enable="true"), ACKS_1, sent("1"), acked("1", 0),
         delivered("1", 0), *log("2")],
        "lost-write", "allowed", "unclean.leader.election.enable=true",
    ),
    "acked by nobody, given to a consumer, and lost": (
        [ACKS_0, sent("1"), acked("1", None), delivered("1", 0), *log("2")],
        "lost-write", "breach", None,
    ),
    "the same, and nobody was given it": (
        [ACKS_0, sent("1"), acked("1", None), *log("2")], "lost-write", "allowed", "acks=0",
    ),
    "acked by the leader alone, found, and not found again": (
        [ACKS_1, sent("1"), acked("1", 1), *log("0", "1"), *log("0")],
        "lost-write", "breach", None,
    ),
}  # fmt: skip
TWICE = [sent("1"), acked("1", 1), *log("1", "1")]
FOR_EVER = topic(None, 1, retention__ms="-1")
CHANGED: Judged = {
    "a replica that was not in sync might lead for a while, and it was lost": (
        [PRODUCER, topic(1), topic(1, unclean__leader__election__enable="true"), sent("1"),
         acked("1", 0), topic(1, unclean__leader__election__enable="false"), *log()],
        "lost-write", "allowed", "unclean.leader.election.enable=true",
    ),
    "the same, and the topic says twice that it might not": (
        [PRODUCER, *[topic(1, unclean__leader__election__enable="false")] * 2, sent("1"),
         acked("1", 0), *log()],
        "lost-write", "breach", None,
    ),
    "its topic was emptied by its retention, which was without limit before and after": (
        [PRODUCER, FOR_EVER, sent("1"), acked("1", 0), topic(None, 1, retention__ms="1000"),
         FOR_EVER, end(offset=2, start=1)],
        "lost-write", "allowed", "retention.ms=1000",
    ),
    "its topic was compacted for a while": (
        [PRODUCER, topic(1, 1, "compact"), sent("1", key="k"), acked("1", 0, key="k"),
         acked("2", 1, key="k"), topic(1, 1, "delete"), record("2", 1, key="k"), end()],
        "lost-write", "allowed", "cleanup.policy=compact",
    ),
    "one broker was enough when it lost power": (
        [PRODUCER, topic(1), sent("1"), acked("1", 0), power_cut(), topic(2), *log()],
        "lost-write", "allowed", "min.insync.replicas=1",
    ),
    "the same, and nobody says that it was before": (
        [PRODUCER, topic(None), sent("1"), acked("1", 0), power_cut(), topic(2), *log()],
        "lost-write", "breach", None,
    ),
    "two had to be in sync when the workload ended, and one is": (
        [PRODUCER, topic(1), sent("1"), acked("1", 0), decision("1"), watermark(0), topic(2),
         FINISHED],
        "invisible-ack", "breach", None,
    ),
}  # fmt: skip
REVERSED = [sent("1"), sent("2"), acked("2", 0), acked("1", 1), *log("2", "1")]
RETAINS = [PRODUCER, topic(None, 1, retention__ms="1000"), acked("1", 0), end(offset=2, start=1)]
SETTINGS: Judged = {
    "gone from the beginning of a log that an administrator cut": (
        [asked("DeleteRecords"), *RETAINS], "lost-write", "allowed", None,
    ),
    "the same, and only of another topic": (
        [asked("DeleteRecords", topic="other"), *RETAINS],
        "lost-write", "allowed", "retention.ms=1000",
    ),
    "the same, by a topic that limits its size and not its age": (
        [PRODUCER, topic(None, 1, retention__ms="-1", retention__bytes="1"), *RETAINS[2:]],
        "lost-write", "allowed", "retention.bytes=1",
    ),
    "the same, by one that limits both": (
        [PRODUCER, topic(None, 1, retention__ms="1000", retention__bytes="1"), *RETAINS[2:]],
        "lost-write", "allowed", "retention.ms=1000",
    ),
    "the same, by one that limits neither": (
        [PRODUCER, FOR_EVER, *RETAINS[2:]], "lost-write", "breach", None,
    ),
    "the same, and an administrator cut it": (
        [asked("DeleteRecords"), PRODUCER, FOR_EVER, *RETAINS[2:]], "lost-write", "allowed", None,
    ),
    "the same, and the broker refused to": (
        [asked("DeleteRecords"), replace(asked("DeleteRecords"), kind="response",
                                         error="TOPIC_AUTHORIZATION_FAILED"),
         PRODUCER, FOR_EVER, *RETAINS[2:]],
        "lost-write", "breach", None,
    ),
    "gone from the beginning of a log that is only compacted, the last order of its key": (
        [PRODUCER, topic(None, 1, "compact"), acked("1", 0, key="k"), end(offset=2, start=1)],
        "lost-write", "breach", None,
    ),
    "the same, and its age is limited, too": (
        [PRODUCER, topic(None, 1, "compact,delete"), acked("1", 0, key="k"),
         end(offset=2, start=1)],
        "lost-write", "allowed", None,
    ),
    "an effect of no topic, of a consumer that commits by itself": (
        [created("consumer-1", group__id="a", **EARLIEST), delivered("1", 0),
         effect("1", times=2)],
        "duplicate-effect", "allowed", "enable.auto.commit=false",
    ),
    "the same, and nobody recorded the consumer": (
        [delivered("1", 0), effect("1", times=2)], "duplicate-effect", "allowed", None,
    ),
    "a setting with underscores": (
        [created("producer-1", role="producer", enable_idempotence="True"), *TWICE],
        "duplicate", "breach", None,
    ),
    "a setting with a misspelt name": (
        [created("producer-1", role="producer", enable__idempotense="true"), *TWICE],
        "duplicate", "undecided", None,
    ),
    "a short name that is misspelt": (
        [created("producer-1", role="producer", aks="all"), sent("1"), acked("1", 0), *log()],
        "lost-write", "undecided", None,
    ),
    "a setting with a misspelt value": (
        [created("producer-1", role="producer", enable__idempotence="ture"), *TWICE],
        "duplicate", "undecided", None,
    ),
    "a setting that is off, and is written 0": (
        [created("producer-1", role="producer", enable__idempotence="0"), *TWICE],
        "duplicate", "allowed", "enable.idempotence=false",
    ),
    "the same, and it is on": (
        [created("producer-1", role="producer", enable__idempotence="T"), *TWICE],
        "duplicate", "breach", None,
    ),
    "a topic's setting with a misspelt name": (
        [PRODUCER, topic(2, cleanup__polcy="compact"), *NOT_HELD], "lost-write", "undecided", None,
    ),
    "a topic's setting with a misspelt value": (
        [PRODUCER, topic(2, unclean__leader__election__enable="ture"), *NOT_HELD],
        "lost-write", "undecided", None,
    ),
    "a topic's setting that would allow less is misspelt": (
        [PRODUCER, topic(None, 1, min__insync__replica="2"), sent("1"), acked("1", 0), power_cut(),
         end()],
        "lost-write", "undecided", None,
    ),
    "the same, and the producer's setting allows it": (
        [created("producer-1", role="producer", acks="1"),
         topic(None, 1, min__insync__replica="2"), *NOT_HELD],
        "lost-write", "allowed", "acks=1",
    ),
    "Java's producer has its own defaults": (
        [created("producer-1", role="producer", library="java"), *TWICE],
        "duplicate", "breach", None,
    ),
    "the same, and they are given up for acks=1": (
        [created("producer-1", role="producer", library="java", acks="1"), *TWICE],
        "duplicate", "allowed", "enable.idempotence=false",
    ),
    "another library has defaults that nobody knows": (
        [created("producer-1", role="producer", library="franz-go"), *TWICE],
        "duplicate", "undecided", None,
    ),
    "the same, and it says what decides": (
        [created("producer-1", role="producer", library="sarama", enable__idempotence="False"),
         *TWICE],
        "duplicate", "allowed", "enable.idempotence=false",
    ),
    "another library may keep one batch in flight and its sequence": (
        [created("producer-1", role="producer", library="sarama", enable__idempotence="false",
                 max__in__flight="1"), *REVERSED],
        "nonmonotonic-send", "undecided", None,
    ),
    "librdkafka does not": (
        [created("producer-1", role="producer", enable__idempotence="false", max__in__flight="1"),
         *REVERSED],
        "nonmonotonic-send", "allowed", "retry.backoff.ms=100",
    ),
    "a binding of librdkafka has librdkafka's defaults": (
        [created("producer-1", role="producer", library="confluent-kafka-go"), *TWICE],
        "duplicate", "allowed", "enable.idempotence=false",
    ),
    "its effect is there twice, and its consumer commits by hand": (
        [created("consumer-1", **EARLIEST), effect("1", 2)],
        "duplicate-effect", "allowed", "enable.auto.commit=false",
    ),
    "its producer was not recorded, and another one was": (
        [OTHER, *TWICE], "duplicate", "undecided", None,
    ),
    "the same, and the other one may repeat": (
        [created("producer-2", role="producer"), *TWICE], "duplicate", "undecided", None,
    ),
    "the same, and the log says that it is idempotent": (
        [created("producer-2", role="producer"), *TWICE, written("batch", 0, 0)],
        "duplicate", "breach", None,
    ),
    "the settings of another one allowed to lose it": (
        [created("producer-2", role="producer", acks="1"), sent("1"), acked("1", 0), *log()],
        "lost-write", "undecided", None,
    ),
    "the work was done by a program that is no consumer": (
        [created("consumer-1", role="consumer"), delivered("1", 0), delivered("1", 0),
         processed("1", 0), processed("1", 0)],
        "duplicate-effect", "allowed", "enable.auto.commit=true",
    ),
    "Java's consumer has its own defaults": (
        [created("consumer-1", role="consumer", library="java"), sent_in(1, "1"),
         delivered("1", 0), told("aborted", 1)],
        "aborted-read", "allowed", "isolation.level=read_uncommitted",
    ),
    "an aborted copy is passed over, and nothing visible has a key": (
        [created("consumer-1", role="consumer"),
         *(replace(it, key="k") for it in (sent_in(1, "1"), delivered("1", 0), record("1", 0))),
         told("failed", 1), visible("2", 1), stop(2, 2)],
        "aborted-read", "undecided", None,
    ),
    "the same, and it has one": (
        [created("consumer-1", role="consumer"),
         *(replace(it, key="k") for it in (sent_in(1, "1"), delivered("1", 0), record("1", 0),
                                           visible("2", 1))),
         told("failed", 1), stop(2, 2)],
        "aborted-read", "breach", None,
    ),
    "another library's consumer has defaults that nobody knows": (
        [created("consumer-1", role="consumer", library="franz-go"), sent_in(1, "1"),
         delivered("1", 0), told("aborted", 1)],
        "aborted-read", "undecided", None,
    ),
    "the same, and it says which isolation it has": (
        [created("consumer-1", role="consumer", library="franz-go",
                 isolation__level="read_committed"),
         sent_in(1, "1"), delivered("1", 0), told("aborted", 1)],
        "aborted-read", "breach", None,
    ),
    "a binding of librdkafka has librdkafka's": (
        [created("consumer-1", role="consumer", library="confluent-kafka-go"), sent_in(1, "1"),
         delivered("1", 0), told("aborted", 1)],
        "aborted-read", "breach", None,
    ),
    "another library's producer may be idempotent": (
        [created("producer-1", role="producer", library="franz-go"), *TWICE],
        "duplicate", "undecided", None,
    ),
    "the same, and its acks exclude that": (
        [created("producer-1", role="producer", library="kafka-python", acks="1"), *TWICE],
        "duplicate", "allowed", "enable.idempotence=false",
    ),
    "librdkafka's consumer has its own defaults, too": (
        [created("consumer-1", role="consumer"), sent_in(1, "1"), delivered("1", 0),
         told("aborted", 1)],
        "aborted-read", "breach", None,
    ),
    "the same, and no topic's setting would allow it": (
        [created("producer-1", role="producer", enable__idempotence="true"),
         topic(2, cleanup__polcy="compact"), *TWICE],
        "duplicate", "breach", None,
    ),
    "another one is misspelt": (
        [created("producer-1", role="producer", enable__idempotence="true", acks="2"), *TWICE],
        "duplicate", "breach", None,
    ),
}  # fmt: skip
SENT_AGAIN = [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), told("committed", 2),
              delivered("1", 0), delivered("1", 2)]  # fmt: skip
COMPACTED = [
    PRODUCER, topic(None, 1, "compact"), created("consumer-1", group__id="a", **EARLIEST),
    placed("assigned"),
    *(acked(value, offset, key=key) for offset, (key, value) in enumerate(("a1", "b1", "b2"))),
]  # fmt: skip
BEFORE_AND_AFTER = [delivered("1", 0, key="a"), delivered("2", 2, key="b")]
ALL_3 = [record("1", 0, key="a"), record("1", 1, key="b"), record("2", 2, key="b"), end(offset=3)]
READ_FIRST = [*COMPACTED, *ALL_3, *BEFORE_AND_AFTER]
READ_LAST = [*COMPACTED, *BEFORE_AND_AFTER, *ALL_3]
HELD_2 = [record("1", 1, key="b"), record("2", 2, key="b"), end(offset=3)]
ABORTED = [created("producer-1", role="producer", transactional__id="a"), acked("1", 0)]
READ: Judged = {
    "aborted and sent again, and a reader of transactions was given both": (
        [created("consumer-1", role="consumer"), *SENT_AGAIN], "aborted-read", "breach", None,
    ),
    "the same, and it reads everything": (
        [created("consumer-1", role="consumer", isolation__level="read_uncommitted"), *SENT_AGAIN],
        "aborted-read", "allowed", "isolation.level=read_uncommitted",
    ),
    "a record that nobody acked is gone when the log is read again": (
        [PRODUCER, *log("1"), *log("2")], "inconsistent-offsets", "breach", None,
    ),
    "the same, and the producer does not wait for all": (
        [created("producer-1", role="producer", acks="1"), *log("1"), *log("2")],
        "inconsistent-offsets", "breach", None,
    ),
    "the same, and who was not in sync may lead": (
        [PRODUCER, topic(None, unclean__leader__election__enable="true"), *log("1"), *log("2")],
        "inconsistent-offsets", "allowed", "unclean.leader.election.enable=true",
    ),
    "the same, and the topic was deleted in between": (
        [PRODUCER, *log("1"), GONE, *log("2")], "inconsistent-offsets", "allowed", None,
    ),
    "the same compacted topic, read before and after": (
        [*READ_FIRST, *HELD_2], "unseen", "undecided", None,
    ),
    "a read_committed reader came to the end and was given nothing": (
        [created("reader", role="consumer"), *ABORTED, end(offset=2)],
        "lost-write", "undecided", None,
    ),
    "a read_uncommitted reader came there and was given nothing": (
        [created("reader", role="consumer", isolation__level="read_uncommitted"), *ABORTED,
         end(offset=2)],
        "lost-write", "breach", None,
    ),
    "only a read_committed reader, and a producer that nobody recorded": (
        [OTHER, sent("1"), acked("1", 0), visible("2", 1),
         end(offset=2)],
        "lost-write", "undecided", None,
    ),
    "passed over in a compacted topic, which was read before": (
        READ_FIRST, "poll-skip", "undecided", None,
    ),
    "the same, of its group": (READ_FIRST, "unseen", "undecided", None),
    "passed over in a compacted topic, which has it still": (
        READ_LAST, "poll-skip", "breach", None,
    ),
    "the same, of its group, and it has it still": (READ_LAST, "unseen", "breach", None),
}  # fmt: skip
PASSED = [
    created("consumer-1", group__id="a", **EARLIEST), sent("1"), acked("1", 0), acked("2", 1),
    placed("assigned"), delivered("2", 1), *log("1", "2"),
]  # fmt: skip
PASSED_ALL = [*PASSED[:3], sent("2"), *PASSED[3:]]
IN_TRANSACTIONS = created("producer-2", role="producer", transactional__id="t")
ELSEWHERE = sent_in(1, "3", topic="out", actor="producer-2")
UNTOLD: Judged = {
    "passed over, and nobody recorded whether its producer has transactions": (
        PASSED, "unseen", "undecided", None,
    ),
    "the same, and its producer has none": ([PRODUCER, *PASSED], "unseen", "breach", None),
    "the same, and another one has some, and sends to another topic": (
        [PRODUCER, IN_TRANSACTIONS, ELSEWHERE, *PASSED_ALL], "unseen", "breach", None,
    ),
    "the same, and nobody recorded what was sent": (
        [PRODUCER, IN_TRANSACTIONS, ELSEWHERE, *(it for it in PASSED_ALL if it.kind != "sent")],
        "unseen", "undecided", None,
    ),
    "the same, and the other one sends to this topic, too": (
        [PRODUCER, IN_TRANSACTIONS, replace(ELSEWHERE, topic="orders", detail={}), *PASSED_ALL],
        "unseen", "undecided", None,
    ),
}  # fmt: skip
MORE: Judged = {
    **READ, **ACTS, **CHANGED, **OUTLIVED, **REPLICATED, **SETTINGS, **UNLIKE, **UNTOLD,
}  # fmt: skip
