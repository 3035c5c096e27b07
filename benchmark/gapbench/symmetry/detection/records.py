"""What was detected: where each group acts on the flat parameter vector."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gapbench.symmetry.classes import Ids


@dataclass(frozen=True)
class Gain:
    """Of a batch normalisation, (n,) each: its offset is factor theta[weight] mean / sigma (weight -1: 1)."""

    weight: Ids
    factor: np.ndarray
    sigma: np.ndarray
    mean: np.ndarray


@dataclass(frozen=True)
class Slot:
    """A parameter matrix X = theta[index] (n, M) that a mixing A acts on.

    X -> D^-1 A D X, or X -> -D A' D^-1 X where `dual`. D = theta[weight] / sigma where `weight` (n, 1) or
    (n, M) is given; `inverse` uses D^-1 instead. `gain`: the matrix acted on is X less that offset (the bias
    of a batch normalisation). `void` names the directions of M that other groups cover.
    """

    index: Ids
    dual: bool
    weight: Ids | None = None
    sigma: np.ndarray | None = None
    inverse: bool = False
    gain: Gain | None = None
    void: str = ""


@dataclass(frozen=True)
class Space:
    """n channels that may be mixed: by gl(n), or by rotations (`algebra` "so", "so_centred": fixing 1)."""

    kind: str
    name: str
    algebra: str
    channels: Ids
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class WriterNull:
    """theta[index] (n, M) += direction u', u (M,) arbitrary: the reader removes the direction.

    direction = 1 or 1 / theta[weight]. `taps` as in `LinearUse.weight`.
    """

    node: int
    taps: int
    name: str
    kind: str
    index: Ids
    weight: Ids | None


@dataclass(frozen=True)
class ReaderNull:
    """theta[index] (R, n) += u (1/gamma)', theta[bias] -= sum over the rows of a unit of u * sum(beta/gamma).

    `weight`, `shift` (n,) are gamma and beta of the normalisation (-1: 1 and 0). `bias` (R,), -1: none.
    """

    node: int
    taps: int
    name: str
    index: Ids
    bias: Ids
    weight: Ids
    shift: Ids


@dataclass
class Detected:
    """Representative (0: not free) and sign of each log-scale variable; spaces; null directions."""

    representative: Ids
    sign: np.ndarray
    spaces: list[Space] = field(default_factory=list)
    writer_nulls: list[WriterNull] = field(default_factory=list)
    reader_nulls: list[ReaderNull] = field(default_factory=list)
    kinds: dict[int, str] = field(default_factory=dict)
    # Representatives with those that belong to mixings still among them: all diagonal rescalings.
    rescalable: Ids = field(default_factory=lambda: np.zeros(1, np.int64))
    # Before normalised streams were fixed: representatives, the operations that meet each class, how many
    # layers and parameters write it, which classes others than linear layers write, which may not be mixed.
    classes: Ids = field(default_factory=lambda: np.zeros(1, np.int64))
    roles: dict[int, set[str]] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    diagonal: np.ndarray = field(default_factory=lambda: np.zeros(1, bool))
