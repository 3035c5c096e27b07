"""The training hyper-parameters that a suite may vary."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from gapbench_base.errors import GapbenchError, ModelError
from gapbench_base.rules import Rule, rules_of
from gapbench_base.suggestions import near_and_others
from gapbench_models import describe
from gapbench_models.request import DEFAULT_ACTIVATION, checked_activation

OPTIMIZERS = ("sgd", "adam", "adamw", "sam")
AUGMENTATIONS = ("none", "rot4", "rotate", "flip", "crop", "flip_crop", "cutout", "mixup")
SCHEDULES = ("hold", "cosine", "constant")
ACTIVATIONS = (DEFAULT_ACTIVATION, "relu", "gelu", "tanh", "silu")
STOPS = ("loss", "budget")
DEEPEST = 1000


@dataclass(frozen=True)
class Hyperparameters:
    """How one network is trained; see `training.py` for the protocol and `docs/axes.md` for more of each."""

    optimizer: Annotated[
        str,
        Rule(
            meaning="`sgd` is SGD with heavy-ball momentum, `sam` is on SGD, `adamw` decouples the weight decay",
            example=("sgd", "adam"),
            choices=OPTIMIZERS,
        ),
    ] = "sgd"
    learning_rate: Annotated[
        float, Rule(meaning="the largest one of the schedule", example=(0.02, 0.08), above=0)
    ] = 0.05
    momentum: Annotated[float, Rule(meaning="of `sgd` and `sam`", example=(0.5, 0.9), least=0, below=1)] = 0.9
    sam_rho: Annotated[
        float,
        Rule(
            meaning="how far `sam` moves before it takes the gradient",
            example=(0.05, 0.2),
            least=0,
            beside={"optimizer": "sam"},
        ),
    ] = 0.05
    batch_size: Annotated[
        int,
        Rule(
            meaning="examples of a step; the training size or more is full batch",
            example=(25, 50),
            whole=True,
            above=0,
        ),
    ] = 64
    weight_decay: Annotated[
        float,
        Rule(
            meaning="coefficient of the L2 term in the gradient; decoupled in `adamw`",
            example=(0.0, 0.001),
            least=0,
        ),
    ] = 0.0
    dropout: Annotated[
        float, Rule(meaning="the family's own dropout rate", example=(0.0, 0.2), least=0, below=1)
    ] = 0.0
    input_noise: Annotated[
        float,
        Rule(
            meaning="standard deviation of Gaussian noise on the preprocessed inputs",
            example=(0.0, 0.1),
            least=0,
        ),
    ] = 0.0
    augmentation: Annotated[
        str,
        Rule(
            meaning="what is done to each example at each step",
            example=("none", "flip"),
            choices=AUGMENTATIONS,
        ),
    ] = "none"
    init_scale: Annotated[
        float,
        Rule(
            meaning="factor on the initial weights of linear and convolutional layers",
            example=(0.5, 1.0),
            above=0,
        ),
    ] = 1.0
    depth: Annotated[
        int | None,
        Rule(
            meaning="what it counts says `gapbench info FAMILY`; not for families of fixed depth",
            example=(2, 3),
            default="the family's own",
            whole=True,
            above=0,
            most=DEEPEST,
        ),
    ] = None
    max_epochs: Annotated[
        int,
        Rule(
            meaning="epochs after which training ends at the latest", example=(50, 100), whole=True, above=0
        ),
    ] = 100
    stop_loss: Annotated[
        float,
        Rule(
            meaning='training loss (nats) at which `stop = "loss"` ends training; below what guessing has',
            example=(0.01, 0.1),
            above=0,
        ),
    ] = 0.01
    stop: Annotated[
        str,
        Rule(
            meaning="whether training ends at `stop_loss`, or after `max_steps` or `max_epochs`",
            example=("loss", "budget"),
            choices=STOPS,
        ),
    ] = "loss"
    max_steps: Annotated[
        int | None,
        Rule(
            meaning='the budget of `stop = "budget"`, in steps',
            example=(200, 400),
            default="none",
            whole=True,
            above=0,
            beside={"stop": "budget"},
        ),
    ] = None
    schedule: Annotated[
        str,
        Rule(meaning="the course of the learning rate", example=("hold", "cosine"), choices=SCHEDULES),
    ] = "hold"
    augmentation_strength: Annotated[
        float,
        Rule(
            meaning="probability with which an example is augmented at all; for `mixup` a mini-batch",
            example=(0.5, 1.0),
            above=0,
            most=1,
            beside={"augmentation": "flip"},
        ),
    ] = 1.0
    mixup_alpha: Annotated[
        float,
        Rule(
            meaning="the lambda of `mixup` is drawn from Beta(alpha, alpha)",
            example=(0.2, 1.0),
            above=0,
            beside={"augmentation": "mixup"},
        ),
    ] = 1.0
    label_smoothing: Annotated[
        float,
        Rule(meaning="as in `torch.nn.CrossEntropyLoss`", example=(0.0, 0.1), least=0, below=1),
    ] = 0.0
    gradient_clip: Annotated[
        float,
        Rule(
            meaning="greatest norm of the loss's gradient over all parameters; 0 is any",
            example=(0.0, 1.0),
            least=0,
        ),
    ] = 0.0
    activation: Annotated[
        str,
        Rule(
            meaning="the nonlinearity, of families that leave a choice; `default` is the family's own",
            example=("relu", "tanh"),
            choices=ACTIVATIONS,
        ),
    ] = DEFAULT_ACTIVATION
    validation: Annotated[
        float,
        Rule(
            meaning="share of the training examples that is held out to choose an epoch",
            example=(0.0, 0.2),
            least=0,
            most=0.5,
        ),
    ] = 0.0

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
RULES = rules_of(Hyperparameters)
"""What each may be, by name."""
CHOICES = {name: rule.choices for name, rule in RULES.items() if rule.choices}
WHOLE = tuple(name for name, rule in RULES.items() if rule.whole)
OF_THE_DATA = ("validation",)
"""Hyper-parameters that change which examples a network learns from."""


def hyperparameters(values: Mapping[str, Any], where: str, family: str | None = None) -> Hyperparameters:
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
    values = checked(values, where)
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


def checked(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Hyper-parameters each for itself, numbers in the type of their field.

    Args:
        values: from a suite's file.
        where: names the place in messages.

    Returns:
        The values.

    Raises:
        GapbenchError: naming one that there is not, or a value that it cannot have.
    """
    found = {}
    for name, value in values.items():
        if name not in RULES:
            raise GapbenchError(
                f"{where}: there is no hyper-parameter {name!r}.{near_and_others(name, NAMES)}"
            )
        complaint = RULES[name].complaint(name, value)
        if complaint:
            raise GapbenchError(f"{where}: {complaint}")
        found[name] = value if name in CHOICES else int(value) if name in WHOLE else float(value)
    return found
