"""The whole site, built once by ./lab site and opened from its folder by a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from lab_utils.site import build, pages
from lab_utils.views.explorer.choices import OFFERS
from lab_utils.waiting import wait_until
from tests.browser import rig

ROOT = Path(__file__).parents[2]
PAGE_BYTES = 1_000_000
SHORT = 12  # a line of a solution that is shorter may stand anywhere
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
LINK = re.compile(r'(?:href|src)="([^"]+)"')
SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
# The widest of what could be scrolled sideways: the page, and on a phone its text.
WIDEST = """Math.max(...["html", ".content"].map((it) => document.querySelector(it).scrollWidth))"""
COMMAND = [sys.executable, "-m", "lab_utils.cli", "site"]
NO_SPHINX = "no Sphinx here: ./lab test long, or pip install -r requirements-site.lock"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec(build.BUILDER) is None, reason=NO_SPHINX),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site, built where another one was."""
    folder = tmp_path_factory.mktemp("site")
    (folder / build.MARK).touch()
    (folder / "old.html").touch()
    subprocess.run([*COMMAND, folder], check=True)
    return folder


@pytest.fixture
def asked() -> list[str]:
    """What a page asks for, and what goes wrong on it."""
    return []


@pytest.fixture
def page(browser: Browser, asked: list[str]) -> Iterator[Page]:
    """A page of a browser that has no network."""
    wide = {"width": 1400, "height": 900}
    with rig.new_page(browser, offline=True, viewport=wide) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(f"error: {error}"))
        yield page


def html(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def words(text: str) -> str:
    """What a page says, in one line, without what its scripts hold."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", SCRIPT.sub("", text))).split())


def test_old_site_is_replaced(site: Path) -> None:
    """Each notebook has its page, nothing of the old site is left, and nothing lies beside it."""
    notebooks = {path.stem for path in (ROOT / "labs").rglob("[0-9]*.ipynb")}

    assert notebooks | {"index", "search"} == {path.stem for path in html(site)}
    assert not [path for path in site.parent.iterdir() if path.name.startswith(f".{site.name}.")]


def test_each_page_stands_alone(site: Path, page: Page, asked: list[str]) -> None:
    """Each page opens from its folder, asks for files alone, and weighs a megabyte at most."""
    for path in html(site):
        page.goto(path.as_uri())
        if page.locator(".lab-recorded").count():
            page.wait_for_selector(".step.now")
        files = {Path(unquote(urlsplit(each).path)) for each in asked}

        assert [] == [
            each for each in asked if urlsplit(each).scheme not in ("file", "data", "blob")
        ]
        assert sum(file.stat().st_size for file in files if file.is_file()) <= PAGE_BYTES, path
        assert words(pages.NOTICE) in words(path.read_text(encoding="utf-8"))
        asked.clear()


def test_each_lab_has_its_explorer(site: Path) -> None:
    """The explorer stands where the notebook calls it, in each lab once."""
    found = [path.name[:2] for path in html(site) if 'class="lab-recorded"' in path.read_text()]

    assert sorted([*OFFERS, "in"]) == sorted(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_page(site: Path, page: Page, width: int, scheme: str) -> None:
    """No page scrolls sideways, and the explorer has the page's ground, light or dark."""
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    ground = "e => getComputedStyle(document.querySelector(e)).backgroundColor"
    for path in html(site):
        page.goto(path.as_uri())
        assert page.evaluate(WIDEST) <= width, path
        if page.locator(".lab-recorded").count():
            page.wait_for_selector(".step.now")
            assert page.evaluate(ground, "body") == page.evaluate(ground, ".lab-explorer")


def test_links_lead_somewhere(site: Path) -> None:
    """Each link to a page or a place on it leads there, and each file that is named is there."""
    missing = []
    for path in html(site):
        for link in LINK.findall(SCRIPT.sub("", path.read_text(encoding="utf-8"))):
            parts = urlsplit(unescape(link))
            target = (path.parent / unquote(parts.path)) if parts.path else path
            if parts.scheme in ("", "file") and not (
                target.exists()
                and (not parts.fragment or f'id="{parts.fragment}"' in target.read_text())
            ):
                missing.append(f"{path.name}: {link}")

    assert [] == missing


def test_no_solution_is_shown(site: Path) -> None:
    """No line of a solution is on a page, unless it is in a notebook that is handed out."""
    handed = "\n".join(path.read_text() for path in (ROOT / "labs").rglob("[0-9]*.ipynb"))
    lines = {
        line.strip()
        for path in (ROOT / "labs" / "source").rglob("*.py")
        for region in SOLUTION.findall(path.read_text(encoding="utf-8"))
        for line in region.splitlines()
        if len(line.strip()) > SHORT
    }
    secret = {" ".join(line.split()) for line in lines if line.replace('"', '\\"') not in handed}
    shown = {path.name: words(path.read_text(encoding="utf-8")) for path in html(site)}

    assert 50 < len(secret)
    assert [] == [(name, each) for name, text in shown.items() for each in secret if each in text]


def test_ctrl_c_leaves_no_half_site(site: Path, tmp_path: Path) -> None:
    """Interrupted while it builds, it says so, and what was there before is as it was."""
    place = tmp_path / "place"
    child = subprocess.Popen([*COMMAND, place], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: list(tmp_path.glob(".place.*/site")), "the build to begin", timeout_s=100)
    os.kill(child.pid, signal.SIGINT)
    said = child.communicate()[1]

    assert (130, []) == (child.returncode, list(tmp_path.iterdir()))
    assert f"Interrupted: {place} is as it was" in " ".join(said.split())
