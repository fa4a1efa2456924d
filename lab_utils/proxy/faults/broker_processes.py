"""What can be done to the process of a broker. Each is a fault, and a verb of the panel."""

from __future__ import annotations

from dataclasses import dataclass
from signal import SIGKILL, SIGSTOP, SIGTERM

from lab_utils.proxy.faults.broker_fault import BrokerFault


@dataclass(frozen=True, repr=False)
class kill_broker(BrokerFault):  # noqa: N801 - called as a function
    """SIGKILL: nothing is handed over, nothing is flushed."""

    sentence = "Kill broker {broker}"
    verb, event, signal, is_deaf = "kill", "killed", SIGKILL, True


@dataclass(frozen=True, repr=False)
class stop_broker(BrokerFault):  # noqa: N801
    """SIGTERM: the broker hands its leaderships over, flushes and ends."""

    sentence = "Stop broker {broker}"
    verb, event, signal = "stop", "stopped", SIGTERM


@dataclass(frozen=True, repr=False)
class pause_broker(BrokerFault):  # noqa: N801
    """SIGSTOP: connections stay, nothing is answered."""

    sentence = "Pause broker {broker}"
    verb, event, signal = "pause", "paused", SIGSTOP


@dataclass(frozen=True, repr=False)
class resume_broker(BrokerFault):  # noqa: N801
    """SIGCONT: a paused broker goes on where it stood."""

    sentence = "Resume broker {broker}"
    verb, event = "resume", "resumed"


@dataclass(frozen=True, repr=False)
class start_broker(BrokerFault):  # noqa: N801
    """Start a broker that has ended, with the log that it has."""

    sentence = "Start broker {broker}"
    verb, event = "start", "started"  # the stage starts it, on other ports if one was taken
