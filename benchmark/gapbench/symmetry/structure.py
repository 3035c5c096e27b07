"""What the interpretation of a computation finds: how each parameter meets the channels of the activations.

`variables` are log-scale variables (see `classes`), `shifts` are expressions (see `expressions`), `parameters`
are positions in the flat parameter vector, -1 where there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gapbench.symmetry.classes import Ids


def place(index: Ids) -> slice | Ids:
    """A slice where the positions are consecutive, else the positions, flat."""
    flat = index.reshape(-1)
    if not len(flat) or flat[-1] - flat[0] != len(flat) - 1:
        return flat
    block = 1 << 20  # differences of so many at once
    for start in range(0, len(flat), block):
        if not (np.diff(flat[start : start + block + 1]) == 1).all():
            return flat
    return slice(int(flat[0]), int(flat[-1]) + 1)


@dataclass(frozen=True)
class Span:
    """Consecutive positions from `start` in an array of this shape: as good as a list of them, but small."""

    start: int
    shape: tuple[int, ...]

    @property
    def where(self) -> slice:
        """The range."""
        return slice(self.start, self.start + math.prod(self.shape))

    def positions(self) -> Ids:
        """All of them."""
        found: Ids = np.arange(self.where.start, self.where.stop).reshape(self.shape)
        return found


def stored(index: Ids) -> Ids | Span:
    """Positions as a `Span` where they are consecutive."""
    found = place(index)
    return Span(found.start, index.shape) if isinstance(found, slice) else index


@dataclass(frozen=True)
class LinearUse:
    """y[g, o] = sum_ik w[g, o, i, k] x[g, i, k] + b[g, o]: a dense layer or a convolution.

    `weight` (G, O, I, K) parameters; `bias` (G, O); `writes` (G, O) and `reads` (G, I) log-scale variables;
    `shift_in` (G, I) and `shift_out` (G, O). `depthwise`: one channel in and out of each group.
    `borders` where zero padding makes the taps act on fewer positions at the border. `uniform` where every
    position of a channel comes from the same operation.
    """

    node: int
    name: str
    stored: Ids | Span
    bias: Ids
    writes: Ids
    reads: Ids
    shift_in: Ids
    shift_out: Ids
    borders: bool
    uniform: bool

    @property
    def weight(self) -> Ids:
        """Positions (G, O, I, K) of the weights; made anew each time where they are consecutive."""
        return self.stored.positions() if isinstance(self.stored, Span) else self.stored

    @property
    def shape(self) -> tuple[int, ...]:
        """(G, O, I, K)."""
        return self.stored.shape

    @property
    def where(self) -> slice | None:
        """The range of positions of the weights, where they are consecutive."""
        return self.stored.where if isinstance(self.stored, Span) else None

    def values(self, theta: np.ndarray) -> np.ndarray:
        """The weights (G, O, I, K) at theta (d,)."""
        if isinstance(self.stored, Span):
            return theta[self.stored.where].reshape(self.shape)
        found: np.ndarray = theta[self.stored]
        return found

    @property
    def depthwise(self) -> bool:
        """Whether each group has one channel in and out, and there are several groups."""
        return bool(self.shape[0] > 1 and self.shape[2] == 1)


@dataclass(frozen=True)
class ScaleUse:
    """y[c] = p[c] x[c] by a parameter (layer scale): (n,) each."""

    node: int
    name: str
    weight: Ids
    writes: Ids
    reads: Ids


@dataclass(frozen=True)
class BatchNormUse:
    """y = weight (x - mean) / sigma + bias with frozen statistics; (C,) each.

    Where the weight is a constant (`weight` -1), `factor` is its value and log scales pass through.
    """

    node: int
    name: str
    weight: Ids
    bias: Ids
    mean: np.ndarray
    sigma: np.ndarray
    factor: np.ndarray
    writes: Ids
    reads: Ids
    shift_in: Ids
    shift_out: Ids

    def gain(self, theta: np.ndarray) -> np.ndarray:
        """weight / sigma (C,) at theta."""
        gain: np.ndarray = (theta[self.weight] if (self.weight >= 0).all() else self.factor) / self.sigma
        return gain


@dataclass(frozen=True)
class NormUse:
    """Layer, group or root-mean-square normalisation over sets of `features`.

    `sets` (m, n) log-scale variables read; `weight`, `bias`, `writes`, `shift_out` by output feature (n',),
    n' = n for layer normalisation and the number of channels for group normalisation.
    """

    node: int
    name: str
    kind: str
    weight: Ids
    bias: Ids
    writes: Ids
    shift_out: Ids
    sets: Ids


@dataclass(frozen=True)
class Additive:
    """Parameters added to activations or used as activations: (n,) each."""

    name: str
    parameters: Ids
    writes: Ids
    shifts: Ids


@dataclass(frozen=True)
class Meeting:
    """An operation that consumed variables in a way that matters for mixing them: `role` tells which."""

    role: tuple[object, ...]
    variables: Ids


@dataclass
class Findings:
    """Everything that the interpretation of one computation found."""

    linear: list[LinearUse] = field(default_factory=list)
    scales: list[ScaleUse] = field(default_factory=list)
    batch_norms: list[BatchNormUse] = field(default_factory=list)
    norms: list[NormUse] = field(default_factory=list)
    additive: list[Additive] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)
    uncovered: dict[str, int] = field(default_factory=dict)
    diagonal: list[Ids] = field(default_factory=list)
    norm_diagonal: list[Ids] = field(
        default_factory=list
    )  # outputs of normalisations: not mixed but for a rotation
    norm_only: list[Ids] = field(default_factory=list)  # frozen for rescaling, free for rotation
    spoiled: set[int] = field(default_factory=set)  # writers whose null direction is seen somewhere
    logits: Ids | None = None
