"""Stages that are lent to one user after another: each is made whole before the next one has it.

    lend(brokers) ──▶ a stage, idle ones first ──▶ take_back ──▶ idle if it is whole, else ended

To start a stage takes seconds of processor time, and to repair what a user has broken takes none:
faults are disarmed, runs closed, links healed and brokers started again. What cannot be repaired
(its controller or its server is gone), or is odd in its user's eyes, is ended.
"""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

from lab_utils.errors import LabError
from lab_utils.stage import client
from lab_utils.stage.client import Stage


class Lending:
    """The stages of this process, of any number of brokers; safe to use from several threads.

    They end with it, also where it was started from a notebook, which lives on.
    """

    def __init__(self, name: str, idle_max: int) -> None:
        self._name = name
        self._idle_max = idle_max
        self._idle: list[Stage] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._is_closed = False

    def lend(self, brokers: int) -> Stage:
        """A whole stage of so many brokers, which nobody else has."""
        with self._lock:
            fits = next((stage for stage in self._idle if stage.brokers == brokers), None)
            if fits is not None:
                self._idle.remove(fits)
                return fits
        name = f"{self._name}-{next(self._numbers)}"
        return client.join(name, brokers, owner=os.getpid())

    def take_back(self, stage: Stage, *, is_odd: bool) -> None:
        """Keep the stage for the next user if it is whole; end it otherwise."""
        odd = is_odd or make_whole(stage)
        with self._lock:
            if not odd and not self._is_closed:
                self._idle.append(stage)
            ended = [stage] if stage not in self._idle else []
            if len(self._idle) > self._idle_max:
                ended.append(self._idle.pop(0))
        for each in ended:
            each.shutdown()

    def close(self) -> None:
        """End the idle stages; what is lent is ended when it comes back."""
        with self._lock:
            self._is_closed, idle, self._idle = True, self._idle, []
        for stage in idle:
            stage.shutdown()


def make_whole(stage: Stage) -> list[str]:
    """Repair what is broken; what could not be repaired, in words."""
    try:
        state = stage.state()
        if left_in(state):
            for run in state["runs"]:
                stage.close_run(run)
            state = stage.reset()
        return left_in(state)
    except LabError as error:
        return [str(error)]


def left_in(state: dict[str, Any]) -> list[str]:
    """What is not as it was at the beginning, in words."""
    broken = [
        f"broker {broker['id']} is {broker['state']}"
        for broker in state["brokers"]
        if broker["state"] != "running"
    ]
    if state["controller"] not in (None, "running"):
        broken.append(f"the controller has {state['controller']}")
    named = {"links": "a stopped link", "faults": "an armed fault", "runs": "an open run"}
    return broken + [f"{what}: {each}" for key, what in named.items() for each in state[key]]
