"""Worker processes and the queue of jobs: who does what, and what happens when one dies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType

from gapbench.population.crew import LAST, TICK, WAITING, Crew, WorkerEvent, event_of
from gapbench.population.inline import Inline
from gapbench.population.jobs import Job, Setup
from gapbench_base.errors import GapbenchError

START_FAILURES = 3


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    job: Job | None = None
    ready: bool = False
    log: Path | None = field(default=None)


class Pool:
    """`count` workers that take jobs from `queue`. Iterating yields events until all jobs are done.

    The consumer may append to the queue while it handles an event. A worker that dies is replaced; its job is
    reported by a `died` event and not repeated unless the consumer appends it again.
    """

    def __init__(self, setup: Setup, count: int):
        self.setup, self.count = setup, count
        self.queue: deque[Job] = deque()
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Give up all jobs, those under way too; `serve` then ends. For who handles an event."""
        self.queue.clear()
        for worker in self._workers:
            worker.connection.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
        self._workers.clear()

    def _start(self) -> _Worker:
        ours, theirs = socket.socketpair()
        environment = dict(os.environ)
        if self.setup.device == "cpu":  # one process per core with one thread each
            environment |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        else:
            environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # The driver's import path, so that a checkout works like an installed package.
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gapbench.population.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C goes to the driver, which ends its workers
            )
        worker = _Worker(process, Connection(ours.detach()))
        worker.connection.send(self.setup)
        return worker

    def serve(self, handle: Callable[[WorkerEvent], None]) -> None:
        """Do all jobs, and let `handle` see every event when it happens; it may append jobs."""
        for event in self:
            handle(event)

    def __iter__(self) -> Iterator[WorkerEvent]:
        while self.queue or any(w.job is not None for w in self._workers):
            self._fill()
            ready = wait([w.connection for w in self._workers], timeout=TICK)
            if not ready:
                yield WorkerEvent(WAITING, None, None, 0)
            for worker in [w for w in self._workers if w.connection in ready]:
                if worker in self._workers:  # they may have been stopped
                    yield from self._receive(worker)

    def _fill(self) -> None:
        busy = sum(w.job is not None for w in self._workers)
        while len(self._workers) < min(self.count, busy + len(self.queue)):
            self._workers.append(self._start())
        for worker in self._workers:
            if worker.job is None and worker.ready and self.queue:
                job = self.queue.popleft()
                worker.job = job
                try:
                    worker.connection.send(job)
                except (BrokenPipeError, ConnectionResetError):
                    self.queue.appendleft(job)  # died while idle; its end is noticed by the next receive
                    worker.job = None

    def _receive(self, worker: _Worker) -> Iterator[WorkerEvent]:
        pid = worker.process.pid
        try:
            kind, value = worker.connection.recv()
        except (EOFError, ConnectionResetError, OSError):
            job, worker.job = worker.job, None
            self._workers.remove(worker)
            worker.connection.close()
            code = worker.process.wait()
            if not worker.ready:
                self._failed_starts += 1
                if self._failed_starts >= START_FAILURES:
                    raise GapbenchError(
                        f"Worker processes do not start (exit status {code}). What they printed stands above."
                    ) from None
            if job is not None:
                reason = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
                yield WorkerEvent("died", f"the worker process {reason}", job, pid)
            return
        if kind == "ready":
            worker.ready = True
            return
        job = worker.job
        if kind in LAST:
            worker.job = None
        yield event_of(kind, value, job, pid)


def local_crew(setup: Setup, count: int) -> Crew:
    """So many processes of this machine; 0 is this process."""
    return Pool(setup, count) if count else Inline(setup)
