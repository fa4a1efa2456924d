"""The text of a function or class of the lab, shown as code that a notebook colours."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceCode:
    """Python text; JupyterLab shows it in colour, a terminal as it is."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        # The fence is longer than any run of backticks in the text, so that nothing ends it early.
        ticks = max((len(run) for run in re.findall("`+", self.text)), default=0)
        fence = "`" * max(3, ticks + 1)
        return f"{fence}python\n{self.text}\n{fence}"


def source_code(function: Callable[..., Any]) -> SourceCode:
    """The text of a function or class. Raises TypeError for what has none."""
    return SourceCode(textwrap.dedent(inspect.getsource(function)).strip())
