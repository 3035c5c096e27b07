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
* At the end batch normalisation statistics are re-estimated over the training set.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.augmentation import augment, mixup
from gapbench.population.evaluation import Evaluation, evaluate
from gapbench.population.last_interval import Walk, end_at_criterion
from gapbench.population.moments import (
    Moment,
    OptimizerState,
    give_random_states,
    give_state,
    give_values,
    optimizer_state,
    random_states,
    values_of,
)
from gapbench.population.optimizers import make_optimizer, step
from gapbench.runs.records import CellStatus
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_base.seeds import named_generator, named_seed
from gapbench_tasks import Split, Task

PROTOCOL = 2
CHECK_EVERY = 5
CHECK_FACTOR = 3.0
DECAY_FROM = 0.6
LEAST_RATE = 1e-3
"""Of the learning rate: what a schedule never falls below."""
CLEARLY_ABOVE = 1.01
"""Times `stop_loss`: an estimate beyond it leaves no doubt that the criterion is not met."""


@dataclass(frozen=True)
class Trained:
    """What training one network gave; the network itself was changed in place.

    `history` is the mean mini-batch loss of each epoch (nats). `train` and `test` are evaluations after the
    last step. `gap` = test error - train error, `loss_gap` the same in cross-entropy.
    """

    status: CellStatus
    epochs: int
    steps: int
    seconds: float
    train: Evaluation
    test: Evaluation
    history: list[float] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Test error - train error (fractions)."""
        return self.test.error - self.train.error

    @property
    def loss_gap(self) -> float:
        """The same in cross-entropy (nats)."""
        return self.test.cross_entropy - self.train.cross_entropy


def learning_rate_factor(
    epoch: float, values: Hyperparameters, warm_up: bool, limit: float | None = None
) -> float:
    """Factor on the learning rate at a fractional `epoch` of `limit` (default `max_epochs`), at least a thousandth."""
    limit = values.max_epochs if limit is None else limit
    if warm_up and epoch < 1.0:
        return max(epoch, LEAST_RATE)
    if values.schedule == "constant":
        return 1.0
    # A half cosine from here to the limit.
    start = float(warm_up) if values.schedule == "cosine" else DECAY_FROM * limit
    if epoch <= start:
        return 1.0
    progress = min(1.0, (epoch - start) / (limit - start)) if start < limit else 1.0
    return max(0.5 * (1.0 + math.cos(math.pi * progress)), LEAST_RATE)


class Course:
    """The course of one network's training: which examples, at what rate, and when it ends.

    It holds everything of the protocol but the steps themselves, which `train` takes one network at a time and a
    stack (`gapbench.population.stacking`) for several networks at once.

    Attributes:
        count: training examples; `batches` how many mini-batches an epoch has, `last` the step that is the limit.
        history: mean mini-batch loss of each epoch so far; `steps` and `status` so far.
        looked_at: the training loss of the criterion where the epoch that ended last was one after which it is
            looked at (infinite where it is only known to be above), else None.
        seconds: what training took, where it is shared with others (see `finish`).
    """

    def __init__(
        self,
        data: tuple[Split, Split],
        black: Tensor,
        values: Hyperparameters,
        seed: int,
        device: torch.device,
        num_classes: int | None = None,
    ):
        """`data` are the training and the test split on the device, as `placed` gives them.

        `num_classes` is the number of logits, which soft targets need; None: as the labels have it.
        """
        self.train_split, self.test_split = data
        self.black, self.values, self.device = black, values, device
        self._order = torch.Generator().manual_seed(named_seed("order", seed))
        self._noise = torch.Generator(device=device).manual_seed(named_seed("input_noise", seed))
        self._groups = torch.Generator().manual_seed(named_seed("augmentation", seed))
        self._mixing = named_generator("mixup", seed)
        self._classes = num_classes or 1 + max(int(split.targets.max()) for split in data)
        self.count = len(self.train_split)
        # Never a part of one example, which batch normalisation cannot train on.
        self.batches = max(1, min(-(-self.count // values.batch_size), self.count // 2))
        self.last = values.max_steps or values.max_epochs * self.batches
        self.history: list[float] = []
        self.status: CellStatus = "not_converged"
        self.steps = 0
        self.looked_at: float | None = None
        self.seconds = 0.0

    def random_states(self) -> tuple[Any, ...]:
        """Copies of the states of all that is random in the course itself."""
        states = [generator.get_state() for generator in (self._order, self._noise, self._groups)]
        return (*states, copy.deepcopy(self._mixing.bit_generator.state))

    def at(self, moment: Moment) -> Course:
        """A course of the same training that goes on from a moment of this one."""
        course = copy.copy(self)
        course._order, course._noise, course._groups = (
            g.clone_state() for g in (self._order, self._noise, self._groups)
        )
        for generator, state in zip((course._order, course._noise, course._groups), moment.random):
            generator.set_state(state)
        course._mixing = copy.deepcopy(self._mixing)
        course._mixing.bit_generator.state = moment.random[-1]
        course.steps, course.history = moment.steps, self.history[: moment.steps // self.batches]
        return course

    @property
    def met(self) -> bool:
        """Whether training has ended because its criterion is met."""
        return self.looked_at is not None and self.looked_at <= self.values.stop_loss

    @property
    def given_as_stored(self) -> bool:
        """Whether the inputs of mini-batches are those of examples as they are, neither augmented nor noised."""
        return self.values.augmentation == "none" and not self.values.input_noise

    def permutation(self) -> Tensor:
        """The order (n,) of the examples in the epoch that begins, on the device."""
        return torch.randperm(self.count, generator=self._order).to(self.device)

    def batch(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The mini-batch of the examples `chosen` (b,).

        Returns:
            Inputs (b, c, h, w), and targets as `targets` gives them.
        """
        values, targets = self.values, self.targets(self.train_split.targets[chosen])
        inputs = self.train_split.inputs[chosen]
        if values.augmentation == "mixup":
            inputs, targets = mixup(
                inputs, targets, self._mixing, values.mixup_alpha, values.augmentation_strength
            )
        else:
            inputs = augment(
                inputs, values.augmentation, self.black, self._groups, values.augmentation_strength
            )
        return _noisy(inputs, values.input_noise, self._noise), targets

    def targets(self, labels: Tensor) -> Tensor:
        """What the loss of examples with these labels (b,) compares with.

        Returns:
            The labels or, where targets are soft, probabilities (b, classes), smoothed as torch does: 1 - smoothing
            for the label, and smoothing / classes for every class.
        """
        if not self.values.soft_targets:
            return labels
        share = self.values.label_smoothing
        hard = nn.functional.one_hot(labels, self._classes).to(self.train_split.inputs.dtype)
        return (1.0 - share) * hard + share / self._classes

    def epoch(self) -> Iterator[tuple[int, Tensor]]:
        """The mini-batches of the epoch that begins, as far as the budget goes.

        Yields:
            The index of a mini-batch, and its examples (b,).
        """
        parts = self.permutation().tensor_split(self.batches)
        yield from enumerate(parts[: self.last - self.steps])

    def rate(self, index: int) -> float:
        """The learning rate in mini-batch `index` of the epoch that follows those in `history`."""
        epoch = len(self.history) + index / self.batches
        limit = self.last / self.batches
        factor = learning_rate_factor(epoch, self.values, self.batches > 1, limit)
        return self.values.learning_rate * factor

    def due(self, mean_loss: float) -> bool:
        """Whether the criterion is looked at after the present epoch, of mean mini-batch loss `mean_loss`."""
        if self.values.stop == "budget":
            return False
        near = mean_loss <= CHECK_FACTOR * self.values.stop_loss
        epochs = len(self.history) + 1
        return near or epochs % CHECK_EVERY == 0 or epochs >= self.values.max_epochs

    def end_epoch(
        self, losses: Tensor, network: Callable[[], nn.Module], estimate: float | None = None
    ) -> bool:
        """Take note of an epoch's mini-batch losses (batches,), and look whether training ends.

        `network` gives the network as it is now; it is asked for where the criterion is looked at, unless its loss
        is known well enough: an `estimate` right to a hundredth spares evaluating what is clearly above.

        Returns:
            Whether it ends.
        """
        mean = float(losses.mean())
        due = self.due(mean)
        self.steps += len(losses)
        self.history.append(mean)
        self.looked_at = None
        if not math.isfinite(mean):
            self.status = "diverged"
            return True
        if due:
            clear = estimate is not None and estimate > CLEARLY_ABOVE * self.values.stop_loss
            self.looked_at = math.inf if clear else self.criterion(network())
            if self.looked_at <= self.values.stop_loss:
                self.status = "converged"
                return True
        if self.steps < self.last:
            return False
        if self.values.stop == "budget":
            self.status = "converged"
        return True

    def criterion(self, model: nn.Module) -> float:
        """The training loss (nats) by which training stops; statistics of batch normalisation are re-estimated."""
        split = self.train_split
        reestimate_batch_norm(model, split.inputs)
        return evaluate(model, split.inputs, split.targets).cross_entropy

    def moment(self, values: dict[str, Tensor], optimizer: OptimizerState) -> Moment:
        """Where training stands after an epoch, of a network with these parameters and buffers."""
        random = self.random_states()
        return Moment(values, optimizer, self.steps, random, random_states(self.device), loss=self.looked_at)

    def shorten(self, model: nn.Module, before: Moment) -> None:
        """Training has met the criterion: take the steps since `before` again, only as far as it needs.

        The mean loss of the last epoch stays that of the whole.
        """
        assert self.looked_at is not None
        reached = self.moment(values_of(model), {})
        random = random_states(self.device)
        stop_loss, walk = self.values.stop_loss, _walk(self, model)
        if before.loss == math.inf:  # a stack had estimated it; the search must not depend on that
            before = walk(before, before.steps)
        self.steps = end_at_criterion(model, before, reached, stop_loss, walk)
        give_random_states(random, self.device)
        del self.history[-(-self.steps // self.batches) :]

    def finish(self, model: nn.Module) -> Trained:
        """Re-estimate batch normalisation, evaluate, and leave the network in eval mode.

        Returns:
            How it ended.
        """
        reestimate_batch_norm(model, self.train_split.inputs)
        model.eval()
        on_train, on_test = (
            evaluate(model, split.inputs, split.targets) for split in (self.train_split, self.test_split)
        )
        status = self.status
        if not (math.isfinite(on_train.cross_entropy) and math.isfinite(on_test.cross_entropy)):
            status = "diverged"
        return Trained(status, len(self.history), self.steps, self.seconds, on_train, on_test, self.history)


def train(
    model: nn.Module,
    task: Task,
    values: Hyperparameters,
    seed: int,
    device: torch.device | str = "cpu",
) -> Trained:
    """Train `model` in place on `task`; see the module's text for the protocol.

    `seed` fixes the order of examples, augmentation, noise and dropout. The network is left
    on `device`, in eval mode.

    Returns:
        How it ended, with both evaluations and the loss after each epoch.
    """
    started = time.perf_counter()
    device = torch.device(device)
    model.to(device)
    # On a CPU the channels_last kernels of some versions corrupt memory where there are few channels.
    channels_last = device.type == "cuda"
    if channels_last:
        model.to(memory_format=torch.channels_last)
    data, black = placed(task, device)
    course = Course(data, black, values, seed, device, task.num_classes)
    optimizer = make_optimizer(model, values)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(named_seed("dropout", seed))
        before = course.moment(values_of(model), {})
        while not _epoch(course, model, optimizer):
            if course.looked_at is not None:
                before = course.moment(values_of(model), optimizer_state(model, optimizer))
        if course.met:
            course.shorten(model, before)
    trained = course.finish(model)
    if channels_last:
        model.to(memory_format=torch.contiguous_format)
    return replace(trained, seconds=time.perf_counter() - started)


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


def placed(task: Task, device: torch.device) -> tuple[tuple[Split, Split], Tensor]:
    """A task's training and test split, and what a black pixel is, on a device."""
    channels_last = device.type == "cuda"
    data = _on_device(task.train, device, channels_last), _on_device(task.test, device, channels_last)
    return data, torch.tensor(task.black, device=device)


def _noisy(inputs: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    if not deviation:
        return inputs
    draw = torch.randn(inputs.shape, generator=generator, device=inputs.device, dtype=inputs.dtype)
    return inputs + deviation * draw


def mean_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], Tensor]:
    """What computes a mini-batch's loss at the network's present parameters; targets as of `Course.targets`."""
    return lambda: nn.functional.cross_entropy(model(inputs), targets)


def _on_device(split: Split, device: torch.device, channels_last: bool) -> Split:
    inputs = split.inputs.to(device)
    if channels_last:
        inputs = inputs.to(memory_format=torch.channels_last)
    return Split(inputs, split.targets.to(device))
