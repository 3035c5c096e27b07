"""What a value of a recorded computation carries while its symmetries are sought."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gapbench.symmetry.classes import Ids


@dataclass(frozen=True)
class Activation:
    """Labels of one activation tensor, int64, of its shape: log-scale variable, shift, null-direction atom."""

    scale: Tensor
    shift: Tensor
    null: Tensor
    rows_sum_to_one: bool = False


@dataclass(frozen=True)
class ParameterView:
    """Positions in the flat parameter vector of a rearranged parameter; -1 for a zero that padding added."""

    index: Tensor


@dataclass(frozen=True)
class Computed:
    """Computed from parameters by more than rearranging: cannot absorb anything. `owners` are their positions."""

    owners: Tensor


@dataclass(frozen=True)
class Constant:
    """Neither activation nor parameter; `value` is None where it is not known."""

    value: Tensor | None


Value = Activation | ParameterView | Computed | Constant


def frozen(shape: tuple[int, ...]) -> Activation:
    """Labels of an activation that may not be changed."""
    zeros = torch.zeros(shape, dtype=torch.int64)
    return Activation(zeros, zeros, zeros)


def expanded(x: Activation, shape: tuple[int, ...]) -> Activation:
    """Labels broadcast to `shape`."""
    return Activation(
        x.scale.expand(shape).contiguous(),
        x.shift.expand(shape).contiguous(),
        x.null.expand(shape).contiguous(),
    )


def distinct_pairs(left: Tensor, right: Tensor) -> tuple[Ids, Ids]:
    """The different pairs (m, 2) of two tensors of one shape, and the pair of each entry, flat."""
    scale = int(max(left.max(), right.max())) + 1 if left.numel() else 1
    codes, back = np.unique((left * scale + right).numpy().reshape(-1), return_inverse=True)
    return np.stack([codes // scale, codes % scale], axis=1), back
