"""Starts sandboxed processes quickly: imports the libraries once and forks for every network.

Started as `python -m gapbench.sandbox.host` with a socket as descriptor 3; over it come requests with the
descriptors of a process's pipes. The host itself runs no proxy and reads no network, so a forked process
finds nothing of the others in its memory.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
from typing import Any

from gapbench.sandbox.waiting import processes, status_of

CONTROL = 3
SCRATCH = "/scratch"
"""The one folder that a sandboxed process can write to; its own, in memory, gone with it."""


def main() -> None:
    """Serve until the other side closes the socket."""
    setup: dict[str, Any] = json.loads(sys.argv[1])
    control = socket.socket(fileno=CONTROL)
    import torch

    from gapbench.sandbox.integrity import Snapshot

    importlib.import_module(
        "torch._dynamo"
    )  # replaces functions of torch when first imported, as torch.func does
    importlib.import_module("gapbench.sandbox.child")
    Snapshot()  # the first takes longest
    for module in setup["preload"]:
        importlib.import_module(module)
    torch.set_num_threads(1)
    # Libraries that look at the processor do it now, as the forked processes have no /proc.
    torch.nn.functional.conv2d(torch.zeros(16, 1, 8, 8), torch.zeros(1, 1, 3, 3))
    torch.ones(8, 8) @ torch.ones(8, 8)
    running: dict[int, int] = {}
    loaded: set[str] = set()
    control.send(json.dumps({"ready": True}).encode())
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while True:
            readable, _, _ = select.select([control], [], [], 0.2)
            _reap(running)
            if not readable:
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 65536, 4)
            if not message:
                break
            request = json.loads(message)
            if "kill" in request:
                if request["kill"] in running:
                    _kill(running[request["kill"]])
                continue
            for module in request["modules"]:
                if module not in loaded:
                    loaded.add(module)
                    with contextlib.suppress(ImportError):
                        importlib.import_module(module)
            pid = os.fork()
            if pid == 0:
                _supervise(setup, control, request, descriptors)
            running[request["start"]] = pid
            for descriptor in descriptors:
                os.close(descriptor)
    for pid in running.values():
        _kill(pid)


def _reap(running: dict[int, int]) -> None:
    for name, pid in list(running.items()):
        if os.waitpid(pid, os.WNOHANG)[0]:
            del running[name]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _supervise(
    setup: dict[str, object], control: socket.socket, request: dict[str, object], descriptors: list[int]
) -> None:
    """In a process of its own: start the sandboxed one, wait for its end and tell how it ended."""
    try:
        os.setpgid(0, 0)
        control.close()
        jobs, results, output, clock = descriptors
        proc = processes()
        if setup["namespaces"]:
            from gapbench.sandbox.namespaces import unshare

            unshare()
        pid = os.fork()
        if pid == 0:
            _become(setup, request, jobs, results, output)
        os.close(jobs)
        code = os.waitstatus_to_exitcode(status_of(pid, clock, proc))
        os.write(results, b"\n" + json.dumps({"kind": "ended", "code": code}).encode() + b"\n")
    finally:
        os._exit(0)


def _become(setup: dict[str, Any], request: dict[str, Any], jobs: int, results: int, output: int) -> None:
    """In the sandboxed process: shut out what remains of the surroundings, then serve."""
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        keep = {jobs, results}
        for descriptor in range(3, 256):
            if descriptor not in keep:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        base = _virtual_memory()
        if setup["namespaces"]:
            from gapbench.sandbox.namespaces import cover, drop_capabilities

            for place in (SCRATCH, "/dev/shm"):
                cover(place, request["files"])
            cover("/proc", 4096)
            drop_capabilities()
            folder = tempfile.mkdtemp(dir=SCRATCH)
        else:
            folder = request["folder"]
        if sys.platform == "linux":
            from gapbench.sandbox.namespaces import end_with_parent

            end_with_parent()
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.chdir(folder)
        from gapbench.sandbox import child

        child.serve(jobs, results, folder, setup["hidden"], base)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _virtual_memory() -> int:
    """Size of this process's address space in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
