"""Train one network. Protocol version 2.

* Loss: mean cross-entropy of each mini-batch, on augmented and noised inputs, smoothed or mixed labels, where the
  suite asks for it.
* Mini-batches: each epoch a fresh permutation, cut into ceil(n / batch_size) parts whose sizes differ by at
  most one (fewer parts where one would be a single example). `batch_size` >= n is full-batch training.
* Learning rate: rises linearly over the first epoch (not in full-batch training), then follows the `schedule`.
  `hold`: constant; over the last 40 % of the epoch limit it falls to zero along a half cosine, so a run that meets
  the stop criterion early sees a constant rate. `cosine`: falls along a half cosine from the end of the first epoch
  on. `constant`: stays.
* Gradients are clipped, where asked for, as `torch.nn.utils.clip_grad_norm_` does: the loss's gradient, before
  weight decay.
* Stop, `stop = "loss"`: training cross-entropy over the whole training set, labels trained on, eval mode,
  no augmentation, no smoothing, batch normalisation re-estimated, is at most `stop_loss`. It is looked at
  after an epoch whose mean mini-batch loss is at most three times `stop_loss`, every fifth, and the last.
  Where it is met, the steps since it was last looked at are searched for a place where it just is, and the
  last step is taken in part if need be: the loss ends within 5 % of `stop_loss` (see
  `gapbench.population.last_interval`).
* Stop, `stop = "budget"`: after `max_steps` steps, or `max_epochs` epochs where they are not given. The schedule
  then ends there.
* Status: `converged` if the criterion is met or the budget spent, `not_converged` at the epoch limit,
  `diverged` if a loss is not finite.
* With `validation` a share of the training examples is held out (`gapbench.population.holdout`). Training knows the
  others alone, runs to the epoch limit, and keeps the network as it was after the epoch with the least
  cross-entropy on the examples held out, batch normalisation re-estimated. It is then `converged`, unless a loss
  was not finite. All that is said of the training set, before and after, is of the examples trained on.
* At the end batch normalisation statistics are re-estimated over the training set.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from gapbench.computation.memory_format import channels_last_pays
from gapbench.population.course import Course, Trained, placed
from gapbench.population.holdout import parted
from gapbench.population.last_interval import Walk, end_at_criterion
from gapbench.population.moments import (
    Moment,
    give_random_states,
    give_state,
    give_values,
    optimizer_state,
    random_states,
    values_of,
)
from gapbench.population.optimizers import make_optimizer, step
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench.suites.records import NONE
from gapbench_base.seeds import named_seed
from gapbench_tasks import Task


def train(
    model: nn.Module,
    task: Task,
    values: Hyperparameters,
    seed: int,
    device: torch.device | str = "cpu",
    record: str = NONE,
    channels_last: bool | None = None,
) -> Trained:
    """Train `model` in place on `task`; see the module's text for the protocol.

    `seed` fixes the order of examples, augmentation, noise and dropout. The network is left
    on `device`, in eval mode. What `record` asks for (`gapbench.suites.records`) changes nothing of it.
    `channels_last` is as `channels_last_pays` says if None; it decides last bits.

    Returns:
        How it ended, with both evaluations and the loss after each epoch.
    """
    started = time.perf_counter()
    device = torch.device(device)
    model.to(device)
    data, black = placed(parted(task, values.validation), device)
    if channels_last is None:
        channels_last = channels_last_pays(model, data[0].inputs, values.batch_size)
    if channels_last:
        model.to(memory_format=torch.channels_last)
    course = Course(data, black, values, seed, device, task.num_classes, record)
    optimizer = make_optimizer(model, values)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(named_seed("dropout", seed))
        before = course.moment(values_of(model), {})
        while not _epoch(course, model, optimizer):
            if course.looked_at is not None:
                before = course.moment(values_of(model), optimizer_state(model, optimizer))
        if course.met:
            shorten(course, model, before)
    trained = course.finish(model)
    if channels_last:
        model.to(memory_format=torch.contiguous_format)
    return replace(trained, seconds=time.perf_counter() - started)


def shorten(course: Course, model: nn.Module, before: Moment) -> None:
    """Training has met the criterion: take the steps since `before` again, only as far as it needs.

    The mean loss of the last epoch stays that of the whole.
    """
    assert course.looked_at is not None
    reached = course.moment(values_of(model), {})
    random, walk = random_states(course.device), _walk(course, model)
    if before.loss == math.inf:  # a stack had estimated it; the search must not depend on that
        before = walk(before, before.steps)
    course.steps = end_at_criterion(model, before, reached, course.values.stop_loss, walk)
    give_random_states(random, course.device)
    del course.history[-(-course.steps // course.batches) :]


def _epoch(course: Course, model: nn.Module, optimizer: torch.optim.Optimizer) -> bool:
    """Train for an epoch; whether training ends with it."""
    model.train()
    losses = [_step(course, model, optimizer, index, chosen) for index, chosen in course.epoch()]
    return course.end_epoch(torch.stack(losses), lambda: model)


def _step(
    course: Course, model: nn.Module, optimizer: torch.optim.Optimizer, index: int, chosen: Tensor
) -> Tensor:
    for group in optimizer.param_groups:
        group["lr"] = course.rate(index)
    inputs, targets = course.batch(chosen)
    return step(model, optimizer, mean_loss(model, inputs, targets), course.values)


def _walk(course: Course, model: nn.Module) -> Walk:
    """What takes the course's network on from a moment, as it was trained, and looks at the criterion."""

    def walk(moment: Moment, steps: int) -> Moment:
        again = course.at(moment)
        give_random_states(moment.dropout, course.device)
        give_values(model, moment.values)
        optimizer = make_optimizer(model, course.values)
        give_state(model, optimizer, moment.optimizer)
        model.train()
        order = moment.order
        for taken in range(moment.steps, steps):
            epoch, index = divmod(taken, course.batches)
            again.history = course.history[:epoch]
            order = again.permutation() if index == 0 or order is None else order
            _step(again, model, optimizer, index, order.tensor_split(course.batches)[index])
        again.steps = steps
        found = again.moment(values_of(model), optimizer_state(model, optimizer))
        return replace(found, order=order, loss=again.criterion(model))

    return walk


def mean_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], Tensor]:
    """What computes a mini-batch's loss at the network's present parameters; targets as of `Course.targets`."""
    return lambda: nn.functional.cross_entropy(model(inputs), targets)
