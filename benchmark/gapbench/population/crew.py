"""Who does the jobs of a driver, and what is heard of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from gapbench.population.jobs import Job, Setup, StackJob

LAST = ("trained", "stacked", "tried", "measured", "unusable", "disk_full")
"""Messages after which a worker is free."""


TICK = 5.0  # seconds without an event after which waiting is one
WAITING = "waiting"


@dataclass(frozen=True)
class WorkerEvent:
    """Something a worker did. `kind` is a message of `worker.py`, or `died` with a reason as its value.

    `lost`, with a reason: the machine that it was on is gone, which may be none of the job's doing. `note`: a text
    for a person. `waiting`: nothing was heard of any for a while.
    """

    kind: str
    value: Any
    job: Job | None
    worker: int


def event_of(kind: str, value: Any, job: Job | None, worker: int) -> WorkerEvent:
    """The event of a message; what is said of one member of a stack is of that member's own job."""
    if kind == "member":
        assert isinstance(job, StackJob)
        cell, kind, value = value
        job = job.member(cell)
    return WorkerEvent(kind, value, job, worker)


class Crew(Protocol):
    """Who does the jobs of a driver: processes of this machine, this process, or tasks on a cluster.

    Entered, it takes jobs from `queue`; whoever was doing one when it is left stops.
    """

    queue: deque[Job]

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def serve(self, handle: Callable[[WorkerEvent], None]) -> None:
        """Do all jobs, and let `handle` see every event when it happens; it may append jobs."""

    def stop(self) -> None:
        """Give up all jobs, those under way too; `serve` then ends. For who handles an event."""


MakeCrew = Callable[[Setup, int], Crew]
"""Makes a crew of so many for the jobs of a run."""
