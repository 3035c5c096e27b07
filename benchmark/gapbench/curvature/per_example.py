"""Squared norms of per-example gradients, from layer inputs and output gradients where that is possible.

For a linear layer the gradient of example i is the outer product sum_p g_ip a_ip' over positions p, whose
squared norm is sum_{p,q} (g_ip . g_iq)(a_ip . a_iq) (Goodfellow 2015 for one position): no per-example
gradient need be stored. A convolution is the same on unfolded inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from gapbench.computation.copies import holding
from gapbench.computation.tracing import own_type, plain_kernels
from gapbench.curvature.backward import with_parameters_of
from gapbench.curvature.layer_forms import HELD, LayerForm

TOGETHER = 1e8  # numbers in gradients of layers' outputs that are held at once
Gradients = dict[nn.Module, Tensor | None]
Scalars = Callable[[Tensor], Tensor]  # outputs (n, ...) -> (n, k): k scalars of each example


def squared_gradient_norms(network: nn.Module, inputs: Tensor, scalars: Scalars, chunk: int = 64) -> Tensor:
    """Squared norms |d s_ij / d theta|^2 for k scalar functions of each example's output.

    The network must treat examples separately (eval mode). Parameters of linear, convolutional and
    normalisation layers go by the layer formula. In every chunk it is checked against autograd's gradient of a
    random combination of all scalars. Parameters that broadcast over examples get a copy for each. Layers that
    fail (shared or masked weights, an activation fused into the layer) and all other parameters go by per-example
    differentiation.

    Returns:
        (n, k) in float64.
    """
    results = []
    for part in torch.split(inputs, chunk):
        norms, covered = _by_layers(network, part, scalars)
        rest = {name: p.detach() for name, p in network.named_parameters() if name not in covered}
        if rest:
            norms = norms + _by_vmap(network, rest, part, scalars, norms.shape[1])
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
    """Whether parameters of a module go by formula: its weight, its bias, or both, the other being constant."""
    own = [module._parameters.get(name) is not None for name in ("weight", "bias")]
    # A weight that is computed (weight or spectral normalisation) is neither parameter nor constant.
    computed = any(
        getattr(module, name, None) is not None and not mine and name not in module._buffers
        for name, mine in zip(("weight", "bias"), own)
    )
    if computed or not any(own):
        return False
    if isinstance(module, nn.Conv2d):
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, _BatchNorm):
        return module.running_mean is not None
    return isinstance(module, nn.Linear | nn.LayerNorm)


Calls = dict[nn.Module, list[tuple[Tensor, Tensor]]]
Copies = dict[str, Tensor]  # of parameters, one for each example


@dataclass(frozen=True)
class LayerPasses:
    """Scalars of examples (n, k), differentiable in the parameters that go by formula or by copies.

    `forms` by layer, `copies` of parameters by name, one for each example, and the names of all of them.
    """

    values: Tensor
    outputs: dict[nn.Module, Tensor]
    forms: dict[nn.Module, LayerForm]
    copies: Copies
    names: set[str]

    def gradients(self) -> Iterator[tuple[list[int], list[tuple[Gradients, Copies]]]]:
        """Some scalars at a time: their positions, each one's gradients in outputs of layers and in copies."""
        count = self.values.shape[1]
        size = sum(output.numel() for output in self.outputs.values())
        together = max(1, min(count, int(TOGETHER // max(1, size))))
        for start in range(0, count, together):
            some = list(range(start, min(start + together, count)))
            yield some, [self._gradients(k) for k in some]

    def _gradients(self, k: int) -> tuple[Gradients, Copies]:
        wanted = [*self.outputs.values(), *self.copies.values()]
        if not wanted:
            return {}, {}
        found = torch.autograd.grad(self.values[:, k].sum(), wanted, retain_graph=True, allow_unused=True)
        copies = zip(self.copies, found[len(self.outputs) :])
        return dict(zip(self.outputs, found)), {name: g for name, g in copies if g is not None}


def layer_passes(network: nn.Module, inputs: Tensor, scalars: Scalars) -> LayerPasses:
    """What of a network goes by layers, tested on these inputs; see `squared_gradient_norms`.

    Returns:
        The scalars, and the graphs in which they are differentiated.
    """
    layers = _layers(network)
    values, calls, copies = _evaluated(network, layers, inputs, scalars)
    # Each once, on examples along the first axis.
    layers = [
        layer
        for layer in layers
        if len(calls.get(layer, [])) == 1
        and all(t.dim() > 1 and len(t) == len(inputs) for t in calls[layer][0])
    ]
    forms = {layer: LayerForm(layer, calls[layer][0][0]) for layer in layers}
    outputs = {layer: calls[layer][0][1] for layer in layers}
    weights = torch.randn(values.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parameters = [p for layer in layers for p in layer.parameters(recurse=False)]
    wanted = [*outputs.values(), *parameters, *copies.values()]
    combined = (values * weights.to(values)).sum()
    found = torch.autograd.grad(combined, wanted, retain_graph=True, allow_unused=True) if wanted else ()
    mixed: Gradients = dict(zip(layers, found))
    rest: Sequence[Tensor | None] = found[len(layers) :]
    summed = dict(zip(map(id, parameters), rest))
    layers = [layer for layer in layers if forms[layer].agrees(layer, mixed[layer], summed)]
    of_copies = dict(zip(copies, rest[len(parameters) :]))
    layers, names = _right_for_one(network, layers, forms, (mixed, of_copies), inputs, scalars, weights)
    owned = {id(p) for layer in layers for p in layer.parameters(recurse=False)}
    return LayerPasses(
        values,
        {layer: outputs[layer] for layer in layers},
        {layer: forms[layer] for layer in layers},
        {name: copies[name] for name in names},
        {name for name, p in network.named_parameters() if id(p) in owned} | set(names),
    )


def _by_layers(network: nn.Module, inputs: Tensor, scalars: Scalars) -> tuple[Tensor, set[str]]:
    """Squared norms (n, k) over the parameters that go by formula or by copies, and their names."""
    passes = layer_passes(network, inputs, scalars)
    total = torch.zeros(passes.values.shape[1], len(inputs), dtype=torch.float64, device=inputs.device)
    for some, parts in passes.gradients():
        for layer, form in passes.forms.items():
            used = [(k, gradients[layer]) for k, (gradients, _) in zip(some, parts)]
            own = [(k, gradient) for k, gradient in used if gradient is not None]
            if own:
                total[[k for k, _ in own]] += form.squared_norms([g for _, g in own])
        for k, (_, copies) in zip(some, parts):
            if copies:
                total[k] += _squares(copies)
    return total.T, passes.names


def _evaluated(
    network: nn.Module, layers: list[nn.Module], inputs: Tensor, scalars: Scalars
) -> tuple[Tensor, Calls, Copies]:
    """The scalars, inputs and outputs of the layers, and copies of parameters that examples share.

    Such are parameters (1, ...) of no layer with a formula, which broadcast over examples (position embeddings,
    class tokens). There are no copies where the network does not compute the same with one for each example.

    Returns:
        Scalars (n, k), calls by layer, copies by name.

    Raises:
        OutOfMemoryError: there is no room for them.
    """
    calls: Calls = {}

    def remember(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        calls.setdefault(module, []).append((args[0].detach().clone(), output))
        return output.clone()  # an in-place activation changes the copy, not what is differentiated here

    def evaluated(copies: Copies) -> Tensor:
        calls.clear()
        handles = [layer.register_forward_hook(remember) for layer in layers]
        try:
            with torch.enable_grad(), plain_kernels(own_type(network)), holding(network, copies):
                return scalars(network(inputs))
        finally:
            for handle in handles:
                handle.remove()

    n, owned = len(inputs), {id(p) for layer in layers for p in layer.parameters(recurse=False)}
    copies = {
        name: p.detach().expand(n, *p.shape[1:]).clone().requires_grad_()
        for name, p in network.named_parameters()
        if n > 1 and id(p) not in owned and p.dim() > 1 and len(p) == 1
    }
    if copies:
        try:
            values = evaluated(copies)
            with torch.no_grad(), plain_kernels(own_type(network)):
                plain = scalars(network(inputs))
            tolerance = 1e-9 if own_type(network) == torch.float64 else 1e-4
            if values.shape == plain.shape and torch.allclose(values, plain, tolerance, tolerance):
                return values, calls, copies
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, AssertionError):  # a shape that the network did not expect
            pass
    return evaluated({}), calls, {}


def _right_for_one(
    network: nn.Module,
    layers: list[nn.Module],
    forms: dict[nn.Module, LayerForm],
    mixed: tuple[Gradients, dict[str, Tensor | None]],
    inputs: Tensor,
    scalars: Scalars,
    weights: Tensor,
) -> tuple[list[nn.Module], list[str]]:
    """Layers and copies whose gradients are those of single examples too.

    Sums over all examples agree whatever the first axis means; so the first and the last are evaluated alone.
    `mixed`: gradients of a random combination of all scalars, in the layers' outputs and in the copies.

    Returns:
        Those layers, in order, and those copies.
    """
    kept, names = list(layers), list(mixed[1])
    by_name = dict(network.named_parameters())
    for i in {0, len(inputs) - 1}:
        with torch.enable_grad(), plain_kernels(own_type(network)):
            values = scalars(network(inputs[i : i + 1]))
            parameters = [p for layer in kept for p in layer.parameters(recurse=False)]
            parameters += [by_name[name] for name in names]
            if not parameters:
                return kept, names
            single = (values * weights.to(values)).sum()
            if not single.requires_grad:
                return kept, names
            found = torch.autograd.grad(single, parameters, allow_unused=True, materialize_grads=True)
        squares = dict(zip(map(id, parameters), [float(g.double().pow(2).sum()) for g in found]))

        def right(expected: float, gradient: Tensor | None, own: float) -> bool:
            """Whether the squared norm of example i alone is that by formula."""
            tolerance = 1e-6 if gradient is not None and gradient.dtype == torch.float64 else 1e-2
            return abs(own - expected) <= tolerance * max(expected, own) + 1e-12

        def by_formula(layer: nn.Module, gradient: Tensor | None, i: int = i) -> float:
            if gradient is None:
                return 0.0
            return float(forms[layer].of_one(i).squared_norms([gradient[i : i + 1]]))

        kept = [
            layer
            for layer in kept
            for g in [mixed[0][layer]]
            if right(sum(squares[id(p)] for p in layer.parameters(recurse=False)), g, by_formula(layer, g))
        ]
        names = [
            name
            for name in names
            for g in [mixed[1][name]]
            if right(squares[id(by_name[name])], g, 0.0 if g is None else float(g[i].double().pow(2).sum()))
        ]
    return kept, names


def _by_vmap(
    network: nn.Module, parameters: dict[str, Tensor], inputs: Tensor, scalars: Scalars, count: int
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
                    return _one_by_one(network, parameters, inputs, scalars)
                parts.append(_squares(gradients))
            columns.append(torch.cat(parts))
    return torch.stack(columns, dim=1)


def _squares(gradients: Mapping[str, Tensor]) -> Tensor:
    """Squared norms (n,) in float64 of gradients (n, ...) by name."""
    parts = [g.double().reshape(len(g), -1).pow(2).sum(1) for g in gradients.values()]
    return torch.stack(parts).sum(0)


def _one_by_one(
    network: nn.Module, parameters: dict[str, Tensor], inputs: Tensor, scalars: Scalars
) -> Tensor:
    leaves = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}

    def squares(network: nn.Module, example: Tensor) -> Tensor:
        found = []
        for value in scalars(network(example))[0]:
            gradients = torch.autograd.grad(
                value, list(leaves.values()), retain_graph=True, allow_unused=True, materialize_grads=True
            )
            found.append(_squares({name: g[None] for name, g in zip(leaves, gradients)}))
        return torch.cat(found)

    rows = []
    with torch.enable_grad(), plain_kernels(own_type(network)):
        for example in torch.split(inputs, 1):
            rows.append(with_parameters_of(network, leaves, functools.partial(squares, example=example)))
    return torch.stack(rows)
