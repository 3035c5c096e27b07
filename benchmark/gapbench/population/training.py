"""Train one network. Protocol version 1.

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
* Stop: training cross-entropy over the whole training set, labels trained on, eval mode, no augmentation, no
  smoothing, batch normalisation re-estimated, is at most `stop_loss`. It is looked at after an epoch whose mean
  mini-batch loss is at most three times `stop_loss`, and after every fifth epoch.
* Status: `converged` if the criterion is met, `not_converged` at the epoch limit, `diverged` if a loss is not
  finite.
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
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.augmentation import augment, mixup
from gapbench.population.evaluation import Evaluation, evaluate
from gapbench.population.holdout import BestEpoch, parted
from gapbench.population.optimizers import make_optimizer, step
from gapbench.runs.records import CellStatus
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_base.seeds import named_generator, named_seed
from gapbench_tasks import Split, Task

PROTOCOL = 1
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


def learning_rate_factor(epoch: float, values: Hyperparameters, warm_up: bool) -> float:
    """Factor on the learning rate at a fractional `epoch` (0 at the start), never less than a thousandth."""
    if warm_up and epoch < 1.0:
        return max(epoch, LEAST_RATE)
    if values.schedule == "constant":
        return 1.0
    # A half cosine from here to the epoch limit.
    start = float(warm_up) if values.schedule == "cosine" else DECAY_FROM * values.max_epochs
    if epoch <= start:
        return 1.0
    progress = min(1.0, (epoch - start) / (values.max_epochs - start)) if start < values.max_epochs else 1.0
    return max(0.5 * (1.0 + math.cos(math.pi * progress)), LEAST_RATE)


class Course:
    """The course of one network's training: which examples, at what rate, and when it ends.

    It holds everything of the protocol but the steps themselves, which `train` takes one network at a time and a
    stack (`gapbench.population.stacking`) for several networks at once.

    Attributes:
        count: training examples; `batches` how many mini-batches an epoch has.
        history: mean mini-batch loss of each epoch so far; `steps` and `status` so far.
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
    ):
        """`data` are the training and the test split, and that held out, if any, on the device, as of `placed`.

        `num_classes` is the number of logits, which soft targets need; None: as the labels have it.
        """
        self.train_split, self.test_split = data[:2]
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
        self.history: list[float] = []
        self.status: CellStatus = "not_converged"
        self.steps = 0
        self.seconds = 0.0

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

    def rate(self, index: int) -> float:
        """The learning rate in mini-batch `index` of the epoch."""
        epoch = len(self.history) + index / self.batches
        return self.values.learning_rate * learning_rate_factor(epoch, self.values, warm_up=self.batches > 1)

    def due(self, mean_loss: float) -> bool:
        """Whether the criterion is looked at after the present epoch, of mean mini-batch loss `mean_loss`."""
        near = mean_loss <= CHECK_FACTOR * self.values.stop_loss
        return near or (len(self.history) + 1) % CHECK_EVERY == 0

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
        self.steps += self.batches
        self.history.append(mean)
        if not math.isfinite(mean):
            self.status = "diverged"
            return True
        if self._best is not None:
            self._best.look(network(), self.train_split)
            return len(self.history) >= self.values.max_epochs
        if due and not (estimate is not None and estimate > CLEARLY_ABOVE * self.values.stop_loss):
            model, split = network(), self.train_split
            reestimate_batch_norm(model, split.inputs)
            if evaluate(model, split.inputs, split.targets).cross_entropy <= self.values.stop_loss:
                self.status = "converged"
                return True
        return len(self.history) >= self.values.max_epochs

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
        if status == "not_converged" and on_train.cross_entropy <= self.values.stop_loss:
            status = "converged"
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
    data, black = placed(parted(task, values.validation), device)
    course = Course(data, black, values, seed, device, task.num_classes)
    optimizer = make_optimizer(model, values)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(named_seed("dropout", seed))
        ended = False
        while not ended:
            model.train()
            losses = []
            for index, chosen in enumerate(course.permutation().tensor_split(course.batches)):
                for group in optimizer.param_groups:
                    group["lr"] = course.rate(index)
                inputs, targets = course.batch(chosen)
                losses.append(step(model, optimizer, mean_loss(model, inputs, targets), values))
            ended = course.end_epoch(torch.stack(losses), lambda: model)
    trained = course.finish(model)
    if channels_last:
        model.to(memory_format=torch.contiguous_format)
    return replace(trained, seconds=time.perf_counter() - started)


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


def mean_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], Tensor]:
    """What computes a mini-batch's loss at the network's present parameters; targets as of `Course.targets`."""
    return lambda: nn.functional.cross_entropy(model(inputs), targets)


def _on_device(split: Split, device: torch.device, channels_last: bool) -> Split:
    def change(images: Tensor) -> Tensor:
        images = images.to(device)
        return images.to(memory_format=torch.channels_last) if channels_last else images

    return split.moved(change, device)
