"""A Ray cluster as the place where the jobs of a run are done."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from gapbench.population.crew import Crew
from gapbench.population.jobs import Setup
from gapbench.population.ray_crew import GPU_SHARE, RayCrew, on_node, resources
from gapbench.population.ray_worker import UNFIT
from gapbench.runs.environment import arithmetic, choose_device
from gapbench_base.errors import GapbenchError

PATIENCE = 10.0
"""Seconds in which the address of a cluster must answer."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to; `ray` is the module.

    `share` of a GPU is what each job asks for; by the size of its network if None.
    """

    ray: Any
    share: float | None = None

    def room(self, device: str) -> int:
        """How many jobs it does at a time with the nodes that it has now."""
        has = self.ray.cluster_resources()
        cores = int(has.get("CPU", 0))
        return cores if device == "cpu" else min(cores, int(has.get("GPU", 0) / (self.share or GPU_SHARE)))

    def most_memory(self) -> int:
        """Bytes that the node with most of them gives to tasks; 0 where none says."""
        nodes = (node for node in self.ray.nodes() if node.get("Alive", True))
        return max((int(node.get("Resources", {}).get("memory", 0)) for node in nodes), default=0)

    def device(self, asked: str) -> str:
        """`auto` -> `cuda` where a node has a GPU, else `cpu`. Raises `GapbenchError` for one that none has."""
        if asked == "cpu":
            return asked
        gpus = self.ray.cluster_resources().get("GPU", 0) > 0
        if asked == "cuda" and not gpus:
            raise GapbenchError(
                "device = 'cuda', but no node of the Ray cluster has a GPU. Use --device cpu."
            )
        return ("cuda" if gpus else "cpu") if asked in ("auto", "cuda") else choose_device(asked)

    def workers(self, asked: int | None, device: str) -> int:
        """How many jobs are done at a time. Raises `GapbenchError` for none."""
        if asked == 0:
            raise GapbenchError(
                "workers = 0 works in this process, which is no Ray cluster; choose 1 or more."
            )
        found = asked or self.room(device)
        if not found:
            what = "processor" if device == "cpu" else "GPU"
            raise GapbenchError(
                f"The Ray cluster has no {what} now. Add nodes, or give --workers with the number of jobs at a "
                "time if it adds them itself."
            )
        return found

    def arithmetic(self, device: str) -> str:
        """What last bits depend on there. Raises `GapbenchError` if the node that is asked cannot do jobs."""
        if device == "cpu":
            return arithmetic(device)
        task = self.ray.remote(num_returns="streaming", **resources(device))(on_node())
        kind, value = self.ray.get(next(task.remote("about", device)))
        if kind == UNFIT:
            raise GapbenchError(value)
        return str(value)

    def crew(self, asked: int | None) -> Any:
        """Makes the crew of a run; where no number was `asked` for it grows and shrinks with the cluster."""

        def make(setup: Setup, count: int) -> Crew:
            return RayCrew(
                self.ray,
                setup,
                count if asked else 0,
                partial(self.room, setup.device),
                self.most_memory,
                self.share,
            )

        return make


@contextlib.contextmanager
def connected(address: str | None, share: float | None = None) -> Iterator[Cluster]:
    """A Ray cluster: that of an address (`host:port` or `auto`), of RAY_ADDRESS, or one that runs on this machine.

    Where there is none, one is started here for as long as this lasts. A connection that the process had before is
    used and kept.

    Args:
        address: see above.
        share: of a GPU, for each job; by the size of its network if None.

    Yields:
        The cluster, connected.

    Raises:
        GapbenchError: if Ray is not installed, or the cluster cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a benchmark reports to nobody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of tasks whose results nobody needs any more
    try:
        import ray
    except ImportError:
        raise GapbenchError(
            "engine = 'ray' needs Ray: pip install 'gapbench[ray]', or '.[ray]' in a clone."
        ) from None
    if ray.is_initialized():
        if address is not None:
            raise GapbenchError(
                f"address = {address!r}, but this process is connected to a Ray cluster. Leave the address out, or "
                "call ray.shutdown() before."
            )
        yield Cluster(ray, share)
        return
    where = address or os.environ.get("RAY_ADDRESS")
    _check(where)
    try:
        ray.init(address=where, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # whatever it is: versions that do not agree, a cluster that just ends
        raise GapbenchError(
            f"The Ray cluster {where or 'on this machine'} cannot be used: {str(error).strip().splitlines()[0]}"
        ) from error
    try:
        yield Cluster(ray, share)
    finally:
        ray.shutdown()


def _check(address: str | None) -> None:
    """Refuse an address at which nothing answers, at once and not after minutes."""
    if address is None or address in ("auto", "local"):
        return
    if address.startswith("ray://"):
        raise GapbenchError(
            f"address = {address!r} is that of Ray's client. Run gapbench on a node of the cluster, with the "
            "address host:port of its head (6379 as a rule), or with `ray job submit`."
        )
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal()):
        raise GapbenchError(f"address = {address!r}: give host:port, such as head:6379, or auto.")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise GapbenchError(
            f"No Ray cluster answers at {address} ({getattr(error, 'strerror', None) or error}). "
            "`ray start --head` says its address; RAY_ADDRESS may hold it."
        ) from None
