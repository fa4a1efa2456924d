"""The folder where a learner works: filled with the labs' notebooks, and never overwritten.

    labs/NN_title.ipynb ── hand_out ──▶ work/NN_title.ipynb       not there, or as it was handed out
                                        work/NN_title-new.ipynb   the first one has been changed

What was handed out is remembered by its SHA-256 in a hidden file of the folder. The clone's own
files stay as git has them, so that an afternoon in the lab disturbs no update, no test, no image.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from lab_utils.errors import SetupError
from lab_utils.folders import FURTHER

ROOT: Final = Path(__file__).parents[1]
WORKING_FOLDER: Final = ROOT / "work"
RECORD: Final = ".handed-out.json"
CLAIMS: Final = "Claims.md"


@dataclass(slots=True)
class Handed:
    """What `hand_out` did: names of notebooks.

    added    those that were not there
    updated  those that the learner had not changed, replaced by the new edition
    kept     those that the learner has changed, each with the name of the new edition beside it
    """

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """What the learner is told; nothing if nothing has changed."""
        added, updated = ", ".join(self.added), ", ".join(self.updated)
        said = [f"New: {added}."] if added else []
        if updated:
            said.append(f"Replaced by a new edition, as you had not changed it: {updated}.")
        return said + [
            f"Kept, as you have changed it: {mine}. The new edition is beside it: {new}."
            for mine, new in self.kept.items()
        ]


def handed_out(labs: Path = ROOT / "labs", folder: str = "") -> list[Path]:
    """The notebooks that have a source: what else lies in the folder is nobody's lab.

    They are those of the labs, or in `folder`, FURTHER, those without exercises. At a seat that
    has no solutions there is no source, and nothing else either.
    """
    sources = labs / "source" / folder
    return [
        path for path in sorted((labs / folder).glob("*.ipynb"))
        if not (labs / "source").exists() or (sources / f"{path.stem}.py").exists()
    ]  # fmt: skip


def hand_out(folder: Path, labs: Path = ROOT / "labs") -> Handed:
    """Bring the notebooks of `labs` into `folder`; what the learner has changed stays as it is.

    A notebook that was deleted comes back. Raises SetupError if the folder cannot be written.
    """
    handed = Handed()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record = _record(folder)
        pages = [labs / CLAIMS] if (labs / CLAIMS).exists() else []
        for path in [*handed_out(labs), *handed_out(labs, FURTHER), *pages]:
            _bring(path.read_bytes(), folder / path.relative_to(labs), record, handed)
        write_whole(folder / RECORD, json.dumps(record, indent=1).encode())
    except OSError as error:
        raise SetupError(
            f"The notebooks could not be put into {folder}: {error.strerror} ({error.filename}). "
            "What you do is saved there, so you need to be able to write to it. Choose another: "
            "./lab up --folder FOLDER"
        ) from error
    return handed


def _bring(text: bytes, path: Path, record: dict[str, str], handed: Handed) -> None:
    """Write one file to the first of its names that is free or as it was handed out there."""
    edition = _digest(text)
    if not os.path.lexists(path):
        record.pop(path.name, None)
    for place in _places(path):
        there = _there(place)
        if edition in (there, record.get(place.name)):
            record[place.name] = edition
            return
        if there in (None, record.get(place.name)):
            write_whole(place, text)
            record[place.name] = edition
            break
    if place != path:
        handed.kept[path.name] = place.name
    elif there:
        handed.updated.append(path.name)
    else:
        handed.added.append(path.name)


def _places(path: Path) -> Iterator[Path]:
    """NN_title.ipynb, NN_title-new.ipynb, NN_title-new-2.ipynb, and so on."""
    yield path
    yield path.with_stem(f"{path.stem}-new")
    for number in count(2):
        yield path.with_stem(f"{path.stem}-new-{number}")


def _record(folder: Path) -> dict[str, str]:
    """What was handed out, by name. Without it a notebook that differs counts as changed."""
    try:
        return dict(json.loads((folder / RECORD).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return {}


def _there(place: Path) -> str | None:
    """The digest of a file; None if nothing is there, and empty for what is no file.

    That may be a folder, or a link into one that is away, as on a disk that is not mounted.
    """
    if not os.path.lexists(place):
        return None
    return _digest(place.read_bytes()) if place.is_file() else ""


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def write_whole(path: Path, text: bytes) -> None:
    """Write a file, whole or not at all; its folder is made if it is not there."""
    path.parent.mkdir(exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")  # two starts at once
    try:
        aside.write_bytes(text)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
