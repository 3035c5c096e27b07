"""Examples held out of the training set, and the epoch that they choose."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn

from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.evaluation import evaluate
from gapbench_base.errors import GapbenchError
from gapbench_tasks import Split, Task
from gapbench_tasks.selection import stratified_subset


def parted(task: Task, share: float) -> Task:
    """A task whose training set lacks a share of its examples, at least one, which are `held_out`.

    Every class keeps its share of the examples, by the labels trained on. Which examples are held out depends on
    the data alone, so that all networks of a task hold out the same.

    Returns:
        The task; itself where nothing is to be held out, or was already.

    Raises:
        GapbenchError: if some class would keep no example.
    """
    if not share or task.held_out is not None:
        return task
    count, labels = len(task.train), task.train.targets.numpy()
    kept = count - max(1, round(share * count))
    classes = len(set(labels.tolist()))
    if kept < classes:
        raise GapbenchError(
            f"validation = {share} leaves {kept} of {count} training examples, fewer than the {classes} classes."
        )
    chosen = torch.from_numpy(stratified_subset(labels, kept, "validation", task.fingerprint))
    rest = torch.ones(count, dtype=torch.bool)
    rest[chosen] = False
    held_out = task.train.part(rest.nonzero().flatten())
    return dataclasses.replace(task, train=task.train.part(chosen), held_out=held_out)


class BestEpoch:
    """The state of a network at the end of the epoch with the least cross-entropy on held-out examples."""

    def __init__(self, held_out: Split):
        self.held_out = held_out
        self.loss = math.inf
        self._state: dict[str, Tensor] = {}

    def look(self, model: nn.Module, train_split: Split) -> None:
        """Keep the network's state if it is the best so far; of equal ones the first.

        Batch normalisation is re-estimated on the examples trained on.
        """
        reestimate_batch_norm(model, train_split.inputs)
        loss = evaluate(model, self.held_out.inputs, self.held_out.targets).cross_entropy
        if loss < self.loss:
            self.loss = loss
            self._state = {name: value.clone() for name, value in model.state_dict().items()}

    def restore(self, model: nn.Module) -> None:
        """Give the network the state that was kept, if any."""
        if self._state:
            model.load_state_dict(self._state)
