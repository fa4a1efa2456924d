"""A command that a test runs to its end; what it prints is kept."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def call(
    command: Sequence[str | Path], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command; its exit code and all that it printed, as text."""
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)
