"""Values of a network as linear maps of earlier ones: stretches of fixed linear operators are kept whole.

Padding, cropping, indexing, pooling by averages, interpolation, `x + x`, `cat([x, x])`: each has a norm of its own,
and the norm of a stretch of them is at most the product. So a value remembers the last value that a nonlinearity
or a layer made (its root) and the operators since, and the norm is taken when the next of these needs it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.computation.linear_maps import operator_norm
from gapbench.computation.replay import Replay, run_linear
from gapbench.computation.selections import Selection, scaled_selection_of, selection_of
from gapbench.computation.tracing import Trace

# Of all the entries of their argument, each once.
BIJECTIVE = frozenset(
    "view _unsafe_view reshape _reshape_alias _reshape_copy t transpose permute clone alias detach unsqueeze "
    "squeeze flip roll contiguous flatten unflatten movedim swapaxes pixel_shuffle pixel_unshuffle channel_shuffle "
    "lift_fresh squeeze_copy view_copy permute_copy _to_copy".split()
)
# Linear in all their arguments that are not constant.
LINEAR = BIJECTIVE | frozenset(
    "select slice unbind split split_with_sizes chunk unsafe_split unsafe_chunk narrow diagonal constant_pad_nd "
    "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d "
    "expand repeat index index_select gather take tril triu unfold im2col col2im cumsum neg mean sum "
    "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d add sub rsub cat stack where "
    "masked_fill upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
    "upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa mul div "
    "true_divide".split()
)


@dataclass(frozen=True)
class Value:
    """A value that depends on the input: linear in its root, which has Lipschitz constant exp(`log_root`).

    Two values with the same `key` have the same root. `root` is the node whose shape the root has, `path` the nodes
    from there on, in order; those in `passed` hand on what they are given. `obstacles` say why Bartlett's theorem
    does not cover the network up to here.
    """

    index: int
    key: int
    root: int
    log_root: float
    path: tuple[int, ...] = ()
    passed: frozenset[int] = frozenset()
    obstacles: frozenset[str] = frozenset()


class Stretches:
    """Norms and selections of the stretches behind values."""

    def __init__(self, trace: Trace, replay: Replay, device: torch.device):
        self.trace, self.replay, self.device = trace, replay, device
        self.selections: dict[int, Selection | None] = {}
        self.norms: dict[int, float] = {}

    def apply(self, value: Value, x: Tensor) -> Tensor:
        """The value as a function of its root `x` (in the shape recorded), float64."""
        known = {value.root: x}
        for index in value.path:
            node = self.trace.nodes[index]
            if index in value.passed:
                known[index] = next(known[i] for i in node.inputs if i in known)
            else:
                known[index] = run_linear(node, {i: known[i] for i in node.inputs if i in known}, self.replay)
        return known[value.index] if value.path else x

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape of the activation where the value began."""
        return self.trace.nodes[value.root].shape

    def bijective(self, value: Value) -> bool:
        """Whether nothing on the value's path loses or adds entries."""
        return all(i in value.passed or self.trace.nodes[i].op in BIJECTIVE for i in value.path)

    def selection(self, value: Value) -> Selection | None:
        """The stretch as a selection of entries of the root; None if it is another linear map."""
        if value.index not in self.selections:
            found = selection_of(lambda x: self.apply(value, x), self.shape(value), self.device)
            self.selections[value.index] = found
        return self.selections[value.index]

    def scaled_selection(self, value: Value) -> tuple[Selection, Tensor] | None:
        """The stretch as a selection without repetition times fixed factors, as (x - mean) / std is."""
        return scaled_selection_of(lambda x: self.apply(value, x), self.shape(value), self.device)

    def log(self, value: Value) -> float:
        """Logarithm of the Lipschitz constant of input -> value."""
        if value.index not in self.norms:
            self.norms[value.index] = self._norm(value)
        norm = self.norms[value.index]
        return value.log_root + (math.log(norm) if norm > 0 else -math.inf)

    def _norm(self, value: Value) -> float:
        if self.bijective(value):
            return 1.0
        selection = self.selection(value)
        if selection is not None:
            return selection.norm
        like = torch.zeros(1, dtype=torch.float64, device=self.device)
        return operator_norm(lambda x: self.apply(value, x), self.shape(value), like)
