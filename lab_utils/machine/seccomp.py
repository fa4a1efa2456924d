"""System calls that no process of a submission needs, and that reach past its sandbox.

    allowed ◀── the call, its first argument ──▶ EPERM: what is not there, or not of itself

Some change others of the same user, which neither Landlock nor a file tree hinders (their limits,
priorities, keys); some hold memory that is nobody's (memory files, System V segments), some begin
a user namespace, in which a process may mount what it likes, and one (io_uring) makes other calls
that no filter sees. Landlock refuses nobody a socket that lies in a folder: a desktop's bus, which
starts programs, or another submission's kernel.
Source: Linux, Documentation/userspace-api/seccomp_filter.rst, include/uapi/linux/seccomp.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from typing import Final

# The number of each call, and what the architecture is called in seccomp.
X86: Final = {
    "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "semget": 64, "msgget": 68,
    "mq_open": 240, "add_key": 248, "request_key": 249, "keyctl": 250, "setpriority": 141,
    "ioprio_set": 251, "unshare": 272, "setns": 308, "prlimit64": 302, "sched_setparam": 142,
    "sched_setscheduler": 144, "sched_setaffinity": 203, "sched_setattr": 314, "clone": 56,
    "io_uring_setup": 425, "socket": 41,
}  # fmt: skip
ARM: Final = {
    "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "semget": 190, "msgget": 186,
    "mq_open": 180, "add_key": 217, "request_key": 218, "keyctl": 219, "setpriority": 140,
    "ioprio_set": 30, "unshare": 97, "setns": 268, "prlimit64": 261, "sched_setparam": 118,
    "sched_setscheduler": 119, "sched_setaffinity": 122, "sched_setattr": 274, "clone": 220,
    "io_uring_setup": 425, "socket": 198,
}  # fmt: skip
ARCHITECTURES: Final = {"x86_64": (0xC000003E, X86), "aarch64": (0xC00000B7, ARM)}
CLONE3: Final = 435  # its flags are out of a filter's sight: the C library falls back to clone
X32: Final = 0x40000000  # calls of x86-64 by other numbers
# Allowed for the process itself: its first argument, a process id, is zero.
OF_ITSELF: Final = ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity",
                    "sched_setattr")  # fmt: skip
# Of another, they do nothing and say that it is done: a thread that names itself by its id, as
# those of ZeroMQ do, cannot be told from another process, and ends at a refusal.
PRETENDED: Final = ("sched_setparam", "sched_setscheduler")
NEW_USER: Final = 0x10000000

LOAD, EQUAL, AT_LEAST, ANY_OF, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW: Final = 0x7FFF0000
REFUSE: Final = 0x00050000
NUMBER, ARCHITECTURE, ARGUMENT = 0, 4, 16  # where each is in what a filter is given
SET_SECCOMP, WITH_FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def program(*, shares_files: bool = False) -> bytes:
    """The filter as the kernel and bubblewrap take it; empty where its numbers are not known.

    Where the file tree is everybody's, so are the sockets in it, and none can be had. Pairs can.
    """
    if platform.machine() not in ARCHITECTURES:
        return b""
    architecture, numbers = ARCHITECTURES[platform.machine()]
    there_is_none, not_allowed = (REFUSE | number for number in (errno.ENOSYS, errno.EPERM))
    lines = [
        (LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, there_is_none),
        (LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, X32), (RETURN, 0, 0, there_is_none),
        (EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, there_is_none),
    ]  # fmt: skip
    for name, number in numbers.items():
        if name == "socket":
            if shares_files:
                lines += [(EQUAL, 0, 3, number), (LOAD, 0, 0, ARGUMENT),
                          (EQUAL, 0, 1, socket.AF_UNIX), (RETURN, 0, 0, not_allowed),
                          (LOAD, 0, 0, NUMBER)]  # fmt: skip
        elif name in (*OF_ITSELF, "clone"):
            is_harmless = (ANY_OF, 1, 0, NEW_USER) if name == "clone" else (EQUAL, 0, 1, 0)
            otherwise = REFUSE if name in PRETENDED else not_allowed
            lines += [(EQUAL, 0, 4, number), (LOAD, 0, 0, ARGUMENT), is_harmless,
                      (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, otherwise)]  # fmt: skip
        else:
            lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, not_allowed)]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def refuse() -> None:
    """From now on this process and its children cannot make these calls. Raises OSError.

    It must have given up new privileges (prctl, PR_SET_NO_NEW_PRIVS).
    """
    if lines := program(shares_files=True):
        filtered = _Program(len(lines) // 8, lines)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(SET_SECCOMP, WITH_FILTER, ctypes.byref(filtered), 0, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
