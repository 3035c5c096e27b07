"""How long a process waited for a processor that others had, told to another process. Imports no torch.

A limit in seconds is for what a proxy does; on a busy machine it must not end one that could not run meanwhile.
"""

from __future__ import annotations

import os
import signal
import struct
import sys

_EVERY = 0.2


def processes() -> int | None:
    """A descriptor of `/proc`, to be opened before a sandboxed process covers it; None where there is none."""
    try:
        return os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None


def status_of(pid: int, descriptor: int, proc: int | None) -> int:
    """Wait for the end of a child; meanwhile write the seconds that it waited into an open file.

    Nothing is written where the system does not tell (only Linux does, in `/proc`, here `proc`).

    Returns:
        Its wait status, as of `os.waitpid`.
    """
    if sys.platform == "linux" and proc is not None:
        # No thread can be started by a process that has left its process space.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            _tell(pid, descriptor, proc)
            signal.sigtimedwait({signal.SIGCHLD}, _EVERY)
    return os.waitpid(pid, 0)[1]


def _tell(pid: int, descriptor: int, proc: int) -> None:
    try:
        opened = os.open(f"{pid}/schedstat", os.O_RDONLY, dir_fd=proc)
        with open(opened) as counts:
            waited = int(counts.read().split()[1]) / 1e9  # time on a processor, time waiting, turns
    except (OSError, ValueError, IndexError):
        return
    os.pwrite(descriptor, struct.pack("d", waited), 0)


def told(descriptor: int) -> float:
    """Seconds that the process waited so far, as last told; 0 where nothing was."""
    found = os.pread(descriptor, 8, 0)
    return float(struct.unpack("d", found)[0]) if len(found) == 8 else 0.0
