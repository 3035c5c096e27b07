"""What a Ray task does on a node of the cluster: one job of a driver, its messages as a stream.

A task is not known to share anything with the driver but the cluster: that the node has this gapbench, the run's
folder and the same data is looked at before anything is computed.
"""

from __future__ import annotations

import functools
import pickle
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from gapbench.population.facts import facts_source
from gapbench.population.jobs import Job, MeasureJob, Setup, StackJob, TrainJob, TrialJob, data_of
from gapbench.population.worker import prepare, serve
from gapbench.runs.environment import arithmetic
from gapbench.runs.weight_files import there, told
from gapbench_base.errors import GapbenchError
from gapbench_base.version import __version__

UNFIT = "unfit"
"""Kind of the message that the node cannot do jobs of this run, with the reason."""
AT = "at"
"""Kind of the first message of a task that can: the name of its node, and what last bits depend on there."""


TOKEN = f".{'0' * 16}-cluster"
"""A file beside a run's weights by which nodes are seen to have that place; named as what `gc` removes."""


@dataclass(frozen=True)
class Requirements:
    """What a node must have in common with the driver.

    Attributes:
        gapbench: its version.
        torch: its version, without what it was built for.
        token: what the driver has written into the file `TOKEN` beside the weights.
    """

    gapbench: str
    torch: str
    token: str


def expected_of(token: str) -> Requirements:
    """What this process has."""
    import torch

    return Requirements(__version__, torch.__version__.partition("+")[0], token)


def messages(expected: bytes, setup: bytes, job: bytes) -> Iterator[tuple[str, Any]]:
    """Do a job as a worker of one machine does.

    Args:
        expected: pickled `Requirements`.
        setup: pickled `Setup`.
        job: pickled `Job`.

    Yields:
        Kind and value of every message, each when it is sent. The last kind is one of `crew.LAST`, or `unfit`.
    """
    own, work = pickle.loads(setup), pickle.loads(job)
    node = socket.gethostname()
    reason = unfit(pickle.loads(expected), own, work, node)
    if reason is not None:
        yield UNFIT, reason
        return
    _prepared(own)
    yield AT, (node, arithmetic(own.device))
    said: SimpleQueue[tuple[str, Any] | None] = SimpleQueue()

    def done() -> None:
        try:
            serve(own, work, lambda kind, value: said.put((kind, value)))
        finally:
            said.put(None)

    threading.Thread(target=done, daemon=True).start()
    for message in iter(said.get, None):  # noqa: UP028 (Ray sends to generators, which iterators do not take)
        yield message


def about(device: str) -> Iterator[tuple[str, str]]:
    """What last bits depend on here, as the only message."""
    yield AT, arithmetic(device)


def unfit(expected: Requirements, setup: Setup, job: Job, node: str) -> str | None:
    """Why a job cannot be done on this node, None where it can."""
    if (reason := other_version(expected, node)) is not None:
        return reason
    if (reason := _blind(expected, setup, node)) is not None:
        return reason
    configuration, wanted = _data_of(job)
    try:
        found = _facts(setup.data_dir)(configuration).fingerprint
    except (GapbenchError, OSError) as error:
        return f"The node {node} of the cluster has no data for {configuration.task}: {error}"
    if wanted is not None and found != wanted:
        return (
            f"The node {node} of the cluster has other data for {configuration.task} in {setup.data_dir} than this "
            "machine: put the data (--data) on a file system that all nodes have under the same path."
        )
    return None


def _blind(expected: Requirements, setup: Setup, node: str) -> str | None:
    """Why a node cannot read the run's weights, None where it can."""
    why = ""
    try:
        if there(setup.weight_place, TOKEN) == expected.token:
            return None
    except OSError as error:
        why = f" ({told(error)})"
    if setup.weights is not None:
        return (
            f"The node {node} of the cluster cannot read {setup.weights}{why}: it needs the same rights, and the "
            "packages that fsspec needs for such addresses."
        )
    return (
        f"The node {node} of the cluster does not see the folder {setup.run}: put the run (--out) on a file "
        "system that all nodes have under the same path, or its weights at an address that all can write "
        "(--weights)."
    )


def other_version(expected: Requirements, node: str) -> str | None:
    """Which package is not that of the driver, in words; None where all are."""
    own = expected_of(expected.token)
    for package in ("gapbench", "torch"):
        here, there = getattr(own, package), getattr(expected, package)
        if here != there:
            return (
                f"The node {node} of the cluster has {package} {here}, this process {there}: install the same "
                "version on all nodes."
            )
    return None


def _data_of(job: Job) -> tuple[Any, str | None]:
    """A configuration of a job, and the fingerprint that its data must have; those of others are the same files."""
    if isinstance(job, MeasureJob):
        return job.configuration, job.data
    first = job if isinstance(job, TrainJob) else job.members[0]
    assert isinstance(job, TrainJob | StackJob | TrialJob)
    return first.configuration, data_of(first.description)


_facts = functools.lru_cache(maxsize=1)(facts_source)


@functools.lru_cache(maxsize=1)
def _prepared(setup: Setup) -> None:
    prepare(setup)
