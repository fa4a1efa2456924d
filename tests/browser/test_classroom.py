"""A live class: a notebook predicts, the projector shows it, and what happened after the vote."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser

from lab_utils.stage.client import Stage
from tests.browser import rig
from tests.classroom.test_classroom_server import Classroom, opened
from tests.classroom.test_room import VOTE

OPEN = """\
import os
os.environ["LAB_CLASSROOM"] = "{classroom.address} {classroom.code}"
from lab_utils import Lab, drop_response
lab = Lab({stage.name!r})
lab.name = "03"
"""
PREDICT = """\
def one_at_a_time(run):
    producer = run.producer()
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()

guess = lab.predict(log="0 1 2", because="each is sent once")
"""
RUN = """\
guess.compare(lab.run(one_at_a_time, orders=3, faults=[drop_response("Produce", nth=2)]))
"""


classroom = pytest.fixture(opened, name="classroom")


@pytest.mark.long
def test_a_vote(
    browser: Browser, lab: rig.Lab, stage: Stage, classroom: Classroom, tmp_path: Path
) -> None:
    """The notebook's answer stands beside another seat's; what happened, when it is closed."""
    name = lab.write("classroom.ipynb", OPEN.format(classroom=classroom, stage=stage), PREDICT, RUN)
    notebook = nbformat.read(lab.folder / name, as_version=4)
    notebook.cells[1].id = VOTE["cell"]
    nbformat.write(notebook, lab.folder / name)
    with classroom.client(classroom.sit()["token"]) as seat:
        told = {**VOTE, "predicted": {"log": "0 1 1 2"}}
        assert seat.post("/tell", json=told).is_success
    with rig.new_page(browser) as seat_2, rig.new_page(browser) as page:
        page.goto(f"{classroom.address}/#{classroom.token}")
        page.get_by_text("1 of 1 have predicted").wait_for()
        rig.open_notebook(seat_2, lab, "classroom.ipynb")
        rig.run_all(seat_2)
        rig.wait_for_idle(seat_2)
        assert "You are seat 2 in the classroom" in rig.texts(seat_2)[0]
        page.get_by_text("2 of 2 have predicted").wait_for()
        assert 2 == page.locator(".answer").count()
        assert 0 == page.get_by_text("happened").count()
        page.get_by_role("button", name="Close the vote").click()
        page.locator(".answer.happened").get_by_text("1 · this happened, at 1 seat").wait_for()

        assert "0 1 1 2" == " ".join(
            page.locator(".answer.happened .values span").all_inner_texts()
        )
        assert 1 == page.locator(".answer.happened .values .again").count()
        assert classroom.token not in page.url
        page.screenshot(path=tmp_path / "projector.png")
    with rig.new_page(browser) as stranger:
        stranger.goto(f"{classroom.address}/#another")
        stranger.get_by_text("this is the teacher's: open the address", exact=False).wait_for()
        assert 0 == stranger.get_by_text("does not answer").count()
