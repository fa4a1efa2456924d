"""A checkout in which somebody has worked: the files that git knows, and what is left behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
# What an afternoon in the lab, an editor and a maintainer may leave behind.
JUNK: Final = (
    "labs/.hypothesis/constants/ab12", "labs/Untitled.ipynb", "labs/x.html", "labs/00_copy.py",
    "labs/.ipynb_checkpoints/00_where_is_my_message-checkpoint.ipynb", "labs/artifacts/a.jar",
    "labs/checks/.ipynb_checkpoints/lab00.py", "labs/checks/notes.md", "labs/source/notes.ipynb",
    "labs/spark-warehouse/t/part-0", "work/00_where_is_my_message.ipynb", ".venv/bin/python",
    "lab_utils/__pycache__/lab.cpython-311.pyc", "lab_utils/views/.hypothesis/x", ".git/config",
    "lab_utils/.ipynb_checkpoints/lab-checkpoint.py", "grades/results.json", "derby.log",
    "tests/test_mine.py", "benchmarks/figures.json", "docker/key.pem",
    "labs/further/mine.ipynb",
)  # fmt: skip


def tracked() -> set[str]:
    """The files that git knows, and that are there."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


def used_checkout(folder: Path) -> Path:
    """Make such a checkout in `folder`; what was left behind only its owner may read."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name in JUNK:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch(mode=0o600)
    return folder


def context(checkout: Path) -> set[str]:
    """The files that .dockerignore lets into a build: of its patterns the last one decides.

    A folder that is left out is looked into only if a pattern that lets files in begins with it.
    """
    lines = (checkout / ".dockerignore").read_text().splitlines()
    rules = [(line[:1] != "!", pattern(line.lstrip("!"))) for line in lines if line[:1] not in "#"]

    def is_out(path: str | Path) -> bool:
        name = Path(path).relative_to(checkout).as_posix()
        return [out for out, rule in rules if rule.fullmatch(name)][-1]

    let_in = set()
    for at, folders, names in os.walk(checkout):
        inside = [Path(at, name) for name in folders]
        begins = [f"!{folder.relative_to(checkout).as_posix()}/" for folder in inside]
        folders[:] = [
            folder.name for folder, begin in zip(inside, begins, strict=True)
            if not is_out(folder) or any(line.startswith(begin) for line in lines)
        ]  # fmt: skip
        let_in |= {Path(at, name) for name in names if not is_out(Path(at, name))}
    return {path.relative_to(checkout).as_posix() for path in let_in}


def pattern(glob: str) -> re.Pattern[str]:
    """Docker's pattern as a regular expression; what is below a folder that it names matches."""
    parts = {r"\*\*/": "(?:.*/)?", r"\*": "[^/]*", r"\[0\-9\]": "[0-9]"}
    escaped = re.escape(glob)
    for old, new in parts.items():
        escaped = escaped.replace(old, new)
    return re.compile(f"{escaped}(?:/.*)?")
