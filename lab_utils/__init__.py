"""A lab that shows what Apache Kafka's delivery guarantees really promise.

The few names a notebook needs. Nothing heavy is loaded before it is asked for: importing this
package brings in no Kafka client, no Spark and no pictures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lab_utils.errors import LabError
from lab_utils.proxy.faults import (
    corrupt_request,
    crash_client,
    cut_link,
    delay_response,
    drop_request,
    drop_response,
    heal_link,
    hold_link,
    kill_broker,
    kinds,
    late_request,
    pause_broker,
    power_cut,
    refuse,
    replay_request,
    resume_broker,
    slow_link,
    stall_client,
    start_broker,
    stop_broker,
)

if TYPE_CHECKING:
    from lab_utils.lab import Lab
    from lab_utils.run import Run, source

__version__ = "0.1.0"

__all__ = [
    "Lab",
    "LabError",
    "Run",
    "corrupt_request",
    "crash_client",
    "cut_link",
    "delay_response",
    "drop_request",
    "drop_response",
    "heal_link",
    "hold_link",
    "kill_broker",
    "late_request",
    "pause_broker",
    "power_cut",
    "refuse",
    "replay_request",
    "resume_broker",
    "slow_link",
    "source",
    "stall_client",
    "start_broker",
    "stop_broker",
]

_LATER = {"Lab": "lab_utils.lab", "Run": "lab_utils.run", "source": "lab_utils.run"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if not name.startswith("_") and name in kinds():  # in the folder that LAB_FAULTS names
        return kinds()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
