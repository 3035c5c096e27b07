"""The training hyper-parameters that a suite may vary."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import did_you_mean

OPTIMIZERS = ("sgd", "adam", "sam")
AUGMENTATIONS = ("none", "rot4", "rotate")
STOPS = ("loss", "budget")
CHOICES = {"optimizer": OPTIMIZERS, "augmentation": AUGMENTATIONS, "stop": STOPS}


@dataclass(frozen=True)
class Hyperparameters:
    """How one network is trained; see `training.py` for the protocol.

    `weight_decay` is the coefficient of the L2 term added to the gradient of every parameter. `dropout` is
    the family's own dropout rate, `input_noise` the standard deviation of Gaussian noise added to the
    preprocessed inputs, `init_scale` a factor on the initial weights of linear and convolutional layers,
    `depth` the family's own depth (None: its default). `batch_size` >= the training size is full batch.
    Training stops when the training loss is `stop_loss` or less (`stop` = "loss"), at the latest after
    `max_epochs`; or after a fixed number of `max_steps` (`stop` = "budget"), those of `max_epochs` epochs where
    none is given.
    """

    optimizer: str = "sgd"
    learning_rate: float = 0.05
    momentum: float = 0.9
    sam_rho: float = 0.05
    batch_size: int = 64
    weight_decay: float = 0.0
    dropout: float = 0.0
    input_noise: float = 0.0
    augmentation: str = "none"
    init_scale: float = 1.0
    depth: int | None = None
    max_epochs: int = 100
    stop_loss: float = 0.01
    stop: str = "loss"
    max_steps: int | None = None

    def normalised(self) -> Hyperparameters:
        """The same with values that have no effect set to 0, so that equal trainings have equal keys."""
        changes: dict[str, Any] = {}
        if self.optimizer != "sam":
            changes["sam_rho"] = 0.0
        if self.optimizer == "adam":
            changes["momentum"] = 0.0
        if self.stop == "budget":
            changes["stop_loss"] = 0.0
        if self.max_steps is not None:
            changes["max_epochs"] = 0
        return dataclasses.replace(self, **changes)


NAMES = tuple(field.name for field in dataclasses.fields(Hyperparameters))
WHOLE = ("batch_size", "max_epochs", "depth", "max_steps")
_POSITIVE = ("learning_rate", "batch_size", "init_scale", "max_epochs", "stop_loss", "depth", "max_steps")
_FRACTIONS = ("momentum", "dropout")


def hyperparameters(values: dict[str, Any], where: str) -> Hyperparameters:
    """Validate `values` (from a suite file; `where` names the place). Raises `GapbenchError`."""
    for name, value in values.items():
        if name not in NAMES:
            hint = did_you_mean(name, NAMES)
            raise GapbenchError(f"{where}: there is no hyper-parameter {name!r}.{hint}")
        values = {**values, name: _checked(name, value, where)}
    if values.get("max_steps") is not None and values.get("stop") != "budget":
        raise GapbenchError(
            f'{where}: max_steps is the budget of stop = "budget"; give that as well, or leave it out.'
        )
    return Hyperparameters(**values).normalised()


def _checked(name: str, value: object, where: str) -> object:
    choices = CHOICES.get(name)
    if choices:
        if value not in choices:
            raise GapbenchError(f"{where}: {name} = {value!r} is none of {', '.join(choices)}.")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise GapbenchError(f"{where}: {name} = {value!r} is not a finite number.")
    if name in WHOLE:
        if value != int(value):
            raise GapbenchError(f"{where}: {name} = {value!r} must be a whole number.")
        value = int(value)
    else:
        value = float(value)
    if value < 0 or (name in _POSITIVE and value == 0):
        kind = "positive" if name in _POSITIVE else "at least 0"
        raise GapbenchError(f"{where}: {name} = {value!r} must be {kind}.")
    if name in _FRACTIONS and value >= 1:
        raise GapbenchError(f"{where}: {name} = {value!r} must be below 1.")
    return value
