"""Train one network. Protocol version 1.

* Loss: mean cross-entropy of each mini-batch, on augmented and noised inputs where the suite asks for it.
* Mini-batches: each epoch a fresh permutation, cut into ceil(n / batch_size) parts whose sizes differ by at
  most one (fewer parts where one would be a single example). `batch_size` >= n is full-batch training.
* Learning rate: rises linearly over the first epoch (not in full-batch training), then constant; over the
  last 40 % of the epoch limit it falls to zero along a half cosine, so a run that meets the stop criterion
  early sees a constant rate.
* Stop: training cross-entropy over the whole training set, labels trained on, eval mode, no augmentation,
  batch normalisation re-estimated, is at most `stop_loss`. It is looked at after an epoch whose mean
  mini-batch loss is at most three times `stop_loss`, and after every fifth epoch.
* Status: `converged` if the criterion is met, `not_converged` at the epoch limit, `diverged` if a loss is not
  finite.
* At the end batch normalisation statistics are re-estimated over the training set.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.augmentation import augment
from gapbench.population.evaluation import Evaluation, evaluate
from gapbench.population.optimizers import make_optimizer, step
from gapbench.runs.records import CellStatus
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_base.seeds import named_seed
from gapbench_tasks import Split, Task

PROTOCOL = 1
CHECK_EVERY = 5
CHECK_FACTOR = 3.0
DECAY_FROM = 0.6


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
    """Factor on the learning rate at a fractional `epoch` (0 at the start)."""
    if warm_up and epoch < 1.0:
        return max(epoch, 1e-3)
    decay_start = DECAY_FROM * values.max_epochs
    if epoch <= decay_start:
        return 1.0
    progress = min(1.0, (epoch - decay_start) / (values.max_epochs - decay_start))
    return max(0.5 * (1.0 + math.cos(math.pi * progress)), 1e-3)


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
    train_split, test_split = (_on_device(s, device, channels_last) for s in (task.train, task.test))
    black = torch.tensor(task.black, device=device)
    order = torch.Generator().manual_seed(named_seed("order", seed))
    noise = torch.Generator(device=device).manual_seed(named_seed("input_noise", seed))
    groups = torch.Generator().manual_seed(named_seed("augmentation", seed))
    optimizer = make_optimizer(model, values)
    count = len(train_split)
    # Never a part of one example, which batch normalisation cannot train on.
    batches = max(1, min(-(-count // values.batch_size), count // 2))
    history: list[float] = []
    status: CellStatus = "not_converged"
    steps = 0
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(named_seed("dropout", seed))
        for epoch in range(values.max_epochs):
            model.train()
            permutation = torch.randperm(count, generator=order).to(device)
            losses = []
            for index, chosen in enumerate(permutation.tensor_split(batches)):
                factor = learning_rate_factor(epoch + index / batches, values, warm_up=batches > 1)
                for group in optimizer.param_groups:
                    group["lr"] = values.learning_rate * factor
                inputs = augment(train_split.inputs[chosen], values.augmentation, black, groups)
                inputs = _noisy(inputs, values.input_noise, noise)
                targets = train_split.targets[chosen]
                losses.append(step(model, optimizer, _loss(model, inputs, targets), values))
                steps += 1
            history.append(float(torch.stack(losses).mean()))
            if not math.isfinite(history[-1]):
                status = "diverged"
                break
            if history[-1] <= CHECK_FACTOR * values.stop_loss or (epoch + 1) % CHECK_EVERY == 0:
                reestimate_batch_norm(model, train_split.inputs)
                loss = evaluate(model, train_split.inputs, train_split.targets).cross_entropy
                if loss <= values.stop_loss:
                    status = "converged"
                    break
        reestimate_batch_norm(model, train_split.inputs)
    model.eval()
    on_train, on_test = (evaluate(model, split.inputs, split.targets) for split in (train_split, test_split))
    if status == "not_converged" and on_train.cross_entropy <= values.stop_loss:
        status = "converged"
    if not (math.isfinite(on_train.cross_entropy) and math.isfinite(on_test.cross_entropy)):
        status = "diverged"
    if channels_last:
        model.to(memory_format=torch.contiguous_format)
    seconds = time.perf_counter() - started
    return Trained(status, len(history), steps, seconds, on_train, on_test, history)


def _noisy(inputs: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    if not deviation:
        return inputs
    draw = torch.randn(inputs.shape, generator=generator, device=inputs.device, dtype=inputs.dtype)
    return inputs + deviation * draw


def _loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], Tensor]:
    return lambda: nn.functional.cross_entropy(model(inputs), targets)


def _on_device(split: Split, device: torch.device, channels_last: bool) -> Split:
    inputs = split.inputs.to(device)
    if channels_last:
        inputs = inputs.to(memory_format=torch.channels_last)
    return Split(inputs, split.targets.to(device))
