"""Settings as a contract reads them: each library's defaults, aliases and spellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# No settings: how many brokers with a replica lost their power, which nothing but another replica
# helps against; and what an administrator asked for.
POWER_CUT: Final = "power cut"
# Did each broker that could lead lose its power? UNKNOWN if nobody recorded who was eligible.
NONE_WAS_LEFT: Final = "none was left"
UNKNOWN: Final = "unknown"
TOPIC_DELETED: Final = "topic deleted"
RECORDS_DELETED: Final = "records deleted"
POSITIONS_CHANGED: Final = "positions changed"
# Has the group had another member, or one that was started again, who went on from a bookmark?
SUCCEEDED: Final = "a member succeeded"

UNCLEAN: Final = "unclean.leader.election.enable"
FLUSHED: Final = "flush.messages"  # after so many the broker flushes them, as a rule after 2^63 - 1

# librdkafka's defaults (CONFIGURATION.md of 2.16) of the settings that decide a clause.
DEFAULTS: Final = {
    "library": "librdkafka",
    "acks": "-1",
    "replicas": "",
    "min.insync.replicas": "1",
    POWER_CUT: "0",
    NONE_WAS_LEFT: "false",
    TOPIC_DELETED: "false",
    RECORDS_DELETED: "false",
    POSITIONS_CHANGED: "false",
    SUCCEEDED: "false",
    UNCLEAN: "false",
    "cleanup.policy": "delete",
    "auto.offset.reset": "largest",
    "enable.auto.commit": "true",
    "enable.auto.offset.store": "true",
    "enable.idempotence": "false",
    "isolation.level": "read_committed",
    "max.in.flight": "1000000",
    "message.timeout.ms": "300000",
    "retries": "2147483647",
    "retry.backoff.ms": "100",
    "transaction.timeout.ms": "60000",
}
# The Java client's, where they differ (Kafka 4).
JAVA: Final = {
    "producer": {"enable.idempotence": "true", "max.in.flight": "5",
                 "message.timeout.ms": "120000"},
    "consumer": {"auto.offset.reset": "latest", "isolation.level": "read_uncommitted"},
}  # fmt: skip
JAVA_NAMES: Final = {
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.timeout.ms": "delivery.timeout.ms",
}
JAVA_IN_FLIGHT: Final = 5  # with more of them it gives its default of idempotence up
ALIASES: Final = {
    "request.required.acks": "acks",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "message.send.max.retries": "retries",
    "delivery.timeout.ms": "message.timeout.ms",
}

# Of a setting that is on or off: librdkafka takes these for true and false.
ON_OR_OFF: Final = ("enable.auto.commit", "enable.auto.offset.store", "enable.idempotence")
SPELLED: Final = {"1": "true", "t": "true", "0": "false", "f": "false"}


def effective(given: Mapping[str, str]) -> dict[str, str]:
    """A client's settings with its library's defaults, aliases and spellings resolved.

    >>> given = {"acks": "all", "enable.idempotence": "True"}
    >>> effective(given)["max.in.flight"], effective(given | {"max.in.flight": 1})["max.in.flight"]
    ('5', '1')
    >>> [effective({"enable.idempotence": it})["enable.idempotence"] for it in (1, 0, "T", "f")]
    ['true', 'false', 'true', 'false']
    >>> java = {"role": "producer", "library": "java"}
    >>> [effective(java | it)["enable.idempotence"] for it in ({}, {"acks": 1}, {"retries": 0})]
    ['true', 'false', 'false']
    """
    named = {ALIASES.get(name, name): str(value).strip().lower() for name, value in given.items()}
    is_java = named.get("library") == "java"
    settings = DEFAULTS | (JAVA.get(named.get("role", ""), {}) if is_java else {}) | named
    settings |= {name: SPELLED.get(settings[name], settings[name]) for name in ON_OR_OFF}
    if settings["acks"] == "all":
        settings["acks"] = "-1"
    if "transactional.id" in settings:
        settings["enable.idempotence"] = "true"
    if is_java and "enable.idempotence" not in given and _is_at_odds(settings):
        settings["enable.idempotence"] = "false"
    if settings["enable.idempotence"] == "true" and "max.in.flight" not in named:
        settings["max.in.flight"] = "5"  # librdkafka lowers it by itself
    return settings


def _is_at_odds(settings: Mapping[str, str]) -> bool:
    """Does the Java client give its default of idempotence up, in silence, for another setting?"""
    many = settings["max.in.flight"]
    is_many = many.isdigit() and int(many) > JAVA_IN_FLIGHT
    return settings["acks"] != "-1" or settings["retries"] == "0" or is_many
