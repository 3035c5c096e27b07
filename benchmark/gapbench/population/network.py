"""A cell's task and network: untrained, and as its weight file has it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gapbench.population.facts import task_of
from gapbench.population.stored import Member, Population
from gapbench.runs.weight_files import WeightFile
from gapbench.runs.weight_location import weights_of
from gapbench.runs.weights import load_checkpoints, load_weights
from gapbench.sandbox.handover import Handover
from gapbench.suites.suite import Configuration
from gapbench_base.seeds import named_seed
from gapbench_models import build_model
from gapbench_tasks import Task
from gapbench_tasks.selection import stratified_subset

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


def untrained(configuration: Configuration, seed: int, task: Task) -> nn.Module:
    """The untrained network of a cell."""
    values = configuration.training
    return build_model(
        configuration.family,
        configuration.width,
        task.input_shape,
        task.num_classes,
        named_seed("initialisation", seed),
        depth=values.depth,
        dropout=values.dropout,
        init_scale=values.init_scale,
        activation=values.activation,
    )


def trained_networks(
    configuration: Configuration, task: Task, path: WeightFile, sha256: str | None, device: str = "cpu"
) -> tuple[nn.Module, nn.Module]:
    """A cell's network as trained and as initialised, in eval mode, from its weight file.

    The architecture is built without dropout, which plays no part in eval mode and would show the rate, and
    at a fixed seed; all values come from the weight file.

    Returns:
        The trained network and the initial one.

    Raises:
        GapbenchError: where the file is damaged.
    """
    initial, final = load_weights(path, sha256)
    return _built(configuration, task, final, device), _built(configuration, task, initial, device)


def checkpoints_of(
    configuration: Configuration, task: Task, path: WeightFile, sha256: str | None, device: str = "cpu"
) -> tuple[tuple[int, nn.Module], ...] | None:
    """A cell's network after the epochs whose checkpoints its weight file has, as `trained_networks` builds them.

    Returns:
        Epochs, ascending, with networks in eval mode; None where there are none.

    Raises:
        GapbenchError: where the file is damaged.
    """
    found = load_checkpoints(path, sha256)
    return tuple((e, _built(configuration, task, state, device)) for e, state in found.items()) or None


def _built(configuration: Configuration, task: Task, state: dict[str, Tensor], device: str) -> nn.Module:
    network = build_model(
        configuration.family,
        configuration.width,
        task.input_shape,
        task.num_classes,
        0,
        depth=configuration.training.depth,
        activation=configuration.training.activation,
    )
    network.load_state_dict(state)
    return network.to(device).eval()


def measured_examples(task: Task, samples: int, seed: int) -> NDArray[np.int64]:
    """Indices of the fixed, seeded, stratified subset of the training set that derivatives are taken on."""
    labels = task.train.targets.numpy()
    if samples >= len(labels):
        return np.arange(len(labels))
    return stratified_subset(labels, samples, "measure_samples", seed)


def unlabelled_of(task: Task) -> torch.Tensor | None:
    """The task's further inputs, without targets, where it has any."""
    return None if task.unlabelled is None else task.unlabelled.inputs


def history_of(stored: str | None) -> dict[str, list[float]] | None:
    """What a row of the run database keeps of the course of training, as `Context.history` has it.

    Args:
        stored: JSON of the mean mini-batch losses (nats), epoch by epoch; or of these under `loss` and the lists of
            `recording.Recorded.as_history`.

    Returns:
        `loss`: those losses, NaN where they were not finite, and what else was recorded; None where nothing is.
    """
    if stored is None:
        return None
    found = json.loads(stored)
    columns = found if isinstance(found, dict) else {"loss": found}
    return {
        name: [math.nan if value is None else float(value) for value in column]
        for name, column in columns.items()
    }


def context_of(given: Handover, network: nn.Module | None = None) -> Context:
    """What a proxy sees of a network in this process.

    Args:
        given: of the network.
        network: another one in its place, such as a transformed one, which has no checkpoints.

    Returns:
        A new context.
    """
    from gapbench.proxies.measuring import make_context

    return make_context(
        given.model if network is None else network,
        given.inputs,
        given.targets,
        all_inputs=given.all_inputs,
        all_targets=given.all_targets,
        initial=given.initial,
        loss=given.loss,
        history=given.history,
        checkpoints=given.checkpoints if network is None else None,
        sibling=given.sibling,
        unlabelled=given.unlabelled,
    )


def handover_of(member: Member, population: Population) -> Handover:
    """What a sandbox gets of one trained network of an open population."""
    task = task_of(member.configuration, population.data_dir)
    path = weights_of(population.folder, member.key)
    trained, initial = trained_networks(member.configuration, task, path, member.sha256)
    sibling = None
    if member.sibling is not None:
        key, sha256 = member.sibling
        sibling = trained_networks(member.configuration, task, weights_of(population.folder, key), sha256)[0]
    suite = population.suite
    chosen = torch.from_numpy(measured_examples(task, suite.samples, suite.measure_seed))
    return Handover(
        model=trained,
        initial=initial,
        inputs=task.train.inputs[chosen],
        targets=task.train.targets[chosen],
        all_inputs=task.train.inputs,
        all_targets=task.train.targets,
        loss=suite.loss,
        history=history_of(member.history),
        checkpoints=checkpoints_of(member.configuration, task, path, member.sha256),
        sibling=sibling,
        unlabelled=unlabelled_of(task),
    )
