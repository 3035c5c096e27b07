"""What is known of a model family without building it, and how a builder declares it. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Builder = TypeVar("Builder", bound=Callable[..., object])
LAST = 10_000
"""The place in lists of a family that names none: after all that do, by name."""


@dataclass(frozen=True)
class ModelFamily:
    """One family: an architecture whose width is a multiplier.

    Attributes:
        name: `library/architecture`.
        library: where its code comes from.
        description: one line.
        width: what the multiplier scales, with the values at width 1.
        activations: kinds of nonlinearity, as `relu`, `relu6`, `gelu`, `silu`, `hardswish`, gates (`sigmoid`,
            `hardsigmoid`) and `softmax` (attention) included; empty for linear networks.
        normalisations: `batch_norm`, `layer_norm` or `affine`; empty where there is none.
        depth: what `depth` counts; None where the depth is fixed.
        default_depth: the value that `depth=None` stands for, where one number says it.
        dropout: where dropout acts; None where the family has none.
        smallest_size: least height and width of the inputs, in pixels.
        builder: `module:function` that builds it.
        activation_choices: what `activation` may be, the family's own first; empty where nothing else can be had.
    """

    name: str
    library: str
    description: str
    width: str
    activations: tuple[str, ...]
    normalisations: tuple[str, ...]
    depth: str | None
    default_depth: int | None
    dropout: str | None
    smallest_size: int
    builder: str
    activation_choices: tuple[str, ...] = ()

    @property
    def supports_depth(self) -> bool:
        """Whether `depth` may be given."""
        return self.depth is not None

    @property
    def supports_dropout(self) -> bool:
        """Whether `dropout` may be above 0."""
        return self.dropout is not None


@dataclass(frozen=True)
class Declaration:
    """A family as declared beside its builder, and its place in lists; as a decorator it changes nothing."""

    family: ModelFamily
    place: int

    def __call__(self, builder: Builder) -> Builder:
        """The builder, a function of a `BuildRequest`, as it is."""
        return builder


def family(
    name: str,
    *,
    description: str,
    width: str,
    activations: tuple[str, ...] = (),
    normalisations: tuple[str, ...] = (),
    depth: str | None = None,
    default_depth: int | None = None,
    dropout: str | None = "before the classifier",
    smallest_size: int = 4,
    activation_choices: tuple[str, ...] = (),
    place: int = LAST,
) -> Declaration:
    """Declare the function below as the builder of a model family.

    Families are listed by reading these declarations, not by running the modules, which import torch; so all
    arguments are literals. They are the attributes of `ModelFamily`, and the `place` in lists.

    Returns:
        A decorator.
    """
    library = name.partition("/")[0]
    return Declaration(
        ModelFamily(
            name=name,
            library=library,
            description=description,
            width=width,
            activations=activations,
            normalisations=normalisations,
            depth=depth,
            default_depth=default_depth,
            dropout=dropout,
            smallest_size=smallest_size,
            builder="",  # known where the declaration stands
            activation_choices=activation_choices,
        ),
        place,
    )
