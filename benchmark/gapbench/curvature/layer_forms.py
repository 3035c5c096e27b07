"""Gradients of single examples in a layer's parameters, as outer products of its inputs and output gradients."""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

HELD = 2e8  # numbers in per-example gradients that are held at once
BLOCK = 2e6  # of them those of a layer, which stay near the processor
LOOKS = 4  # random vectors by which two matrices are compared


class LayerForm:
    """One layer's input in the form in which its gradient is an outer product; computed once per chunk."""

    def __init__(self, layer: nn.Module, inputs: Tensor):
        self.layer = layer
        self.gram: Tensor | None = None
        if isinstance(layer, nn.Conv2d):
            assert not isinstance(layer.padding, str)
            columns = nn.functional.unfold(
                inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride
            )
            self.inputs = columns.reshape(len(inputs), layer.groups, -1, columns.shape[-1])  # n g i p
        elif isinstance(layer, nn.Linear):
            self.inputs = inputs.reshape(len(inputs), -1, layer.in_features).transpose(1, 2)[:, None]
        elif isinstance(layer, nn.LayerNorm):
            shape = tuple(layer.normalized_shape)
            # LayerNorm2d normalises the channels of (n, c, h, w).
            self.channels_first = tuple(inputs.shape[-len(shape) :]) != shape
            inputs = inputs.movedim(1, -1) if self.channels_first else inputs
            normal = nn.functional.layer_norm(inputs, shape, eps=layer.eps)
            self.inputs = self._positions_last(normal)
        else:
            assert isinstance(layer, _BatchNorm)
            assert layer.running_mean is not None
            assert layer.running_var is not None
            shape = (1, -1, *[1] * (inputs.dim() - 2))
            scale = torch.rsqrt(layer.running_var + layer.eps).reshape(shape)
            self.inputs = ((inputs - layer.running_mean.reshape(shape)) * scale).reshape(
                *inputs.shape[:2], -1
            )

    def parameter(self, name: str) -> nn.Parameter | None:
        """Its parameter of that name; what is constant is none."""
        return self.layer._parameters.get(name)

    def of_one(self, i: int) -> LayerForm:
        """The form of example i alone."""
        alone = copy.copy(self)
        alone.inputs, alone.gram = self.inputs[i : i + 1], None
        return alone

    def _gradients(self, gradient: Tensor) -> Tensor:
        n = len(gradient)
        if isinstance(self.layer, nn.Conv2d):
            return gradient.reshape(n, self.layer.groups, -1, self.inputs.shape[-1])
        if isinstance(self.layer, nn.Linear):
            return gradient.reshape(n, -1, self.layer.out_features).transpose(1, 2)[:, None]
        if isinstance(self.layer, nn.LayerNorm):
            return self._positions_last(gradient.movedim(1, -1) if self.channels_first else gradient)
        return gradient.reshape(*gradient.shape[:2], -1)

    def _positions_last(self, values: Tensor) -> Tensor:
        assert isinstance(self.layer, nn.LayerNorm)
        normalised = math.prod(self.layer.normalized_shape)
        return values.reshape(len(values), -1, normalised).transpose(1, 2)

    def squared_norms(self, gradients: Sequence[Tensor]) -> Tensor:
        """Squared norms of the layer's part of the gradient, one example each.

        Gradients of several scalars go together, in products of larger matrices.

        Args:
            gradients: of k scalars, summed over the examples, in the layer's output.

        Returns:
            (k, n) in float64.
        """
        parts, a = [self._gradients(gradient) for gradient in gradients], self.inputs
        total: Tensor | float = 0.0
        if self.parameter("weight") is None:
            pass
        elif isinstance(self.layer, _BatchNorm | nn.LayerNorm):
            total = torch.stack([(g * a).sum(-1) for g in parts]).pow(2).sum(-1)
        else:
            total = self._matrix_norms(torch.stack(parts, dim=2))
        if self.parameter("bias") is not None:
            shift = torch.stack([g.sum(-1).reshape(len(g), -1) for g in parts])
            total = shift.pow(2).sum(-1) + total
        assert isinstance(total, Tensor)
        return total.double()

    def _matrix_norms(self, g: Tensor) -> Tensor:
        """Of the outer products of g (n, groups, k, out, positions) and the inputs (n, groups, in, positions)."""
        a = self.inputs
        _, _, k, out, positions = g.shape
        fan_in = a.shape[2]
        if positions == 1:  # squares of outer products are outer products
            return torch.einsum("ngko,ngi->kn", g[..., 0] ** 2, a[..., 0] ** 2)
        if positions * (out + fan_in / k) <= out * fan_in:  # the inputs' Gram matrix is made once
            return self._gram_norms(g)
        return torch.cat([squares.sum(dim=(1, 3, 4)).T for squares in self._squares(g)], dim=1)

    def _gram_norms(self, g: Tensor) -> Tensor:
        if self.gram is None:
            self.gram = torch.einsum("ngip,ngiq->ngpq", self.inputs, self.inputs)
        squares = torch.matmul(g.transpose(3, 4), g) * self.gram[:, :, None]
        return squares.sum(dim=(1, 3, 4)).T

    def _squares(self, g: Tensor) -> Iterator[Tensor]:
        """Squared gradients (some n, groups, k, out, in) of single examples in the weight, some at a time."""
        n, groups, k, out, positions = g.shape
        fan_in = self.inputs.shape[2]
        rows = max(1, int(min(HELD, BLOCK) // (k * groups * out * fan_in)))
        together = g.reshape(n, groups, k * out, positions)
        for left, right in zip(torch.split(together, rows), torch.split(self.inputs, rows)):
            products = torch.matmul(left, right.transpose(2, 3))
            yield products.pow_(2).reshape(-1, groups, k, out, fan_in)

    def summed_squares(self, gradients: Sequence[Tensor]) -> dict[int, Tensor]:
        """Squared gradients in the layer's parameters, summed over examples and over the scalars of `gradients`.

        Returns:
            (size,) in float64 by identity of the parameter.
        """
        parts, a = [self._gradients(gradient) for gradient in gradients], self.inputs
        weight, bias = self.parameter("weight"), self.parameter("bias")
        found = {}
        if weight is None:
            pass
        elif isinstance(self.layer, _BatchNorm | nn.LayerNorm):
            found[id(weight)] = torch.stack([(g * a).sum(-1) for g in parts]).double().pow(2).sum(dim=(0, 1))
        else:
            g = torch.stack(parts, dim=2)
            if g.shape[-1] == 1:  # squares of outer products are outer products
                total = torch.einsum("ngko,ngi->goi", g[..., 0] ** 2, a[..., 0] ** 2).double()
            else:
                sums = (squares.sum(dim=(0, 2)).double() for squares in self._squares(g))
                total = functools.reduce(operator.iadd, sums)
            found[id(weight)] = total.reshape(-1)
        if bias is not None:
            shift = torch.stack([g.sum(-1).reshape(len(g), -1) for g in parts])
            found[id(bias)] = shift.double().pow(2).sum(dim=(0, 1))
        return found

    def agrees(self, layer: nn.Module, gradient: Tensor | None, summed: Mapping[int, Tensor | None]) -> bool:
        """Whether the outer products, summed over examples, are autograd's gradient of the parameters.

        Returns:
            Whether they are; matrices are compared by what they make of a few random vectors, which takes a small
            part of the time.
        """
        if gradient is None:  # not used by the output: right only if autograd says so too
            return all(summed[id(p)] is None for p in layer.parameters(recurse=False))
        g, a = self._gradients(gradient), self.inputs
        vectors: Tensor | None = None
        if isinstance(layer, _BatchNorm | nn.LayerNorm):
            weight = (g * a).sum(dim=(0, 2))
            bias = g.sum(dim=(0, 2))
        else:
            draw = torch.randn(
                a.shape[2], LOOKS, generator=torch.Generator().manual_seed(0), dtype=torch.float64
            )
            vectors = draw.to(a)
            seen = torch.matmul(vectors.T, a)  # n g looks p
            weight = torch.matmul(g, seen.transpose(2, 3)).sum(dim=0)  # g o looks
            bias = g.sum(dim=(0, 3)).reshape(-1)
        rounded = 1e-9 * float(g.abs().sum())
        for expected, parameter in ((weight, self.parameter("weight")), (bias, self.parameter("bias"))):
            if parameter is None:
                continue
            found = summed[id(parameter)]
            if found is None or expected is None:
                return False
            if vectors is not None and expected is weight:
                found = torch.matmul(found.reshape(len(weight), -1, len(vectors)), vectors)
            error = torch.linalg.vector_norm(found.reshape(-1) - expected.reshape(-1))
            scale = torch.linalg.vector_norm(found) + torch.finfo(found.dtype).tiny
            tolerance = 1e-3 if found.dtype == torch.float32 else 1e-9
            if float(error) > tolerance * float(scale) + rounded:
                return False
        return True
