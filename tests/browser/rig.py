"""A real JupyterLab in a real Chromium: start it, open a notebook, run it, read what it shows.

Waits are conditions of the page. A page that asks for an address on another machine fails its test.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import nbformat
from playwright.sync_api import Browser, Page, sync_playwright

from lab_utils import jupyter, processes
from lab_utils.processes import free_port
from lab_utils.waiting import wait_until

QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
PAGE_MS = 60_000
IDLE_MS = 200_000


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs: where, with which token, on which folder of notebooks."""

    address: str
    token: str
    folder: Path

    def write(self, name: str, *cells: str) -> str:
        """Write a notebook of code cells; return its path for `open_notebook`."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, self.folder / name)
        return name


@contextmanager
def jupyterlab(home: Path) -> Iterator[Lab]:
    """JupyterLab as `./lab up` starts it, with settings of its own, on a free port."""
    folder = home / "notebooks"
    folder.mkdir(parents=True)
    port, token = free_port(0), secrets.token_urlsafe(16)
    command = jupyter.command(folder, port, browser=False)
    # The page then offers its commands to us: to run all cells is a command, not a guessed click.
    command.append("--LabApp.expose_app_in_browser=True")
    server = processes.spawn(
        command, log=home / "jupyter.log", environment=_settings(home, folder, token),
        preexec_fn=processes.end_with_parent,
    )  # fmt: skip
    try:
        lab = Lab(f"http://127.0.0.1:{port}", token, folder)
        wait_until(
            lambda: _answers(lab, server),
            "JupyterLab",
            timeout_s=120,
            every_s=0.1,
            last_seen=lambda _: (home / "jupyter.log").read_text(encoding="utf-8")[-2000:],
        )
        yield lab
    finally:
        server.terminate()
        server.wait()


def _answers(lab: Lab, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "JupyterLab has ended"
    try:
        status = f"{lab.address}/api/status"
        return httpx.get(status, params={"token": lab.token}, verify=False).is_success
    except httpx.HTTPError:
        return False


def _settings(home: Path, folder: Path, token: str) -> dict[str, str]:
    """Nothing of this machine's Jupyter settings is read or written."""
    names = ("CONFIG_DIR", "CONFIG_PATH", "DATA_DIR", "RUNTIME_DIR")
    own = {f"JUPYTER_{name}": str(home / name) for name in names}
    own |= {f"JUPYTERLAB_{name}_DIR": str(home / name) for name in ("SETTINGS", "WORKSPACES")}
    return {**jupyter.environment(folder, token), **own, "LAB_OWNER": str(os.getpid())}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, which speaks to nobody by itself."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=[*QUIET, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        yield browser
        browser.close()


@contextmanager
def new_page(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page of its own, made with these options; it has asked no other machine for anything.

    Without a network it has asked none at all: it has files, and what is in the page.
    """
    asked: list[str] = []
    page = browser.new_page(**{"viewport": {"width": 1100, "height": 900}} | options)
    page.set_default_timeout(PAGE_MS)
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    yield page
    page.close()
    # Data and blob addresses are in the page itself.
    places = [it for it in map(urlsplit, asked) if it.scheme not in ("data", "blob")]
    host = None if options.get("offline") else "127.0.0.1"
    assert [] == [it for it in places if it.hostname != host]


def open_notebook(page: Page, lab: Lab, path: str) -> None:
    """Open a notebook, alone, and return when its kernel is ready.

    JupyterLab first restores what an earlier page had open, and may show that for a while.
    """
    page.goto(f"{lab.address}/doc/tree/{path}?token={lab.token}")
    _wait_for_kernel(page, path)


def open_beside(page: Page, path: str) -> None:
    """Open a notebook beside what the page shows, and return when its kernel is ready."""
    page.evaluate(
        "path => void window.jupyterapp.commands.execute('docmanager:open', { path })", path
    )
    _wait_for_kernel(page, path)


def _wait_for_kernel(page: Page, path: str) -> None:
    page.wait_for_function(
        f"path => {NOTEBOOK}?.context?.path === path && {KERNEL}?.status === 'idle'", arg=path
    )


def run_all(page: Page) -> None:
    """Begin to run all cells; `wait_for_idle` waits for the last."""
    _command(page, "notebook:run-all-cells")


def run_new_cell(page: Page, code: str) -> None:
    """Begin to run a cell with this code, below all others."""
    page.evaluate(
        f"""source => {{
            const {{ content }} = {NOTEBOOK};
            content.model.sharedModel.addCell({{ cell_type: "code", source }});
            content.activeCellIndex = content.widgets.length - 1;
        }}""",
        code,
    )
    _command(page, "notebook:run-cell")


def save(page: Page) -> None:
    """Save the notebook, and return when it is."""
    page.evaluate(f"() => {NOTEBOOK}.context.save()")


def wait_for_idle(page: Page) -> None:
    """Return when all that was begun has run, and the kernel is idle."""
    page.wait_for_function(f"() => !window.labRuns && {KERNEL}?.status === 'idle'", timeout=IDLE_MS)


def run_in_kernel(page: Page, code: str) -> None:
    """Run code in the notebook's kernel, and return when it has run; no cell shows it."""
    page.evaluate(f"code => {KERNEL}.requestExecute({{ code }}).done", code)


def end_kernel(page: Page) -> None:
    """End the notebook's kernel."""
    page.evaluate(f"() => {NOTEBOOK}.sessionContext.shutdown()")


@contextmanager
def in_the_dark(page: Page) -> Iterator[None]:
    """Let the system of the reader be dark meanwhile: JupyterLab follows it."""
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    yield
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("body[data-jp-theme-light=true]", state="attached")


def texts(page: Page) -> list[str]:
    """The outputs of each code cell as plain text."""
    cells: list[list[dict[str, Any]]] = page.evaluate(
        f"() => {NOTEBOOK}.content.model.toJSON().cells"
        ".filter(cell => cell.cell_type === 'code').map(cell => cell.outputs)"
    )
    return ["".join(map(_text, outputs)) for outputs in cells]


def wait_for_text(page: Page, look: Callable[[], str], wanted: str) -> str:
    """Return what `look` sees when it holds the wanted text; the page lives on meanwhile."""

    def seen() -> str:
        page.evaluate("() => new Promise(requestAnimationFrame)")
        return text if wanted in (text := look()) else ""

    return wait_until(seen, repr(wanted), timeout_s=60, last_seen=lambda _: look())


NOTEBOOK = "window.jupyterapp?.shell.currentWidget"
KERNEL = f"{NOTEBOOK}?.sessionContext?.session?.kernel"


def _command(page: Page, name: str) -> None:
    """Begin a command of JupyterLab; `labRuns` counts those that have not ended."""
    page.evaluate(
        """name => {
            window.labRuns = (window.labRuns ?? 0) + 1;
            const over = () => { window.labRuns -= 1; };
            window.jupyterapp.commands.execute(name).then(over, over);
        }""",
        name,
    )


def _text(output: dict[str, Any]) -> str:
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    return text if isinstance(text, str) else "".join(text)
