"""Ledgers on this machine: which files Spark will read, and what would be read twice or not at all.

    PATH ... ──▶ local_files() ──▶ the files, with their sizes    what Spark opens, no more, no less
             └─▶ unread()      ──▶ files that look like a ledger, and are left out for their names

Spark hides files, follows links and skips what is empty without a word. What it would do so is
refused here, before it starts.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Final, NoReturn

from lab_utils.errors import LedgerError

JSONL: Final = (".jsonl", ".jsonl.gz")
PARQUET: Final = (".parquet",)
# What looks like a ledger by its name and is none: packed otherwise, rotated, in capitals.
ALIKE: Final = re.compile(
    r"(?i)[.](jsonl|parquet)\b|[.](json|jsonlines|ndjson|avro|orc|pq|csv)([.][a-z0-9]{1,4})?$"
)

# What lies in the folder of a table whose log, and not the folder, says which files count.
TABLES: Final = {
    "_delta_log": "Delta Lake", ".hoodie": "Hudi", "metadata/*.metadata.json": "Iceberg",
}  # fmt: skip


def is_local(path: str) -> bool:
    """Is it a path of this machine, and no URL that Spark alone understands?"""
    return "://" not in path


def local_files(path: str) -> dict[str, int]:
    """The files of a ledger on this machine, with their sizes in bytes.

    Raises LedgerError if there is nothing at the path, or where a link leads, and for a file or
    folder that Spark would leave out, or read twice. What Spark hides in a folder is left out.
    """
    found = [it for it in _shown(path) if it.name.endswith(JSONL + PARQUET)]
    return {str(it): _size(it) for it in found}


def unread(path: str) -> list[str]:
    """What is not read for its name, and may be a ledger: it looks like one, or leads nowhere."""
    others = (it for it in _shown(path) if not it.name.endswith(JSONL + PARQUET))
    return [str(it) for it in others if ALIKE.search(it.name) or not it.exists()]


def refuse_copies(files: dict[str, int]) -> None:
    """Raises LedgerError if one of the files is a copy of another one under another name."""
    of_size: dict[int, list[str]] = defaultdict(list)
    for file, size in files.items():
        of_size[size].append(file)
    for alike in (of_size[size] for size in of_size if size):
        contents: dict[bytes, str] = {}
        for file in alike if len(alike) > 1 else ():
            with Path(file).open("rb") as opened:
                first = contents.setdefault(file_digest(opened, "sha256").digest(), file)
            if Path(first).name != Path(file).name:
                raise LedgerError(
                    f"{file} is a copy of {first}: each event would be judged as two, and an order "
                    "that was acked once as lost. Delete the copy, then run the audit again."
                )


def _shown(path: str) -> list[Path]:
    """The files at a path that Spark does not hide."""
    root = Path(path)
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
    except OSError as error:
        said = "no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror
        raise LedgerError(f"there is no ledger at {path:.400}: {said}.") from None
    if not is_folder and _is_hidden(root.absolute().name):
        raise LedgerError(
            f"{root} begins with a dot or an underscore: Spark takes such a file for hidden, and "
            "does not read it. Give it another name."
        )
    return sorted(_walked(root)) if is_folder else [root]


def _walked(root: Path) -> Iterator[Path]:
    """The files in a folder and where links of it lead."""
    seen: dict[str, str] = {}
    for folder, inner, files in os.walk(root, onerror=_refuse_a_locked, followlinks=True):
        first = seen.setdefault(os.path.realpath(folder), folder)
        if first != folder:
            raise LedgerError(
                f"{folder} and {first} are one folder, by a link: each event would be judged as "
                "two. Delete the link, then run the audit again."
            )
        for sign, table in TABLES.items():
            if any(Path(folder).glob(sign)):
                raise LedgerError(
                    f"{folder} is a table of {table}, and keeps files with rows that the table has "
                    "deleted or written again: each would be judged. Write what the table holds as "
                    "Parquet into another folder, and audit that."
                )
        inner[:] = sorted(it for it in inner if not _is_hidden(it))
        yield from (Path(folder, it) for it in files if not _is_hidden(it))


def _is_hidden(name: str) -> bool:
    """Does Spark leave a file or folder of this name out?

    >>> [_is_hidden(it) for it in (".a.jsonl", "_SUCCESS", "_run=1", "a.jsonl")]
    [True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _refuse_a_locked(error: OSError) -> NoReturn:
    raise LedgerError(
        f"{error.filename} cannot be read: {error.strerror}. The run would be judged without it. "
        "Let yourself read it, or take it out."
    ) from None


def _refuse_a_name(file: Path) -> None:
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise LedgerError(
            f"the name {os.fsencode(file)!r} is no UTF-8, and Spark cannot open it. Give it "
            "another name."
        ) from None
    if ":" in file.name:
        raise LedgerError(f"{file} has a colon in its name, and Spark cannot open it. Rename it.")


def _size(file: Path) -> int:
    """How many bytes a file has. Raises LedgerError if Spark would not read it as one."""
    _refuse_a_name(file)
    try:
        found = file.stat()
    except FileNotFoundError:
        raise LedgerError(
            f"{file} is a link to {file.readlink()}, and nothing is there: the run would be judged "
            "without it. Delete the link, or put the file where it leads."
        ) from None
    except OSError as error:
        _refuse_a_locked(error)
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(
            f"{file} is a pipe, a socket or a device, and no file: the run would be judged without "
            "it. Write what it gives into a file."
        )
    if not os.access(file, os.R_OK):
        _refuse_a_locked(PermissionError(0, "permission denied", str(file)))
    if not found.st_size and file.name.endswith(PARQUET):
        raise LedgerError(
            f"{file} is empty, and a Parquet file never is: nobody wrote it to its end. Take it "
            "out, or write it again."
        )
    return found.st_size
