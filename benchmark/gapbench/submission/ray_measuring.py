"""What a Ray task does on a node of the cluster for a submission: one process in the sandbox of that node.

The task itself is trusted and runs no proxy: it starts the processes that do, and hands on what they say.
"""

from __future__ import annotations

import functools
import importlib.util
import pickle
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gapbench.population.ray_worker import UNFIT, Requirements, other_version
from gapbench.sandbox import bubblewrap
from gapbench.sandbox.fleet import Fleet, Sealed
from gapbench.sandbox.launching import Host
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.source import ProxyFile
from gapbench_base.errors import GapbenchError

MODULE = "gapbench.submission.ray_measuring"
LOADED, ANSWER = "loaded", "answer"
"""Kinds of the messages that have a result."""


@dataclass(frozen=True)
class Commission:
    """What all measurements of a submission share; see `gapbench.sandbox.fleet.Fleet`.

    `expected` is what every node must have in common with the driver.
    """

    expected: Requirements
    source: ProxyFile
    limits: Limits
    sandboxed: bool
    packages: tuple[str, ...] = ()
    proxy: str | None = None
    options: dict[str, object] = field(default_factory=dict)


def described(commission: bytes) -> Iterator[tuple[str, Any]]:
    """What the file registers, or why this node cannot say it, as the only message."""
    given: Commission = pickle.loads(commission)
    reason = unfit(given, socket.gethostname())
    yield (UNFIT, reason) if reason is not None else (LOADED, _fleet(given).describe())


def measured(commission: bytes, sealed: bytes) -> Iterator[tuple[str, Any]]:
    """The answer on one network, or why this node cannot give it, as the only message."""
    given: Commission = pickle.loads(commission)
    task: Sealed = pickle.loads(sealed)
    reason = unfit(given, socket.gethostname())
    yield (UNFIT, reason) if reason is not None else (ANSWER, _fleet(given).answer(task))


def unfit(given: Commission, node: str) -> str | None:
    """Why nothing of a submission can be measured on this node, None where it can."""
    if (reason := other_version(given.expected, node)) is not None:
        return reason
    missing = [package for package in given.packages if importlib.util.find_spec(package) is None]
    if missing:
        return (
            f"The node {node} of the cluster lacks {', '.join(missing)}, from which networks of the run come: "
            "install the same on all nodes."
        )
    if given.sandboxed and (reason := bubblewrap.unavailable()):
        return (
            f"The node {node} of the cluster has no working sandbox, and strangers' code is not run without one: "
            f"{reason}. If you trust this file, say --unsandboxed: then limits on time and memory hold, and files "
            "of the nodes are not protected."
        )
    try:
        _hosts(given.sandboxed, given.packages)
    except GapbenchError as error:
        return f"The node {node} of the cluster: {error}"
    return None


def _fleet(given: Commission) -> Fleet:
    return Fleet(
        given.source,
        given.limits,
        sandboxed=given.sandboxed,
        workers=1,
        proxy=given.proxy,
        options=given.options,
        packages=given.packages,
        hosts=_hosts(given.sandboxed, given.packages),
    ).__enter__()


@functools.lru_cache(maxsize=1)
def _hosts(sandboxed: bool, packages: tuple[str, ...]) -> tuple[Host, Host]:
    """Two processes that fork those of measurements, for all tasks of this worker; they end with it."""
    first, second = Host(sandboxed, packages), Host(sandboxed, packages)
    for host in (first, second):
        host.launch()
    for host in (first, second):
        host.await_ready()
    return first, second
