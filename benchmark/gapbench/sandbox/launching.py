"""The trusted side: start the process that forks a sandboxed one for every session."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from gapbench.sandbox import bubblewrap
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.protocol import clean
from gapbench_base.errors import GapbenchError

START_SECONDS = 120.0


class Host:
    """A process with the libraries imported that forks a fresh process for every session.

    `sandboxed` puts it into bubblewrap; without, there are limits and the filter of system calls alone.
    `packages` are further packages that the networks' classes come from, `preload` modules to import at once.
    """

    def __init__(self, sandboxed: bool, packages: Iterable[str] = (), preload: Iterable[str] = ()):
        self.sandboxed = sandboxed
        self._preload = list(preload)
        self._ready = False
        self.packages = tuple(packages)
        self._lock = threading.Lock()
        self._scratch: str | None = None

    def __enter__(self) -> Self:
        self.launch()
        self.await_ready()
        return self

    def launch(self) -> None:
        """Start the process, by a thread that stays: the process is killed when that thread ends."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        setup = {
            "namespaces": self.sandboxed,
            "hidden": bubblewrap.hidden_folders(),
            "preload": self._preload,
        }
        code = "import os, sys; os.dup2(int(sys.argv[2]), 3); from gapbench.sandbox.host import main; main()"
        number_ = theirs.fileno()
        # unbuffered: what a measurement prints is there before its result
        payload = [sys.executable, "-s", "-P", "-B", "-u", "-c", code, json.dumps(setup), str(number_)]
        descriptors = [number_]
        if self.sandboxed:
            command, options = bubblewrap.command_line(payload, self.packages)
            descriptors.append(options)
            variables: dict[str, str] = {}
        else:
            command = payload
            self._scratch = tempfile.mkdtemp(prefix="gapbench-")
            variables = bubblewrap.environment(self._scratch, [p for p in sys.path if p])
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=variables,
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                cwd="/",
                start_new_session=True,
            )
        for descriptor in descriptors[1:]:
            os.close(descriptor)

    def await_ready(self) -> None:
        """Wait until the libraries are imported. Raises `GapbenchError` if the process does not get there."""
        if self._ready:
            return
        self._control.settimeout(START_SECONDS)
        try:
            answer = self._control.recv(4096)
        except (TimeoutError, OSError):
            answer = b""
        if b"ready" not in answer:
            late = self._process.poll() is None
            self._end()
            raise GapbenchError(
                f"The process for proxies was not ready after {START_SECONDS:.0f} s: the machine is busy, or has "
                "too little memory. Try again."
                if late
                else f"The process for proxies does not start: {self.said()}"
            )
        self._ready = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._control.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def said(self) -> str:
        """The end of what the process printed about its own troubles."""
        self._log.seek(0)
        return clean(self._log.read()[-500:].decode(errors="replace")) or "it gave no reason"

    def start(self, name: str, modules: list[str], limits: Limits, descriptors: list[int]) -> str | None:
        """Ask for a sandboxed process; returns its private folder where that lies on this machine."""
        folder = None
        if self._scratch is not None:
            folder = tempfile.mkdtemp(dir=self._scratch)
        request = {"start": name, "modules": modules, "files": limits.files, "folder": folder}
        with self._lock:
            self.await_ready()
            try:
                socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            except OSError:
                raise GapbenchError(f"The process for proxies ended: {self.said()}") from None
        return folder

    def kill(self, name: str) -> None:
        """End a sandboxed process with all that belongs to it."""
        with self._lock, contextlib.suppress(OSError):
            self._control.send(json.dumps({"kill": name}).encode())
