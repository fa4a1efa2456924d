"""Submissions of the tiny lab, made from its source by saying what each answer cell holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import notebook_text
from tests.notebooks import source_notebook

LABS: Final = Path(__file__).parent / "files" / "labs"

# A cell that a learner added at the top, and one cell for each item that differs.
WRONG_HALF: Final = {
    "90.1": 'answer_1 = {"order": "2", "second_copy": 2}',
    "90.3": None,
    "90.4": "from lab_utils import pause_broker\nfault_4 = pause_broker(1)",
}

# Each of these costs its own item, and two cost nothing: noise, and an edited check.
UNRULY: Final = {
    "top": "import sys\nprint('x' * 10_000_000)\nprint('!', file=sys.stderr)\n1 / 0",
    "90.1": "answer_1 = {}\nimport os\nos._exit(1)",
    "90.2": """
def send_once(run):
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()
    sys.stderr.write("done")
""",
    "check 90.2": "raise SystemExit",
    "90.3": "def count_acked(events): ...\n__import__('signal').pause()",
    "90.4": None,
    "90.5": "def send_the_rest(run):\n    while True: __import__('signal').pause()",
}

# A learner who would rather change the grader than the answer.
HOSTILE: Final = {
    "top": """
import os, shutil
import lab_utils.grading.judge, lab_utils.grading.rules, lab_utils.clients.recorder
from lab_utils.clients.producer import RecordingProducer
lab_utils.grading.judge._breach = lambda *_: None
lab_utils.grading.rules.each_order_is_stored = lambda *_: None
shutil.rmtree(os.environ["LAB_STATE"], ignore_errors=True)
for module in ("judge", "rules", "cases"):
    path = os.path.join(os.path.dirname(lab_utils.grading.judge.__file__), module + ".py")
    open(path, "w").write("raise SystemExit('rewritten')")
""",
    "90.1": """
class Anything:
    def __eq__(self, other):
        return True
    __hash__ = None
answer_1 = Anything()
""",
    "90.2": """
def send_once(run):
    for order in run.orders:
        for kind in ("sent", "acked"):
            lab_utils.clients.recorder.Recorder(run._witness, run._ticket.run, "producer-1").record(
                kind, topic=run.topic, partition=0, offset=0, value=order)
""",
    "90.3": """
def count_acked(events):
    class Rows:
        def toDF(self): return self
        def limit(self, number): return self
        def collect(self): return [self]
        def asDict(self, recursive): return {"acked": 10**6}
    return Rows()
""",
    "90.5": """
def send_the_rest(run):
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": run._ticket.bootstrap, "client.id": "nobody"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush(10)
""",
}

NO_SPARK: Final = {
    "top": """
import lab_utils.audit.session
lab_utils.audit.session.read_events = lambda folder: 1 / 0
""",
    # It asks for something before it is whole, so that it is no plan.
    "90.3": "def count_acked(events):\n    return events.limit(events.count())",
    # What nbgrader hands out in place of a solution.
    "90.1": "# YOUR CODE HERE\nraise NotImplementedError()",
    "90.5": "def send_the_rest(run):\n    raise NotImplementedError('later')",
    **dict.fromkeys(("90.2", "90.4")),
}


def changed(cells: Mapping[str, str | None], *, opens_the_lab: bool = False) -> Any:
    """The notebook with solutions, but for these cells; None takes a cell out.

    A stage of its own is what a submission costs most. Nothing that is graded is performed there.
    """
    notebook = source_notebook("90", LABS)
    if not opens_the_lab:
        first, *_, last = (cell for cell in notebook.cells if cell.cell_type == "code")
        first.source = first.source.replace('lab = Lab("90")', "")
        notebook.cells.remove(last)
    for name, source in cells.items():
        role, _, item = name.rpartition(" ")
        wanted = f"{role or 'answer'}-{item.replace('.', '-')}"
        if name == "top":
            # Behind the cell that opens the lab.
            cell = dict(notebook.cells[1], id="top", source=source)
            notebook.cells.insert(2, type(notebook)(cell))
            continue
        place = next(n for n, cell in enumerate(notebook.cells) if cell.id == wanted)
        if source is None:
            del notebook.cells[place]
        else:
            notebook.cells[place].source = source
    return notebook


def only(answers: Mapping[str, str]) -> Any:
    """The notebook with these answers, and without the cells of the others."""
    others = (each.item for each in exercises("90", LABS) if each.item not in answers)
    return changed({**dict.fromkeys(others), **answers})


def hand_in(folder: Path, **notebooks: Any) -> Path:
    """Write notebooks into a folder; a text is written as it is."""
    for name, notebook in notebooks.items():
        text = notebook if isinstance(notebook, str) else notebook_text(notebook)
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")
    return folder
