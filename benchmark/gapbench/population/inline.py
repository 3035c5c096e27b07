"""Jobs done in this process, for a few small networks: starting a worker takes longer than training them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Any

from gapbench.population.jobs import Setup, TrainJob
from gapbench.population.pool import Event, Job


class Inline:
    """Stands in for `gapbench.population.pool.Pool`, with the same results; a network that kills the process is
    not survived."""

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

    def __iter__(self) -> Iterator[Event]:
        from gapbench.population.worker import measure_cell, train_cell

        while self.queue:
            job = self.queue.popleft()
            if isinstance(job, TrainJob):
                yield Event("trained", train_cell(self.setup, job), job, os.getpid())
                continue
            events: list[tuple[str, Any]] = []
            measure_cell(self.setup, job, lambda *event: events.append(event))  # noqa: B023 - used up here
            for kind, value in events:
                yield Event(kind, value, job, os.getpid())
