"""Squared norms of per-example gradients, from layer inputs and output gradients where that is possible.

For a linear layer the gradient of example i is the outer product sum_p g_ip a_ip' over positions p, whose
squared norm is sum_{p,q} (g_ip . g_iq)(a_ip . a_iq) (Goodfellow 2015 for one position): no per-example
gradient need be stored. A convolution is the same on unfolded inputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from gapbench.computation.copies import holding
from gapbench.computation.tracing import own_type, plain_kernels
from gapbench.curvature.backward import with_parameters_of

Scalars = Callable[[Tensor], Tensor]  # outputs (n, ...) -> (n, k): k scalars of each example
HELD = 2e8  # numbers in per-example gradients that are held at once


def squared_gradient_norms(
    network: nn.Module,
    inputs: Tensor,
    scalars: Scalars,
    chunk: int = 64,
    weights: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """Squared norms |w * (d s_ij / d theta)|^2 for k scalar functions of each example's output.

    The network must treat examples separately (eval mode). Parameters of linear, convolutional and
    normalisation layers go by the layer formula. In every chunk it is checked against autograd's gradient of a
    random combination of all scalars; layers that fail (shared or masked weights, an activation fused into
    the layer) and all other parameters go by per-example differentiation. `weights`: elementwise w by parameter
    name, 1 by default.

    Returns:
        (n, k) in float64.
    """
    layers = _layers(network)
    by_id = None if weights is None else {id(p): weights[name] for name, p in network.named_parameters()}
    results = []
    for part in torch.split(inputs, chunk):
        norms, used = _by_layers(network, layers, part, scalars, by_id)
        covered = {id(p) for layer in used for p in layer.parameters(recurse=False)}
        rest = {name: p.detach() for name, p in network.named_parameters() if id(p) not in covered}
        if rest:
            norms = norms + _by_vmap(network, rest, part, scalars, norms.shape[1], weights)
        results.append(norms)
    return torch.cat(results)


def _layers(network: nn.Module) -> list[nn.Module]:
    owners: dict[int, int] = {}
    for module in network.modules():
        for p in module.parameters(recurse=False):
            owners[id(p)] = owners.get(id(p), 0) + 1
    return [
        m for m in network.modules() if _has_formula(m) and all(owners[id(p)] == 1 for p in m.parameters())
    ]


def _has_formula(module: nn.Module) -> bool:
    # A weight that is computed (weight or spectral normalisation) is no parameter of the layer.
    if not isinstance(module._parameters.get("weight"), nn.Parameter):
        return False
    if getattr(module, "bias", None) is not None and not isinstance(
        module._parameters.get("bias"), nn.Parameter
    ):
        return False
    if isinstance(module, nn.Conv2d):
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, _BatchNorm):
        return module._parameters.get("bias") is not None and module.running_mean is not None
    if isinstance(module, nn.LayerNorm):
        return module._parameters.get("bias") is not None
    return isinstance(module, nn.Linear)


def _by_layers(
    network: nn.Module,
    layers: list[nn.Module],
    inputs: Tensor,
    scalars: Scalars,
    by_id: Mapping[int, Tensor] | None,
) -> tuple[Tensor, list[nn.Module]]:
    """Squared norms (n, k) over the parameters of `layers`, and those of them that passed the check."""
    calls: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}

    def remember(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        calls.setdefault(module, []).append((args[0].detach().clone(), output))
        return output.clone()  # an in-place activation changes the copy, not what is differentiated here

    handles = [layer.register_forward_hook(remember) for layer in layers]
    try:
        with torch.enable_grad(), plain_kernels(own_type(network)):
            values = scalars(network(inputs))
    finally:
        for handle in handles:
            handle.remove()
    # Each once, on examples along the first axis.
    layers = [
        layer
        for layer in layers
        if len(calls.get(layer, [])) == 1
        and all(t.dim() > 1 and len(t) == len(inputs) for t in calls[layer][0])
    ]
    forms = {layer: _Form(layer, calls[layer][0][0]) for layer in layers}

    def gradients_of(
        scalar: Tensor, extra: list[nn.Parameter]
    ) -> tuple[dict[nn.Module, Tensor | None], dict[int, Tensor | None]]:
        outputs = [calls[layer][0][1] for layer in layers]
        if not outputs and not extra:
            return {}, {}
        found = torch.autograd.grad(scalar, [*outputs, *extra], retain_graph=True, allow_unused=True)
        return dict(zip(layers, found)), dict(zip(map(id, extra), found[len(outputs) :]))

    weights = torch.randn(values.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parameters = [p for layer in layers for p in layer.parameters(recurse=False)]
    mixed, summed = gradients_of((values * weights.to(values)).sum(), parameters)
    layers = [layer for layer in layers if forms[layer].agrees(layer, mixed[layer], summed)]
    layers = _right_for_one(network, layers, forms, mixed, inputs, scalars, weights)
    columns: list[Tensor] = []
    for k in range(values.shape[1]):
        total = torch.zeros(len(inputs), dtype=torch.float64, device=inputs.device)
        for layer, gradient in gradients_of(values[:, k].sum(), [])[0].items():
            if gradient is not None:
                norms = (
                    forms[layer].squared_norms(gradient)
                    if by_id is None
                    else forms[layer].weighted_norms(gradient, by_id)
                )
                total += norms.double()
        columns.append(total)
    return torch.stack(columns, dim=1), layers


def _right_for_one(
    network: nn.Module,
    layers: list[nn.Module],
    forms: dict[nn.Module, _Form],
    mixed: dict[nn.Module, Tensor | None],
    inputs: Tensor,
    scalars: Scalars,
    weights: Tensor,
) -> list[nn.Module]:
    """Layers whose formula gives the gradient of single examples too.

    Sums over all examples agree whatever the first axis means; so the first and the last are evaluated alone.

    Returns:
        Those layers, in order.
    """
    kept = list(layers)
    for i in {0, len(inputs) - 1}:
        with torch.enable_grad(), plain_kernels(own_type(network)):
            values = scalars(network(inputs[i : i + 1]))
            parameters = [p for layer in kept for p in layer.parameters(recurse=False)]
            if not parameters:
                return kept
            single = (values * weights.to(values)).sum()
            if not single.requires_grad:
                return kept
            found = torch.autograd.grad(single, parameters, allow_unused=True, materialize_grads=True)
        squares = dict(zip(map(id, parameters), [float(g.double().pow(2).sum()) for g in found]))
        right = []
        for layer in kept:
            expected = sum(squares[id(p)] for p in layer.parameters(recurse=False))
            gradient = mixed[layer]
            by_form = 0.0
            if gradient is not None:
                norms = forms[layer].squared_norms(gradient)
                by_form = float(norms[i]) if len(norms) == len(inputs) else float("nan")
            tolerance = 1e-6 if gradient is not None and gradient.dtype == torch.float64 else 1e-2
            if abs(by_form - expected) <= tolerance * max(expected, by_form) + 1e-12:
                right.append(layer)
        kept = right
    return kept


class _Form:
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

    def squared_norms(self, gradient: Tensor) -> Tensor:
        g, a = self._gradients(gradient), self.inputs
        if isinstance(self.layer, _BatchNorm | nn.LayerNorm):
            total = (g * a).sum(2).pow(2).sum(1)
            return total + g.sum(2).pow(2).sum(1)
        positions, out, fan_in = g.shape[-1], g.shape[-2], a.shape[-2]
        if positions * (out + fan_in) <= out * fan_in:
            if self.gram is None:
                self.gram = torch.einsum("ngip,ngiq->ngpq", a, a)
            total = (torch.einsum("ngop,ngoq->ngpq", g, g) * self.gram).sum(dim=(1, 2, 3))
        else:
            total = torch.einsum("ngop,ngip->ngoi", g, a).pow(2).sum(dim=(1, 2, 3))
        if self.layer.bias is not None:
            total = total + g.sum(dim=-1).pow(2).sum(dim=(1, 2))
        return total

    def weighted_norms(self, gradient: Tensor, weights: Mapping[int, Tensor]) -> Tensor:
        """The same with each entry of the gradient multiplied by its weight, by identity of the parameter."""
        g, a = self._gradients(gradient), self.inputs
        weight, bias = self.layer.weight, self.layer.bias
        assert isinstance(weight, Tensor)
        if isinstance(self.layer, _BatchNorm | nn.LayerNorm):
            total = ((g * a).sum(2) * weights[id(weight)].reshape(-1)).pow(2).sum(1)
            shift = g.sum(2)
        else:
            factors = weights[id(weight)].reshape(g.shape[1], g.shape[2], a.shape[2])
            if g.shape[-1] == 1:  # the gradient's squares are outer products too
                total = torch.einsum("ngo,goi,ngi->n", g[..., 0] ** 2, factors**2, a[..., 0] ** 2)
            else:
                rows = max(1, int(HELD // factors.numel()))
                parts = zip(torch.split(g, rows), torch.split(a, rows))
                total = torch.cat(
                    [
                        (torch.einsum("ngop,ngip->ngoi", *pair) * factors).pow(2).sum(dim=(1, 2, 3))
                        for pair in parts
                    ]
                )
            shift = g.sum(dim=-1).reshape(len(g), -1)
        if bias is not None:
            assert isinstance(bias, Tensor)
            total = total + (shift * weights[id(bias)].reshape(-1)).pow(2).sum(1)
        return total

    def agrees(self, layer: nn.Module, gradient: Tensor | None, summed: Mapping[int, Tensor | None]) -> bool:
        """Whether the outer products, summed over examples, are autograd's gradient of the parameters."""
        if gradient is None:  # not used by the output: right only if autograd says so too
            return all(summed[id(p)] is None for p in layer.parameters(recurse=False))
        g, a = self._gradients(gradient), self.inputs
        if isinstance(layer, _BatchNorm | nn.LayerNorm):
            weight = (g * a).sum(dim=(0, 2))
            bias = g.sum(dim=(0, 2))
        else:
            weight = torch.einsum("ngop,ngip->goi", g, a)
            bias = g.sum(dim=(0, 3)).reshape(-1)
        for expected, parameter in ((weight, layer.weight), (bias, layer.bias)):
            if parameter is None:
                continue
            found = summed[id(parameter)]
            if found is None or expected is None:
                return False
            error = torch.linalg.vector_norm(found.reshape(-1) - expected.reshape(-1))
            scale = torch.linalg.vector_norm(found) + torch.finfo(found.dtype).tiny
            tolerance = 1e-3 if found.dtype == torch.float32 else 1e-9
            if float(error) > tolerance * float(scale) + 1e-9 * float(g.abs().sum()):
                return False
        return True


def _by_vmap(
    network: nn.Module,
    parameters: dict[str, Tensor],
    inputs: Tensor,
    scalars: Scalars,
    count: int,
    weights: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """Squared norms over `parameters` alone, one example's gradient at a time under vmap.

    Plain backward passes, one by one, for what vmap cannot batch (PReLU, control flow, checkpointing).

    Returns:
        (n, count) in float64.

    Raises:
        OutOfMemoryError: even one example at a time does not fit.
    """

    def scalar(values: dict[str, Tensor], example: Tensor, index: Tensor) -> Tensor:
        with holding(network, values):
            outputs = network(example[None])
        return scalars(outputs)[0].gather(0, index[None])[0]

    size = sum(p.numel() for p in parameters.values())
    group = max(1, min(len(inputs), int(HELD // size)))
    columns = []
    # no_grad outside the transform: no graph is kept through parameters that are not differentiated here.
    with torch.no_grad(), plain_kernels(own_type(network)):
        for k in range(count):
            index = torch.tensor(k, device=inputs.device)
            parts = []
            for examples in torch.split(inputs, group):
                try:
                    gradients = vmap(grad(scalar), in_dims=(None, 0, None))(parameters, examples, index)
                except torch.OutOfMemoryError:
                    raise
                except RuntimeError:
                    return _one_by_one(network, parameters, inputs, scalars, weights)
                if weights is not None:
                    gradients = {name: g * weights[name] for name, g in gradients.items()}
                squares = [g.double().reshape(len(g), -1).pow(2).sum(1) for g in gradients.values()]
                parts.append(torch.stack(squares).sum(0))
            columns.append(torch.cat(parts))
    return torch.stack(columns, dim=1)


def _one_by_one(
    network: nn.Module,
    parameters: dict[str, Tensor],
    inputs: Tensor,
    scalars: Scalars,
    weights: Mapping[str, Tensor] | None,
) -> Tensor:
    leaves = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}

    def squares(network: nn.Module, example: Tensor) -> list[float]:
        found = []
        values = scalars(network(example))[0]
        for value in values:
            gradients = torch.autograd.grad(
                value, list(leaves.values()), retain_graph=True, allow_unused=True, materialize_grads=True
            )
            total = 0.0
            for name, g in zip(leaves, gradients):
                total += float((g if weights is None else g * weights[name]).double().pow(2).sum())
            found.append(total)
        return found

    rows = []
    with torch.enable_grad(), plain_kernels(own_type(network)):
        for example in torch.split(inputs, 1):
            rows.append(with_parameters_of(network, leaves, functools.partial(squares, example=example)))
    return torch.tensor(rows, dtype=torch.float64, device=inputs.device)
