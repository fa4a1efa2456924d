"""A lab that shows what Apache Kafka's delivery guarantees really promise.

The few names a notebook needs. Nothing heavy is loaded before it is asked for: importing this
package brings in no Kafka client, no Spark and no pictures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lab_utils.errors import LabError
from lab_utils.proxy.faults import Fault, kinds

if TYPE_CHECKING:
    from lab_utils.lab import Lab
    from lab_utils.run import Run, source

__version__ = "0.1.0"

_LATER = {"Lab": "lab_utils.lab", "Run": "lab_utils.run", "source": "lab_utils.run"}

# A fault is here because its file is in the folder of faults.
__all__ = ["Lab", "LabError", "Run", "source", *Fault.kinds]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if not name.startswith("_") and name in kinds():  # in the folder that LAB_FAULTS names
        return kinds()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
