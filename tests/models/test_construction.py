"""Initialisation: from the seed alone, nothing of the caller's touched, nothing invisible at the start."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from gapbench_models import build_model, describe
from models.family_cases import FAMILIES, freshly_built, images, tiny


def _states(net: nn.Module) -> dict[str, torch.Tensor]:
    return net.state_dict()


def _equal(one: nn.Module, other: nn.Module) -> bool:
    first, second = _states(one), _states(other)
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_depend_on_the_seed_and_on_nothing_else(name: str) -> None:
    torch.manual_seed(1)
    reference = freshly_built(name, seed=5)
    torch.manual_seed(2)
    torch.rand(7)
    before = torch.get_rng_state()
    again = freshly_built(name, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert _equal(reference, again)
    assert not _equal(reference, tiny(name, seed=6))


def test_the_accelerators_are_not_reseeded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the accelerator's generator was touched")

    for function in ("manual_seed", "manual_seed_all", "set_rng_state", "set_rng_state_all"):
        monkeypatch.setattr(torch.cuda, function, refuse)
    build_model("plain/cnn", seed=3)


def test_the_global_settings_of_the_caller_do_not_matter_and_stay() -> None:
    reference = freshly_built("timm/resnet18", seed=5)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.inference_mode():
            other = freshly_built("timm/resnet18", seed=5)
        assert torch.get_default_dtype() == torch.float64
        assert torch.empty(1).is_meta
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert _equal(reference, other)
    assert all(parameter.requires_grad and not parameter.is_inference() for parameter in other.parameters())


def test_a_failed_construction_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    from gapbench_models.families import plain

    def fail(request: object) -> nn.Module:
        torch.rand(1)
        raise RuntimeError("broken")

    monkeypatch.setattr(plain, "mlp", fail)
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="broken"):
        build_model("plain/mlp")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", FAMILIES)
def test_float32_on_the_cpu_in_training_mode(name: str) -> None:
    net = tiny(name)
    assert net.training
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float32}
    assert {tensor.device.type for tensor in _states(net).values()} == {"cpu"}
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert all(module.training for module in net.modules())


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_but_biases_starts_at_zero(name: str) -> None:
    for key, parameter in tiny(name, width=1 / 8).named_parameters():
        shift = key.endswith(("bias", "beta"))
        if not shift:
            assert parameter.abs().min() > 0 or parameter.ne(0).float().mean() > 0.99, key
            assert parameter.abs().max() > 1e-4, key


@pytest.mark.parametrize("name", FAMILIES)
def test_every_parameter_has_a_gradient_from_the_start(name: str) -> None:
    net = tiny(name, (3, 8, 8), width=1 / 4).double()
    inputs = images((3, 8, 8), samples=16, dtype=torch.float64)
    targets = torch.arange(16) % 3
    gradients = torch.autograd.grad(nn.functional.cross_entropy(net(inputs), targets), list(net.parameters()))
    for (key, _), gradient in zip(net.named_parameters(), gradients):
        # A bias before batch normalisation cancels in training mode; attention ignores a shift of all keys.
        if key.endswith("weight"):
            assert gradient.abs().max() > 1e-9, key


@pytest.mark.parametrize("name", FAMILIES)
def test_init_scale_multiplies_weights_of_linear_and_convolutional_layers_only(name: str) -> None:
    depth = 1 if describe(name).supports_depth else None
    reference = build_model(name, 1 / 16, (1, 8, 8), 3, depth=depth)
    doubled = build_model(name, 1 / 16, (1, 8, 8), 3, depth=depth, init_scale=2.0)
    scaled_keys = set()
    for prefix, module in reference.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            scaled_keys.add(f"{prefix}.weight")
        if isinstance(module, nn.MultiheadAttention):
            scaled_keys.add(f"{prefix}.in_proj_weight")
    assert scaled_keys
    other = _states(doubled)
    for key, tensor in _states(reference).items():
        assert torch.equal(other[key], 2 * tensor if key in scaled_keys else tensor), key


@pytest.mark.parametrize("name", FAMILIES)
def test_dropout_acts_in_training_mode_only_and_changes_no_weight(name: str) -> None:
    if not describe(name).supports_dropout:
        pytest.skip("this family has no dropout")
    plain, dropped = tiny(name), tiny(name, dropout=0.5)
    inputs = images((1, 8, 8))
    plain.eval()
    dropped.eval()
    assert torch.equal(plain(inputs), dropped(inputs))
    assert [key for key, _ in plain.named_parameters()] == [key for key, _ in dropped.named_parameters()]
    wide = build_model(
        name, 1 / 4, (1, 8, 8), 3, dropout=0.5, depth=1 if describe(name).supports_depth else None
    )
    for module in wide.modules():
        module.training = not isinstance(module, nn.BatchNorm2d)
    assert not torch.equal(wide(inputs), wide(inputs))


@pytest.mark.parametrize("name", FAMILIES)
def test_without_dropout_training_mode_is_deterministic(name: str) -> None:
    net = tiny(name)
    inputs = images((1, 8, 8))
    assert torch.equal(net(inputs), net(inputs))


@pytest.mark.parametrize("name", [name for name in FAMILIES if describe(name).supports_depth])
def test_depth_adds_layers_and_the_default_is_as_described(name: str) -> None:
    def count(depth: int | None) -> int:
        net = build_model(name, 1 / 16, (1, 8, 8), 3, depth=depth)
        return sum(isinstance(module, (nn.Linear, nn.Conv2d)) for module in net.modules())

    first, second, third = count(1), count(2), count(3)
    assert first < second < third
    assert third - second == second - first
    default = describe(name).default_depth
    if default is not None:
        assert count(None) == first + (default - 1) * (second - first)


@pytest.mark.parametrize("name", FAMILIES)
def test_copies_and_pickles_compute_the_same(name: str) -> None:
    net = tiny(name).eval()
    inputs = images((1, 8, 8))
    expected = net(inputs)
    assert torch.equal(copy.deepcopy(net)(inputs), expected)
    assert torch.equal(pickle.loads(pickle.dumps(net))(inputs), expected)


def test_plain_weights_have_the_documented_variances() -> None:
    net = build_model("plain/mlp", 8, (3, 32, 32), 10, depth=2)
    weights = [module.weight for module in net.modules() if isinstance(module, nn.Linear)]
    for weight, gain in zip(weights, (2, 2, 1)):
        assert weight.var().item() * weight.shape[1] == pytest.approx(gain, rel=0.1)
    linear = build_model("plain/linear", 1, (3, 32, 32), 10)
    assert [type(module) for module in linear.children()] == [nn.Flatten, nn.Linear]
    assert linear(torch.zeros(2, 3, 32, 32)).abs().max() == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_an_activation_changes_the_nonlinearity_and_no_weight(name: str) -> None:
    choices = describe(name).activation_choices
    if not choices:
        with pytest.raises(ValueError, match=f"{name}: the activations of this family are fixed"):
            build_model(name, 1 / 4, (1, 8, 8), 3, activation="gelu")
        return
    assert describe(name).activations == choices[:1]
    default = build_model(name, 1 / 4, (1, 8, 8), 3, seed=0)
    for activation in choices:
        net = build_model(name, 1 / 4, (1, 8, 8), 3, seed=0, activation=activation)
        kinds = {type(m).__name__.lower() for m in net.modules() if type(m).__module__.endswith("activation")}
        assert kinds == {activation}
        assert all(torch.equal(p, q) for p, q in zip(net.parameters(), default.parameters()))
        assert list(net.state_dict()) == list(default.state_dict())


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "silu"])
def test_an_mlp_is_its_layers_with_the_activation_between_them(activation: str) -> None:
    net = build_model("plain/mlp", 1 / 4, (1, 4, 4), 3, seed=0, depth=1, activation=activation).double()
    x = torch.randn(5, 1, 4, 4, dtype=torch.float64)
    w, b, v, c = net.parameters()
    z = x.flatten(1) @ w.T + b
    phi = {
        "relu": z.clamp(min=0),
        "gelu": 0.5 * z * (1 + torch.erf(z / 2**0.5)),
        "tanh": (z.exp() - (-z).exp()) / (z.exp() + (-z).exp()),
        "silu": z / (1 + (-z).exp()),
    }[activation]
    torch.testing.assert_close(net(x), phi @ v.T + c, rtol=1e-12, atol=1e-12)


def test_an_activation_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"activation must be default or one of relu, .*Did you mean 'gelu'"):
        build_model("plain/cnn", 1 / 4, (1, 8, 8), 3, activation="gellu")
