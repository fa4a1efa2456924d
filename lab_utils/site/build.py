"""Build the site: pages beside their place, then one rename, so that no half site is ever seen.

notebooks, recordings ──▶ pages ──▶ python -m sphinx ──▶ .DIR.building ── rename ──▶ DIR
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lab_utils.errors import BadArgument, SetupError
from lab_utils.processes import end, ended_with, spawn_module, tail
from lab_utils.site.pages import HERE, write_pages

# By this file a later build knows that the folder is a site of ours, which it may replace.
MARK: Final = ".delivery-lab-site"
BUILDER: Final = "myst_nb"
BUILD_S: Final = 300

Say = Callable[[str], object]


def build(folder: Path, say: Say) -> int:
    """Build the site into `folder`, which is empty, not there, or such a site; how many pages.

    Raises SetupError if Sphinx is not installed, a run is not recorded, or the build fails, and
    BadArgument if something else is in the folder. What was there before then stays.
    """
    require_possible(folder)
    place = folder.absolute()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as aside:
            built = Path(aside) / "site"
            say("Reading the recorded runs")
            write_pages(Path(aside) / "pages")
            say("Building the pages")
            _sphinx(Path(aside) / "pages", built, Path(aside))
            (built / MARK).touch()
            (built / ".nojekyll").touch()  # GitHub Pages then serves _static, too
            pages = len(list(built.rglob("*.html")))
            _put(built, place, Path(aside) / "before")
    except OSError as error:
        raise SetupError(
            f"The site could not be written to {place}: {error.strerror}. Choose a folder that you "
            "can write to: ./lab site DIR"
        ) from error
    return pages


def require_possible(folder: Path) -> None:
    """Raise SetupError if Sphinx is not installed, BadArgument if the folder is not for a site."""
    if find_spec(BUILDER) is None:
        raise SetupError(
            "This environment has no Sphinx with MyST-NB, so no page can be built. Install it: "
            f"{sys.executable} -m pip install -r requirements-site.lock"
        )
    is_ours = (folder / MARK).exists()
    if folder.exists() and not (is_ours or (folder.is_dir() and not any(folder.iterdir()))):
        raise BadArgument(
            f"{folder} holds something that ./lab site has not written, and a build replaces all "
            "that is there. Name a new folder, or empty this one."
        )


def _sphinx(pages: Path, built: Path, aside: Path) -> None:
    """Run Sphinx in a process group of its own; each warning is an error."""
    log = aside / "sphinx.log"
    options = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(HERE), "-d", str(aside / "read")]
    child = spawn_module("sphinx", *options, str(pages), str(built), log=log)
    try:
        code = child.wait(timeout=BUILD_S)
    except subprocess.TimeoutExpired:
        raise SetupError(f"Sphinx had not ended after {BUILD_S} s. {tail(log)}") from None
    finally:
        end([child], (signal.SIGTERM, 5))
    if code:
        raise SetupError(f"Sphinx {ended_with(code)}, and no site was written:\n{tail(log)}")


def _put(built: Path, place: Path, before: Path) -> None:
    """Put the new site in the place of the old one."""
    if place.exists():
        place.rename(before)
    try:
        built.rename(place)
    except BaseException:
        if before.exists() and not place.exists():
            before.rename(place)
        raise
    shutil.rmtree(before, ignore_errors=True)
