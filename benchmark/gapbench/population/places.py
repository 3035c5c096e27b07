"""Where the jobs of a run are done: on this machine, or on a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from gapbench.population.crew import MakeCrew
from gapbench.population.pool import local_crew
from gapbench.runs.environment import arithmetic, choose_device, usable_cores
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import did_you_mean

ENGINES = ("local", "ray")
CUDA_WORKERS = 4


class Place(Protocol):
    """Where jobs are done."""

    def device(self, asked: str) -> str:
        """`auto` -> `cuda` where there is one, else `cpu`. Raises `GapbenchError` for one that is not there."""

    def workers(self, asked: int | None, device: str) -> int:
        """How many jobs are done at a time; as many as the place has room for if no number is asked for."""

    def arithmetic(self, device: str) -> str:
        """What the last bits of numbers depend on there, in words."""

    def crew(self, asked: int | None) -> MakeCrew:
        """Makes who does the jobs, of whom so many were asked for."""


class Here:
    """This machine."""

    def device(self, asked: str) -> str:
        """See `choose_device`."""
        return choose_device(asked)

    def workers(self, asked: int | None, device: str) -> int:
        """The number asked for, or one process per core on a CPU and 4 on CUDA."""
        if asked is not None:
            return asked
        return CUDA_WORKERS if device == "cuda" else usable_cores()

    def arithmetic(self, device: str) -> str:
        """See `environment.arithmetic`."""
        return arithmetic(device)

    def crew(self, asked: int | None) -> MakeCrew:
        """Processes of this machine."""
        return local_crew


def check_engine(engine: str, address: str | None, gpu_share: float | None = None) -> None:
    """Raise `GapbenchError` for an unknown engine, or what is of a cluster where there is none."""
    if engine not in ENGINES:
        hint = did_you_mean(engine, ENGINES)
        raise GapbenchError(f"engine = {engine!r} is none of {', '.join(ENGINES)}.{hint}")
    if engine == "local" and address is not None:
        raise GapbenchError(f"address = {address!r} is of a cluster: give engine = 'ray' as well.")
    if engine == "local" and gpu_share is not None:
        raise GapbenchError(
            f"gpu_share = {gpu_share!r} is of tasks of a cluster: on one machine --workers share its GPU."
        )
    if gpu_share is not None and not 0 < gpu_share <= 1:
        raise GapbenchError(f"gpu_share = {gpu_share!r} must be more than 0 and at most 1.")


@contextlib.contextmanager
def place_of(engine: str, address: str | None, gpu_share: float | None = None) -> Iterator[Place]:
    """The place that an engine stands for.

    Args:
        engine: `local` or `ray`.
        address: of a cluster, for `ray` alone.
        gpu_share: of a GPU, for each task of a cluster; by the size of its network if None.

    Yields:
        The place, connected as long as this lasts.

    Raises:
        GapbenchError: for another engine, or a cluster that cannot be used.
    """
    check_engine(engine, address, gpu_share)
    if engine == "local":
        yield Here()
        return
    from gapbench.population.ray_cluster import connected

    with connected(address, gpu_share) as cluster:
        yield cluster
