"""The course of one network's training: which examples, at what rate, and when it ends.

The protocol is that of `gapbench.population.training`, whose loop takes the steps of one network;
`gapbench.population.stacking` takes those of several at once.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.augmentation import augment, mixup
from gapbench.population.evaluation import Evaluation, evaluate
from gapbench.population.holdout import BestEpoch
from gapbench.population.moments import Moment, OptimizerState, random_states
from gapbench.population.recording import Recorded, Recorder
from gapbench.runs.records import CellStatus
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench.suites.records import NONE
from gapbench_base.seeds import named_generator, named_seed
from gapbench_tasks import Split, Task

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
    last step. `gap` = test error - train error, `loss_gap` the same in cross-entropy. `recorded` is what a suite
    asks for beside (None: nothing).
    """

    status: CellStatus
    epochs: int
    steps: int
    seconds: float
    train: Evaluation
    test: Evaluation
    history: list[float] = field(default_factory=list)
    recorded: Recorded | None = None

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
    """Factor on the learning rate at an `epoch` of `limit` (default `max_epochs`), at least a thousandth."""
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
        data: tuple[Split, ...],
        black: Tensor,
        values: Hyperparameters,
        seed: int,
        device: torch.device,
        num_classes: int | None = None,
        record: str = NONE,
    ):
        """`data` are the training and the test split, and that held out, if any, on the device, as of `placed`.

        `num_classes` is the number of logits, which soft targets need; None: as the labels have it. `record` says
        what is recorded on the way (`gapbench.suites.records`).
        """
        self.train_split, self.test_split = data[:2]
        self._recorder = None if record == NONE else Recorder(record, self.train_split)
        self._best = BestEpoch(data[2]) if values.validation else None
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
                inputs,
                values.augmentation,
                self.black,
                self._groups,
                values.augmentation_strength,
                self._upright(chosen),
            )
        return _noisy(inputs, values.input_noise, self._noise), targets

    def _upright(self, chosen: Tensor) -> tuple[Tensor, Tensor] | None:
        """What examples were before the task turned them, and by how much, where they are turned again."""
        upright = self.train_split.upright
        if upright is None or self.values.augmentation != "rotate":
            return None
        return upright.images[chosen], upright.degrees[chosen]

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
        if self._recorder is not None and self._recorder.due(len(self.history)):
            self._recorder.look(network(), len(self.history))
        if self._best is not None:
            self._best.look(network(), self.train_split)
            return self.steps >= self.last
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

    def finish(self, model: nn.Module) -> Trained:
        """Re-estimate batch normalisation, evaluate, and leave the network in eval mode.

        Returns:
            How it ended.
        """
        if self._best is not None and self.status != "diverged":
            self._best.restore(model)
            self.status = "converged"
        reestimate_batch_norm(model, self.train_split.inputs)
        model.eval()
        on_train, on_test = (
            evaluate(model, split.inputs, split.targets) for split in (self.train_split, self.test_split)
        )
        status = self.status
        if not (math.isfinite(on_train.cross_entropy) and math.isfinite(on_test.cross_entropy)):
            status = "diverged"
        recorded = None
        if self._recorder is not None:
            recorded = self._recorder.end(model, self.steps / self.batches, on_train)
        return Trained(
            status, len(self.history), self.steps, self.seconds, on_train, on_test, self.history, recorded
        )


def placed(task: Task, device: torch.device) -> tuple[tuple[Split, ...], Tensor]:
    """A task's training and test split, and that held out, if any; and what a black pixel is; on a device."""
    channels_last = device.type == "cuda"
    splits = [task.train, task.test, *([] if task.held_out is None else [task.held_out])]
    data = tuple(_on_device(split, device, channels_last) for split in splits)
    return data, torch.tensor(task.black, device=device)


def _noisy(inputs: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    if not deviation:
        return inputs
    draw = torch.randn(inputs.shape, generator=generator, device=inputs.device, dtype=inputs.dtype)
    return inputs + deviation * draw


def _on_device(split: Split, device: torch.device, channels_last: bool) -> Split:
    def change(images: Tensor) -> Tensor:
        images = images.to(device)
        return images.to(memory_format=torch.channels_last) if channels_last else images

    return split.moved(change, device)
