"""The training hyper-parameters that a suite may vary."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gapbench_base.errors import GapbenchError, ModelError
from gapbench_base.suggestions import did_you_mean
from gapbench_models import describe
from gapbench_models.request import DEFAULT_ACTIVATION, checked_activation

OPTIMIZERS = ("sgd", "adam", "adamw", "sam")
AUGMENTATIONS = ("none", "rot4", "rotate", "flip", "crop", "flip_crop", "cutout", "mixup")
SCHEDULES = ("hold", "cosine", "constant")
ACTIVATIONS = (DEFAULT_ACTIVATION, "relu", "gelu", "tanh", "silu")
STOPS = ("loss", "budget")
CHOICES = {
    "optimizer": OPTIMIZERS,
    "augmentation": AUGMENTATIONS,
    "schedule": SCHEDULES,
    "activation": ACTIVATIONS,
    "stop": STOPS,
}


@dataclass(frozen=True)
class Hyperparameters:
    """How one network is trained; see `training.py` for the protocol.

    `weight_decay` is the coefficient of the L2 term added to the gradient of every parameter; with `adamw` the
    parameters shrink by the factor 1 - learning rate x weight_decay instead (Loshchilov and Hutter 2019).
    `dropout` is the family's own dropout rate, `input_noise` the standard deviation of Gaussian noise added to the
    preprocessed inputs, `init_scale` a factor on the initial weights of linear and convolutional layers,
    `depth` the family's own depth (None: its default). `batch_size` >= the training size is full batch.
    Training stops when the training loss is `stop_loss` or less (`stop` = "loss"), at the latest after
    `max_epochs`; or after a fixed number of `max_steps` (`stop` = "budget"), those of `max_epochs` epochs where
    none is given.

    `schedule` is the course of the learning rate (see `training.learning_rate_factor`), `activation` the
    nonlinearity of families that leave a choice, `label_smoothing` that of `torch.nn.CrossEntropyLoss`,
    `gradient_clip` the greatest norm of the loss's gradient over all parameters (0: any). With the probability
    `augmentation_strength` an example is augmented at all, for `mixup` a mini-batch; `mixup_alpha` is that of Zhang
    et al. 2018. `validation` is the share of the training examples that is held out to choose an epoch.
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
    schedule: str = "hold"
    augmentation_strength: float = 1.0
    mixup_alpha: float = 1.0
    label_smoothing: float = 0.0
    gradient_clip: float = 0.0
    activation: str = DEFAULT_ACTIVATION
    validation: float = 0.0

    @property
    def soft_targets(self) -> bool:
        """Whether mini-batches have probabilities of classes in the place of labels."""
        return self.label_smoothing > 0 or self.augmentation == "mixup"

    def without_effect(self) -> dict[str, Any]:
        """Names whose values change nothing of this training, with the one value that each is given then."""
        found: dict[str, Any] = {}
        if self.optimizer == "adamw" and not self.weight_decay:
            found["optimizer"] = "adam"
        if self.optimizer == "sam" and not self.sam_rho:
            found["optimizer"] = "sgd"
        if self.optimizer != "sam":
            found["sam_rho"] = 0.0
        if self.optimizer in ("adam", "adamw"):
            found["momentum"] = 0.0
        if self.augmentation == "none":
            found["augmentation_strength"] = 1.0
        if self.augmentation != "mixup":
            found["mixup_alpha"] = 1.0
        if self.stop == "budget" or self.validation:
            found["stop_loss"] = Hyperparameters.stop_loss
        if self.max_steps is not None:
            found["max_epochs"] = Hyperparameters.max_epochs
        if self.validation:
            found["stop"] = Hyperparameters.stop
        return found

    def normalised(self) -> Hyperparameters:
        """The same with values that have no effect at one fixed value, so that equal trainings have equal keys."""
        return dataclasses.replace(self, **self.without_effect())


NAMES = tuple(field.name for field in dataclasses.fields(Hyperparameters))
WITHOUT_EFFECT = {
    "sam_rho": ("optimizer",),
    "momentum": ("optimizer",),
    "augmentation_strength": ("augmentation",),
    "mixup_alpha": ("augmentation",),
    "stop_loss": ("stop", "validation"),
    "stop": ("validation",),
    "max_epochs": ("max_steps",),
}
"""Names that may be without effect (see `without_effect`), each with those that decide whether it is."""
DEEPEST = 1000
LARGEST = 1e300
"""Numbers beyond it, NaN among them, are no values."""
WHOLE = ("batch_size", "max_epochs", "depth", "max_steps")
_POSITIVE = (
    "learning_rate",
    "batch_size",
    "init_scale",
    "max_epochs",
    "stop_loss",
    "depth",
    "max_steps",
    "augmentation_strength",
    "mixup_alpha",
)
_BELOW_ONE = ("momentum", "dropout", "label_smoothing")
_AT_MOST = {"depth": DEEPEST, "augmentation_strength": 1, "validation": 0.5}
OF_THE_DATA = ("validation",)
"""Hyper-parameters that change which examples a network learns from."""


def hyperparameters(values: dict[str, Any], where: str, family: str | None = None) -> Hyperparameters:
    """Validate values.

    Args:
        values: from a suite's file.
        where: names the place in messages.
        family: of the networks, which the activation is checked against.

    Returns:
        The normalised hyper-parameters.

    Raises:
        GapbenchError: saying what is wrong and where.
    """
    for name, value in values.items():
        if name not in NAMES:
            hint = did_you_mean(name, NAMES)
            raise GapbenchError(f"{where}: there is no hyper-parameter {name!r}.{hint}")
        values = {**values, name: _checked(name, value, where)}
    if values.get("max_steps") is not None and values.get("stop") != "budget":
        raise GapbenchError(
            f'{where}: max_steps is the budget of stop = "budget"; give that as well, or leave it out.'
        )
    found = Hyperparameters(**values).normalised()
    return found if family is None else _of_family(found, family, where)


def _of_family(values: Hyperparameters, family: str, where: str) -> Hyperparameters:
    """The activation that a family has anyway is its default, by one name."""
    try:
        chosen = checked_activation(describe(family), values.activation)
    except ModelError as error:
        raise GapbenchError(f"{where}: {error}") from None
    own = chosen == checked_activation(describe(family), DEFAULT_ACTIVATION)
    return dataclasses.replace(values, activation=DEFAULT_ACTIVATION if own else chosen)


def _checked(name: str, value: object, where: str) -> object:
    choices = CHOICES.get(name)
    if choices:
        if value not in choices:
            hint = did_you_mean(value, choices)
            raise GapbenchError(f"{where}: {name} = {value!r} is none of {', '.join(choices)}.{hint}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
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
    if name in _BELOW_ONE and value >= 1:
        raise GapbenchError(f"{where}: {name} = {value!r} must be below 1.")
    if name in _AT_MOST and value > _AT_MOST[name]:
        raise GapbenchError(f"{where}: {name} = {value!r} must be at most {_AT_MOST[name]}.")
    return value
