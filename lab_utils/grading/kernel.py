"""The grader's half of a kernel: one process group, one socket, and bounded patience.

    grader ── execute_request ──▶ kernel (a group of its own, a folder of its own)
           ◀── execute_reply: status, error, JSON text ── nothing else is listened to

Output is never read, so no amount of it matters, and stderr is not an error. What the kernel
answers is data: it is neither unpickled nor evaluated beyond a string literal.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from lab_utils.errors import StageError
from lab_utils.grading import leftovers

START_S: Final = 60
INTERRUPT_S: Final = 5
MESSAGE_BYTES_MAX: Final = 4_000_000
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Reply:
    """How a piece of code ended in the kernel.

    status  ok, error (it raised), late (it was interrupted), dead (the kernel is gone)
    error   for status error: the exception as one line
    values  the results of the expressions, by name, as the text the kernel sent
    """

    status: str
    error: str = ""
    values: dict[str, str] = field(default_factory=dict)


class Kernel:
    """One running kernel. It may die at any time; then every reply is `dead`."""

    def __init__(self, folder: Path, environment: Mapping[str, str], working: Path) -> None:
        self._marker = environment[leftovers.MARKER]
        connection_file = str(folder / "connection.json")
        write_connection_file(connection_file, transport="ipc", ip=str(folder / "ipc"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ipykernel_launcher", "-f", connection_file],
            cwd=working,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._client = _connected(connection_file)

    def wait_until_ready(self, timeout_s: float = START_S) -> None:
        """Wait for the first answer; raises StageError when there is none."""
        if self._answer(self._client.kernel_info(), timeout_s) is None:
            self.kill()
            raise StageError(
                f"a kernel did not answer within {timeout_s:g} s of its start, so nothing could be "
                "graded. Run ./lab doctor, then grade again."
            )

    @property
    def is_alive(self) -> bool:
        """Is the process still there?"""
        return self._process.poll() is None

    def execute(self, code: str, timeout_s: float, **expressions: str) -> Reply:
        """Run code, then evaluate expressions; interrupt after `timeout_s`, then kill."""
        if not self.is_alive:
            return Reply("dead")
        message = self._client.execute(
            code, user_expressions=expressions, allow_stdin=False, stop_on_error=False
        )
        content = self._answer(message, timeout_s)
        if content is None and self.is_alive:
            os.kill(self._process.pid, signal.SIGINT)
            stopped = self._answer(message, INTERRUPT_S) is not None
            if stopped and self.is_alive:
                return Reply("late")
            self.kill()
            return Reply("late")
        return Reply("dead") if content is None else _reply(content)

    def kill(self) -> None:
        """End the kernel and everything that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._client.stop_channels()
        leftovers.end(self._marker)

    def _answer(self, message: str, timeout_s: float) -> dict[str, Any] | None:
        """The content of the reply to a message; None after the timeout or the kernel's death."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            alive = self.is_alive
            try:
                reply = self._client.get_shell_msg(timeout=min(left_s, 0.2))
            except queue.Empty:
                if not alive:
                    return None
                continue
            except ValueError:  # a message whose signature is not the session's
                continue
            if reply["parent_header"].get("msg_id") == message:
                content: dict[str, Any] = reply["content"]
                return content
        return None


def parsed(text: str) -> dict[str, Any]:
    """The JSON object in an expression's text, which is the repr of a str; {} if it is none."""
    try:
        literal = ast.literal_eval(text)
        value = json.loads(literal) if isinstance(literal, str) else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    return value if isinstance(value, dict) else {}


def _connected(connection_file: str) -> BlockingKernelClient:
    context = zmq.Context()
    context.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
    client = BlockingKernelClient(context=context)
    client.load_connection_file(connection_file)
    client.start_channels(iopub=False, stdin=False, hb=False, control=False)
    return client


def _reply(content: Mapping[str, Any]) -> Reply:
    if content.get("status") != "ok":
        return Reply("error", " ".join(_error(content).split())[:500])
    values = {}
    for name, expression in dict(content.get("user_expressions") or {}).items():
        if expression.get("status") == "ok":
            values[name] = str(expression.get("data", {}).get("text/plain", ""))
        else:
            values[name] = json.dumps(json.dumps({"raised": _expression_error(expression)}))
    return Reply("ok", values=values)


def _error(content: Mapping[str, Any]) -> str:
    """What a cell raised; of a value that could not be shown, the last line of the traceback."""
    shown = [line for text in content.get("traceback") or [] for line in str(text).splitlines()]
    if content.get("ename") == "NoneType" and shown:
        return COLOURS.sub("", shown[-1])
    return f"{content.get('ename')}: {content.get('evalue')}"


def _expression_error(expression: Mapping[str, Any]) -> str:
    return " ".join(f"{expression.get('ename')}: {expression.get('evalue')}".split())[:500]
