"""A worker process: trains and measures networks and hands records back to the driver.

Started as `python -m gapbench.population.worker FD`; talks over the socket FD. It writes weight files and
nothing else, and ends when the driver is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from gapbench.population.cells import problem_of, train_cell
from gapbench.population.facts import task_of
from gapbench.population.jobs import Job, MeasureJob, Setup, StackJob, TrainJob, TrialJob
from gapbench.population.network import (
    checkpoints_of,
    history_of,
    measured_examples,
    trained_networks,
    unlabelled_of,
)
from gapbench.runs.records import stored_measurement
from gapbench_base.allocation import keep_freed_memory
from gapbench_base.errors import DiskFull, GapbenchError

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


def main() -> None:
    """Serve jobs from the driver until it closes the connection."""
    connection = Connection(int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        setup: Setup = connection.recv()
        prepare(setup)
        connection.send(("ready", None))
        while True:
            serve(setup, connection.recv(), lambda kind, value: connection.send((kind, value)))


def prepare(setup: Setup) -> None:
    """Set what numbers and times depend on in this process, before its first job."""
    import torch

    keep_freed_memory()
    if setup.device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


def serve(setup: Setup, job: Job, send: Callable[[str, object], None]) -> None:
    """Do a job and send what comes of it, whatever that is; the last message is one of `pool.LAST`."""
    try:
        work(setup, job, send)
    except DiskFull as error:
        send("disk_full", str(error))
    except GapbenchError as error:
        send("unusable", str(error))
    except Exception as error:  # not the proxies': those are caught and become failed measurements
        traceback.print_exc()
        send("unusable", problem_of(job.cell, error))


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def work(setup: Setup, job: Job, send: Callable[[str, object], None]) -> None:
    """Do a job and send what comes of it; the last message says that it is done."""
    if isinstance(job, TrainJob | StackJob) and (begun := _begun(job)):
        send("training", begun)
    if isinstance(job, TrainJob):
        send("trained", train_cell(setup, job))
    elif isinstance(job, StackJob):
        from gapbench.population.stacked_cells import train_cells

        train_cells(setup, job, lambda cell, kind, value: send("member", (cell, kind, value)))
        send("stacked", None)
    elif isinstance(job, TrialJob):
        from gapbench.population.stacked_cells import tried

        send("tried", tried(setup, job))
    else:
        measure_cell(setup, job, send)
        send("measured", job.cell)


def _begun(job: TrainJob | StackJob) -> tuple[str, ...]:
    """The cells that a job trains, without those whose weights it restores."""
    members = (job,) if isinstance(job, TrainJob) else job.members
    wanted = (job.cell,) if isinstance(job, TrainJob) else job.wanted
    return tuple(own.cell for own in members if own.cell in wanted and own.restore is None)


def measure_cell(setup: Setup, job: MeasureJob, send: Callable[[str, object], None]) -> None:
    """Measure every request, announcing each before it begins and sending its record when it ends."""
    from gapbench.population.tested import note_tested
    from gapbench.proxies.measuring import measure_in
    from gapbench.proxies.registry import checked_options, proxy_entry
    from gapbench_base.seeds import named_seed

    context, drawn, kept = None, None, None
    for key, request, description in sorted(job.requests, key=lambda r: repeat_of(r[2])):
        seed = setup.measure_seed
        if repeat := repeat_of(description):  # independent of the first: other examples, other randomness
            seed = named_seed("repeat", repeat, setup.measure_seed)
        if context is None or drawn != seed or context._cache.get("overdrawn"):
            context, drawn = _context(setup, job, seed), seed
            kept = context.checkpoints
        send("measuring", key)
        entry = proxy_entry(request.proxy)
        context.checkpoints = kept if "checkpoints" in entry.needs else None  # whatever else is measured
        options = checked_options(entry, dict(request.options))
        # The seed is the cell's: two cells never share random directions, two runs always do.
        own = named_seed(job.cell, request.label, seed)
        found = measure_in(context, entry, options, own, setup.budget)
        record = stored_measurement(
            found,
            key=key,
            cell=job.cell,
            label=request.label,
            description=description,
            device=setup.device,
        )
        send("measurement", record)
    if context is not None:
        note_tested(job.configuration, setup, context)


def _context(setup: Setup, job: MeasureJob, seed: int) -> Context:
    """What the proxies of a job see, from the weight files."""
    import torch

    from gapbench.population.tested import trust_tested
    from gapbench.proxies.measuring import make_context
    from gapbench.proxies.registry import proxy_entry
    from gapbench.runs.weight_files import weight_file
    from gapbench_base.seeds import named_seed

    task = task_of(job.configuration, setup.data_dir)
    path = weight_file(setup.weight_place, job.cell)
    trained, initial = trained_networks(job.configuration, task, path, job.weights_sha256, setup.device)
    sibling = None
    if job.sibling is not None:
        other, sha256 = job.sibling
        other_path = weight_file(setup.weight_place, other)
        sibling = trained_networks(job.configuration, task, other_path, sha256, setup.device)[0]
    checkpoints = None
    if any("checkpoints" in proxy_entry(request.proxy).needs for _, request, _ in job.requests):
        checkpoints = checkpoints_of(job.configuration, task, path, job.weights_sha256, setup.device)
    chosen = torch.from_numpy(measured_examples(task, setup.samples, seed))
    context = make_context(
        trained,
        task.train.inputs[chosen],
        task.train.targets[chosen],
        all_inputs=task.train.inputs,
        all_targets=task.train.targets,
        initial=initial,
        loss=setup.loss,
        history=history_of(job.history),
        checkpoints=checkpoints,
        sibling=sibling,
        unlabelled=unlabelled_of(task),
    )
    context._cache["ascent_seed"] = named_seed(job.cell, "ascents", seed)
    trust_tested(job.configuration, setup, context)
    return context


def repeat_of(description: Mapping[str, Any]) -> int:
    """0 for a first measurement, 1 for the second."""
    return int(description.get("repeat", 0))


if __name__ == "__main__":
    main()
