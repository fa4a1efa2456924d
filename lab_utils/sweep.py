"""A sweep: one real run for each setting and each fault, and what became of the orders of each.

    settings x  drop_response("Produce")   1  2  3  4
                corrupt_request("Produce") 1  2  3  4

One run follows the other, so that no run is slowed by its neighbour: the outcome of a cell is the
same each time. What a cell shows is decided by the ledger of its run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final

from lab_utils.errors import BadArgument
from lab_utils.proxy.faults import Fault, from_json, to_json
from lab_utils.run import Run
from lab_utils.views.explorer.run_data import run_data
from lab_utils.views.explorer.sweep_table import Cell
from lab_utils.views.progress import doing

CALM: Final = "no fault"
DEFAULTS: Final = "the client's defaults"
HOW: Final = 'Write it as in faults=[drop_response("Produce", nth=n) for n in (1, 2, 3)].'

Settings = Mapping[str, Any]
# A workload that is swept takes a run, as every one does, and the settings of its cell.
SweptWorkload = Callable[[Any, dict[str, Any]], object]
Perform = Callable[[Callable[[Any], object], Sequence[Fault]], Run]


@dataclass(frozen=True, slots=True)
class Column:
    """The faults of one column: what they have in common, and where they strike."""

    fault: str
    position: str
    faults: tuple[Fault, ...]


def sweep(
    perform: Perform, workload: SweptWorkload, faults: object, settings: object, *, orders: int
) -> Iterator[Cell]:
    """The cells, setting by setting; raises BadArgument for what is no list of faults."""
    require_settings(workload)
    columns, rows = columns_of(faults), rows_of(settings)
    with doing(f"Sweep of {len(rows) * len(columns)} runs"):
        for name, given in rows.items():
            for column in columns:
                run = perform(_bound(workload, given), column.faults)
                data = run_data(
                    run.rows,
                    choice={"setting": name, "fault": f"{column.fault} {column.position}".strip()},
                    code=_code(workload, given, column.faults, orders),
                    trouble=run.trouble,
                )
                yield Cell(name, column.fault, column.position, tuple(data["outcomes"]), data)


def _code(workload: SweptWorkload, settings: Settings, faults: Sequence[Fault], orders: int) -> str:
    """The call that makes this run again."""
    name = getattr(workload, "__name__", "workload")
    broken = f", faults=[{', '.join(it.code for it in faults)}]" if faults else ""
    return (
        f"settings = {dict(settings)!r}\n"
        f"run = lab.run(lambda run: {name}(run, settings), orders={orders}{broken})\n"
    )


def require_settings(workload: object) -> None:
    """Raise BadArgument for what does not take a run and its settings."""
    try:
        signature(workload).bind(None, {})  # type: ignore[arg-type]
    except TypeError:
        raise BadArgument(
            "a workload that is swept takes the run and the settings of its cell, as in "
            f"def send(run, settings); got {workload!r}."
        ) from None


def _bound(workload: SweptWorkload, settings: Settings) -> Callable[[Any], object]:
    def bound(run: Any) -> object:
        return workload(run, dict(settings))

    return bound


def columns_of(faults: object) -> list[Column]:
    """A column for each fault, or each list of faults that happen in one run."""
    if not isinstance(faults, Sequence) or isinstance(faults, str):
        raise BadArgument(f"faults is a list of faults; got {faults!r}. {HOW}")
    return list(dict.fromkeys(map(_column, faults))) or [Column(CALM, "", ())]


def _column(given: object) -> Column:
    several = tuple(given) if isinstance(given, Sequence) else (given,)
    found = tuple(each for each in several if isinstance(each, Fault))
    if len(found) < len(several):
        raise BadArgument(f"faults holds faults, and lists of them; got {given!r}. {HOW}")
    if not found:
        return Column(CALM, "", ())
    if len(found) > 1 or not hasattr(found[0], "nth"):
        return Column(", ".join(each.code for each in found), "", found)
    (fault,) = found
    given = to_json(fault)
    return Column(from_json(given | {"nth": 1}).code, str(given["nth"]), found)


def rows_of(settings: object) -> dict[str, Settings]:
    """The settings by what they are called: their own names and values, or yours."""
    if isinstance(settings, Mapping):
        given = {str(name): each for name, each in settings.items()}
    elif isinstance(settings, Sequence) and not isinstance(settings, str):
        given = {named(each): each for each in settings}
    else:
        given = {"": settings}
    for each in given.values():
        if not isinstance(each, Mapping):
            raise BadArgument(
                f"each of the settings is a client's configuration; got {each!r}. Write it as in "
                'settings=[{"max.in.flight": 1}, {"enable.idempotence": True}].'
            )
    return given or {DEFAULTS: {}}


def named(settings: object) -> str:
    """A configuration as a row is called.

    >>> named({"acks": "all", "enable.idempotence": True}), named({})
    ('acks=all, enable.idempotence=true', "the client's defaults")
    """
    if not isinstance(settings, Mapping):
        return repr(settings)
    told = {name: str(it).lower() if isinstance(it, bool) else it for name, it in settings.items()}
    return ", ".join(f"{name}={it}" for name, it in told.items()) or DEFAULTS
