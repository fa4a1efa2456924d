"""The pages say nothing that is not there: links, paths, code, and the names of findings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from docs import make_findings
from lab_utils.audit.finding import RULES
from lab_utils.proxy.faults import Fault

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("labs/*.md")])
LINK: Final = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PATH: Final = re.compile(r"`((?:lab_utils|tests|docs|labs|benchmarks)/[\w./-]+)`")
CODE: Final = re.compile(r"```python\n(.*?)```", re.DOTALL)
CALL: Final = re.compile(r"`(\w+)\(\"(?:Produce|Fetch|OffsetCommit)\"")
# A name that stands for a lab's number, as in labs/source/NN_title.py.
PLACEHOLDER: Final = re.compile(r"NN|79|90|labs/\*")


def found(pattern: re.Pattern[str]) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for match in pattern.finditer(page.read_text(encoding="utf-8")):
            yield page, match[1]


def test_links() -> None:
    """Each link to a file of the repository leads to one."""
    missing = [
        f"{page.name}: {link}"
        for page, link in found(LINK)
        if "://" not in link and not (page.parent / link).exists()
    ]

    assert [] == missing


def test_paths() -> None:
    """Each file or folder that a page names exists."""
    missing = [
        f"{page.name}: {path}"
        for page, path in found(PATH)
        if not PLACEHOLDER.search(path) and not (ROOT / path).exists()
    ]

    assert [] == missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code(page: Path) -> None:
    """Each block of Python on a page is Python."""
    for block in CODE.findall(page.read_text(encoding="utf-8")):
        compile(block, str(page), "exec")


def test_findings() -> None:
    """The page of the findings is what `python -m docs.make_findings` makes of them."""
    page = make_findings.PAGE.read_text(encoding="utf-8")

    assert set(RULES) == set(re.findall(r"^## ([\w-]+)$", page, re.MULTILINE))
    assert make_findings.page() == page


def test_faults() -> None:
    """Each fault that a page calls exists, or is made on that page."""
    own = {"do_nothing"}

    assert set() == {name for _, name in found(CALL)} - set(Fault.kinds) - own
