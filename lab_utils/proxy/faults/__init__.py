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
from lab_utils.proxy.faults.client_faults import ClientFault
from lab_utils.proxy.faults.fault import Fault, RequestFault, from_json, kinds, to_json
from lab_utils.proxy.faults.wire_fault import WireFault

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
globals().update(Fault.kinds)  # also over a file of the same name

__all__ = [
    "BrokerFault", "ClientFault", "Fault", "LinkFault", "RequestFault", "StageFault", "WireFault",
    "from_json", "kinds", "to_json", *Fault.kinds,
]  # fmt: skip
