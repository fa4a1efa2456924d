"""Which files of a ledger are read: what Spark would leave out, or read twice, is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lab_utils.errors import LedgerError
from lab_utils.ledger.on_disk import local_files, refuse_copies, unread


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}\n")
    return folder


def link(path: Path, to: str | Path) -> None:
    path.symlink_to(to)


def test_what_is_read_of_a_folder(tmp_path: Path) -> None:
    """What ends as a ledger does, of any depth, also where a link leads; nothing Spark hides."""
    made(tmp_path / "elsewhere", "log.jsonl")
    read = [
        "a.jsonl", "b/a.jsonl.gz", "c.parquet/part-0.parquet", "_run=1/x.jsonl", "12:30/x.jsonl",
    ]  # fmt: skip
    hidden = [".a.jsonl", "_a.jsonl", "_temporary/a.jsonl", "notes.txt"]
    folder = made(tmp_path / "runs", *read, *hidden)
    link(folder / "more", tmp_path / "elsewhere")
    names = {str(Path(it).relative_to(folder)) for it in local_files(str(folder))}

    assert {*read, "more/log.jsonl"} == names


def test_what_may_be_a_ledger_and_is_not_read(tmp_path: Path) -> None:
    """It is packed or named otherwise, rotated, or a link to nothing; the rest is no ledger."""
    strange = ["a.jsonl.1", "a.jsonl-2026", "a.jsonl.zst", "a.JSONL", "a.ndjson", "a.json.gz"]
    folder = made(tmp_path, *strange, "b/part-0.json", "a.jsonl", "a.txt", "run.log", ".a.json")
    link(folder / "latest", "gone")
    names = {str(Path(it).relative_to(folder)) for it in unread(str(folder))}

    assert {*strange, "b/part-0.json", "latest"} == names


WRONG: list[tuple[Callable[[Path], object], str, str]] = [
    (lambda it: link(it / "latest", "run"), ".", "latest and .*run are one folder, by a link|"
     "run and .*latest are one folder, by a link"),
    (lambda it: link(it / "run" / "self", ".."), ".", "self and .* are one folder, by a link"),
    (lambda it: link(it / "shop.jsonl", "moved.jsonl"), ".", "a link to moved.jsonl, and nothing"),
    (lambda it: os.mkfifo(it / "a.jsonl"), ".", "a.jsonl is a pipe, a socket or a device"),
    (lambda it: (it / "a.parquet").touch(), ".", "a.parquet is empty, and a Parquet file never"),
    (lambda it: made(it, "12:30.jsonl"), ".", "12:30.jsonl has a colon in its name"),
    (lambda it: made(it, ".a.jsonl"), ".a.jsonl", "begins with a dot or an underscore"),
    (lambda it: made(it, "_a.jsonl"), "_a.jsonl", "begins with a dot or an underscore"),
    *(
        (lambda it, name=name: made(it, f"table/{name}"), ".", f"table is a table of {table}, and")
        for name, table in (("_delta_log/0.json", "Delta Lake"), (".hoodie/x", "Hudi"),
                            ("metadata/v1.metadata.json", "Iceberg"))
    ),
    (lambda it: made(it, "metadata/a.jsonl", "log/x.jsonl", "run.metadata.json", "12:30.jsonl"),
     ".", "12:30.jsonl has a colon"),
    (lambda it: it, "nowhere", "no ledger at .*nowhere: no such file or folder"),
    (lambda it: it, "x" * 300, "no ledger at .*: File name too long"),
    (lambda it: it, "run/a.jsonl/b", "no ledger at .*: Not a directory"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "path", "said"), WRONG)
def test_what_is_refused(
    tmp_path: Path, make: Callable[[Path], object], path: str, said: str
) -> None:
    """Its path is named; nothing is judged without it, or with it twice."""
    made(tmp_path / "run", "a.jsonl")
    make(tmp_path)
    with pytest.raises(LedgerError, match=said):
        local_files(str(tmp_path / path))


def test_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    """Spark has no word for it."""
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xfcro.jsonl")).touch()
    except OSError:
        pytest.skip("this file system has UTF-8 alone")
    with pytest.raises(LedgerError, match=r"name b'.*/b\\xfcro.jsonl' is no UTF-8"):
        local_files(str(tmp_path))


def test_what_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, or a folder whose files nobody can list, is named."""
    made(tmp_path / "run", "a.jsonl")
    with monkeypatch.context() as locked:
        locked.setattr(os, "access", lambda *_: False)
        with pytest.raises(LedgerError, match=r"run/a\.jsonl cannot be read: permission denied"):
            local_files(str(tmp_path))

    def scandir(folder: str) -> None:
        raise PermissionError(13, "Permission denied", folder)

    with monkeypatch.context() as locked:
        locked.setattr(os, "scandir", scandir)
        with pytest.raises(LedgerError, match=f"{tmp_path} cannot be read: Permission denied"):
            local_files(str(tmp_path))


def test_a_copy_among_a_thousand_files_of_one_size(tmp_path: Path) -> None:
    """Each is read once, and not once for each of the others."""
    files = {}
    for number in range(1000):
        file = tmp_path / f"{number}.jsonl"
        file.write_text(f"{number:04}")
        files[str(file)] = 4
    refuse_copies(files)
    (tmp_path / "999.jsonl").write_text("0007")

    with pytest.raises(LedgerError, match=r"999\.jsonl is a copy of .*/7\.jsonl: .* Delete"):
        refuse_copies(files)
