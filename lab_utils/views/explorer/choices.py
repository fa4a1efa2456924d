"""What the explorer of each lab offers: a few choices, and the program that they make.

An option fills places of the program, `$name`; what it fills in may have places of its own. The
program that is shown is the program that runs. A lab has one table here and nothing elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from string import Template
from typing import Any, Final

from lab_utils.errors import BadArgument, one_of

LINE_LIMIT: Final = 99

# What an option fills in, by the name of the place; a text alone fills the place of its choice.
Fills = str | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that a learner may change: what it is called, and its options by their words."""

    name: str
    asks: str
    options: Mapping[str, Fills]
    default: str
    is_slider: bool = False

    def fills(self, option: str) -> Mapping[str, str]:
        """What an option fills in."""
        given = self.options[option]
        return {self.name: given} if isinstance(given, str) else given


@dataclass(frozen=True, slots=True)
class Offer:
    """The explorer of one lab.

    about    what the finding is about, a key of run_data.HEADLINES
    apis     the requests that are drawn
    takes    how long a run may take, if it is longer than a second
    """

    title: str
    choices: tuple[Choice, ...]
    program: str
    about: str = "orders"
    apis: tuple[str, ...] = ("Produce",)
    takes: str = ""

    def chosen(self, choice: Mapping[str, str]) -> dict[str, str]:
        """A choice with its defaults; raises BadArgument for what is not offered."""
        for name in choice:
            one_of("a choice", str(name), [it.name for it in self.choices])
        return {
            it.name: one_of(it.name, str(choice.get(it.name, it.default)), it.options)
            for it in self.choices
        }

    def places(self, choice: Mapping[str, str]) -> dict[str, str]:
        """What the options of a choice fill in, by the place."""
        chosen = self.chosen(choice)
        filled = [it.fills(chosen[it.name]) for it in self.choices]
        return {name: text for fills in filled for name, text in fills.items()}

    def code(self, choice: Mapping[str, str]) -> str:
        """The program of a choice, with what it imports; `run` is its last name."""
        places, text = self.places(choice), self.program
        while (filled := Template(text).substitute(places)) != text:
            text = filled
        text = re.sub(r"[ ]+$", "", text, flags=re.MULTILINE).replace(", faults=[]", "")
        # A program calls functions of the lab in its faults alone.
        used = sorted(set(re.findall(r"(\w+)\(", text.partition("faults=")[2])))
        imports = [f"from lab_utils import {', '.join(used)}"] if used else []
        imports += ["from sqlalchemy import text"] if "text(" in text else []
        return "\n".join([*imports, *([""] if imports else []), _folded(text.strip()), ""])

    def words(self, choice: Mapping[str, str]) -> str:
        """A choice in a few words. A slider that moves nothing in the program is left out.

        >>> LAB_05.words({"fault": "is never killed"})
        'The loop works, then commits · The process is never killed'
        >>> LAB_01.words({"fault": "a follower"})
        'acks 1 · dies: a follower · at 3'
        """
        chosen = self.chosen(choice)
        said = []
        for it in self.choices:
            option = chosen[it.name]
            if not it.is_slider:
                _, _, happens = it.asks.removesuffix("?").partition(" ")  # Who, or what?
                is_question = it.asks.endswith("?")
                said.append(f"{happens}: {option}" if is_question else f"{it.asks} {option}")
            elif len({self.code({**chosen, it.name: other}) for other in it.options}) > 1:
                said.append(f"at {option}")
        return " · ".join(said)

    def every_choice(self) -> list[dict[str, str]]:
        """Each combination of options; some make the same program."""
        names = [it.name for it in self.choices]
        return [
            dict(zip(names, options, strict=True))
            for options in product(*(it.options for it in self.choices))
        ]

    def to_json(self) -> dict[str, Any]:
        """What the page needs to offer the choices."""
        return {
            "title": self.title,
            "takes": self.takes,
            "choices": [
                {
                    "name": it.name, "asks": it.asks, "options": list(it.options),
                    "default": it.default, "slider": it.is_slider,
                }
                for it in self.choices
            ],
        }  # fmt: skip


def _folded(text: str) -> str:
    """The program with a list of faults that does not fit into the call of lab.run."""
    lines = []
    for line in text.splitlines():
        call, _, rest = line.partition("faults=[")
        faults, _, end = rest.rpartition("]")
        if len(line) > LINE_LIMIT and faults:
            each = [f"    {it}," for it in re.split(r"(?<=\)), ", faults)]
            lines += ["faults = [", *each, "]", f"{call}faults=faults{end}"]
        else:
            lines.append(line)
    return "\n".join(lines)


def offer_of(lab: str) -> Offer:
    """What the explorer of this lab offers; raises BadArgument where there is none."""
    if lab not in OFFERS:
        raise BadArgument(
            f"lab {lab!r} has no explorer; there is one for {', '.join(OFFERS)}. To draw a run of "
            "your own, call run.timeline()."
        )
    return OFFERS[lab]


def _numbers(most: int) -> dict[str, str]:
    return {str(number): str(number) for number in range(1, most + 1)}


def _slider(asks: str, most: int, default: int) -> Choice:
    return Choice("nth", asks, _numbers(most), str(default), is_slider=True)


SEND_ONE_BY_ONE: Final = """\
def send_orders(run):
    producer = run.producer({$settings})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()  # returns when the order is acked, failed or unknown
"""

LAB_00: Final = Offer(
    "Where is my message?",
    (
        Choice("fault", "What goes wrong?", {
            "nothing": {"fault": "", "wait": ""},
            "the answer is lost": {"fault": 'drop_response("Produce", nth=$nth)', "wait": ""},
            "the request is lost": {"fault": 'drop_request("Produce", nth=$nth)', "wait": ""},
            "the answer is late": {
                "fault": 'delay_response("Produce", nth=$nth, by_ms=2500)',
                "wait": "    producer.poll(2)  # lives on until the late answer has come\n",
            },
        }, "the answer is lost"),
        _slider("At which Produce request?", 4, 3),
    ),
    SEND_ONE_BY_ONE.replace("$settings", '"acks": "all", "message.timeout.ms": 1000') + """\
${wait}
run = lab.run(send_orders, orders=4, faults=[$fault])
""",
    takes="A client that waits in vain gives up after 1 to 2 seconds.",
)  # fmt: skip

# The links are cut one request before the death: a leader that is cut off for a second is alone in
# the ISR, and then nobody else may lead.
CUT_OFF: Final = (
    'cut_link(1, 2, api="Produce", nth=$before$when), '
    'cut_link(1, 3, api="Produce", nth=$before$when), '
    'kill_broker(1, api="Produce", nth=$nth$dies)'
)
RECEIVED: Final = ', when="received"'
LAB_01: Final = Offer(
    "What did the acknowledgement promise?",
    (
        Choice("acks", "acks", {
            "0": {"acks": "0", "when": RECEIVED, "dies": RECEIVED},
            "1": {"acks": "1", "when": "", "dies": ""},
            "all": {"acks": '"all"', "when": "", "dies": RECEIVED},
        }, "1"),
        Choice("fault", "Who dies?", {
            "nobody": "",
            "the leader": 'kill_broker(1, api="Produce", nth=$nth$dies)',
            "the leader, cut off": CUT_OFF,
            "a follower": 'kill_broker(2, api="Produce", nth=$nth$dies)',
        }, "nobody"),
        Choice("nth", "At which Produce request?", {
            str(nth): {"nth": str(nth), "before": str(nth - 1)} for nth in (2, 3, 4)
        }, "3", is_slider=True),
    ),
    SEND_ONE_BY_ONE.replace("$settings", '"acks": $acks, "message.timeout.ms": 6000') + """
run = lab.run(send_orders, orders=5, faults=[$fault])
""",
    about="replicas",
    takes="A dead leader is noticed after about 3 seconds, so such a run takes 5 to 12.",
)  # fmt: skip

LAB_02: Final = Offer(
    "Who must have it before I am safe?",
    (
        Choice("replicas", "Replicas", _numbers(3), "3"),
        Choice("floor", "min.insync.replicas", _numbers(3), "2"),
        Choice("fault", "Who is paused?", {
            "nobody": "",
            "broker 3": 'pause_broker(3, api="Produce", nth=$nth)',
            "brokers 2 and 3": 'pause_broker(2, api="Produce", nth=$nth), '
                               'pause_broker(3, api="Produce", nth=$nth)',
        }, "nobody"),
        _slider("After which Produce request?", 3, 1),
    ),
    SEND_ONE_BY_ONE.replace("$settings", '"acks": "all", "message.timeout.ms": 3000') + """
settings = {"min.insync.replicas": $floor}
run = lab.run(send_orders, orders=4, replicas=$replicas, topic_config=settings, faults=[$fault])
""",
    about="replicas",
    takes="A paused follower leaves the ISR after about 1 second, and an order that is refused "
          "is given up after 3: such a run takes up to 12.",
)  # fmt: skip

LAB_03: Final = Offer(
    "Why did the order arrive twice, and why last?",
    (
        Choice("idempotence", "enable.idempotence", {"false": "False", "true": "True"}, "false"),
        Choice("in_flight", "max.in.flight", {
            "1": {"in_flight": "1", "sent": ""},
            "5": {"in_flight": "5", "sent": ", sent=4"},
        }, "1"),
        Choice("fault", "What goes wrong?", {
            "nothing": "",
            "the answer is lost": 'drop_response("Produce", nth=$nth$sent)',
            "the request is lost": 'drop_request("Produce", nth=$nth)',
            "it is refused": 'refuse("Produce", nth=$nth$sent)',
            "it is corrupted": 'corrupt_request("Produce", nth=$nth$sent)',
        }, "the answer is lost"),
        _slider("At which Produce request?", 4, 3),
    ),
    """\
def send_orders(run):
    producer = run.producer({"enable.idempotence": $idempotence, "max.in.flight": $in_flight})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()  # returns when each order is acked, failed or unknown

run = lab.run(send_orders, orders=4, faults=[$fault])
""",
)  # fmt: skip

LAB_04: Final = Offer(
    "All or nothing: who decides?",
    (
        Choice("first", "Order 0 ends with", {"commit": "commit", "abort": "abort"}, "commit"),
        Choice("second", "Orders 1 and 2 end with", {
            "commit": "    producer.commit_transaction()",
            "abort": "    producer.abort_transaction()",
            "nothing": "    # and the program is over",
        }, "abort"),
        Choice("fault", "The first EndTxn", {
            "arrives": "",
            "is late": 'late_request("EndTxn", nth=1, after="Produce")',
            "loses its answer": 'drop_response("EndTxn", nth=1)',
        }, "arrives"),
        Choice("taken", "A second program with the same name", {
            "does not start": "",
            "starts before the end": (
                '    successor = run.producer({"transactional.id": run.topic})\n'
                "    successor.init_transactions()\n"
            ),
        }, "does not start"),
    ),
    """\
def two_transactions(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[0], partition=0)
    producer.flush()
    producer.${first}_transaction()
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[1], partition=0)
    producer.flush()
    producer.produce(run.topic, run.orders[2], partition=1)
    producer.flush()
${taken}$second

run = lab.run(two_transactions, orders=3, partitions=2, faults=[$fault])
""",
    about="transactions",
    apis=("Produce", "EndTxn"),
)  # fmt: skip

# Orders are named from 0 on, and a fault counts from 1.
AT_ORDER: Final = Choice(
    "nth", "At which order?", {str(order): str(order + 1) for order in range(4)}, "2",
    is_slider=True,
)  # fmt: skip

LAB_05: Final = Offer(
    "Which bookmark survives the crash?",
    (
        Choice("body", "The loop", {
            "works, then commits":
                "        run.processed(message)  # the work is done here\n"
                "        consumer.commit(message, asynchronous=False)",
            "commits, then works":
                "        consumer.commit(message, asynchronous=False)\n"
                "        run.processed(message)  # the work is done here",
        }, "works, then commits"),
        Choice("fault", "The process", {
            "is never killed": "",
            "is killed after poll()": 'crash_client("after_poll", nth=$nth)',
            "is killed after the work": 'crash_client("after_process", nth=$nth)',
            "is killed after commit()": 'crash_client("after_commit", nth=$nth)',
        }, "is killed after the work"),
        AT_ORDER,
    ),
    """\
def read_orders(run):
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
$body

run = lab.run(read_orders, orders=4, filled=True, faults=[$fault])
""",
    about="work",
    apis=("OffsetCommit",),
    takes="A process that is killed is started again: such a run takes 2 to 4 seconds.",
)  # fmt: skip

INTO_THE_DATABASE: Final = """\
def book(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT$key)"))
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        with database.begin() as connection:  # commits at its end
            connection.execute(text("INSERT INTO bookings VALUES (:order)$conflict"),
                               {"order": message.value().decode()})
        consumer.commit(message, asynchronous=False)

run = lab.run(book, orders=4, filled=True, faults=[$fault])
"""
INTO_KAFKA: Final = """\
def book(run):
    producer = run.producer({"transactional.id": run.topic})
    producer.init_transactions()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        producer.begin_transaction()
        producer.produce(run.topics["invoices"], message.value(), partition=0)
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()

run = lab.run(book, orders=4, filled=True, topics=["invoices"], faults=[$fault])
"""
DATABASE: Final = {
    "program": INTO_THE_DATABASE, "before": "before_db_commit", "after": "after_db_commit",
    "about": "effects",
}  # fmt: skip
LAB_06: Final = Offer(
    "Exactly once, from where to where?",
    (
        Choice("sink", "Each order becomes", {
            "a row": {**DATABASE, "key": "", "conflict": ""},
            "a row with a key": {
                **DATABASE, "key": " PRIMARY KEY", "conflict": " ON CONFLICT DO NOTHING",
            },
            "a record, in a transaction": {
                "program": INTO_KAFKA, "before": "before_commit", "after": "after_commit",
                "about": "invoices", "key": "", "conflict": "",
            },
        }, "a row"),
        Choice("fault", "The process", {
            "is never killed": "",
            "is killed before its commit": 'crash_client("$before", nth=$nth)',
            "is killed after its commit": 'crash_client("$after", nth=$nth)',
        }, "is killed after its commit"),
        AT_ORDER,
    ),
    "$program",
    apis=("Produce", "OffsetCommit", "TxnOffsetCommit", "EndTxn"),
    takes="A process that is killed is started again: such a run takes 2 to 6 seconds.",
)  # fmt: skip

OFFERS: Final[Mapping[str, Offer]] = {
    "00": LAB_00, "01": LAB_01, "02": LAB_02, "03": LAB_03, "04": LAB_04, "05": LAB_05,
    "06": LAB_06,
}  # fmt: skip
