"""Jobs done in this process, for a few small networks: starting a worker takes longer than training them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from gapbench.population.crew import WorkerEvent, event_of
from gapbench.population.jobs import Job, Setup
from gapbench_base.errors import DiskFull, GapbenchError


class Inline:
    """Stands in for `gapbench.population.pool.Pool`, in this process, with the same results.

    A network that kills the process is not survived.
    """

    def __init__(self, setup: Setup):
        self.setup = setup
        self.queue: deque[Job] = deque()

    def __enter__(self) -> Inline:
        import torch

        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        return self

    def __exit__(self, *_: object) -> None:
        import torch

        torch.set_num_threads(self._threads)

    def serve(self, handle: Callable[[WorkerEvent], None]) -> None:
        """Do all jobs, and let `handle` see every event when it happens; it may append jobs."""
        while self.queue:
            job = self.queue.popleft()

            def send(kind: str, value: object, job: Job = job) -> None:
                try:
                    handle(event_of(kind, value, job, os.getpid()))
                except Exception as error:
                    raise _OfHandler(error) from error  # it is none of the job's

            try:
                self._work(job, send)
            except _OfHandler as wrapped:
                raise wrapped.error from None

    def stop(self) -> None:
        """Give up all jobs but the one under way, which cannot be."""
        self.queue.clear()

    def _work(self, job: Job, send: Callable[[str, object], None]) -> None:
        """Do a job as a worker does."""
        from gapbench.population.worker import work

        try:
            work(self.setup, job, send)
        except DiskFull as error:
            send("disk_full", str(error))
        except GapbenchError as error:
            send("unusable", str(error))


class _OfHandler(BaseException):
    """An error of whoever handles an event, on its way through the job that it is about."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error
