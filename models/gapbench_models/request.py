"""What a network is asked to be: checked values, before any library is imported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from gapbench_base.errors import ModelError
from gapbench_base.suggestions import did_you_mean
from gapbench_models.family import ModelFamily
from gapbench_models.registry import describe

DEFAULT_ACTIVATION = "default"
"""What a family has where nothing is asked for."""


@dataclass(frozen=True)
class BuildRequest:
    """The checked arguments that a family's builder receives.

    `depth` is None where the architecture's own depth is wanted. `activation` is one of the family's choices, the
    first of them by default; `default` where the family leaves no choice.
    """

    name: str
    width: float
    input_shape: tuple[int, int, int]
    num_classes: int
    depth: int | None
    dropout: float
    activation: str = "default"

    @property
    def channels(self) -> int:
        """Number of input channels."""
        return self.input_shape[0]

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of one input in pixels."""
        return self.input_shape[1], self.input_shape[2]


def checked_request(
    name: str,
    width: float,
    input_shape: Sequence[int],
    num_classes: int,
    depth: int | None,
    dropout: float,
    activation: str = "default",
) -> BuildRequest:
    """Check every argument against what the family can take. `ModelError` names the argument that it cannot."""
    family = describe(name)
    if not _is_real(width) or not width > 0:
        raise ModelError(
            f"{name}: width must be a positive finite number, got {width!r}; width 1 is the base size"
        )
    return BuildRequest(
        name=name,
        width=float(width),
        input_shape=_checked_shape(family, input_shape),
        num_classes=_checked_classes(family, num_classes),
        depth=_checked_depth(family, depth),
        dropout=_checked_dropout(family, dropout),
        activation=checked_activation(family, activation),
    )


def checked_seed(seed: int) -> int:
    """A seed that torch's generator takes: an integer from 0 to 2^64 - 1."""
    if not _is_integer(seed) or not 0 <= int(seed) < 2**64:
        raise ModelError(f"seed must be an integer from 0 to 2^64 - 1, got {seed!r}")
    return int(seed)


def checked_scale(init_scale: float) -> float:
    """A positive, finite factor on the initial weights."""
    if not _is_real(init_scale) or not init_scale > 0:
        raise ModelError(
            f"init_scale must be a positive finite number, got {init_scale!r}; 1 keeps the initial weights"
        )
    return float(init_scale)


def _checked_shape(family: ModelFamily, shape: Sequence[int]) -> tuple[int, int, int]:
    if isinstance(shape, str) or not isinstance(shape, Sequence) or len(shape) != 3:
        raise ModelError(f"{family.name}: input_shape must be (channels, height, width), got {shape!r}")
    if not all(_is_integer(side) and side >= 1 for side in shape):
        raise ModelError(
            f"{family.name}: input_shape must hold three positive integers, got {tuple(shape)!r}"
        )
    channels, height, width = (int(side) for side in shape)
    smallest = family.smallest_size
    if min(height, width) < smallest:
        raise ModelError(
            f"{family.name}: input_shape {(channels, height, width)} is too small, height and width must "
            f"each be at least {smallest}; enlarge the images or choose a plain/ family"
        )
    return channels, height, width


def _checked_classes(family: ModelFamily, num_classes: int) -> int:
    if not _is_integer(num_classes) or num_classes < 2:
        raise ModelError(
            f"{family.name}: num_classes must be an integer of at least 2 (two classes have two logits), "
            f"got {num_classes!r}"
        )
    return int(num_classes)


def _checked_depth(family: ModelFamily, depth: int | None) -> int | None:
    if depth is None:
        return None
    if not family.supports_depth:
        raise ModelError(
            f"{family.name}: the depth of this family is fixed, leave depth out (None), got {depth!r}"
        )
    if not _is_integer(depth) or depth < 1:
        raise ModelError(
            f"{family.name}: depth ({family.depth}) must be an integer of at least 1, got {depth!r}"
        )
    return int(depth)


def _checked_dropout(family: ModelFamily, dropout: float) -> float:
    if not _is_real(dropout) or not 0 <= dropout < 1:
        raise ModelError(f"{family.name}: dropout must be a probability in [0, 1), got {dropout!r}")
    if dropout > 0 and not family.supports_dropout:
        raise ModelError(f"{family.name}: this family has no dropout, set dropout to 0, got {dropout!r}")
    return float(dropout)


def checked_activation(family: ModelFamily, activation: str) -> str:
    """The activation that a family is built with.

    Returns:
        One of its choices; `default` where it has none.

    Raises:
        ModelError: saying what it can take.
    """
    choices = family.activation_choices
    if activation == DEFAULT_ACTIVATION:
        return choices[0] if choices else DEFAULT_ACTIVATION
    if not choices:
        own = ", ".join(family.activations) or "none"
        raise ModelError(
            f"{family.name}: the activations of this family are fixed ({own}), leave activation out or set it to "
            f"{DEFAULT_ACTIVATION!r}, got {activation!r}"
        )
    if activation not in choices:
        hint = did_you_mean(activation, choices)
        raise ModelError(
            f"{family.name}: activation must be {DEFAULT_ACTIVATION} or one of {', '.join(choices)}, got "
            f"{activation!r}.{hint}"
        )
    return activation


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
