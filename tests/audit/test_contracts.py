"""The contracts: which configuration allows which finding. No Spark."""

import pytest

from lab_utils.audit.contracts import ALLOWED, BREACH, EXEMPTIONS, REQUIRED, clause
from lab_utils.audit.contracts.defaults import POSITIONS_CHANGED, POWER_CUT, RECORDS_DELETED
from lab_utils.audit.finding import RULES, Found, finding
from lab_utils.audit.judged import judged
from lab_utils.audit.survey import Survey
from lab_utils.errors import BadArgument
from lab_utils.ledger.topics import TopicFacts

UNCLEAN = "unclean.leader.election.enable"
FLOOR = "min.insync.replicas"
IDEMPOTENT = {"enable.idempotence": "True"}

# finding, configuration as a program gives it, judgement, the setting that decides
CLAUSES = [
    ("lost-write", {"acks": "0"}, ALLOWED, "acks=0"),
    ("lost-write", {"request.required.acks": "1"}, ALLOWED, "acks=1"),
    ("lost-write", {"acks": "all"}, BREACH, None),
    ("lost-write", {}, BREACH, None),
    ("lost-write", IDEMPOTENT, BREACH, None),
    ("duplicate", {}, ALLOWED, "enable.idempotence=false"),
    ("duplicate", {"retries": "0"}, BREACH, None),
    ("duplicate", {"message.send.max.retries": "0"}, BREACH, None),
    ("duplicate", IDEMPOTENT, BREACH, None),
    ("duplicate", {"transactional.id": "t"}, BREACH, None),
    ("nonmonotonic-send", {}, ALLOWED, "max.in.flight=1000000"),
    ("nonmonotonic-send", {"max.in.flight": "5"}, ALLOWED, "max.in.flight=5"),
    ("nonmonotonic-send", {"max.in.flight": "1"}, ALLOWED, "retry.backoff.ms=100"),
    ("nonmonotonic-send", {"max.in.flight": "1", "library": "java"}, BREACH, None),
    ("nonmonotonic-send", {"max.in.flight": "2", "library": "java"}, ALLOWED,
     "max.in.flight.requests.per.connection=2"),
    ("nonmonotonic-send", {"max.in.flight": "1", "retries": "0"}, BREACH, None),
    ("nonmonotonic-send", IDEMPOTENT, BREACH, None),
    ("phantom", {"message.timeout.ms": "1000"}, ALLOWED, "message.timeout.ms=1000"),
    ("phantom", {"role": "producer", "library": "java"}, ALLOWED, "delivery.timeout.ms=120000"),
    ("unavailable", {"acks": "all"}, REQUIRED, "acks=all"),
    ("unseen", {"auto.offset.reset": "latest"}, ALLOWED, "auto.offset.reset=latest"),
    ("unseen", {"auto.offset.reset": "earliest"}, ALLOWED, None),
    ("lost-write", {"acks": "all", "replicas": "3", UNCLEAN: "true"}, ALLOWED, f"{UNCLEAN}=true"),
    ("lost-write", {"acks": "all", "replicas": "3"}, BREACH, None),
    ("lost-write", {"cleanup.policy": "compact"}, BREACH, None),
    # One replica excuses a loss only when its broker has lost its power.
    ("lost-write", {"acks": "all", "replicas": "1"}, BREACH, None),
    ("lost-write", {"acks": "all", "replicas": "1", POWER_CUT: "1"}, ALLOWED, "replicas=1"),
    ("inconsistent-offsets", {"replicas": "1", POWER_CUT: "1"}, ALLOWED, "replicas=1"),
    # Else it takes as many as had to have the record.
    ("lost-write", {"replicas": "3", POWER_CUT: "1"}, ALLOWED, "min.insync.replicas=1"),
    ("lost-write", {"replicas": "3", FLOOR: "2", POWER_CUT: "1"}, BREACH, None),
    ("lost-write", {"replicas": "3", FLOOR: "0", POWER_CUT: "0"}, BREACH, None),
    ("lost-write", {"replicas": "3", FLOOR: "2", POWER_CUT: "2"}, ALLOWED, f"{FLOOR}=2"),
    ("nonmonotonic-poll", {"replicas": "3", FLOOR: "2", POWER_CUT: "2"}, ALLOWED, f"{FLOOR}=2"),
    ("inconsistent-offsets", {"acks": "all"}, BREACH, None),
    ("invisible-ack", {"acks": "1"}, ALLOWED, "acks=1"),
    ("invisible-ack", {"acks": "all"}, BREACH, None),
    ("aborted-read", {}, BREACH, None),
    ("aborted-read", {"isolation.level": "read_uncommitted"}, ALLOWED,
     "isolation.level=read_uncommitted"),
    ("duplicate-delivery", {"enable.auto.commit": "False"}, ALLOWED, "enable.auto.commit=false"),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "given", "judgement", "allowed_by"), CLAUSES)
def test_clause(
    finding: str, given: dict[str, str], judgement: str, allowed_by: str | None
) -> None:
    """A configuration decides whether a finding is required, allowed or a breach, and by what."""
    decided = clause(finding, [given])

    assert (judgement, allowed_by) == (decided.judgement, decided.allowed_by)


LATEST = {"auto.offset.reset": "latest"}
EARLIEST = {"auto.offset.reset": "earliest"}
EXPIRES = {"retention.ms": "1000"}
# finding, what is known of it, configuration, the setting that allows it
CIRCUMSTANCES = [
    # Where a group begins explains no order that was delivered to it,
    ("skipped-processing", "not given", LATEST, "auto.offset.reset=latest"),
    ("skipped-processing", "given", LATEST, "enable.auto.commit=true"),
    ("skipped-processing", "not given", EARLIEST, None),
    ("skipped-processing", "given", LATEST | {"enable.auto.commit": "false"},
     "enable.auto.commit=false"),
    ("skipped-processing", "nothing", LATEST, "enable.auto.commit=true"),
    ("skipped-processing", "not given", EARLIEST | {POSITIONS_CHANGED: "true"}, None),
    ("skipped-processing", "given", {POSITIONS_CHANGED: "true"}, "enable.auto.commit=true"),
    # nor one that it may still come to: who was given an earlier record began before the order.
    ("unseen", "late", LATEST, None),
    ("unseen", "not begun", LATEST, "auto.offset.reset=latest"),
    ("unseen", "sought", LATEST, None),
    ("unseen", "passed", LATEST, "auto.offset.reset=latest"),
    # What its log begins after somebody deleted, whether or not the topic is compacted alone.
    ("lost-write", "deleted", EXPIRES | {"cleanup.policy": "delete"}, "retention.ms=1000"),
    ("lost-write", "deleted", {"cleanup.policy": "compact", RECORDS_DELETED: "true"}, None),
    # It may lose what came before the last record of a key, and nothing else.
    ("lost-write", "superseded", {"cleanup.policy": "compact"}, "cleanup.policy=compact"),
    ("duplicate", "sent again", IDEMPOTENT, "sending it twice"),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "circumstance", "given", "allowed_by"), CIRCUMSTANCES)
def test_circumstances(
    finding: str, circumstance: str, given: dict[str, str], allowed_by: str | None
) -> None:
    """What is known of one finding decides which setting allows it."""
    decided = clause(finding, [given], [circumstance])

    assert (ALLOWED, allowed_by) == (decided.judgement, decided.allowed_by)


@pytest.mark.parametrize(
    ("given", "who"),
    [({}, "The client"), ({"enable.auto.offset.store": "false"}, "The program"),
     ({"enable.auto.commit": "false"}, "The program")],
)  # fmt: skip
def test_who_set_the_bookmark(given: dict[str, str], who: str) -> None:
    """The timer commits what was handed out, unless the program says what is done."""
    assert clause("skipped-processing", [given], ["given"]).reason.startswith(who)


def test_several_clients() -> None:
    """Of several clients the one that allows it decides."""
    assert clause("duplicate", [IDEMPOTENT, {}]).judgement == ALLOWED


def test_a_finding_has_its_name_alone() -> None:
    """Another finding of a name that is taken is refused; it would be judged by the first one."""
    taken = RULES["lost-write"]
    parts = list(taken.parts)

    def lost_again() -> Found:
        return Found(where="true", said="''")

    with pytest.raises(BadArgument, match=r"'lost-write' of lost_again\(\) exists already"):
        finding("lost-write", taken.parts[0].facts)(lost_again)
    assert parts == taken.parts


def test_each_finding_has_a_clause() -> None:
    """Each finding breaks a promise, and each exemption is about one of them."""
    promised = {name for name, rule in RULES.items() if rule.promise}

    assert set(RULES) - {"inconclusive"} == promised
    assert {exemption.finding for exemption in EXEMPTIONS} <= promised


def found(name: str, **columns: object) -> dict[str, object]:
    """A finding of a run, about producer-1 and orders unless it is said."""
    columns = {
        "run": "00-a", "topic": "orders", "partition": None, "actor": "producer-1", "evidence": "",
        "circumstances": (),
    } | columns  # fmt: skip
    return {"finding": name, **columns}


def seen(facts: TopicFacts) -> Survey:
    """A survey of a run of which this is known of its topic, and no client."""
    return Survey(topics={("00-a", "orders"): facts})


# The settings of one topic say nothing of another.
OTHERS = Survey(
    clients={("00-a", "producer-1"): [{"role": "producer", **IDEMPOTENT}]},
    topics={("00-a", "others"): TopicFacts(settings={UNCLEAN: "true"})},
)
JUDGED = {
    "sent once, with idempotence": (found("duplicate"), OTHERS, "breach"),
    "in the topic that allows it": (found("lost-write", topic="others"), OTHERS, "allowed"),
    "in another topic": (found("lost-write"), OTHERS, "breach"),
    "nobody saw what decides it": (found("lost-write"), Survey(), "undecided"),
    "nothing decides it": (found("torn-transaction"), Survey(), "breach"),
    "it has to be so": (found("unavailable"), Survey(), "required"),
    # A batch with a producer id is of an idempotent producer, whoever it was.
    "all have ids": (found("duplicate"), seen(TopicFacts(producer_ids=(7, 9))), "breach"),
    "none has an id": (found("duplicate"), seen(TopicFacts(producer_ids=(-1, -1))), "allowed"),
    "some have ids": (found("duplicate"), seen(TopicFacts(producer_ids=(-1, 7))), "undecided"),
}


@pytest.mark.parametrize(("row", "survey", "judgement"), JUDGED.values(), ids=JUDGED)
def test_judgement(row: dict[str, object], survey: Survey, judgement: str) -> None:
    """What is known of the run decides whether a finding is a breach, is allowed, or is open."""
    assert judgement == judged(row, survey)["judgement"]


def test_inconclusive() -> None:
    """What is inconclusive is no breach and not allowed: it proves nothing."""
    row = found("inconclusive", actor=None, evidence="not drained")

    assert judged(row, Survey())["judgement"] == "proves nothing"
    assert judged(row, Survey())["reason"] == "not drained"
