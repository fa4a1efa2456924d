"""What every fault has: a name, checked values, a repr, a sentence, and a form as JSON.

A fault is a frozen dataclass without state. A class with a lowercase name is a fault as soon as
its file has been loaded; nothing else registers it. LAB_FAULTS in the environment names a folder
of more files (docs/adding-a-fault.md); it is loaded when a fault is asked for by its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lab_utils.errors import BadArgument, one_of, text, within

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request

# The largest values that make sense: no run has more requests, and none lasts longer.
NTH_LIMIT: Final = 1_000_000
MS_LIMIT: Final = 600_000
ID_LIMIT: Final = 1_000

_loaded: dict[Path, tuple[int, int]] = {}


class Fault:
    """Something that is to go wrong; each subclass is one kind of it.

    sentence   what a button says of it, made of its values, and of {which}, {an} and {seconds}
    narrowing  values that the sentence does not tell: where one is given, the call is shown
    """

    kinds: ClassVar[dict[str, type[Fault]]] = {}
    sentence: ClassVar[str] = ""
    narrowing: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if cls.__name__[0].islower():  # the others are what several kinds share
            Fault.kinds[cls.__name__] = cls

    def __repr__(self) -> str:
        """The call that makes this fault; what is left at its default is left out."""
        first, others = [], []
        for column in _columns(self):
            value = getattr(self, column.name)
            if column.default is MISSING:
                first.append(repr(value))
            elif value != column.default:
                others.append(f"{column.name}={value!r}")
        return f"{type(self).__name__}({', '.join(first + others)})"

    @property
    def code(self) -> str:
        """The call that makes this fault, quoted as the labs quote."""
        call = repr(self)
        return call if '"' in call else call.replace("'", '"')

    @property
    def words(self) -> str:
        """What this fault will do, in a few words."""
        given = _values(self)
        if not self.sentence or any(given.get(name) is not None for name in self.narrowing):
            return self.code
        seconds = f"{given.get('by_ms', 0) / 1000:g}"
        an = "an" if str(given.get("api", "")).startswith(("A", "E", "I", "O")) else "a"
        return self.sentence.format(which=_which(given), seconds=seconds, an=an, **given)


class RequestFault(Fault):
    """A fault that waits for a request.

    api, nth   the nth request of this API, counted from when the fault is armed
    value      of Produce requests only those that bring this order, by its text, or by its number
               in the run; not found in what is compressed, or brings more than RECORDS_LIMIT
    """

    if TYPE_CHECKING:
        api: str | None
        nth: int
        value: str | None

    def __post_init__(self) -> None:
        """Raises BadArgument for a request that cannot be."""
        if self.api is not None:
            one_of_apis("api", self.api)
        within("nth", self.nth, 1, NTH_LIMIT)
        if self.value is not None:
            text("value", self.value)
        if self.value is not None and self.api != "Produce":
            raise BadArgument(
                f"value={self.value!r} is looked for in Produce requests, and api is "
                f'{self.api!r}. Write api="Produce", or leave value out.'
            )

    def matches(self, request: Request) -> bool:
        """Is this one of the requests that the fault counts?"""
        return request.api == self.api and (self.value is None or request.brings(self.value))


def one_of_apis(what: str, name: str) -> None:
    """Raise BadArgument for what is no request of Kafka's. It loads the protocol library."""
    from lab_utils.codec.cursor import API_KEYS

    one_of(what, name, API_KEYS)


def _columns(fault: Fault | type[Fault]) -> tuple[Field[Any], ...]:
    return fields(fault)  # type: ignore[arg-type]


def _values(fault: Fault) -> dict[str, Any]:
    return {column.name: getattr(fault, column.name) for column in _columns(fault)}


def _which(given: Mapping[str, Any]) -> str:
    """The match at which a fault fires, counted from now on.

    >>> _which({"nth": 1}), _which({"nth": 3}), _which({"nth": 1, "once": False})
    ('the next', 'the 3rd next', 'each')
    """
    nth = given.get("nth", 1)
    if not given.get("once", True):
        return "each" if nth == 1 else f"each from the {_ordinal(nth)} next"
    return "the next" if nth == 1 else f"the {_ordinal(nth)} next"


def _ordinal(number: int) -> str:
    """A number that counts.

    >>> [_ordinal(number) for number in (2, 3, 4, 11, 21)]
    ['2nd', '3rd', '4th', '11th', '21st']
    """
    endings = {1: "st", 2: "nd", 3: "rd"}
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else endings.get(number % 10, 'th')}"


def to_json(fault: Fault) -> dict[str, Any]:
    """A fault as JSON: its kind as `fault`, and all its parameters."""
    return {"fault": type(fault).__name__} | _values(fault)


def from_json(data: object) -> Fault:
    """The fault that `to_json` made this of; BadArgument for anything else."""
    if not isinstance(data, Mapping):
        raise BadArgument(f"a fault must be a JSON object; got {type(data).__name__}.")
    given = dict(data)
    known = kinds()
    name = one_of("fault", str(given.pop("fault", None)), known)
    columns = _columns(known[name])
    for parameter in given:
        one_of(f"a parameter of {name}", str(parameter), [column.name for column in columns])
    for column in columns:
        if column.default is MISSING and column.name not in given:
            raise BadArgument(f"{name} needs {column.name!r}; got {sorted(given)}.")
    return known[name](**given)


def kinds() -> dict[str, type[Fault]]:
    """All faults by their names: the lab's, and those in the folder that LAB_FAULTS names."""
    if folder := os.environ.get("LAB_FAULTS"):
        load_folder(Path(folder).expanduser())
    return Fault.kinds


def load_folder(folder: Path) -> None:
    """Load the faults of each Python file in a folder; a file that has changed is loaded again.

    The code of the folder runs in this process. Raises BadArgument for what cannot be loaded.
    """
    if not folder.is_dir():
        raise BadArgument(
            f"the folder of faults {str(folder)!r} is not there. Make it, or leave it out."
        )
    for path in sorted(folder.absolute().glob("*.py")):
        found = path.stat()
        version = (found.st_mtime_ns, found.st_size)
        if _loaded.get(path) != version:
            _load(path)
            _loaded[path] = version


def _load(path: Path) -> None:
    name = f"faults_of_{path.parent.name}_{path.stem}"
    before = dict(Fault.kinds)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        Fault.kinds = before
        raise BadArgument(
            f"{path} cannot be loaded as faults: {type(error).__name__}: {error}. Correct the "
            "file, and run the cell again."
        ) from error
    taken = [
        kind for kind in before if Fault.kinds[kind].__module__ == name != before[kind].__module__
    ]
    if taken:
        Fault.kinds = before
        raise BadArgument(
            f"{path} defines {taken[0]!r}, and there is a fault of this name. Choose another name."
        )
