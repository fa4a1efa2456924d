"""The command line: each command of ./lab.

Each command is a few lines around a function of another room. The front door `./lab` calls it in
the project's own environment.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lab_utils import course
from lab_utils.errors import LabError, SetupError
from lab_utils.machine.jars import CURRENT, SECTIONS
from lab_utils.processes import at_the_end, free_port
from lab_utils.working_folder import WORKING_FOLDER, hand_out

if TYPE_CHECKING:
    from lab_utils.audit.report import Report

ROOT = Path(__file__).parents[1]
TIERS = {
    "all": "not (install or long)",
    "lint": "lint",
    "unit": "not (lint or processes or kafka or labs or browser or install or long)",
    "processes": "processes and not (kafka or install or long)",
    "kafka": "kafka and not long",
    "labs": "labs and not long",
    "browser": "browser and not long",
    "install": "install",
    "long": "long",
}
WITHOUT_JAVA = ("lint", "unit", "processes")
# Until an interrupt that was swallowed comes again: what swallowed it is over by then.
SWALLOWED_S: Final = 0.1
console = Console(stderr=True)


class Commands(click.Group):
    """Shows a LabError as its sentence, without a traceback, and Ctrl-C by its exit code.

    So with what the system refuses, as to write to a disk that is full.
    """

    def make_context(self, *given: Any, **options: Any) -> click.Context:
        """Read the command line, and say its help if that is asked for."""
        with _as_sentences():
            return super().make_context(*given, **options)

    def invoke(self, context: click.Context) -> object:
        """Run the command."""
        try:
            with _as_sentences():
                return super().invoke(context)
        except KeyboardInterrupt:  # click's own exit code is 1, which of an audit says: a breach
            console.print("Interrupted.")
            sys.exit(128 + signal.SIGINT)


@contextmanager
def _as_sentences() -> Iterator[None]:
    """Let an error of the lab or of the system end a command with a sentence."""
    try:
        yield
    except LabError as error:
        raise click.ClickException(_plain(error)) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # nobody reads on, as after | head
            raise
        what = f"{error}. Look at that file or folder, then run the command again."
        if _drop_unprinted():
            what = f"the output cannot be written: {error.strerror}. Send it where there is room."
        raise click.ClickException(_plain(LabError(what))) from error


def _drop_unprinted() -> bool:
    """Drop what was printed and the output did not take; was there any?

    Python would try again as it ends, fail again, and exit with 120.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A lab that shows what Apache Kafka's delivery guarantees really promise.

    ./lab up starts JupyterLab with the notebooks and a bundled, real Kafka. ./lab test tests all
    of it.
    """
    for number in range(3):  # One that is closed would be the number of the next file, as a log.
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # What it cannot write is shown as an escape.
            stream.reconfigure(errors="backslashreplace")


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8888, show_default=True,
              help="JupyterLab's port; the next free one is taken if it is in use.")  # fmt: skip
@click.option("--ip", default="127.0.0.1", show_default=True, envvar="LAB_IP",
              help="Where JupyterLab listens; in a container, 0.0.0.0.")  # fmt: skip
@click.option("--folder", type=click.Path(path_type=Path), default=WORKING_FOLDER,
              envvar="LAB_FOLDER",
              help="The folder where you work; work/ of the clone if not given.")  # fmt: skip
@click.option("--browser/--no-browser", default=False, show_default=True,
              help="Open the address in a browser.")  # fmt: skip
def up(port: int, ip: str, folder: Path, browser: bool) -> None:
    """Start JupyterLab with the labs and print its address; Ctrl-C ends everything.

    The notebooks are put into the folder where you work. One that you have changed stays as it is;
    when the lab has a new edition of it, that one is put beside it.
    """
    from lab_utils.jupyter import serve

    _hand_out(folder)
    _prepare()
    sys.exit(serve(folder, ip=ip, port=port, browser=browser, say=_line))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), default=WORKING_FOLDER,
                envvar="LAB_FOLDER")  # fmt: skip
def notebooks(folder: Path) -> None:
    """Put the labs' notebooks into FOLDER, as `up` does."""
    _hand_out(folder)


def _hand_out(folder: Path) -> None:
    for sentence in hand_out(folder).sentences():
        console.print(sentence, highlight=False)
    if kept := course.write(folder):
        console.print(f"{course.PAGE} was yours, and is {kept} now.", highlight=False)


@main.command("prepare")
@click.option("--kafka", type=click.Choice([*SECTIONS]), default=CURRENT, show_default=True,
              help="3.9: also that Kafka, for 90_is_it_still_true.ipynb.")  # fmt: skip
def prepare_command(kafka: str) -> None:
    """Fetch and make what a first start needs; from then on the lab needs no network."""
    _prepare(kafka)
    click.echo("Kafka is there. No network is needed from now on.")


def _prepare(kafka: str = CURRENT) -> None:
    from lab_utils.audit.spark_server import make_class_archive
    from lab_utils.machine.prepare import prepare

    at_the_end(signal.default_int_handler)  # what is begun is removed
    with console.status("Preparing Kafka") as status:
        for version in dict.fromkeys((CURRENT, kafka)):
            prepare(lambda text: status.update(str(text)), version)
        make_class_archive(lambda text: status.update(str(text)))


@main.command("down")
def down_command() -> None:
    """End every process of the lab that uses this state folder, and say which; JupyterLab stays.

    What killed kernels left in the database of LAB_DATABASE is dropped.
    """
    from lab_utils import jupyter, processes
    from lab_utils.clients.sinks import remove_left
    from lab_utils.folders import state_folder
    from lab_utils.machine.down import down

    if left := jupyter.kernels_left():  # first: one that goes on would start a stage again
        processes.end(left)
        pids = ", ".join(str(kernel.pid) for kernel in left)
        click.echo(f"Ended of a ./lab up that was killed: kernel {pids}.")
    down(click.echo)
    if serving := ", ".join(map(str, jupyter.running())):
        click.echo(f"./lab up still runs (pid {serving}): Ctrl-C where it was started ends it.")
    else:
        click.echo("Nothing is running.")
    if dropped := remove_left(state_folder() / "runs"):
        click.echo(f"Dropped in the database: {', '.join(dropped)}.")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> None:
    """Say what is there, what is missing, and the command that fixes it; exit 1 if anything is."""
    from lab_utils.machine.doctor import examine

    rows = examine()
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        table = Table("", "what", "found", "fix it with", box=None)
        for row in rows:
            table.add_row("ok" if row.ok else "MISSING", row.name, row.what, row.fix or "")
        Console().print(table)
    sys.exit(0 if all(row.ok or not row.required for row in rows) else 1)


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", metavar="[TIER] [PYTEST...]", nargs=-1, type=click.UNPROCESSED)
def test(arguments: tuple[str, ...]) -> None:
    """Run the tests of a TIER: lint, unit, processes, kafka, labs, browser, or all of these.

    Two tiers are left out of them: install installs the lab anew and builds its image, long runs
    every notebook twice in one kernel, with its solutions and without, performs each solution under
    all its schedules, tries each exploit and each sink at every crash point, and asks Kafka anew
    what it does, which only another version of it changes. Everything else goes to pytest, as in:
    ./lab test unit -k ledger
    """
    tier, *others = arguments if arguments[:1] and arguments[0] in TIERS else ("all", *arguments)
    if find_spec("pytest") is None:
        raise SetupError(
            "This environment has no pytest, so no test can run. Install what the tests need: "
            f"{sys.executable} -m pip install -r requirements-test.lock"
        )
    if tier not in WITHOUT_JAVA:
        _prepare()  # Once, before the workers: each would fetch what is not there yet.
    # The tests say which of them share a worker, and which come first (tests/conftest.py). Many
    # wait for a broker: on two cores four workers leave 6 % of them idle, and three left 14 %.
    count = (os.cpu_count() or 1) + 2 * (tier not in ("lint", "unit"))
    workers = ["-n", str(count), "--dist", "loadgroup", "--no-loadscope-reorder"]
    chosen = ["-m", TIERS[tier], *([] if tier == "install" else workers)]
    os.chdir(ROOT)
    # Not a child: who waits for one at Ctrl-C kills it, and what the tests have made stays.
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *chosen, *others])  # noqa: S606


@main.command()
@click.argument("labs", nargs=-1)
@click.option("--check", is_flag=True, help="Write nothing; fail if a notebook is not current.")
@click.option("--nbgrader", "course", type=click.Path(path_type=Path),
              help="Write nbgrader's source notebooks into a course's folder.")  # fmt: skip
@click.option("--checks", is_flag=True,
              help="Write to labs/checks what sources hold: a seat has none.")  # fmt: skip
def build(labs: tuple[str, ...], check: bool, course: Path | None, checks: bool) -> None:
    """Write the learners' notebooks labs/*.ipynb from labs/source/*.py."""
    from lab_utils.grading import notebook

    if course is not None or checks:
        folder = ROOT / "labs"
        written = notebook.build_for_nbgrader(folder, course, labs) if course else []
        for path in [*written, *(notebook.write_checks(folder) if checks else [])]:
            click.echo(f"wrote {path}")
        return
    changed = notebook.build_labs(ROOT / "labs", labs, write=not check)
    for path, difference in changed:
        click.echo(difference if check else f"wrote {path.relative_to(ROOT)}")
    for path in notebook.without_source(ROOT / "labs"):
        click.echo(f"kept {path.relative_to(ROOT)}, which has no source in labs/source")
    if check and changed:
        raise click.ClickException("the notebooks are not what their sources say: ./lab build")


@main.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("grades"), show_default=True,
              help="Where each submission is kept when it is graded, and the reports.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME",
              help="Grade only this learner or file; * stands for any text.")  # fmt: skip
@click.option("--again", is_flag=True, help="Grade also what is graded and unchanged.")
@click.option("--lab", metavar="NN", help="Reject notebooks of another lab than this.")
@click.option("--nonce", help="What the unseen faults are drawn from; the first one of --out if "
                              "not given.")  # fmt: skip
@click.option("--learner", metavar="PATTERN",
              help="Where a path has the learner's name: '{learner}/*.ipynb', '*_{learner}.ipynb'. "
                   "If not given: the first folder, or what Moodle or Canvas wrote.")  # fmt: skip
@click.option("--report", "report_only", is_flag=True,
              help="Grade nothing; write the reports again from what --out holds.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), default=None,
              help="Submissions graded at once; the number of cores if not given.")  # fmt: skip
@click.option("--cell-seconds", type=click.IntRange(1), default=120, show_default=True,
              help="The time budget of one cell.")  # fmt: skip
@click.option("--total-seconds", type=click.IntRange(1), default=900, show_default=True,
              help="The time budget of one submission.")  # fmt: skip
@click.option("--unsafe", is_flag=True,
              help="Grade without a sandbox: a submission can then read, change and end whatever "
                   "you can.")  # fmt: skip
def grade(report_only: bool, cell_seconds: int, total_seconds: int, **given: Any) -> None:
    """Grade submitted notebooks (PATHS: files or folders) on the evidence of unseen faults.

    Each submission is kept as soon as it is graded. After an interruption the same command goes on.

    \b
    ./lab grade submissions/ --out grades
    ./lab grade submissions/ --out grades --only ada --again

    Exit code 0 when the grading ran, whatever the scores; 2 when the infrastructure failed.
    """  # noqa: D301 - click wants the backspace itself
    from lab_utils.grading.grader import Wanted, grade_and_report, report

    if not report_only and not given["paths"]:
        raise click.UsageError("Name the submissions: ./lab grade submissions/ --out grades")

    after = "what is graded is kept, and the same command goes on."
    with _interruptible(after) as ends_with, console.status("Grading") as said:
        if report_only:
            report(given["out"], _line)
            return
        wanted = Wanted(cell_s=cell_seconds, total_s=total_seconds, **given)
        ends_with.append(grade_and_report(wanted, _line, lambda text: said.update(escape(text))))


@main.command()
@click.argument("outs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="OUT...")
@click.option("--out", type=click.Path(path_type=Path), default=Path("gradebook"),
              show_default=True, help="Where the gradebook is written.")  # fmt: skip
@click.option("--roster", type=click.Path(path_type=Path, dir_okay=False),
              help="Who is in the class, as CSV; roster.csv of OUT if not given. An export of "
                   "Moodle's or Canvas's will do.")  # fmt: skip
@click.option("--due", multiple=True, metavar="[NN=]TIME",
              help="When a lab was due, or every lab: 03=2026-11-20T18:00.")  # fmt: skip
@click.option("--handed-in", type=click.Path(path_type=Path, dir_okay=False),
              help="When each was handed in, as CSV: learner, lab, handed_in; the times of the "
                   "files if not given.")  # fmt: skip
def gradebook(outs: tuple[Path, ...], out: Path, **given: Any) -> None:
    """Write one row for each learner over all gradings OUT, what to send back, what is alike.

    For Moodle and Canvas there is a CSV that they import. What overrides.csv of an OUT says stands
    above what was graded: learner, lab, item, points, reason.
    """
    from lab_utils.gradebook.book import gradebook

    book = gradebook(outs, out, **given, line=_line)
    _line(f"{len(book.rows())} learners, labs {', '.join(book.labs)}: the gradebook is in {out}.")


@main.command(name="class")
@click.argument("outs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="OUT...")
@click.option("--out", type=click.Path(path_type=Path), default=Path("class"), show_default=True,
              help="Where class.html and the tables are written.")  # fmt: skip
@click.option("--names", is_flag=True, help="Show who is who, and no pseudonyms.")
def class_command(outs: tuple[Path, ...], out: Path, names: bool) -> None:
    """Show what the class of the gradings OUT understood: one page, and Parquet.

    How hard each item is and how well it tells who knows the rest, the commonest mistakes, what
    the class believed before each run, where learners are stuck, and how long they took.
    """
    from lab_utils.gradebook.understood import PAGE, understand

    after = "Spark has ended, and what was there before is as it was."
    with _interruptible(after), console.status("Reading") as status:
        understand(outs, out, names=names, say=lambda text: status.update(escape(text)))
        _line(f"Open {out / PAGE}.")


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True,
              help="The address of this machine at which the seats reach it.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8890, show_default=True,
              help="The next free one is taken if it is in use.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=Path("classroom"),
              show_default=True, help="Where it is kept what the seats told.")  # fmt: skip
def classroom(host: str, port: int, out: Path) -> None:
    """Show live what a class predicts and what its checks say.

    A seat that is started with LAB_CLASSROOM="URL CODE" ./lab up tells its predictions, what then
    happened, and its verdicts, under a pseudonym. The page for the projector shows each prediction
    as a histogram, closes the vote, and shows what happened.

    Ctrl-C ends it; ./lab class OUT then shows what the class understood. The same command goes on
    with the same page, code and seats.
    """
    from lab_utils.classroom.classroom_server import serve
    from lab_utils.classroom.room import Room

    room = Room(out)

    def ready(port: int) -> None:
        address = f"http://{host}:{port}"
        _line(f"Project this page:  {address}/#{room.teacher}")
        _line(f'Start each seat so: LAB_CLASSROOM="{address} {room.code}" ./lab up')

    written = serve(room, host, free_port(port, host), ready)
    _line(f"{written} results are in {out}. To analyse them: ./lab class {out}")


@main.command(name="audit")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--contract", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="Settings of clients and topics that the ledger lacks, as TOML.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path),
              help="A folder for the findings and the compacted ledger (Parquet), and for "
                   "audit.html.")  # fmt: skip
def audit_command(paths: tuple[str, ...], contract: Path | None, out: Path | None) -> None:
    """Find what happened in ledgers, and whether their configuration allows it.

    PATH is a run's folder, a folder of such folders, or a file: JSONL or Parquet, written by the
    lab or by a program of yours (docs/ledger.md).

    \b
    ./lab audit ~/.local/state/delivery-lab/runs
    ./lab audit ledger/ --contract contract.toml --out audit/
    LAB_SPARK_MEMORY=4g ./lab audit ledger/         with a heap of 4 GB

    Exit code 0 when nothing that the configuration rules out was found; 1 when there is a breach;
    2 when the audit could not be made.
    """  # noqa: D301 - click wants the backspace itself
    from lab_utils.audit.command import audit

    with _interruptible("Spark has ended, and nothing was written.") as ends_with:
        with console.status("Auditing") as status:
            report = audit(paths, contract, out, lambda text: status.update(escape(text)))
        ends_with.append(1 if report.breaches else 0)
        try:
            with suppress(SystemExit):  # rich's, where nobody reads on, as after | head
                _print_report(report, out)
        except OSError as error:
            _drop_unprinted()
            where = f"It is in {out}." if out else "--out DIR keeps it."
            raise LabError(f"the report cannot be printed: {error.strerror}. {where}") from None


@main.command(name="site")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--record", is_flag=True,
              help="First make the runs that are not recorded, on real brokers, and keep them in "
                   "labs/recorded; all of them take a quarter of an hour.")  # fmt: skip
def site_command(folder: Path, record: bool) -> None:
    """Build static pages of the labs into DIR, whose explorers show recorded runs.

    They need no kernel, no server and no network: open DIR/index.html, or put DIR on any web
    server. DIR is a new folder, an empty one, or an earlier site, which is replaced.
    """
    from lab_utils.site import build, recordings

    after = f"{folder} is as it was, and the runs that were made are kept."
    with _interruptible(after), console.status("Building the site") as status:
        build.require_possible(folder)
        if record:
            recordings.record(lambda text: status.update(escape(text)))
        pages = build.build(folder, lambda text: status.update(escape(text)))
        _line(f"{pages} pages. Open {folder / 'index.html'}.")


def _line(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Interrupt(KeyboardInterrupt):
    """An interrupt that says when nobody has it any more, as after a bare `except:`."""

    def __init__(self, gone: Callable[[], object]) -> None:
        super().__init__()
        self._gone = gone

    def __del__(self) -> None:
        self._gone()


@contextmanager
def _interruptible(after: str) -> Iterator[list[int]]:
    """Let SIGINT, SIGTERM and SIGHUP end a command in order, a second one at once.

    The process ends with the code that the block appends, with 2 after an error, and with 128 and
    the signal's number after a signal. `after` says what an interruption leaves.
    """
    codes: list[int] = []
    signals: list[int] = []

    is_over = is_swallowed = False

    def interrupt(number: int, _: object) -> None:
        nonlocal is_swallowed
        if is_over:
            return
        if signals and not is_swallowed:
            os._exit(128 + number)
        signals.append(number)
        is_swallowed = False
        raise _Interrupt(again)

    def again() -> None:
        nonlocal is_swallowed
        if not is_over:
            is_swallowed = True
            arguments = (threading.main_thread().ident, signal.SIGINT)
            later = threading.Timer(SWALLOWED_S, signal.pthread_kill, arguments)
            later.daemon = True
            later.start()

    at_the_end(interrupt)
    try:
        yield codes
        is_over = True
    except BaseException as error:
        is_over = True
        # A library that is being imported turns Ctrl-C into errors of its own, and into exit(0).
        if signals:
            console.print(f"Interrupted: {after}")
            sys.stdout.flush()
            os._exit(128 + signals[0])  # The threads of a grading may still wait for something.
        if isinstance(error, LabError):
            raise _Failed(_plain(error)) from error
        if isinstance(error, click.ClickException):
            raise
        traceback.print_exc()  # And no exit code of 1, which is a breach.
        sys.exit(2)
    sys.exit(codes[0] if codes else 0)


class _Failed(click.ClickException):
    """A grading or an audit that could not be made; 1 is a breach."""

    exit_code = 2


def _plain(error: LabError) -> str:
    """What it says, without what would steer a terminal: it may name what somebody else named."""
    lines = str(error).expandtabs().split("\n")
    return "\n".join(
        "".join(it if it.isprintable() else ascii(it)[1:-1] for it in line) for line in lines
    )


def _print_report(report: Report, out: Path | None) -> None:
    # A long name of a run or a topic has no blank: it goes on in the next line.
    last = [Column(title, overflow="fold") for title in ("evidence", "judgement")]
    table = Table("finding", "how many", *last, box=None)
    for group in report.groups:
        cells = (group.finding, f"{group.count:,}", "\n".join(group.told()), group.judgement)
        table.add_row(*cells, style="bold" if group.is_breach else None)
    # A name may be orders[eu], or have :x: in it: no markup, and no picture.
    shown = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    shown.print(table if report.groups else "The audit found nothing.", soft_wrap=False)
    left_out = list(report.left_out())
    for title, lines in (
        ("What was left out", left_out),
        ("What this ledger cannot say", report.unsaid),
    ):
        if lines:
            shown.print(f"\n{title}", *(f"  {line}" for line in lines), sep="\n")
    shown.print(f"\n{report.summary()}")
    kept = f"The findings are in {out}." if out else "--out DIR keeps the findings and a page."
    console.print(kept, markup=False, highlight=False, soft_wrap=True)


@main.command()
@click.argument("names", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), default=None,
              help="Write the figures as JSON to this file, too.")  # fmt: skip
def bench(names: tuple[str, ...], out: Path | None) -> None:
    """Measure the README's figures, each as a ratio within one run: all, by name, or by module."""
    from benchmarks import run_benchmarks

    figures = run_benchmarks(names, say=console.print)
    if out:
        out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(prog_name="lab")
