"""A command or a coroutine that a test runs to its end; what it says is kept."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


def call(
    command: Sequence[str | Path], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command; its exit code and all that it printed, as text."""
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)


def result_of(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine gives, in a thread of its own: this one's loop may be a browser's."""
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, coroutine).result()
