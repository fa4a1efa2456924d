"""The explorer's data and words: what a step says, when a cell fills, which program a choice is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lab_utils import course
from lab_utils.errors import BadArgument
from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History
from lab_utils.views.explorer import CLOSED, Explorer
from lab_utils.views.explorer.choices import OFFERS, offer_of
from lab_utils.views.explorer.log_rows import _commits
from lab_utils.views.explorer.run_data import HEADLINES, RunData, run_data
from lab_utils.views.explorer.steps import STYLES, Steps
from tests.views import consuming_histories, histories, replica_histories, transaction_histories
from tests.views.histories import fired, request, response


def row(data: RunData, name: str, step: int = 1000) -> str:
    """What a row of the log shows at a step."""
    cells = next(it["cells"] for it in data["log"] if it["name"] == name)
    states = ([state for state in cell["states"] if state[0] <= step] for cell in cells)
    return " ".join(found[-1][1] for found in states if found)


def kinds(data: RunData, name: str) -> list[str]:
    """What each cell of a row is in the end."""
    cells = next(it["cells"] for it in data["log"] if it["name"] == name)
    return [cell["states"][-1][2] for cell in cells]


CUT = [
    request(1, "0", 1), request(2, "1", 2), response(3, 1, offset=0, fate="dropped"),
    fired(4, "drop_response", 1, nth=1), response(5, 2, offset=1, fate="dropped"),
]  # fmt: skip
# What happened, the steps from the first of these on, and a pattern of words that are in none.
TOLD: dict[str, tuple[list[Event], list[str], str]] = {
    "stored, dropped, sent again, stored again": (histories.lost_answer(), [
        "The producer sends order 2.",
        "Broker 1 has stored order 2 at offset 2 and answers. "
        "The proxy drops the answer: the client never gets it.",
        "The producer sends order 2 again.",
        "Broker 1 has stored order 2 at offset 3 and answers.",
        "The producer reports order 2 as acked, at offset 3.",
    ], "recognises"),
    "one answer is dropped, and the next one with its connection": (CUT, [
        "Broker 1 has stored order 0 at offset 0 and answers. "
        "The proxy drops the answer: the client never gets it.",
        "Broker 1 has stored order 1 at offset 1 and answers. "
        "The proxy has cut the connection and drops the answer: the client never gets it.",
    ], "again"),
    "the broker knows the batch": (histories.recognised(), [
        "Broker 1 recognises order 2: it is stored already, at offset 2. It answers so.",
    ], "copy"),
    "a copy is the proxy's, and the broker knows it": (histories.replayed(), [
        "The proxy sends a copy of order 0. The client knows nothing of it.",
        "Broker 1 recognises order 0: it is stored already, at offset 0. It answers so. "
        "The proxy drops the answer: it answers a copy.",
    ], "again"),
    "a refusal is the proxy's, and a repeat elsewhere is not recognised": (histories.refused(), [
        "The proxy answers NOT_ENOUGH_REPLICAS in the place of broker 1.",
    ], "recognises|Broker 1 answers NOT"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "steps", "unsaid"), TOLD.values(), ids=TOLD)
def test_what_is_told_step_by_step(rows: list[Event], steps: list[str], unsaid: str) -> None:
    """Each step says who did what: the client, the proxy or the broker."""
    told = [step.text for step in Steps(rows).all]
    begin = told.index(steps[0])

    assert steps == told[begin : begin + len(steps)]
    assert not any(re.search(unsaid, text) for text in told)


def test_what_the_proxy_holds_are_two_steps() -> None:
    """A held answer arrives at the proxy, and leaves it later."""
    steps = Steps(histories.hole()).all
    held = next(step for step in steps if step.style == "held")
    gone = next(step for step in steps if step.since_ns == held.at_ns)

    assert ("broker 1", "proxy") == held.path
    assert ("proxy", "producer") == gone.path
    assert "after 40.0 ms" in gone.text


def test_an_answer_that_is_let_go_too_late_is_lost_then() -> None:
    """The client has hung up: nothing was dropped when the broker answered."""
    steps = Steps(histories.late_answer()).all
    held, gone = [step for step in steps if step.style in ("held", "undelivered")]

    assert (("broker 1", "proxy"), ("proxy",)) == (held.path, gone.path)
    assert held.at_ns == gone.since_ns < gone.at_ns
    assert gone.text.endswith("after 1,500 ms. The client has closed the connection by then: it "
                              "never gets the answer.")  # fmt: skip


def test_log_grows_with_the_answers() -> None:
    """A cell fills when the broker has said that it is stored; a second copy marks both."""
    data = run_data(histories.lost_answer())

    assert ["", "0", "0 1 2", "0 1 2 2", "0 1 2 2 3 4"] == [
        row(data, "log", step) for step in (0, 1, 7, 9, 17)
    ]
    assert ["once", "once", "twice", "twice", "once", "once"] == kinds(data, "log")
    assert ["duplicated"] == data["outcomes"]


def test_an_order_that_came_last_is_marked() -> None:
    """Order 0 was sent first and is stored after the other three."""
    data = run_data(histories.last())

    assert ["once", "once", "once", "late"] == kinds(data, "log")


def test_lost_order_stands_beside_the_log() -> None:
    """An order that was acked and is nowhere has a row of its own, once the log is read back."""
    data = run_data(histories.hole())
    last = len(data["steps"]) - 1

    assert "1 2 3" == row(data, "log")
    assert ["", "0"] == [row(data, "acked, not in the log", step) for step in (last - 1, last)]


def test_two_brokers_have_different_orders_at_one_offset() -> None:
    """Each broker's log has what was stored while it led, or what its leader then had."""
    data = run_data(replica_histories.acked_alone(), about="replicas")

    last = len(data["steps"]) - 1

    assert ["0 1", "2", "2"] == [row(data, f"broker {number}") for number in (1, 2, 3)]
    assert ["", "2"] == [row(data, "log read back", step) for step in (last - 1, last)]
    assert "broker 2 became leader without them" in data["finding"]


def test_bookmark_and_work_of_a_consumer() -> None:
    """The rows below the log say what was handed out, done, and where the group reads on."""
    rows = consuming_histories.repeated_and_skipped()
    data = run_data(rows, about="work", apis=("OffsetCommit",))

    assert "done again never" == " ".join(kinds(data, "work done"))
    assert ["process"] == [lane for lane in data["lanes"] if not lane.startswith(("b", "proxy"))]
    assert "skipped" in data["finding"]


def test_a_commit_of_the_database_is_a_step_of_its_process() -> None:
    """What a database keeps beside Kafka is told at its moment, on the lane of who asked for it."""
    committed = Event(run="r", source="client", actor="database", kind="db_committed", at_ns=1)
    step = Steps([committed]).all[0]

    assert (("process",), "The database has committed") == (step.path, step.text[:26])


def test_a_program_of_another_library_has_its_lane() -> None:
    """A sweep draws it under the name that it was given."""
    rows = [request(1, "0", 1, actor="java"), response(2, 1, 0, actor="java")]

    assert ["java", "proxy", "broker 1"] == run_data(rows)["lanes"]


def test_transactions_say_who_is_given_what() -> None:
    """Records, markers and what a read_committed reader is given."""
    data = run_data(transaction_histories.torn(), about="transactions", apis=("EndTxn",))

    assert "0 C 1 C" == row(data, "log, partition 0")
    assert ["hidden"] == kinds(data, "read_committed: log, partition 1")


def test_a_bookmark_in_a_transaction_moves_with_its_commit() -> None:
    """What a dead process left open moves nothing; its successor's commit does."""
    sent = {"TxnOffsetCommit": {}, "EndTxn": {"committed": "True"}}
    calls = [("TxnOffsetCommit", "producer-1", 3), ("TxnOffsetCommit", "producer-2", 3),
             ("EndTxn", "producer-2", None)]  # fmt: skip
    rows = [
        Event(run="06-a", source="wire", actor=actor, kind=kind, api=api, offset=offset,
              correlation_id=number, at_ns=10 * number + (kind == "response"),
              detail=sent[api] if kind == "request" else {})
        for number, (api, actor, offset) in enumerate(calls, start=1)
        for kind in ("request", "response")
    ]  # fmt: skip

    assert [(31, 3)] == _commits(History(rows))


@pytest.mark.parametrize("about", HEADLINES)
def test_no_rows(about: str) -> None:
    """A run of which nothing is known is still a run."""
    data = run_data([], about=about)

    assert [[], [], ["client"]] == [data["steps"], data["log"], data["lanes"]]
    assert ["inconclusive"] == data["outcomes"]


def test_what_proves_nothing_says_why() -> None:
    """Evidence that is not whole, and a fault that was armed and never fired, are the finding."""
    broken = run_data(histories.calm(), trouble=["the log was not read to its end"])
    unfired = run_data([*histories.calm(), histories.armed(0.1, "drop_response", 9)])

    assert "This run proves nothing: the log was not read to its end." == broken["finding"]
    assert "The fault never fired, so this run proves nothing." == unfired["finding"]


def test_steps_have_a_style() -> None:
    """Each step names a style that there is."""
    for rows in (histories.twin(), replica_histories.last_one(), transaction_histories.torn()):
        assert {step["style"] for step in run_data(rows)["steps"]} <= STYLES.keys()


def test_each_program_fits() -> None:
    """The lines of every program fit; that each runs, its recording shows."""
    programs = [offer.code(it) for offer in OFFERS.values() for it in offer.every_choice()]

    assert max(len(line) for code in programs for line in code.splitlines()) < 100


def test_it_asks_what_its_notebook_asks() -> None:
    """Each lab has an explorer, under the notebook's own title.

    A driver of Spark is too slow for one; what is to be signed off is one program, and so is an
    incident.
    """
    assert {lab: offer.title for lab, offer in OFFERS.items()} == {
        each.lab: each.question
        for each in course.entries()
        if each.lab[0] != "7" and each.lab not in ("07", "08")
    }


@pytest.mark.parametrize("lab", ["05", "06"])
def test_an_order_is_chosen_by_its_name(lab: str) -> None:
    """Orders are named from 0 on, and a fault counts from 1."""
    programs = [offer_of(lab).code({"nth": name}) for name in "0123"]

    assert [True] * 4 == [f"nth={n})" in code for n, code in enumerate(programs, start=1)]


@pytest.mark.parametrize("choice", [{"speed": "1"}, {"nth": "9"}, {"fault": "$body"}])
def test_choice_that_is_not_offered(choice: dict[str, str]) -> None:
    """What a page asks for is a choice that is offered, or refused."""
    with pytest.raises(BadArgument):
        OFFERS["03"].code(choice)


def test_lab_without_explorer() -> None:
    """The error names the labs that have one."""
    with pytest.raises(BadArgument, match="there is one for 00, 01"):
        offer_of("mine")


class Heard(Explorer):
    """An explorer whose messages are kept instead of sent."""

    def send(self, content: Any, buffers: Any = None) -> None:  # noqa: D102
        self.said = [*getattr(self, "said", []), content]


def heard(perform: Any, *asked: object) -> Heard:
    explorer = Heard(OFFERS["03"], perform, [])
    for each in asked:
        explorer._answer(explorer, each, None)
    return explorer


def test_kernel_says_that_it_has_begun_and_then_answers() -> None:
    """Each message that has a number gets two: that the run begins, and the run."""
    shown = heard(lambda choice: {"choice": dict(choice)}, {"number": 1, "choice": {"nth": "2"}})

    assert [{"number": 1, "begun": True}, {"number": 1, "run": {"choice": {"nth": "2"}}}] == (
        shown.said
    )
    assert [{"choice": {"nth": "2"}}] == shown.runs


@pytest.mark.parametrize("asked", [None, "x", {}, {"number": "1"}, {"number": None}])
def test_what_is_no_question_gets_no_answer(asked: object) -> None:
    assert not hasattr(heard(lambda _: {}, asked), "said")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BadArgument("nth must be at most 4."), r"nth must be at most 4\."),
        (RuntimeError("the client is closed"), r".*run the notebook's first cell.*"),
        (KeyboardInterrupt(), r"The run was interrupted.*"),
    ],
)
def test_refusal_and_breakage_are_said_in_words(error: BaseException, said: str) -> None:
    """What the lab refuses is said in its own words; anything else says what to run."""

    def breaks(_: object) -> RunData:
        raise error

    assert re.fullmatch(said, heard(breaks, {"number": 1}).said[-1]["error"])


def test_closed_lab_makes_no_run() -> None:
    """Once its lab is closed the explorer says so, and performs nothing."""
    shown = heard(lambda _: pytest.fail("it was performed"))
    shown.tell(CLOSED)
    shown._answer(shown, {"number": 1, "choice": {}}, None)

    assert [{"news": CLOSED}, {"number": 1, "error": CLOSED}] == [
        it for it in shown.said if "begun" not in it
    ]
