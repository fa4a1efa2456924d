"""A seat in a live class: it tells what was predicted, what happened, and what a check said.

    LAB_CLASSROOM="http://ADDRESS:PORT CODE" ./lab up

Telling never holds up the lab: it is done by a thread, and what cannot be told waits for a while.
A classroom that is gone is no error. A kernel that is restarted, and every lab of this state
folder, keeps its seat.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

from lab_utils.errors import WaitTimeout
from lab_utils.folders import state_folder
from lab_utils.ledger.predictions import NO_ANSWER
from lab_utils.waiting import wait_until

if TYPE_CHECKING:
    import httpx

    from lab_utils.ledger.predictions import Compared, Prediction

CLASSROOM: Final = "LAB_CLASSROOM"
KEPT: Final = "classroom-seat.json"
ANSWER_S: Final = 2.0
AGAIN_S: Final = 5.0
LESSON_S: Final = 4 * 3600
WAITING_MAX: Final = 200
GONE: Final = (401, 403)


class Seat:
    """This state folder's seat in the classroom at an address."""

    def __init__(self, address: str, code: str) -> None:
        self._address = address.rstrip("/")
        self._code = code
        self._told: Queue[dict[str, Any]] = Queue(WAITING_MAX)
        self._joined = Event()
        self.name = ""
        self._token = ""
        self._refused = ""
        Thread(target=self._work, name="classroom", daemon=True).start()

    def tell(self, **told: Any) -> None:
        """Tell this to the classroom, some time."""
        with suppress(Full):
            self._told.put_nowait(told)

    def predicted(self, lab: str, prediction: Prediction) -> Callable[[list[Compared]], None]:
        """Tell a prediction of the cell that runs; what is returned tells what then happened."""
        of: Final = {"lab": lab, "cell": _cell_that_runs()}
        said = {name: it for name, it in prediction.expected.items() if it != NO_ANSWER}

        def happened(compared: list[Compared]) -> None:
            self.tell(**of, observed={each.question: each.observed for each in compared})

        if not (of["cell"] and said):
            return lambda _: None
        self.tell(**of, predicted=said)
        return happened

    def welcome(self) -> str:
        """A sentence for the learner: where they sit, and what is told of them."""
        self._joined.wait(ANSWER_S)
        if self._refused:
            return (
                f"The classroom at {self._address} gives no seat for the code {self._code!r}: "
                f"{self._refused} Set {CLASSROOM} as ./lab classroom printed it, and start "
                "./lab up again. The lab works without a classroom."
            )
        if not self.name:
            return (
                f"The classroom at {self._address} does not answer; the lab works without it. "
                "What you predict is told there as soon as it answers."
            )
        return (
            f"You are {self.name} in the classroom at {self._address}. Under this name your "
            "predictions and verdicts are shown there, and nothing else is told."
        )

    def _work(self) -> None:
        import httpx

        with httpx.Client(base_url=self._address, timeout=ANSWER_S, trust_env=False) as client:
            with suppress(httpx.HTTPError):
                self._join(client)
            self._joined.set()
            while True:
                is_told = partial(self._is_told, client, self._told.get())
                with suppress(WaitTimeout):
                    wait_until(is_told, "the classroom", timeout_s=LESSON_S, every_s=AGAIN_S)

    def _is_told(self, client: httpx.Client, told: Mapping[str, Any]) -> bool:
        """Tell it; False if it should be told again. What is refused is not."""
        import httpx

        try:
            if not self._token and not self._join(client):
                return True  # That is no code of this classroom: nothing is told there.
            known_by = {"Authorization": f"Bearer {self._token}"}
            answer = client.post("/tell", json=told, headers=known_by)
            if answer.status_code in GONE:  # Another classroom is there now.
                self._token = ""
                _file().unlink(missing_ok=True)
            again = (*GONE, httpx.codes.TOO_MANY_REQUESTS)
            return answer.status_code not in again and not answer.is_server_error
        except httpx.HTTPError:
            return False

    def _join(self, client: httpx.Client) -> bool:
        """Take the seat that is kept, or a new one; False if the classroom refuses it.

        Raises httpx.HTTPError if it should be asked again.
        """
        if not self._take_kept():
            answer = client.post("/join", json={"code": self._code})
            if answer.status_code in GONE:
                self._refused = str(answer.json()["error"])
                return False
            answer.raise_for_status()
            said = answer.json()
            self.name, self._token = str(said["seat"]), str(said["token"])
            self._keep()
        return True

    def _take_kept(self) -> bool:
        with suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads(_file().read_bytes())
            if (kept["address"], kept["code"]) == (self._address, self._code):
                self.name, self._token = str(kept["seat"]), str(kept["token"])
                return True
        return False

    def _keep(self) -> None:
        kept = {"address": self._address, "code": self._code, "seat": self.name}
        with suppress(OSError):
            _file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(_file(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "w") as target:
                json.dump(kept | {"token": self._token}, target)


def take_seat() -> Seat | None:
    """The seat that the environment names, if any; the learner is told of it."""
    said = os.environ.get(CLASSROOM, "")
    if not said.strip():
        return None
    address, _, code = said.strip().partition(" ")
    if not address.startswith(("http://", "https://")) or not code.strip():
        sys.stderr.write(
            f"{CLASSROOM} must be an address and a code, as in "
            f"'http://127.0.0.1:8890 K7QM4T2X'; got {said!r}. The lab works without a classroom.\n"
        )
        return None
    seat = Seat(address, code.strip())
    sys.stderr.write(f"{seat.welcome()}\n")
    return seat


def _cell_that_runs() -> str:
    """The id of the notebook's cell that is running, as JupyterLab says it; else nothing."""
    get_ipython: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    with suppress(AttributeError, KeyError, TypeError):
        return str(get_ipython().get_parent()["metadata"]["cellId"])
    return ""


def _file() -> Path:
    return state_folder() / KEPT
