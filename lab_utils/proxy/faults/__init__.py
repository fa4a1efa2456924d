"""The faults: what is to go wrong, where, and at which time; data without state.

    drop_response("Produce", nth=3)      the third Produce is stored, its answer is lost
    kill_broker(1, api="Produce", nth=2) the broker is killed when it has answered the second

A class says all about its fault: its values and their ranges, what it does and where, and the
sentence about it. A file in this folder is loaded because it is there, and so is one in a folder
that a learner names (docs/adding-a-fault.md).
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from lab_utils.proxy.faults.broker_fault import BrokerFault, LinkFault, StageFault
from lab_utils.proxy.faults.broker_processes import (
    kill_broker,
    pause_broker,
    resume_broker,
    start_broker,
    stop_broker,
)
from lab_utils.proxy.faults.client_faults import ClientFault, crash_client, stall_client
from lab_utils.proxy.faults.fault import Fault, RequestFault, from_json, kinds, to_json
from lab_utils.proxy.faults.frame_faults import (
    corrupt_request,
    delay_response,
    drop_request,
    drop_response,
    late_request,
    replay_request,
)
from lab_utils.proxy.faults.link_faults import cut_link, heal_link, hold_link, slow_link
from lab_utils.proxy.faults.power_cut import power_cut
from lab_utils.proxy.faults.refuse import refuse
from lab_utils.proxy.faults.wire_fault import WireFault

__all__ = [
    "BrokerFault",
    "ClientFault",
    "Fault",
    "LinkFault",
    "RequestFault",
    "StageFault",
    "WireFault",
    "corrupt_request",
    "crash_client",
    "cut_link",
    "delay_response",
    "drop_request",
    "drop_response",
    "from_json",
    "heal_link",
    "hold_link",
    "kill_broker",
    "kinds",
    "late_request",
    "pause_broker",
    "power_cut",
    "refuse",
    "replay_request",
    "resume_broker",
    "slow_link",
    "stall_client",
    "start_broker",
    "stop_broker",
    "to_json",
]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
