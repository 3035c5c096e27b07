"""What learns: width-scalable timm, torchvision and plain families for small images.

Importing this package, listing and describing families needs no torch; building a network does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench_models.family import ModelFamily
from gapbench_models.registry import broken_plugins, describe, list_models

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "ModelFamily",
    "activation_count",
    "broken_plugins",
    "build_model",
    "describe",
    "list_models",
    "parameter_count",
    "work_count",
]


def build_model(
    name: str,
    width: float = 1.0,
    input_shape: tuple[int, int, int] = (3, 32, 32),
    num_classes: int = 10,
    seed: int = 0,
    depth: int | None = None,
    dropout: float = 0.0,
    init_scale: float = 1.0,
    activation: str = "default",
) -> nn.Module:
    """Build one network: float32, on the CPU, in training mode, freshly initialised from `seed` alone.

    Args:
        name: a family of `list_models()`, for example `timm/resnet18`.
        width: multiplier of the family's channel counts (or hidden units), any positive number. The parameter
            count never falls with it and is strictly larger at each doubling from 1/8 to 8; `plain/linear`
            has no width and ignores it.
        input_shape: (channels, height, width) of one input, without the batch dimension.
        num_classes: number of logits, at least 2.
        seed: the only source of randomness; the global random state is neither read nor changed.
        depth: what it counts is said by `describe(name).depth`; None is the architecture's own depth.
        dropout: probability in [0, 1); where it acts is said by `describe(name).dropout`. Stochastic depth is
            always off.
        init_scale: factor on all weights of linear and convolutional layers at initialisation.
        activation: one of `describe(name).activation_choices`, where the family leaves a choice; `default` is the
            first of them, or what the family has. The initial weights do not depend on it.

    Returns:
        A module that maps (n, *input_shape) to logits (n, num_classes). It is twice differentiable by double
        backward, in eval and in train mode, uses no fused attention and no in-place operations. `ValueError` is
        raised for an unknown name, or a value the family cannot take; the message says what to change.
    """
    from gapbench_models.construction import build

    return build(name, width, input_shape, num_classes, seed, depth, dropout, init_scale, activation)


def parameter_count(
    name: str,
    width: float = 1.0,
    input_shape: tuple[int, int, int] = (3, 32, 32),
    num_classes: int = 10,
    depth: int | None = None,
) -> int:
    """Number of trainable parameters of `build_model(...)`, counted without allocating them.

    Returns:
        The number. `ValueError` is raised as by `build_model`.
    """
    from gapbench_models.construction import count_parameters

    return count_parameters(name, width, input_shape, num_classes, depth)


def activation_count(
    name: str,
    width: float = 1.0,
    input_shape: tuple[int, int, int] = (3, 32, 32),
    num_classes: int = 10,
    depth: int | None = None,
) -> int:
    """How many numbers `build_model(...)` computes for one input, counted without computing them.

    Returns:
        The outputs of all operations together, the logits among them. `ValueError` is raised as by `build_model`.
    """
    from gapbench_models.construction import count_activations

    return count_activations(name, width, input_shape, num_classes, depth)


def work_count(
    name: str,
    width: float = 1.0,
    input_shape: tuple[int, int, int] = (3, 32, 32),
    num_classes: int = 10,
    depth: int | None = None,
) -> tuple[int, int]:
    """What `build_model(...)` does for one input, counted without doing it.

    Returns:
        How many operations it calls, and the multiplications of its matrix products and convolutions. `ValueError`
        is raised as by `build_model`.
    """
    from gapbench_models.construction import count_work

    return count_work(name, width, input_shape, num_classes, depth)
