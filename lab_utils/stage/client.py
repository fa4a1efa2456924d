"""The kernel's half of the stage server: join a stage, and tell it what to do.

A stage is named by its lab, and by its Kafka if that is not the current one. Who
joins first starts it; it outlives the kernel (single_server.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from lab_utils import errors, single_server
from lab_utils.errors import BadArgument, LabError, LabWarning, StageError, within
from lab_utils.folders import stage_folder
from lab_utils.machine.jars import CURRENT
from lab_utils.processes import STAGE_SERVER, is_stopped, own_name
from lab_utils.proxy.faults import Fault, to_json
from lab_utils.proxy.faults.fault import ID_LIMIT
from lab_utils.waiting import wait_until

READY_TIMEOUT_S: Final = 300
PROBE_TIMEOUT_S: Final = 5
END_TIMEOUT_S: Final = 30  # of one that has said that it ends
SETTLED_S: Final = 20  # what the controller has to decide within
OUTDATED: Final = (
    "This kernel has the lab as it was before its update. Restart it, then run the first cell."
)
REPLACED: Final = "It is ended with its topics, and another one is started; the ledgers stay."


class Stage:
    """A running stage server, as a kernel sees it."""

    def __init__(self, name: str, address: dict[str, Any]) -> None:
        self.name = name
        self.url: str = address["url"]
        self.token: str = address["token"]
        self.pid: int = address["pid"]
        self.bootstrap: str = address["bootstrap"]
        self.direct: str = address["direct"]
        self.brokers: int = address["brokers"]
        self._silent_s = 0.0  # for so long it was waited for in vain, since it last answered
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}"},
            trust_env=False,  # A proxy for the internet has no business on loopback.
            verify=False,  # noqa: S501 - Nor has TLS, whose certificates take 60 ms to load.
        )

    def __repr__(self) -> str:
        return f"<Stage {self.name} at {self.bootstrap}>"

    def state(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Brokers, armed faults, open runs."""
        return self.ask("GET", "/state", timeout_s=timeout_s)

    def require_controller(self) -> None:
        """Raise StageError if the controller has ended: no verb brings it back."""
        if self.state()["controller"] == "died":
            raise StageError(
                f"the controller of the stage {self.name!r} has died: no topic can be made and no "
                "leader chosen. Run the notebook's first cell again: it starts a new stage."
            )

    def open_run(self, run: str, folder: Path, *, is_examined: bool = False) -> None:
        """Let the stage write what this run's clients do on the wire into `folder`.

        If this process ends without closing the run, the stage closes it. From when one is to be
        examined until another is opened, nothing that is compressed, or that nobody can read,
        comes to a broker.
        """
        given = {"run": run, "folder": str(folder), "owner": own_name(), "examined": is_examined}
        self.ask("POST", "/runs", given)

    def past_topics(self) -> list[str]:
        """The topics of runs before the last fifty."""
        return list(self.ask("GET", "/past")["topics"])

    def close_run(self, run: str, topics: Iterable[str] = ()) -> str | None:
        """Disarm the run's faults and close its part of the ledger; return what went wrong.

        Where topics are named, everything is healed first, and the end waits until they are whole.
        """
        said = self.ask("DELETE", f"/runs/{run}", parameters={"topic": list(topics)})
        trouble: str | None = said["trouble"]
        return trouble

    def arm(self, run: str, fault: Fault) -> str:
        """Arm a fault for the clients of a run ("" is every client); return its id."""
        said: str = self.ask("POST", "/faults", {"run": run, "fault": to_json(fault)})["id"]
        return said

    def clear(self, fault_id: str | None = None) -> None:
        """Disarm one fault, or all."""
        self.ask("DELETE", f"/faults/{fault_id}" if fault_id else "/faults")

    def reset(self) -> dict[str, Any]:
        """Heal everything: no fault is armed, every broker runs."""
        return self.ask("POST", "/reset")

    def broker(self, verb: str, broker_id: int = 1) -> dict[str, Any]:
        """Start, stop, kill, pause or resume a broker; returns when it is so."""
        within("broker", broker_id, 1, ID_LIMIT)
        return self.ask("POST", f"/brokers/{broker_id}/{verb}")

    def link(self, a: int, b: int, verb: str) -> dict[str, Any]:
        """Cut, hold or heal the link between two brokers."""
        for broker_id in (a, b):
            within("broker", broker_id, 1, ID_LIMIT)
        return self.ask("POST", f"/links/{a}/{b}/{verb}")

    def settle(self, topics: Iterable[str], *, whole: bool) -> bool:
        """Wait until the controller has decided about these topics; has it, within its time?

        With `whole`, until each partition is led and all of its replicas are in sync.
        """
        body = {"topics": list(topics), "whole": whole}
        return bool(self.ask("POST", "/settle", body)["settled"])

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """What the controller has decided: leader, isr, elr, replicas and epochs."""
        return list(self.ask("GET", "/partitions", parameters={"topic": topic})["partitions"])

    def heal(self) -> dict[str, Any]:
        """Every link is whole and every broker runs; faults stay armed."""
        state = self.ask("POST", "/heal")
        # A broker that found one of its ports taken is at another one now.
        self.bootstrap, self.direct = state["bootstrap"], state["direct"]
        return state

    def batches(self, topic: str) -> list[dict[str, Any]]:
        """The record batches of a topic, as the segment files have them."""
        return list(self.ask("GET", "/log", parameters={"topic": topic})["batches"])

    def shutdown(self) -> None:
        """End the stage and its brokers; returns when they are gone. A second time does nothing."""
        if self._http.is_closed:
            return
        with suppress(StageError):  # It is gone, or does not answer: what is left is ended below.
            self.ask("POST", "/shutdown")
        self.leave()
        wait_s = 0 if self._silent_s else END_TIMEOUT_S
        single_server.end(stage_folder(self.name), self.pid, wait_s=wait_s)
        single_server.remove(stage_folder(self.name))

    def leave(self) -> None:
        """Close the connection to the stage, which goes on."""
        self._http.close()

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        parameters: Mapping[str, str | list[str]] | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """What the stage answers to a request; raises what it refuses the request with.

        Raises StageError, too, if it says nothing for so long, by default for ANSWER_S: while it
        is at work it says so every few seconds. What was silent so long gets a few seconds more.
        """
        bound_s = timeout_s or max(PROBE_TIMEOUT_S, single_server.ANSWER_S - self._silent_s)
        if self._http.is_closed:
            raise StageError(
                f"the stage {self.name!r} was closed, as lab.close() does. Run the notebook's "
                "first cell again."
            )
        try:
            answer = self._http.request(method, path, json=body, params=parameters, timeout=bound_s)
        except httpx.TimeoutException as error:
            self._silent_s += bound_s
            raise StageError(self._silence()) from error
        except httpx.HTTPError as error:
            raise StageError(
                f"the stage {self.name!r} does not answer ({type(error).__name__}). It may have "
                "been ended by ./lab down, or replaced by one with another number of brokers. Run "
                "the notebook's first cell again."
            ) from error
        self._silent_s = 0
        said: dict[str, Any] = answer.json()
        if answer.is_error:
            kind = getattr(errors, said.get("kind", ""), StageError)
            raise kind(said["error"])
        return said

    def _silence(self) -> str:
        """What to say of a server that says nothing, and what to do."""
        what = "is stuck, or gets no processor. If that lasts, run ./lab down"
        if is_stopped(self.pid):
            what = "is stopped, as by SIGSTOP. Run ./lab down"
        return (
            f"the stage {self.name!r} has said nothing for {self._silent_s:g} s: its server "
            f"(process {self.pid}) {what}, which ends it with its topics; the ledgers stay. Then "
            "run the notebook's first cell again."
        )


class Brokers:
    """The brokers of one stage, by a call: `lab.brokers.pause(2)` returns when it is so.

    A workload may use it to break things step by step. What a grader breaks is data (faults).
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def kill(self, broker: int) -> None:
        """SIGKILL: nothing is handed over, nothing is flushed."""
        self._stage.broker("kill", broker)

    def stop(self, broker: int) -> None:
        """SIGTERM: it hands its leaderships over, flushes and ends."""
        self._stage.broker("stop", broker)

    def pause(self, broker: int) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        self._stage.broker("pause", broker)

    def resume(self, broker: int) -> None:
        """SIGCONT: it goes on where it stood."""
        self._stage.broker("resume", broker)

    def start(self, broker: int) -> None:
        """Start it again, with the log that it has."""
        self._stage.broker("start", broker)

    def power_cut(self, broker: int) -> None:
        """A simulation: SIGKILL, and its log is cut back to what had been flushed to disk."""
        self._stage.broker("power_cut", broker)

    def cut_link(self, a: int, b: int) -> None:
        """Two brokers lose their connections, and get no new ones."""
        self._stage.link(a, b, "cut")

    def hold_link(self, a: int, b: int) -> None:
        """What two brokers say to each other is held."""
        self._stage.link(a, b, "hold")

    def heal_link(self, a: int, b: int) -> None:
        """The link is whole again; what was held goes on."""
        self._stage.link(a, b, "heal")

    def heal(self) -> None:
        """Every link is whole and every broker runs."""
        self._stage.heal()

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The broker that leads a partition; None if nobody does."""
        leader: int = self._decided(topic, partition)["leader"]
        return leader if leader >= 0 else None

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The in-sync replicas of a partition, as the controller has decided."""
        return sorted(self._decided(topic, partition)["isr"])

    def wait_for_isr(self, topic: str, brokers: Iterable[int], partition: int = 0) -> None:
        """Wait until exactly these brokers are in sync."""
        wanted = sorted(brokers)
        wait_until(
            lambda: self.in_sync(topic, partition) == wanted,
            f"the ISR of {topic} to be {wanted}",
            timeout_s=SETTLED_S,
            last_seen=lambda _: str(self.in_sync(topic, partition)),
        )

    def wait_for_leader(self, topic: str, *, other_than: int, partition: int = 0) -> int | None:
        """Wait until another broker leads, or nobody does; return which."""

        def decided() -> bool:
            return self.leader(topic, partition) != other_than

        wait_until(decided, f"a leader of {topic} other than {other_than}", timeout_s=SETTLED_S)
        return self.leader(topic, partition)

    def __repr__(self) -> str:
        states = (f"{each['id']} {each['state']}" for each in self._stage.state()["brokers"])
        return f"<Brokers: {', '.join(states)}>"

    def _decided(self, topic: str, partition: int) -> dict[str, Any]:
        found = {each["partition"]: each for each in self._stage.partitions(topic)}
        if partition not in found:
            raise BadArgument(
                f"this stage has no partition {partition!r} of a topic {topic!r}. The topic of a "
                "run is run.topic, and others are in run.topics."
            )
        return found[partition]


def join(lab: str, brokers: int = 1, kafka: str = CURRENT, owner: int | None = None) -> Stage:
    """Join the stage of this lab and this Kafka, and start it if there is none that can go on.

    owner  the process with which a stage that is started ends; LAB_OWNER's if not given

    A broker of it that has died is started again. Raises StageError, with what the server said,
    if there is no stage in the end.
    """
    if single_server.is_outdated():
        warnings.warn(OUTDATED, LabWarning, stacklevel=2)
    name = lab if kafka == CURRENT else f"{lab}-{kafka}"
    arguments = ["--brokers", str(brokers), "--kafka", kafka]
    what = f"the stage {name!r}"

    def answer(said: dict[str, Any]) -> Stage | None:
        stage = Stage(name, said)
        try:
            state = stage.state(PROBE_TIMEOUT_S)
            if is_older := said.get("edition") != single_server.edition():
                warnings.warn(
                    f"{what} is of the lab before its update. {REPLACED}", LabWarning, stacklevel=2
                )
            is_lost = is_older or state["ending"] or state["controller"] == "died"
            if is_lost or stage.brokers != brokers:
                stage.shutdown()
                return None
            if any(each["state"] == "died" for each in state["brokers"]):
                state = stage.heal()
        except LabError:
            stage.leave()
            return None
        # A broker that found one of its ports taken is at another one now.
        stage.bootstrap, stage.direct = state["bootstrap"], state["direct"]
        return stage

    joining = single_server.Joining(
        stage_folder(name), STAGE_SERVER, arguments, answer, what, owner=owner
    )
    return joining.join(READY_TIMEOUT_S)
