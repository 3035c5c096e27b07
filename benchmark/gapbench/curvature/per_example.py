"""Squared norms of per-example gradients, from layer inputs and output gradients where that is possible.

For a linear layer the gradient of example i is the outer product sum_p g_ip a_ip' over positions p, whose
squared norm is sum_{p,q} (g_ip . g_iq)(a_ip . a_iq) (Goodfellow 2015 for one position): no per-example
gradient need be stored. A convolution is the same on unfolded inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from gapbench.curvature.tracing import plain_kernels

Scalars = Callable[[Tensor], Tensor]  # outputs (n, ...) -> (n, k): k scalars of each example


def squared_gradient_norms(model: nn.Module, inputs: Tensor, scalars: Scalars, chunk: int = 64) -> Tensor:
    """|d s_ij / d theta|^2, shape (n, k) in float64, for k scalar functions of each example's output.

    The network must treat examples separately (eval mode). The layer formula is used if every parameter
    belongs to one linear, convolutional or batch normalisation layer; it is checked against the summed
    gradient of each chunk and otherwise replaced by per-example differentiation.
    """
    layers = _layers(model)
    results = []
    for part in inputs.split(chunk):
        norms = None if layers is None else _by_layers(model, layers, part, scalars)
        results.append(_by_vmap(model, part, scalars) if norms is None else norms)
    return torch.cat(results)


def _layers(model: nn.Module) -> list[nn.Module] | None:
    layers, owned = [], 0
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        if not own:
            continue
        plain = isinstance(module, nn.Linear | _BatchNorm) or (
            isinstance(module, nn.Conv2d) and module.padding_mode == "zeros"
        )
        if not plain or isinstance(module.padding if isinstance(module, nn.Conv2d) else 0, str):
            return None
        layers.append(module)
        owned += len(own)
    return layers if owned == len(list(model.parameters())) else None


def _by_layers(model: nn.Module, layers: list[nn.Module], inputs: Tensor, scalars: Scalars) -> Tensor | None:
    calls: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    repeated = False

    def remember(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal repeated
        repeated |= module in calls
        calls[module] = (args[0].detach(), output)

    handles = [layer.register_forward_hook(remember) for layer in layers]
    try:
        with torch.enable_grad(), plain_kernels():
            values = scalars(model(inputs))
    finally:
        for handle in handles:
            handle.remove()
    if repeated or not all(layer in calls for layer in layers):
        return None
    outputs = [calls[layer][1] for layer in layers]
    parameters = list(model.parameters())
    forms = [_Form(layer, calls[layer][0]) for layer in layers]
    columns = []
    for k in range(values.shape[1]):
        gradients = torch.autograd.grad(
            values[:, k].sum(), [*outputs, *parameters], retain_graph=True, allow_unused=True
        )
        total = torch.zeros(len(inputs), dtype=torch.float64, device=inputs.device)
        summed = dict(zip(map(id, parameters), gradients[len(outputs) :]))
        for layer, form, gradient in zip(layers, forms, gradients[: len(outputs)]):
            if gradient is None:
                continue
            if k == 0 and not form.agrees(layer, gradient, summed):
                return None
            total += form.squared_norms(gradient).double()
        columns.append(total)
    return torch.stack(columns, dim=1)


class _Form:
    """One layer's input in the form in which its gradient is an outer product; computed once per chunk."""

    def __init__(self, layer: nn.Module, inputs: Tensor):
        self.layer, self.gram = layer, None
        if isinstance(layer, nn.Conv2d):
            columns = nn.functional.unfold(
                inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride
            )
            self.inputs = columns.reshape(len(inputs), layer.groups, -1, columns.shape[-1])  # n g i p
        elif isinstance(layer, nn.Linear):
            self.inputs = inputs.reshape(len(inputs), -1, layer.in_features).transpose(1, 2)[:, None]
        else:
            assert isinstance(layer, _BatchNorm)
            assert layer.running_mean is not None
            assert layer.running_var is not None
            shape = (1, -1, *[1] * (inputs.dim() - 2))
            scale = torch.rsqrt(layer.running_var + layer.eps).reshape(shape)
            self.inputs = ((inputs - layer.running_mean.reshape(shape)) * scale).reshape(*inputs.shape[:2], -1)

    def _gradients(self, gradient: Tensor) -> Tensor:
        n = len(gradient)
        if isinstance(self.layer, nn.Conv2d):
            return gradient.reshape(n, self.layer.groups, -1, self.inputs.shape[-1])
        if isinstance(self.layer, nn.Linear):
            return gradient.reshape(n, -1, self.layer.out_features).transpose(1, 2)[:, None]
        return gradient.reshape(*gradient.shape[:2], -1)

    def squared_norms(self, gradient: Tensor) -> Tensor:
        g, a = self._gradients(gradient), self.inputs
        if isinstance(self.layer, _BatchNorm):
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

    def agrees(self, layer: nn.Module, gradient: Tensor, summed: dict[int, Tensor | None]) -> bool:
        """Whether the outer products, summed over examples, are autograd's gradient of the parameters."""
        g, a = self._gradients(gradient), self.inputs
        if isinstance(layer, _BatchNorm):
            weight = None if layer.weight is None else (g * a).sum(dim=(0, 2))
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


def _by_vmap(model: nn.Module, inputs: Tensor, scalars: Scalars) -> Tensor:
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def scalar(values: dict[str, Tensor], example: Tensor, index: Tensor) -> Tensor:
        outputs = functional_call(model, values, (example[None],))
        return scalars(outputs)[0].gather(0, index[None])[0]

    with torch.no_grad(), plain_kernels():
        count = scalars(model(inputs[:1])).shape[1]
    columns = []
    size = sum(p.numel() for p in parameters.values())
    group = max(1, min(16, int(2e8 // size)))  # per-example gradients held at once
    with plain_kernels():
        for k in range(count):
            index = torch.tensor(k, device=inputs.device)
            parts = []
            for examples in inputs.split(group):
                gradients = vmap(grad(scalar), in_dims=(None, 0, None))(parameters, examples, index)
                parts.append(sum(g.double().flatten(1).pow(2).sum(1) for g in gradients.values()))
            columns.append(torch.cat([p for p in parts if isinstance(p, Tensor)]))
    return torch.stack(columns, dim=1)
