"""The half of an examination that runs inside the learner's kernel.

What happens here is the learner's word: it is data for the judge, and never a verdict. Answers
leave as JSON text of bounded size; functions are performed on a ticket that the grader made.
"""

from __future__ import annotations

import json
import re
import traceback
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lab_utils.errors import LabError, own_lines
from lab_utils.proxy.faults import Fault, from_json, to_json

CHARACTERS_MAX: Final = 1_000_000
ROWS_MAX: Final = 10_000
BATCH: Final = 2  # records in each batch of a streaming query
TRACEBACK: Final = "Traceback (most recent call last):"
OF_A_GROUP: Final = f"  + Exception Group {TRACEBACK}"  # each line below it begins with a frame
FRAME: Final = "  | "
# Python puts its module before the name of an exception; a learner knows the name.
MODULES: Final = re.compile(r"^(\w+\.)+(?=\w+(:|$))")
REPLICAS_MAX: Final = 3
TOPIC_SETTINGS: Final = ("min.insync.replicas", "unclean.leader.election.enable")
PRODUCER_SETTINGS: Final = (
    "acks", "enable.idempotence", "max.in.flight", "message.timeout.ms", "retries",
)  # fmt: skip
# The other names that librdkafka has for these; two of them are those of the Java client.
OTHER_NAMES: Final = {
    "delivery.timeout.ms": "message.timeout.ms",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
}
# What a client takes, and what a trial can end with: 0 ms would be for ever.
RANGES: Final = {
    "max.in.flight": (1, 1_000_000),
    "message.timeout.ms": (100, 60_000),
    "min.insync.replicas": (1, REPLICAS_MAX),
    "retries": (0, 2_147_483_647),
}
PARTS: Final = 'your answer must have "replicas", "topic" and "{}", and nothing else.'
RAISED: Final = "your function raised "
A_FAULT: Final = 'as in drop_response("Produce", nth=3).'
WORDS: Final = {
    "acks": ("all", "-1", "0", "1"),
    "enable.idempotence": ("true", "false"),
    "unclean.leader.election.enable": ("true", "false"),
}


def is_blank(answer: Any, depth: int = 2) -> bool:
    """Is there no answer yet: nothing, or `...` in what is there or in what that holds?"""
    if isinstance(answer, dict | list | tuple) and depth:
        parts = answer.values() if isinstance(answer, dict) else answer
        return any(part is ... or (part is not None and is_blank(part, depth - 1))
                   for part in parts)  # fmt: skip
    return answer is None or answer is ...


def answer_text(answer: Any) -> str:
    """An answer as JSON text: {"value": …}, {"faults": […]}, {"blank": true} or {"raised": …}."""
    if is_blank(answer):
        return json.dumps({"blank": True})
    if isinstance(answer, tuple) and hasattr(answer, "asDict"):  # a row of Spark can be called
        answer = answer.asDict(recursive=True)
    if callable(answer):
        return json.dumps({"function": True})
    faults = answer if isinstance(answer, list | tuple) else [answer]
    if faults and all(isinstance(each, Fault) for each in faults):
        return _bounded({"faults": [to_json(each) for each in faults]})
    return _bounded({"value": answer})


def pipeline_text(answer: Any) -> str:
    """A pipeline's settings as JSON text, as answer_text has them; its function stays here."""
    if is_blank(answer):
        return json.dumps({"blank": True})
    if not isinstance(answer, dict) or set(answer) != {"replicas", "topic", "workload"}:
        return json.dumps({"raised": PARTS.format("workload")})
    if not callable(answer["workload"]):
        return json.dumps(
            {"raised": f"workload is {answer['workload']!r}, and that is no function."}
        )
    settings = {"replicas": answer["replicas"], "topic": answer["topic"], "producer": {}}
    return _bounded({"value": settings})


def read_answer(said: Mapping[str, Any], kind: str) -> Any:
    """The answer in what `answer_text` said, or None; raises ValueError for what is none.

    It is called outside: by the grader, and by lab.check, so that both see the same answer.
    """
    if "raised" in said:
        raise ValueError(str(said["raised"]))
    if "function" in said:
        if kind == "faults":
            raise ValueError(f"your answer is a function, and no fault. Call it, {A_FAULT}")
        raise ValueError("your answer is a function, and the exercise asks for a value.")
    if kind in ("value", "settings", "pipeline"):
        value = said["faults"] if "faults" in said else said.get("value")
        return read_settings(value) if kind != "value" and value is not None else value
    if "faults" not in said:
        if "value" in said:
            raise ValueError(
                f"your answer is {said['value']!r}, and that is no fault. Write one {A_FAULT}"
            )
        return None
    if not isinstance(said["faults"], list):
        raise ValueError("your answer is no list of faults.")
    return tuple(map(_read_fault, said["faults"]))


def read_settings(value: Any) -> dict[str, Any]:
    """A learner's settings, if they are of the shape that is asked for, and harmless.

    They configure a producer in the grader's own process, so only these names are let in. One that
    librdkafka knows by two has its shorter one then.
    """
    if not isinstance(value, dict) or set(value) != {"replicas", "topic", "producer"}:
        raise ValueError(PARTS.format("producer"))
    if type(value["replicas"]) is not int or not 1 <= value["replicas"] <= REPLICAS_MAX:
        raise ValueError(f"replicas must be 1, 2 or 3; yours is {value['replicas']!r}.")
    read: dict[str, Any] = {"replicas": value["replicas"]}
    for part, known in (("topic", TOPIC_SETTINGS), ("producer", PRODUCER_SETTINGS)):
        given = value[part]
        if not isinstance(given, dict):
            raise ValueError(f"{part} must be a dictionary; yours is {given!r}.")
        read[part] = {OTHER_NAMES.get(name, name): setting for name, setting in given.items()}
        for name, setting in read[part].items():
            if name not in known:
                raise ValueError(f"{name!r} is not among the {part} settings {', '.join(known)}.")
            if not isinstance(setting, str | int | bool):
                raise ValueError(f"{name} must be a text, an integer or a bool; got {setting!r}.")
            _require_value(name, setting)
    return read


def _require_value(name: str, setting: str | int) -> None:
    """Raises ValueError for a value that no client takes, or with which no trial would end."""
    text = str(setting).lower()
    if name in WORDS and text not in WORDS[name]:
        raise ValueError(f"{name} is one of {', '.join(WORDS[name])}; yours is {setting!r}.")
    if name in RANGES:
        least, most = RANGES[name]
        is_number = re.fullmatch(r"-?[0-9]{1,12}", text) is not None
        if not is_number or not least <= int(text) <= most:
            raise ValueError(f"{name} is a number from {least} to {most}; yours is {setting!r}.")


def pickle_workload(function: Any, path: str = "") -> str:
    """Is this a workload? If a path is given, write it there for a process of its own.

    Of a query, too, this is asked first: what follows is given functions alone.
    """
    from lab_utils.clients.workload import pickled, require_workload

    if not callable(function):
        return json.dumps({"blank": True})
    try:
        require_workload(function)
        if path:
            Path(path).write_bytes(pickled(function))
    except Exception as error:  # whatever a learner's objects raise when they are pickled
        return json.dumps({"raised": raised(error)})
    return json.dumps({"done": True})


def run_ticket(function: Callable[[Any], object], ticket: bytes) -> str:
    """Perform a learner's workload for the grader's ticket; {"raised": …} or {"done": true}.

    What the client raises about its work is an outcome, which the log decides, and no failure.
    """
    from lab_utils.clients.live_run import Ticket
    from lab_utils.clients.workload import carry_out, is_outcome

    error = carry_out(function, Ticket.from_json(ticket))
    if error is None or is_outcome(error):
        return json.dumps({"done": True})
    return json.dumps({"raised": raised(error)})


def start_spark(folder: str) -> str:
    """Start Spark, if a cell has not, by a first look at the ledger in `folder`."""
    from lab_utils.audit.session import read_events

    return json.dumps({"done": bool(read_events(Path(folder)).limit(1).collect())})


def plan_query(function: Callable[[Any], Any]) -> str:
    """The plan of a learner's query as {"plan": base64}, {"blank": …}, or {"unplanned": why}.

    Where cells have started Spark, they may have set how it answers.
    """
    from lab_utils.audit.queries import planned
    from lab_utils.audit.session import has_session

    if has_session():
        return json.dumps({"unplanned": "Spark is there"})
    try:
        returned, plan = planned(function)
    except Exception as error:  # a learner's code may raise anything
        # What its own line has raised, it raises beside a Spark, too.
        is_own = own_lines(error)[-1:] == traceback.extract_tb(error.__traceback__)[-1:]
        return json.dumps({"raised" if is_own else "unplanned": raised(error)})
    return _in_place_of_rows(returned) or _bounded({"plan": b64encode(plan).decode()})


def run_plan(plan: str, folder: str) -> str:
    """Ask a plan about the ledger in `folder`; no cell of a submission has run in this kernel."""
    from lab_utils.audit.queries import rows_of

    try:
        rows = rows_of(b64decode(plan, validate=True), Path(folder), ROWS_MAX)
    except Exception as error:  # of Spark's many, and of a plan that is refused
        return json.dumps({"raised": raised(error)})
    return _bounded({"rows": [row.asDict(recursive=True) for row in rows]})


def run_query(function: Callable[[Any], Any], folder: str) -> str:
    """Give a learner's query the ledger in `folder`; {"rows": […]}, {"blank": …} or {"raised"}."""
    from lab_utils.audit.session import read_events

    try:
        returned = function(read_events(Path(folder)))
        if said := _in_place_of_rows(returned):
            return said
        rows = [row.asDict(recursive=True) for row in returned.limit(ROWS_MAX).collect()]
    except Exception as error:  # a learner's code may raise anything
        return json.dumps({"raised": raised(error)})
    return _bounded({"rows": rows})


def _in_place_of_rows(returned: object) -> str:
    """What is said of what a query returned, if there is nothing in it that Spark could ask."""
    if returned is None:
        return json.dumps({"blank": True})
    return "" if hasattr(returned, "toDF") else json.dumps({"raised": no_dataframe(returned)})


def no_dataframe(returned: object) -> str:
    """The sentence about what a query returned in place of a DataFrame; pandas has one, too."""
    kind = type(returned)
    package = kind.__module__
    what = kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"
    article = "an" if what[0] in "aeiou" else "a"
    return f"your function returned {article} {what}, and no DataFrame of Spark."


def run_stream(function: Callable[[Any], Any], folder: str) -> str:
    """Let a learner's streaming query read the orders of the ledger in `folder`; as run_query."""
    from lab_utils.audit.queries import streamed
    from lab_utils.ledger.store import read_ledger

    given: list[Any] = []

    def query(orders: Any) -> Any:
        given.append(function(orders))
        return given[0]

    try:
        batches = streamed(query, read_ledger(Path(folder)), BATCH)
    except Exception as error:  # a learner's code may raise anything
        said = _in_place_of_rows(given[0]) if given else ""
        return said or json.dumps({"raised": raised(error)})
    return _bounded({"rows": [row for batch in batches for row in batch.rows][:ROWS_MAX]})


def _read_fault(columns: Any) -> Any:
    try:
        return from_json(columns)
    except (LabError, TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"your answer is no fault: {error}") from error


def _bounded(reply: dict[str, Any]) -> str:
    try:
        text = json.dumps(reply, default=_plain, allow_nan=False)
    except Exception as error:  # a learner's objects may raise anything
        return json.dumps({"raised": f"the answer is not plain data: {error}"})
    if len(text) > CHARACTERS_MAX:
        return json.dumps({"raised": f"the answer is longer than {CHARACTERS_MAX} characters."})
    return text


def _plain(value: Any) -> Any:
    """What JSON does not know but a learner may well have: a range, numbers of numpy and SQL."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Decimal | Fraction):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, Set):
        return sorted(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Collection) and not isinstance(value, bytes | bytearray):
        return list(islice(value, CHARACTERS_MAX))
    raise TypeError(f"{type(value).__name__} cannot be an answer")


def raised(error: BaseException) -> str:
    """What a learner's function raised, as one line; a child has written its whole traceback.

    A message may have several lines, and says in the first what is wrong: Spark has the query's
    plan below it, SQLAlchemy the statement and an address.
    """
    from lab_utils.clients.recorder import refused_setting
    from lab_utils.clients.workload import WorkloadError

    if isinstance(error, WorkloadError):
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if lines[-1].startswith("The "):  # said by the lab below what the process had written
            return lines[-1][:500]
        starts = [number for number, it in enumerate(lines) if it in (TRACEBACK, OF_A_GROUP)]
        line = _first_unindented(lines[starts[-1] + 1 :]) if starts else lines[-1]
    elif isinstance(error, LabError):  # its sentences are one message
        line = f"{type(error).__name__}: {error}"
    elif setting := refused_setting(error):
        line = f"KafkaException: {setting}"
    else:
        line = _first_unindented("".join(traceback.format_exception_only(error)).splitlines())
    named = MODULES.sub("", " ".join(line.split())).rstrip("; ")
    return f"{RAISED}{named}"[:500]


def is_unwritten(said: str | None) -> bool:
    """Was this raised to say that nothing is written yet, as nbgrader has it in its releases?"""
    what = (said or "").removeprefix(RAISED)
    return what.partition(":")[0] == NotImplementedError.__name__


def _first_unindented(lines: Sequence[str]) -> str:
    """Where the exception's name is: what is above it is indented, the place and its code."""
    unframed = (line.removeprefix(FRAME) for line in lines)
    return next((line for line in unframed if line.strip() and not line.startswith(" ")), "")
