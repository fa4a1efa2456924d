"""How Sphinx builds the site: MyST-NB reads the notebooks, Furo draws them, nobody is asked.

Sphinx reads this file by its name, from `lab_utils.site.build`.
"""

from __future__ import annotations

from typing import Any, Final

from lab_utils.site.pages import NOTICE

project = "What does Kafka really promise?"
html_title = project
language = "en"
extensions = ["myst_nb"]

# Pages show what was recorded; nothing runs, and no widget fetches its half from elsewhere.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, Any] = {}

html_theme = "furo"
html_theme_options: dict[str, Any] = {"announcement": NOTICE}
html_static_path = ["../views/explorer/explorer.css", "site.css"]
html_css_files = ["explorer.css", "site.css"]
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_show_copyright = False

LATE: Final = 900  # after Furo has decided


def setup(app: Any) -> None:
    """Leave out the column of sections: its place is the explorer's."""

    def without_sections(*given: Any) -> None:
        *_, context, _ = given
        context["furo_hide_toc"] = True

    app.connect("html-page-context", without_sections, priority=LATE)
