"""From a job to a trained cell: its task and network, and the record of what came of it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gapbench.population.facts import task_of
from gapbench.population.jobs import Setup, TrainJob, cell_of, failed_cell
from gapbench.population.network import untrained
from gapbench.runs.records import TrainedCell
from gapbench_base.errors import DiskFull, GapbenchError
from gapbench_base.json_values import plain

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gapbench.population.course import Trained
    from gapbench_tasks import Task


def train_cell(setup: Setup, job: TrainJob) -> TrainedCell:
    """Train one cell by the plain loop, write its weights, and return its database record."""
    from gapbench.computation.memory_format import channels_last_pays
    from gapbench.population.stacks import CHANNELS_LAST, LOOP
    from gapbench.population.training import train
    from gapbench.runs.weights import state_of

    started = time.perf_counter()
    try:
        task = task_of(job.configuration, setup.data_dir)
        model = untrained(job.configuration, job.seed, task)
        initial = state_of(model)
        values = job.configuration.training
        last = job.channels_last if setup.device == "cpu" else None  # a matter of CPUs alone
        if setup.device == "cpu" and last is None:
            last = channels_last_pays(model, task.train.inputs, values.batch_size)
        trained = train(model, task, values, job.seed, setup.device, setup.record, last)
    except DiskFull:
        raise
    except Exception as error:  # whatever a network does is a result of this cell, with its reason
        return failed_cell(job, setup.device, reason_of(error), time.perf_counter() - started)
    return replace(
        saved_cell(setup, job, task, model, initial, trained), engine=CHANNELS_LAST if last else LOOP
    )


def reason_of(error: Exception) -> str:
    """Why a cell failed, in words."""
    return f"{type(error).__name__}: {error}"[:500]


def problem_of(cell: str, error: Exception) -> str:
    """Why there is no result of a cell, in words."""
    return str(error) if isinstance(error, GapbenchError) else f"Cell {cell}: {type(error).__name__}: {error}"


def history_text(trained: Trained) -> str:
    """The course of a training as the run database keeps it; see `gapbench.population.network.history_of`."""
    if trained.recorded is None:
        return json.dumps(plain(trained.history))
    return json.dumps(plain({"loss": trained.history, **trained.recorded.as_history()}))


def saved_cell(
    setup: Setup, job: TrainJob, task: Task, model: nn.Module, initial: dict[str, Tensor], trained: Trained
) -> TrainedCell:
    """Write the weights of a trained cell.

    Returns:
        Its database record, without the engine.
    """
    import numpy as np

    from gapbench.runs.image_groups import packed
    from gapbench.runs.weight_files import weight_file
    from gapbench.runs.weights import save_weights, state_of

    path = weight_file(setup.weight_place, job.cell)
    on_the_way = {} if trained.recorded is None else trained.recorded.states
    sha256, size = save_weights(path, initial, state_of(model), job.restore, on_the_way)
    finite = trained.status != "diverged"
    return replace(
        cell_of(job, setup.device, trained.status),
        reason="" if finite else "the loss is not finite",
        train_error=trained.train.error if finite else None,
        test_error=trained.test.error if finite else None,
        gap=trained.gap if finite else None,
        loss_gap=trained.loss_gap if finite else None,
        train_loss=trained.train.cross_entropy if finite else None,
        test_loss=trained.test.cross_entropy if finite else None,
        parameters=sum(p.numel() for p in model.parameters()),
        train_size=len(task.train),
        test_size=len(task.test),
        epochs=trained.epochs,
        steps=trained.steps,
        seconds=trained.seconds,
        history=history_text(trained),
        source=task.source,
        shift=int(task.shift),
        train_correct=np.packbits(trained.train.correct.numpy()).tobytes(),
        test_correct=np.packbits(trained.test.correct.numpy()).tobytes(),
        test_groups=None if task.test_groups is None else packed(task.test_groups.numpy()),
        weights_sha256=sha256,
        weights_bytes=size,
    )
