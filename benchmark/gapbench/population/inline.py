"""Jobs done in this process, for a few small networks: starting a worker takes longer than training them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

from gapbench.population.jobs import Job, Setup
from gapbench.population.pool import WorkerEvent, event_of
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

    def __iter__(self) -> Iterator[WorkerEvent]:
        while self.queue:
            job = self.queue.popleft()
            for kind, value in self._events(job):
                yield event_of(kind, value, job, os.getpid())

    def _events(self, job: Job) -> Iterator[tuple[str, object]]:
        """What a worker would send about a job."""
        from gapbench.population.worker import work

        events: list[tuple[str, object]] = []
        try:
            work(self.setup, job, lambda *event: events.append(event))
        except DiskFull as error:
            events.append(("disk_full", str(error)))
        except GapbenchError as error:
            events.append(("unusable", str(error)))
        return iter(events)
