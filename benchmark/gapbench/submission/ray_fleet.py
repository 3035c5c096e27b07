"""Measure one proxy on many networks on a Ray cluster, each in a process of its own in the sandbox of its node."""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from gapbench.population.crew import TICK
from gapbench.population.ray_cluster import Cluster
from gapbench.population.ray_crew import cluster_errors, first_line, last_line, on_node
from gapbench.population.ray_worker import UNFIT, expected_of
from gapbench.proxies.results import Measurement
from gapbench.sandbox.fleet import Assignment
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.sandbox import Answer, Loaded
from gapbench.sandbox.source import ProxyFile
from gapbench.submission.ray_measuring import MODULE, Commission
from gapbench_base.errors import GapbenchError

LOSSES = 5
"""How often a measurement may be lost with the worker or the node that it is on before that is its result."""


class _Lost(Exception):
    """A worker or a node is gone, with the measurement that it made."""


@dataclass
class _Task:
    """A measurement under way: its one message is the next of `stream`; `losses` before it."""

    stream: Any
    assignment: Assignment
    losses: int


class RayFleet:
    """Does what `gapbench.sandbox.fleet.Fleet` does, on a cluster. Use as a context manager.

    Networks are built and packed in this process and sent; nodes need neither the run's folder nor the data, and
    nothing of the proxy runs here. `workers` measurements at a time, as many as the cluster has room for if None.
    """

    def __init__(
        self,
        cluster: Cluster,
        source: ProxyFile,
        limits: Limits,
        *,
        sandboxed: bool,
        workers: int | None,
        proxy: str | None = None,
        options: Mapping[str, object] | None = None,
        packages: Sequence[str] = (),
    ):
        self.proxy, self.options = proxy, dict(options or {})
        self._cluster, self._ray, self._workers = cluster, cluster.ray, workers
        self._common = Commission(expected_of(""), source, limits, sandboxed, tuple(packages))
        # A thread of a task waits while its process works: a core each.
        function = self._ray.remote(max_retries=0, num_returns="streaming", num_cpus=1)
        self._function = function(on_node(MODULE))
        self._running: list[_Task] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancel()

    def describe(self) -> Loaded:
        """Load the file on a node, measure nothing.

        Returns:
            What it registers.

        Raises:
            GapbenchError: if a node is unfit, or the cluster is gone.
        """
        with cluster_errors(self._ray):
            for _ in range(LOSSES):
                stream = self._function.remote("described", pickle.dumps(self._common))
                with contextlib.suppress(_Lost):
                    loaded: Loaded = self._value(stream)
                    return loaded
        raise GapbenchError(f"The worker processes of the cluster were lost {LOSSES} times.")

    def measure(self, tasks: Sequence[Assignment]) -> Iterator[tuple[Assignment, Answer]]:
        """Measure every task in a fresh process of some node.

        If the consumer stops early, what is under way is given up.

        Yields:
            Tasks with their answers as they come, begun in random order.

        Raises:
            GapbenchError: if a node is unfit, or the cluster is gone.
        """
        waiting = [(task, 0) for task in tasks]
        random.SystemRandom().shuffle(waiting)
        common = pickle.dumps(replace(self._common, proxy=self.proxy, options=self.options))
        try:
            with cluster_errors(self._ray):
                while waiting or self._running:
                    most = self._workers or max(1, self._cluster.room("cpu"))
                    while waiting and len(self._running) < most:
                        task, losses = waiting.pop()
                        stream = self._function.remote("measured", common, pickle.dumps(task.sealed()))
                        self._running.append(_Task(stream, task, losses))
                    for own in self._ready():
                        self._running.remove(own)
                        try:
                            answer = self._value(own.stream)
                        except _Lost as lost:
                            if own.losses + 1 < LOSSES:
                                waiting.append((own.assignment, own.losses + 1))
                                continue
                            answer = self._given_up(str(lost))
                        yield own.assignment, answer
        finally:
            self._cancel()

    def _ready(self) -> list[_Task]:
        streams = [task.stream for task in self._running]
        ready, _ = self._ray.wait(streams, timeout=TICK, fetch_local=False)
        return [task for task in self._running if task.stream in ready]

    def _value(self, stream: Any) -> Any:
        """The value of the only message. Raises `GapbenchError` where a node is unfit, `_Lost` if it never came."""
        known = self._ray.exceptions
        try:
            kind, value = self._ray.get(next(stream))
        except StopIteration:
            raise _Lost("the process ended") from None
        except known.RaySystemError:
            raise
        except known.RayTaskError as error:
            raise GapbenchError(f"A task of the cluster failed: {last_line(error)}") from error
        except known.RayError as error:
            raise _Lost(first_line(error)) from error
        if kind == UNFIT:
            raise GapbenchError(value)
        return value

    def _given_up(self, reason: str) -> Answer:
        reason = f"its worker process was lost {LOSSES} times, at last: {reason}"
        return Answer(Measurement(self.proxy or "proxy", None, None, 0.0, "failed", reason))

    def _cancel(self) -> None:
        for task in self._running:
            self._ray.cancel(task.stream, force=True)
        self._running.clear()
