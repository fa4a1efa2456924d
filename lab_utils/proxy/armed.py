"""The board: which faults are armed for which run, and how often each has matched and fired.

All proxies of a stage share one board, so that "the third Produce" is the third of the run, over
whichever broker it goes. It counts and it writes fault events; it does nothing to a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from lab_utils.errors import BadArgument
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import Fault, StageFault, WireFault, to_json
from lab_utils.proxy.faults.refuse import refuse

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request

ARMED_FAULTS: Final = 100
# What is packed may be a thousand times as large, and whoever reads the log back unpacks it.
PACKED: Final = refuse("Produce", error="UNSUPPORTED_COMPRESSION_TYPE", once=False)

Record = Callable[[Event], object]
Act = Callable[[str, StageFault], object]


@dataclass(frozen=True, slots=True)
class Kept:
    """A request that is still on its way, though its sender has been cut off.

    release   send it on; call the function when the broker has answered it
    discard   it never arrives
    """

    run: str
    before: str
    release: Callable[[Callable[[], object]], object]
    discard: Callable[[], object]


@dataclass(eq=False)
class Armed:
    """One fault that is armed: for the clients of `run`, or for any client if that is empty.

    kept   the request that it keeps back at the moment
    """

    id: str
    run: str
    fault: WireFault | StageFault
    matched: int = 0
    fired: int = 0
    kept: Kept | None = None

    def to_json(self) -> dict[str, Any]:
        """What is armed, and how often it has matched and fired."""
        columns = {name: getattr(self, name) for name in ("id", "run", "matched", "fired")}
        return columns | {"fault": to_json(self.fault), "code": self.fault.code}

    def takes(self, request: Request) -> bool:
        """Count the request if it matches; is it one to fire at?"""
        if self.run not in ("", request.run) or not self.fault.matches(request):
            return False
        self.matched += 1
        if self.fault.once:
            return self.matched == self.fault.nth
        return self.matched >= self.fault.nth


class FaultBoard:
    """The faults that are armed; `act` does, for a run, what a fault of the stage says.

    is_examining  is nothing let through that is compressed, or that nobody can read?
    """

    def __init__(self, record: Record, act: Act = lambda _, __: None) -> None:
        self._record = record
        self._act = act
        self._armed: dict[str, Armed] = {}
        self._numbers = count(1)
        self.is_examining = False

    def arm(self, run: str, fault: Fault) -> Armed:
        """Arm a fault for the clients of `run` ("" is any client)."""
        if not isinstance(fault, WireFault | StageFault):
            raise BadArgument(
                f"{fault!r} cannot be armed on the wire: the client acts on it. Pass it to lab.run."
            )
        if len(self._armed) >= ARMED_FAULTS:
            raise BadArgument(
                f"{ARMED_FAULTS} faults are armed already. Disarm them: lab.stage.clear()."
            )
        armed = Armed(f"f{next(self._numbers)}", run, fault)
        self._armed[armed.id] = armed
        self._write("armed", armed)
        return armed

    def armed(self) -> list[Armed]:
        """What is armed now, oldest first; a fault that has fired stays until it is disarmed."""
        return list(self._armed.values())

    def disarm(self, run: str) -> list[tuple[str, Fault, int]]:
        """End all faults of a run; return the id, the fault, and how often it fired, of each."""
        return [self.clear(armed.id) for armed in self.armed() if armed.run == run]

    def clear(self, fault_id: str) -> tuple[str, Fault, int]:
        """End one fault. Raises KeyError when there is none of this id."""
        armed = self._armed.pop(fault_id)
        if armed.kept is not None:
            armed.kept.discard()
        if not armed.fired:
            self._write("unfired", armed)
        return armed.id, armed.fault, armed.fired

    def match(self, request: Request) -> list[Armed]:
        """Count a request that came in; the faults that are to act on it or on its response."""
        if self.is_examining and request.is_packed:
            return [Armed("", "", PACKED)]
        return [armed for armed in self._armed.values() if armed.takes(request)]

    def brought_by(self, request: Request) -> list[Armed]:
        """The faults whose kept requests are to arrive when this one has been answered."""
        wanted = (request.run, request.api)
        return [it for it in self.armed() if it.kept and (it.kept.run, it.kept.before) == wanted]

    def fired(self, armed: Armed, request: Request | None = None, **detail: str) -> None:
        """Note that a fault has acted: on this request or on its response, or at once."""
        armed.fired += 1
        self._write("fired", armed, request, **detail)

    def moment(self, when: str, armed: list[Armed], request: Request) -> None:
        """Let the faults of the stage act, once, that wait for this moment of the request.

        It is RECEIVED when it has been sent to the broker, and ANSWERED when its answer was given
        or lost, or nobody waits for it.
        """
        for each in armed:
            fault = each.fault
            if isinstance(fault, StageFault) and fault.when == when and not each.fired:
                self._act(each.run, fault)
                self.fired(each, request)

    def _write(
        self, kind: str, armed: Armed, request: Request | None = None, **detail: str
    ) -> None:
        values = to_json(armed.fault)
        given = {name: str(value) for name, value in values.items() if value is not None}
        self._record(
            Event(
                run=armed.run or (request.run if request else ""),
                source="fault",
                actor=type(armed.fault).__name__,
                kind=kind,
                api=armed.fault.api,
                correlation_id=request.correlation_id if request else None,
                detail=given | {"fault": armed.id, "call": armed.fault.code} | detail,
            )
        )
