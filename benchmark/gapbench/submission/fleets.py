"""Where a submission is measured: in the sandbox of this machine, or in those of a cluster's nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gapbench.population.places import check_engine
from gapbench.sandbox.fleet import Assignment, Fleet, sandboxed
from gapbench.sandbox.launching import Host
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.sandbox import Answer, Loaded
from gapbench.sandbox.source import ProxyFile
from gapbench_base.errors import GapbenchError


class ProxyFleet(Protocol):
    """Measures one proxy on many networks; `proxy` and `options` may be set when the file was described."""

    proxy: str | None
    options: dict[str, object]

    def describe(self) -> Loaded:
        """Load the file, measure nothing."""

    def measure(self, tasks: Sequence[Assignment]) -> Iterator[tuple[Assignment, Answer]]:
        """Measure every task in a fresh process; tasks with their answers as they come."""


@dataclass(frozen=True)
class Where:
    """Where a submission is measured, and how.

    Attributes:
        unsandboxed: whether it was said that the file is trusted.
        workers: measurements at a time; as many as there is room for if None.
        engine: `local` or `ray`.
        address: of the cluster.
        hosts: processes of this machine that were started before.
    """

    unsandboxed: bool = False
    workers: int | None = None
    engine: str = "local"
    address: str | None = None
    hosts: Sequence[Host] | None = None

    @property
    def sandbox(self) -> str:
        """What the processes run in, as entries name it."""
        return "none" if self.unsandboxed else "bubblewrap"

    def check(self) -> None:
        """Refuse at once what cannot be; of a cluster's nodes each looks at itself before it measures.

        Raises:
            GapbenchError: for an unknown engine, or where there is no sandbox here and one is needed here.
        """
        check_engine(self.engine, self.address)
        if self.engine == "local":
            sandboxed(self.unsandboxed)
        elif self.hosts is not None:
            raise GapbenchError("hosts are processes of this machine: leave them out with engine = 'ray'.")


@contextlib.contextmanager
def measuring(
    where: Where,
    source: ProxyFile,
    limits: Limits,
    packages: Sequence[str],
    proxy: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Iterator[ProxyFleet]:
    """Who measures the proxies of a file.

    Yields:
        A fleet, of this machine or of a cluster, as long as this lasts.

    Raises:
        GapbenchError: where it cannot be used.
    """
    from gapbench.runs.environment import usable_cores

    safe = not where.unsandboxed
    if where.engine == "local":
        workers = where.workers or usable_cores()
        with Fleet(
            source,
            limits,
            sandboxed=safe,
            workers=workers,
            proxy=proxy,
            options=options,
            packages=packages,
            hosts=where.hosts,
        ) as fleet:
            yield fleet
        return
    from gapbench.population.ray_cluster import connected
    from gapbench.submission.ray_fleet import RayFleet

    with (
        connected(where.address) as cluster,
        RayFleet(
            cluster,
            source,
            limits,
            sandboxed=safe,
            workers=where.workers,
            proxy=proxy,
            options=options,
            packages=packages,
        ) as fleet,
    ):
        yield fleet
