"""The stages that tests share: how one is made whole after each test, and replaced if it cannot be.

A stage that cannot be repaired (stage/lending.py) is ended; the test that left it so fails, and the
next one gets a new stage under the same name.
"""

from __future__ import annotations

import os

from lab_utils.clients.reader import HonestReader
from lab_utils.stage import client
from lab_utils.stage.client import Stage
from lab_utils.stage.lending import make_whole

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


class Pooled:
    """One shared stage of so many brokers, started when it is first asked for."""

    def __init__(self, name: str, brokers: int) -> None:
        self._name = f"{name}_{WORKER}" if WORKER else name
        self._brokers = brokers
        self._stage: Stage | None = None

    def join(self) -> Stage:
        """The stage."""
        if self._stage is None:
            self._stage = self._new()
        return self._stage

    def end(self) -> None:
        """End the stage, if there is one: its brokers are busy also when nobody asks them."""
        if self._stage is not None:
            self._stage.shutdown()
            self._stage = None

    def _new(self) -> Stage:
        stage = client.join(self._name, self._brokers)
        if stage.brokers == 3:
            reader = HonestReader(stage.direct)
            reader.place_coordinators()
            reader.close()
        stage.settle([], whole=True)  # whichever test asks first, its coordinators answer
        return stage

    def make_whole(self) -> None:
        """Repair what a test has left broken; fail that test, and replace the stage, if I cannot.

        Who holds the Stage keeps it: it is given the address of the new one.
        """
        stage = self.join()
        if left := make_whole(stage):
            stage.shutdown()
            vars(stage).update(vars(self._new()))
            raise AssertionError(f"the shared stage could not be made whole: {'; '.join(left)}")
