"""A crew of Ray tasks: jobs go to the nodes of a cluster, messages come back to this process as they are sent."""

from __future__ import annotations

import contextlib
import pickle
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from gapbench.population.crew import LAST, TICK, WAITING, WorkerEvent, event_of
from gapbench.population.jobs import Job, Setup
from gapbench.population.memory import MemoryPlan, Need
from gapbench.population.ray_worker import AT, TOKEN, UNFIT, expected_of
from gapbench.runs.weight_files import put, remove, told
from gapbench_base.errors import GapbenchError

GPU_SHARE = 0.25
"""Of a GPU, for each task of small networks: as many share one as workers of one machine do."""
CARD = 16 << 30
"""Bytes of a GPU that shares are reckoned by; cards have more as a rule."""


@dataclass
class _Task:
    """A job under way: the `stream` of its messages, which of the crew's places it has, and where it is."""

    stream: Any
    job: Job
    place: int
    node: str = ""


class RayCrew:
    """`count` jobs at a time on a cluster, as many as it has room for where `count` is 0.

    Each asks for the memory that `MemoryPlan` gives it, and of a GPU for `share` or, if that is None, by its size.

    No task is repeated by Ray: what was lost with a worker or a node is told, and the consumer appends it again.
    """

    def __init__(
        self,
        ray: Any,
        setup: Setup,
        count: int,
        room: Callable[[], int],
        most_memory: Callable[[], int] = lambda: 0,
        share: float | None = None,
    ):
        """What it works with; `most_memory` is what the largest node gives to tasks, in bytes."""
        self.queue: deque[Job] = deque()
        self._memory, self._most_memory, self._share = MemoryPlan(setup), most_memory, share
        self._ray, self._setup, self._count, self._room = ray, setup, count, room
        self._tasks: list[_Task] = []
        self._function = ray.remote(max_retries=0, num_returns="streaming")(on_node())
        self._most, self._asked = 0, -TICK
        self._told: set[str] = set()
        self._expected = expected_of(secrets.token_hex(8))

    def __enter__(self) -> Self:
        try:
            put(self._setup.weight_place, TOKEN, self._expected.token)
        except OSError as error:
            raise GapbenchError(f"{self._setup.weight_place} cannot be written: {told(error)}.") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        remove(self._setup.weight_place, TOKEN)

    def stop(self) -> None:
        """Give up all jobs, those under way too; `serve` then ends. For who handles an event."""
        self.queue.clear()
        for task in self._tasks:
            self._ray.cancel(task.stream, force=True)
        self._tasks.clear()

    def serve(self, handle: Callable[[WorkerEvent], None]) -> None:
        """Do all jobs, and let `handle` see every event when it happens; it may append jobs.

        Raises:
            GapbenchError: if a node is unfit, or the cluster is gone.
        """
        with cluster_errors(self._ray):
            for event in self._events():
                handle(event)

    def _events(self) -> Iterator[WorkerEvent]:
        while self.queue or self._tasks:
            self._fill()
            streams = [task.stream for task in self._tasks]
            ready, _ = self._ray.wait(streams, timeout=TICK, fetch_local=False)
            if not ready:
                yield WorkerEvent(WAITING, None, None, 0)
            for task in [task for task in self._tasks if task.stream in ready]:
                if task in self._tasks:  # they may have been stopped
                    yield from self._receive(task)

    def _fill(self) -> None:
        now = time.monotonic()
        if now - self._asked >= TICK:
            self._most, self._asked = self._count or max(1, self._room()), now
        taken = {task.place for task in self._tasks}
        places = (place for place in range(self._most) if place not in taken)
        for place in places:
            if not self.queue:
                return
            job = self.queue.popleft()
            arguments = [pickle.dumps(part) for part in (self._expected, self._setup, job)]
            asked = resources(self._setup.device, self._memory.of(job), self._share, self._most_memory())
            stream = self._function.options(**asked).remote("messages", *arguments)
            self._tasks.append(_Task(stream, job, place))

    def _receive(self, task: _Task) -> Iterator[WorkerEvent]:
        """The next message of a task, or what became of it."""
        worker = self._setup.workers + task.place  # a number that is no place of the time that is predicted
        try:
            kind, value = self._ray.get(next(task.stream))
        except StopIteration:  # it was told before that the task is done, unless its thread was ended
            if task in self._tasks:
                self._tasks.remove(task)
                yield WorkerEvent("died", f"the worker process on {task.node} ended", task.job, worker)
            return
        except self._ray.exceptions.RayError as error:
            self._tasks.remove(task)
            yield self._failed(task, error, worker)
            return
        if kind == UNFIT:
            raise GapbenchError(value)
        if kind == AT:
            task.node, computes = value
            yield from self._differs(task, computes, worker)
            return
        if kind in LAST:
            self._tasks.remove(task)
        yield event_of(kind, value, task.job, worker)

    def _failed(self, task: _Task, error: Exception, worker: int) -> WorkerEvent:
        known = self._ray.exceptions
        where = f"on {task.node}" if task.node else "of the cluster"
        if isinstance(error, known.RayTaskError):
            return WorkerEvent("unusable", f"A task {where} failed: {last_line(error)}", task.job, worker)
        if isinstance(error, known.OutOfMemoryError):
            reason = f"the worker process {where} was ended for want of memory"
            return WorkerEvent("died", reason, task.job, worker)
        if isinstance(error, known.WorkerCrashedError):
            return WorkerEvent("died", f"the worker process {where} was killed", task.job, worker)
        reason = f"the machine {task.node} was lost" if task.node else "a machine of the cluster was lost"
        return WorkerEvent("lost", reason, task.job, worker)

    def _differs(self, task: _Task, computes: str, worker: int) -> Iterator[WorkerEvent]:
        if computes != self._setup.arithmetic and computes not in self._told:
            self._told.add(computes)
            yield WorkerEvent(
                "note",
                f"The node {task.node} computes with {computes}, others with {self._setup.arithmetic}: the last "
                "bits of a network depend on where it is trained.",
                task.job,
                worker,
            )


@contextlib.contextmanager
def cluster_errors(ray: Any) -> Iterator[None]:
    """Say of a cluster that is gone what that means, as a `GapbenchError`."""
    try:
        yield
    except (ray.exceptions.RaySystemError, ConnectionError) as error:
        raise GapbenchError(
            f"The Ray cluster is gone ({first_line(error)}). Finished results are kept; the same command goes on "
            "from there."
        ) from error


def resources(
    device: str, need: Need | None = None, share: float | None = None, most: int = 0
) -> dict[str, float]:
    """What a task asks of a cluster.

    Args:
        device: kind of device that it works on.
        need: its memory, where that is known. What no node has is not asked for: it would wait forever.
        share: of a GPU; by what it needs of one if None.
        most: bytes that the largest node gives to tasks, 0 if that is not known.

    Returns:
        The options of a Ray task.
    """
    asked: dict[str, float] = {"num_cpus": 1}
    if need is not None and most:
        asked["memory"] = min(need.host, most)
    if device == "cuda":
        asked["num_gpus"] = share or (GPU_SHARE if need is None else _share_of(need.card))
    return asked


def _share_of(card: int) -> float:
    """Of a GPU, for a job that needs so many bytes of it: a quarter, half or all."""
    return next((share for share in (GPU_SHARE, 2 * GPU_SHARE) if card <= share * CARD), 1.0)


def on_node(module: str = "gapbench.population.ray_worker") -> Callable[..., Iterator[Any]]:
    """A function that does what one of a module does, and can be sent to a node that has no gapbench."""

    def gapbench_job(name: str, *arguments: Any) -> Iterator[Any]:
        import importlib
        import os
        import socket

        threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        os.environ.update(dict.fromkeys(threads, "1"))
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            try:
                here = f"gapbench {importlib.import_module('gapbench_base.version').__version__}"
            except ImportError:
                here = "no gapbench"
            text = f"The node {socket.gethostname()} of the cluster has {here} in its Python ({error})"
            yield "unfit", f"{text}: install the same version on all nodes."
            return
        yield from function(*arguments)

    return gapbench_job


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def last_line(error: BaseException) -> str:
    """The last line of what an error says, or its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
