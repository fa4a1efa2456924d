"""A contract in a file: the settings of clients and topics of a ledger that does not have them.

    contract.toml ──▶ Declared ──▶ the events `created` and `topic` of every run ──▶ the audit

The lab's own clients record what they were configured with. What another program leaves out is
declared here, and becomes the same events, so that the audit has one path. What the ledger says
itself stands.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit.contracts.defaults import ALIASES, DEFAULTS, ON_OR_OFF, SPELLED, effective
from lab_utils.audit.ledgers import COLUMNS
from lab_utils.errors import BadArgument, one_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOLEAN: Final = ("false", "true")
NUMBER: Final[tuple[str, ...]] = ()
TEXT: Final[tuple[str, ...]] = ("",)
# What a setting may be: one of these words, a whole number, or any text.
TOPIC: Final = {
    "replicas": NUMBER,
    "min.insync.replicas": NUMBER,
    "unclean.leader.election.enable": BOOLEAN,
    "cleanup.policy": ("compact", "compact,delete", "delete", "delete,compact"),
    "retention.ms": NUMBER,
    "retention.bytes": NUMBER,
    "flush.messages": NUMBER,
}
COUNTS: Final = ("replicas", "min.insync.replicas")  # of brokers
CLIENT: Final = {
    "role": ("consumer", "producer"),
    "library": ("java", "librdkafka"),
    "acks": ("-1", "0", "1", "all"),
    "auto.offset.reset": ("beginning", "by_duration:PT1H", "earliest", "end", "error", "largest",
                          "latest", "none", "smallest"),
    "enable.auto.commit": BOOLEAN,
    "enable.auto.offset.store": BOOLEAN,
    "enable.idempotence": BOOLEAN,
    "group.id": TEXT,
    "isolation.level": ("read_committed", "read_uncommitted"),
    "transactional.id": TEXT,
}  # fmt: skip
# Whatever else decides a clause, under any name that librdkafka or the Java client has for it.
DECIDES: Final = {
    name: NUMBER for name in (*DEFAULTS, *ALIASES) if name not in TOPIC and " " not in name
}
SETTINGS: Final = {
    "clients": {**DECIDES, **CLIENT, "request.required.acks": CLIENT["acks"]},
    "topics": TOPIC,
}

# What a client that writes its settings down itself may have no other values of: it may well be of
# another library.
CHECKED: Final = {**SETTINGS["clients"], **TOPIC, "role": TEXT, "library": TEXT}
# So much of a name is that of the setting that is meant; of a short one a letter may be wrong.
CLOSE: Final = 0.92

# What a consumer of Java may begin at instead: so long ago, as ISO 8601 has it (KIP-1106).
BY_DURATION: Final = re.compile(
    r"by_duration:(?i:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)", re.ASCII
)

# What a client may be set to of which nobody knows that: nobody recorded it, a name is misspelt, or
# these are the defaults of another library.
EXTREMES: Final[Sequence[Mapping[str, str]]] = (
    {},
    {"acks": "0"},
    {"enable.idempotence": "true", "transactional.id": "any"},
    {"isolation.level": "read_uncommitted"},
    {"auto.offset.reset": "earliest", "enable.auto.commit": "false"},
    {"library": "java"},
)

# So many names of a ledger are looked at for the one that a strange name may be meant for.
LOOKED_AT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Declared:
    """The settings of clients and of topics, each by name."""

    clients: Mapping[str, Mapping[str, str]]
    topics: Mapping[str, Mapping[str, str]]

    def events(self, spark: SparkSession, events: DataFrame) -> DataFrame:
        """The ledger with what is declared, in each run that does not say it itself.

        Raises BadArgument if no event names such a client or topic.
        """
        client = ("clients", "client", "created", "actor", self.clients)
        topic = ("topics", "workload", "topic", "topic", self.topics)
        ledger = events
        for what, source, kind, column, settings in (client, topic):
            if not settings:
                continue
            _refuse_strangers(ledger, what, column, settings)
            rows = spark.createDataFrame(
                [(name, dict(detail)) for name, detail in settings.items()],
                "name STRING, detail MAP<STRING, STRING>",
            )
            named = events.where(f"{column} IS NOT NULL").select("run", column).distinct()
            said = events.where(f"source = '{source}' AND kind = '{kind}'")
            open_ = named.join(said.select("run", column), ["run", column], "left_anti")
            given = {"run": "run", "source": f"'{source}'", "kind": f"'{kind}'", "at_ns": "0L",
                     "actor": "'contract'", column: "name", "detail": "detail"}  # fmt: skip
            declared = (
                open_.withColumnRenamed(column, "name")
                .join(rows, "name")
                .selectExpr(
                    *(
                        f"CAST({given.get(it, 'NULL')} AS {kind}) AS {it}"
                        for it, kind in COLUMNS.items()
                    )
                )
            )
            events = events.unionByName(declared)
        return events


def misspelt(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of a client or topic that say nothing, each with the one probably meant.

    A name that is close to that of a setting that decides something, or a value that such a setting
    cannot have. A client has many settings that decide nothing here.
    """
    for name, text in settings.items():
        if meant := _meant(name):
            yield name, meant
        elif name in CHECKED and not _can_be(name, "".join(str(text).lower().split())):
            yield name, name


@cache
def _meant(name: str) -> str | None:
    if name in CHECKED:
        return None
    spelled = name.lower()
    close = get_close_matches(spelled, CHECKED, n=1, cutoff=CLOSE)
    return next(iter((*close, *(it for it in CHECKED if _are_alike(spelled, it)))), None)


def _are_alike(name: str, other: str) -> bool:
    """Is one the other with a letter left out, added, changed or moved?

    >>> [_are_alike(name, "acks") for name in ("aks", "acsk", "acls", "aacks", "ask", "linger")]
    [True, True, True, True, False, False]
    """
    return not _shorter(name).isdisjoint(_shorter(other))


@cache
def _shorter(name: str) -> set[str]:
    """A name, and what is left of it without each of its letters."""
    return {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}


def _can_be(name: str, text: str) -> bool:
    allowed = CHECKED[name]
    if allowed == NUMBER:
        return re.fullmatch("-?[0-9]+", text) is not None
    is_so_long_ago = name == "auto.offset.reset" and BY_DURATION.fullmatch(text)
    is_spelled = name in ON_OR_OFF and text in SPELLED
    return allowed == TEXT or text in allowed or is_spelled or bool(is_so_long_ago)


def foreign(given: Mapping[str, str]) -> str | None:
    """The library of a client whose defaults are not known; None if they are.

    >>> [foreign({"library": it}) for it in ("java", "confluent-kafka", "node-rdkafka")]
    [None, None, None]
    >>> foreign({"library": "franz-go"}), foreign({})
    ('franz-go', None)
    """
    library = str(given.get("library", "")).strip().lower()
    is_known = library in ("", "java") or "rdkafka" in library or library.startswith("confluent")
    return None if is_known else library


def alternatives(
    configurations: Sequence[Mapping[str, str]],
) -> Sequence[Sequence[Mapping[str, str]]]:
    """These configurations, once for each of the defaults that a library may have that is foreign.

    >>> sarama = {"library": "sarama", "acks": "all", "isolation.level": "read_committed"}
    >>> [len(it) - len(sarama) for it, in alternatives([sarama])]
    [0, 0, 1, 0, 2, 0]
    >>> [it["library"] for it, in alternatives([sarama])]
    ['sarama', 'sarama', 'sarama', 'sarama', 'sarama', 'java']
    """
    if not any(map(foreign, configurations)):
        return [configurations]
    return [[_with(other, it) if foreign(it) else it for it in configurations]
            for other in EXTREMES]  # fmt: skip


def _with(defaults: Mapping[str, str], given: Mapping[str, str]) -> Mapping[str, str]:
    """A client's settings, and what its library may have for those that it leaves out."""
    told = effective(given)
    # It may do as Java's does, and nothing but the program itself sets a transactional.id.
    named = {ALIASES.get(name, name) for name in given} - {"library"} | {"transactional.id"}
    # Idempotence and acks that are not those of all replicas exclude each other.
    is_at_odds = ("acks" in defaults and told["enable.idempotence"] == "true") or (
        "enable.idempotence" in defaults and told["acks"] != "-1"
    )
    left = {} if is_at_odds else defaults
    return {**given, **{name: text for name, text in left.items() if name not in named}}


def _refuse_strangers(events: DataFrame, what: str, column: str, names: Collection[str]) -> None:
    known = events.where(f"{column} IS NOT NULL").select(column).distinct()
    ours = known.where(known[column].isin(*names))
    looked_at = {row[0] for row in ours.union(known.limit(LOOKED_AT)).collect()}
    for name in names:
        one_of(f"the contract's [{what}.{name!r}]", name, looked_at)


def read_contract(path: Path) -> Declared:
    """Read a contract. Raises BadArgument with the key that is wrong."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    # A number of too many digits is a ValueError, as is what is no TOML or no UTF-8.
    except (OSError, ValueError, RecursionError) as error:
        raise BadArgument(f"the contract {path} cannot be read: {error}.") from None
    for key in given:
        one_of(f"a table of the contract {path}", key, SETTINGS)
    tables = {
        what: {name: _settings(what, name, table) for name, table in _tables(what, given).items()}
        for what in SETTINGS
    }
    return Declared(
        {name: _of_client(name, table) for name, table in tables["clients"].items()},
        tables["topics"],
    )


def _tables(what: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    tables = given.get(what, {})
    if not isinstance(tables, dict):
        raise BadArgument(f'{what} must be tables, as in [{what}."orders"]; got {tables!r}.')
    return tables


def _settings(what: str, name: str, table: Any) -> dict[str, str]:
    if not isinstance(table, dict):
        raise BadArgument(f'{what}.{name} must be a table, as in [{what}."{name}"]; got {table!r}.')
    return {key: _value(f'{what}."{name}"', what, key, value) for key, value in table.items()}


def _value(where: str, what: str, key: str, value: object) -> str:
    """One setting as the text that an event has."""
    if isinstance(value, dict):
        raise BadArgument(
            f"{where}.{key} is a table. A setting with dots is written in quotes: "
            f'"{_dotted(key, value)}" = ...'
        )
    one_of(f"a setting of {where}", key, SETTINGS[what])
    allowed = SETTINGS[what][key]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not isinstance(value, bool | int | str):
        raise BadArgument(f"{where}.{key} must be a text, a number or a boolean; got {value!r}.")
    if allowed == NUMBER:
        if isinstance(value, bool) or not re.fullmatch("-?[0-9]+", text):
            raise BadArgument(f"{where}.{key} must be a whole number; got {value!r}.")
        if what == "clients" and int(text) < 0:
            raise BadArgument(f"{where}.{key} must not be below 0; got {value!r}.")
        if key in COUNTS and int(text) < 1:
            raise BadArgument(f"{where}.{key} must be at least 1; got {value!r}.")
    elif allowed != TEXT and not (key == "auto.offset.reset" and BY_DURATION.fullmatch(text)):
        one_of(f"{where}.{key}", text, allowed)
    return text


def _dotted(key: str, value: Mapping[str, Any]) -> str:
    (name, inner), *_ = value.items()
    return f"{key}.{_dotted(name, inner) if isinstance(inner, dict) else name}"


def _of_client(name: str, table: Mapping[str, str]) -> dict[str, str]:
    """A client's settings by their names in the audit; raises BadArgument if it has no role."""
    if "role" not in table:
        raise BadArgument(
            f'clients."{name}" has no role: the settings of a producer and of a consumer decide '
            'different findings. Add role = "producer" or role = "consumer".'
        )
    named: dict[str, str] = {}
    for key in table:
        if (other := named.setdefault(ALIASES.get(key, key), key)) != key:
            raise BadArgument(
                f'clients."{name}" has {other} and {key}, which are one setting. Leave one out.'
            )
    return {name: table[key] for name, key in named.items()}
