"""What the site is built from: the learners' notebooks, with an explorer of recorded runs in each.

    labs/03_title.ipynb   lab.explorer() ──▶ its output: the runs as data, and the explorer's module

All that a page's explorer needs stands in the page: from a folder a browser loads neither modules
nor data. Nothing is executed, and the notebooks are those that are handed out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import orjson

from lab_utils import course
from lab_utils.course import Entry
from lab_utils.site.recordings import KAFKA, first_picture, page_data
from lab_utils.views.explorer import MODULE
from lab_utils.views.explorer.choices import OFFERS
from lab_utils.views.explorer.run_data import styles
from lab_utils.working_folder import ROOT

HERE: Final = Path(__file__).parent
START: Final = (HERE / "page.js").read_text(encoding="utf-8")
FIRST_PAGE: Final = "index"
FIRST_EXPLORER: Final = "00"
CALL: Final = "lab.explorer()"
EXPLORER: Final = """\
<div class="lab-recorded">
<p>Here each choice shows the run that was recorded for it, on Kafka {kafka}.</p>
<noscript>
<p>The explorer needs JavaScript, and nothing else. This is its first run.</p>
{title}
<div style="overflow-x: auto">{first}</div>
<p>{summary}</p>
</noscript>
<script type="application/json">{data}</script>
</div>
<script type="module">
{module}
</script>
"""
# The sentence that stands on every page.
NOTICE: Final = (
    f"Each explorer on these pages shows recorded, real runs on Kafka {KAFKA}. For runs of your "
    "own, type <code>./lab up</code> in a clone of the lab; <code>./lab test</code> tests it."
)
INDEX: Final = """\
{about}

## Try it first

A client sends four orders to a Kafka broker. Choose what goes wrong, and step through what a real
client and a real broker then did.

`````{{raw}} html
{explorer}`````

Labs {first} to {last} begin with an explorer like this one, and every choice has its recorded run.

## The labs

| lab | minutes | points | runs on | builds on |
|:----|--------:|-------:|:--------|:----------|
{labs}

More runs, without points:

| further | minutes | runs on | builds on |
|:--------|--------:|:--------|:----------|
{further}

## Make runs of your own

These pages show the notebooks as they are handed out. In JupyterLab you run them: the code is
yours to change, each choice of an explorer makes a new run, and `lab.check` decides the exercises
on evidence. In a clone of the lab:

```console
./lab up        # sets everything up, starts JupyterLab with the labs, prints the address
./lab test      # sets everything up, runs the tests
```

You need Python 3.11 or newer, on Linux or macOS. Kafka is bundled.

```{{toctree}}
:hidden:
:caption: Labs
{toctree}
```

```{{toctree}}
:hidden:
:caption: Further runs
{further_toctree}
```
"""


def write_pages(folder: Path) -> None:
    """Write what Sphinx reads: a notebook for each lab, and the first page.

    Raises SetupError for a run that is not recorded.
    """
    entries, further = course.entries(), course.further()
    for entry in (*entries, *further):
        path = folder / entry.notebook
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = json.loads((ROOT / "labs" / entry.notebook).read_bytes())
        path.write_text(json.dumps(with_explorers(notebook, entry.lab)), encoding="utf-8")
    (folder / f"{FIRST_PAGE}.md").write_text(first_page(entries, further), encoding="utf-8")


def with_explorers(notebook: dict[str, Any], lab: str) -> dict[str, Any]:
    """The notebook with recorded runs as the output of each cell that calls the explorer."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and "".join(cell["source"]).strip() == CALL:
            data = {"text/html": explorer(lab)}
            cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    return notebook


def explorer(lab: str) -> str:
    """The explorer of a lab as HTML that needs nothing beside it."""
    data = orjson.dumps({**page_data(lab), "styles": styles()}).decode()
    # Within a script element nothing else ends it.
    escaped = data.replace("<", "\\u003c")
    picture = first_picture(lab)
    return EXPLORER.format(
        kafka=KAFKA,
        data=escaped,
        module=MODULE + START,
        title=picture.heading(),
        first=picture.static(titled=False),
        summary=escape(picture.summary),
    )


def first_page(entries: Sequence[Entry], further: Sequence[Entry]) -> str:
    """The course page, as Markdown of MyST."""
    return INDEX.format(
        about=course.HEAD.partition("{next}")[0].strip(),
        first=min(OFFERS),
        last=max(OFFERS),
        explorer=explorer(FIRST_EXPLORER),
        labs="\n".join(_row(each, each.minutes, each.points) for each in entries),
        further="\n".join(_row(each, each.minutes) for each in further),
        toctree=_toctree(entries),
        further_toctree=_toctree(further),
    )


def _row(entry: Entry, *numbers: object) -> str:
    cells = (entry.link, *numbers, entry.runs_on, entry.builds_on)
    return f"| {' | '.join(map(str, cells))} |"


def _toctree(entries: Iterable[Entry]) -> str:
    return "\n".join(
        f"{each.lab} {each.question} <{each.notebook.removesuffix('.ipynb')}>" for each in entries
    )
