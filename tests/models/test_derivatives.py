"""Second derivatives, hooks, export, and that none of it changed the function."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call

from gapbench_models import build_model, construction, describe
from gapbench_models.differentiable import (
    ExplicitAttention,
    TwiceDifferentiableHardsigmoid,
    TwiceDifferentiableHardswish,
    make_twice_differentiable,
)
from models.family_cases import FAMILIES, images, tiny, with_generic_statistics

SHAPE = (1, 8, 8)


def _flat(tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _gradient(
    net: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, create_graph: bool = False
) -> torch.Tensor:
    loss = nn.functional.cross_entropy(net(inputs), targets)
    return _flat(torch.autograd.grad(loss, list(net.parameters()), create_graph=create_graph))


def _hessian_vector_product(
    net: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, vector: torch.Tensor
) -> torch.Tensor:
    gradient = _gradient(net, inputs, targets, create_graph=True)
    parameters = list(net.parameters())
    products = torch.autograd.grad(gradient @ vector, parameters, allow_unused=True, materialize_grads=True)
    return _flat(products)


def _move(net: nn.Module, step: torch.Tensor) -> None:
    offset = 0
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(step[offset : offset + parameter.numel()].view_as(parameter))
            offset += parameter.numel()


@pytest.mark.parametrize("name", FAMILIES)
def test_double_backward_agrees_with_differences_of_gradients(name: str) -> None:
    net = with_generic_statistics(tiny(name, SHAPE)).double().eval()
    inputs, targets = images(SHAPE, samples=3, dtype=torch.float64), torch.tensor([0, 1, 2])
    generator = torch.Generator().manual_seed(1)
    size = sum(parameter.numel() for parameter in net.parameters())
    vector = torch.randn(size, generator=generator, dtype=torch.float64)
    vector /= vector.norm()
    product = _hessian_vector_product(net, inputs, targets, vector)
    step = 1e-6
    _move(net, step * vector)
    above = _gradient(net, inputs, targets)
    _move(net, -2 * step * vector)
    below = _gradient(net, inputs, targets)
    difference = (above - below) / (2 * step)
    assert product.norm() > 1e-6
    assert (product - difference).norm() < 1e-5 * product.norm() + 1e-8


@pytest.mark.parametrize("name", FAMILIES)
def test_no_inference_path_differs(name: str) -> None:
    """Without gradients torch may take fused kernels; the values must be those that are differentiated."""
    net = with_generic_statistics(tiny(name, SHAPE)).double().eval()
    inputs = images(SHAPE, dtype=torch.float64)
    with_gradient = net(inputs)
    with torch.no_grad():
        torch.testing.assert_close(net(inputs), with_gradient, rtol=1e-13, atol=1e-14)
        parameters = dict(net.named_parameters())
        _, tangent = torch.func.jvp(
            lambda values: functional_call(net, values, (inputs,)),
            (parameters,),
            ({k: v.clone() for k, v in parameters.items()},),
        )
    assert torch.isfinite(tangent).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_no_fused_attention_is_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("fused attention was called")

    net = tiny(name, SHAPE)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", refuse)
    monkeypatch.setattr(torch, "_native_multi_head_attention", refuse)
    for mode in (True, False):
        net.train(mode)(images(SHAPE))
        with torch.no_grad():
            net(images(SHAPE))


def test_fused_attention_stays_on_for_everyone_else() -> None:
    from timm.layers import use_fused_attn

    before = use_fused_attn()
    for name in FAMILIES:
        if "softmax" in describe(name).activations:
            tiny(name)
    assert use_fused_attn() == before
    assert type(nn.MultiheadAttention(4, 2)) is nn.MultiheadAttention


def _library_version(net: nn.Module) -> nn.Module:
    """The same network with every class of ours turned back into the library's class that it derives from."""
    original = copy.deepcopy(net)
    for module in original.modules():
        bases = [base for base in type(module).__mro__ if not base.__module__.startswith("gapbench_models")]
        if bases[0] is not type(module) and bases[0] is not nn.Module:
            module.__class__ = bases[0]
    return original


@pytest.mark.parametrize("name", FAMILIES)
def test_the_function_is_the_librarys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (3, 16, 16)
    depth = 1 if describe(name).supports_depth else None
    net = build_model(name, 1 / 8, shape, 5, depth=depth)
    monkeypatch.setattr(construction, "make_twice_differentiable", lambda net: None)
    original = _library_version(build_model(name, 1 / 8, shape, 5, depth=depth))
    assert net.state_dict().keys() == original.state_dict().keys()
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        for mode in (False, True)[: 1 if dtype == torch.float32 else 2]:
            one = with_generic_statistics(net).to(dtype).train(mode)
            other = with_generic_statistics(original).to(dtype).train(mode)
            other.load_state_dict(one.state_dict())
            inputs = images(shape, samples=3, dtype=dtype)
            with torch.no_grad():
                expected, actual = other(inputs), one(inputs)
            torch.testing.assert_close(
                actual, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())
            )


@pytest.mark.parametrize("name", FAMILIES)
def test_full_backward_hooks_work_on_every_module(name: str) -> None:
    """They refuse outputs that are later modified in place; the gradients must not change either."""
    net = tiny(name, SHAPE).double()
    inputs, targets = images(SHAPE, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    net.eval()
    expected = _gradient(net, inputs, targets)
    outputs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(module: nn.Module, arguments: object, output: object) -> None:
        if isinstance(output, torch.Tensor):
            outputs.append((output, output.detach().clone()))

    handles = [module.register_forward_hook(keep) for module in net.modules()]
    net(inputs)
    assert all(torch.equal(output, copy_then) for output, copy_then in outputs), "an output was overwritten"
    for handle in handles:
        handle.remove()
    for module in net.modules():
        if not isinstance(module, (nn.ModuleDict, nn.ModuleList)):
            module.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    torch.testing.assert_close(_gradient(net, inputs, targets), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FAMILIES)
def test_per_example_gradients_by_vmap_agree_with_a_loop(name: str) -> None:
    net = with_generic_statistics(tiny(name, SHAPE)).double().eval()
    inputs, targets = images(SHAPE, samples=3, dtype=torch.float64), torch.tensor([0, 1, 2])
    parameters = {key: value.detach() for key, value in net.named_parameters()}

    def loss(values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(functional_call(net, values, (x[None],)), y[None])

    batched = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, inputs, targets)
    for index in range(3):
        expected = _gradient(net, inputs[index : index + 1], targets[index : index + 1])
        actual = _flat(tuple(batched[key][index] for key in parameters))
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)


EXPORTED = ["plain/mlp", "plain/cnn", "timm/resnet18", "timm/mixer", "timm/convmixer", "timm/vit_tiny"]
EXPORTED += [
    "timm/convnext_atto",
    "torchvision/resnet18",
    "torchvision/vit",
    "torchvision/mobilenet_v3_small",
]


@pytest.mark.parametrize("name", [name for name in EXPORTED if name in FAMILIES])
def test_export_computes_the_same(name: str) -> None:
    net = with_generic_statistics(tiny(name, SHAPE)).eval()
    inputs = images(SHAPE, samples=2)
    exported = torch.export.export(net, (inputs,)).module()
    torch.testing.assert_close(exported(inputs), net(inputs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("ours", "reference"),
    [
        (TwiceDifferentiableHardsigmoid(), nn.Hardsigmoid()),
        (TwiceDifferentiableHardswish(), nn.Hardswish()),
    ],
)
def test_replaced_activations_are_equal_with_their_derivatives(ours: nn.Module, reference: nn.Module) -> None:
    x = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    x = x[(x.abs() - 3).abs() > 1e-6].requires_grad_()  # at the kinks the derivative is a convention
    torch.testing.assert_close(ours(x), reference(x), rtol=1e-14, atol=1e-14)
    (first,) = torch.autograd.grad(ours(x).sum(), x, create_graph=True)
    (expected,) = torch.autograd.grad(reference(x).sum(), x)
    # torch's own derivative of hardsigmoid holds 1/6 in single precision, in float64 too
    torch.testing.assert_close(first.detach(), expected, rtol=1e-7, atol=1e-13)
    (second,) = torch.autograd.grad(
        (first * torch.cos(x.detach())).sum(), x, allow_unused=True, materialize_grads=True
    )
    curvature = 1 / 3 if isinstance(ours, TwiceDifferentiableHardswish) else 0.0
    torch.testing.assert_close(
        second, torch.where(x.detach().abs() < 3, curvature, 0.0) * torch.cos(x.detach())
    )


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_explicit_attention_is_torchs(batch_first: bool, separate: bool, masked: bool) -> None:
    torch.manual_seed(0)
    sizes = {"kdim": 5, "vdim": 7} if separate else {}
    attention = nn.MultiheadAttention(8, 2, batch_first=batch_first, **sizes).double().eval()
    net = nn.Sequential(copy.deepcopy(attention))
    make_twice_differentiable(net)
    assert isinstance(net[0], ExplicitAttention)
    query, key, value = (
        torch.randn(3, 4, size, dtype=torch.float64)
        for size in (8, sizes.get("kdim", 8), sizes.get("vdim", 8))
    )
    length = 4 if batch_first else 3
    mask = torch.ones(length, length, dtype=torch.bool).triu(1) if masked else None
    for need_weights in (True, False):
        expected = attention(query, key, value, need_weights=need_weights, attn_mask=mask)
        actual = net[0](query, key, value, need_weights=need_weights, attn_mask=mask)
        torch.testing.assert_close(actual[0], expected[0], rtol=1e-13, atol=1e-14)
        assert (actual[1] is None) == (expected[1] is None)
        if need_weights:
            torch.testing.assert_close(actual[1], expected[1], rtol=1e-13, atol=1e-14)


def test_hardsigmoid_of_a_network_is_replaced_wherever_it_sits() -> None:
    net = nn.Sequential(
        nn.Linear(4, 4),
        nn.Sequential(nn.Hardsigmoid(inplace=True), nn.ModuleDict({"a": nn.Hardswish()})["a"]),
    )
    expected = net(torch.ones(2, 4))
    make_twice_differentiable(net)
    assert not any(isinstance(module, (nn.Hardsigmoid, nn.Hardswish)) for module in net.modules())
    torch.testing.assert_close(net(torch.ones(2, 4)), expected)
