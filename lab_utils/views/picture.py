"""A picture: a Plotly figure whose title is a finding, and the same in words and as a table.

JupyterLab draws the figure with the extension that comes in the plotly wheel, so nothing is
loaded from elsewhere. The words and the table are an output of their own below it: whoever cannot
see the figure reads them, and whoever can may doubt it.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Final

from plotly.graph_objects import Figure

from lab_utils.views.table import Table

PLOTLY: Final = "application/vnd.plotly.v1+json"
# JupyterLab fits a figure to its cell itself. With `responsive` Plotly does too, and a window that
# became higher or lower, and not wider, then left the figure no height at all.
CONFIG: Final = {"displaylogo": False, "responsive": False, "displayModeBar": False}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, a summary of it in sentences, and its data as a table."""

    title: str
    figure: Figure
    summary: str
    table: Table

    def __repr__(self) -> str:
        return f"{self.title}.\n{self.summary}"

    def _repr_html_(self) -> str:
        about = escape(f"{self.title}. {self.summary}")
        return (
            f'<div role="group" aria-label="{about}"><p>{escape(self.summary)}</p>'
            "<details><summary>The same as a table</summary>"
            f"{self.table._repr_html_()}</details></div>"
        )

    def bundle(self) -> dict[str, Any]:
        """The figure as JupyterLab takes it; whoever has no Plotly is shown the words."""
        figure = self.figure.to_plotly_json()
        return {PLOTLY: {**figure, "config": CONFIG}, "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        display(self.bundle(), raw=True)  # type: ignore[no-untyped-call]
        display(HTML(self._repr_html_()))  # type: ignore[no-untyped-call]
