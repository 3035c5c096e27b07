"""The network that proxies see: unwrapped, in a type whose rounding is small, frozen parameters set aside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench_base.errors import GapbenchError

TINY = 20_000  # parameters of a half-precision network that is copied to float64 instead of float32
Forward = Callable[[nn.Module, Tensor], Tensor]


@dataclass(frozen=True)
class Prepared:
    """`network` to measure, the `dtype` it computes in, and what was done to it, in words, by subject."""

    network: nn.Module
    dtype: torch.dtype
    notes: dict[str, str]


class Adapted(nn.Module):
    """A network whose outputs a function picks out of what it returns."""

    def __init__(self, network: nn.Module, forward: Forward):
        super().__init__()
        self.network = network
        self.pick = forward

    def forward(self, inputs: Tensor) -> Tensor:
        """The picked outputs on `inputs` (n, ...)."""
        return self.pick(self.network, inputs)


def prepare(
    network: nn.Module,
    forward: Forward | None = None,
    frozen: str = "exclude",
    like: nn.Module | None = None,
) -> Prepared:
    """What to measure of a user's network; the network itself where nothing has to change, else a copy.

    Data-parallel and compiled networks are unwrapped. Parameters of half precision or of several types are
    copied to float32 (float64 for up to `TINY` parameters, and where some are float64). Parameters that do
    not require a gradient become constants, unless `frozen` is "include" or no parameter requires one; `like`
    names another network whose flags count instead.

    Returns:
        The network itself where nothing has to change, else a copy.

    Raises:
        GapbenchError: scripted, complex and empty networks.
    """
    if frozen not in ("exclude", "include"):
        raise GapbenchError(f"frozen = {frozen!r} must be 'exclude' or 'include'.")
    notes: dict[str, str] = {}
    network = _unwrapped(network)
    flags = {
        name: p.requires_grad and p.is_floating_point()
        for name, p in (network if like is None else _unwrapped(like)).named_parameters()
    }
    _check(network)
    parameters = dict(network.named_parameters())
    kinds = {p.dtype for p in network.parameters() if p.is_floating_point()}
    numbers = {t.dtype for t in [*network.parameters(), *network.buffers()] if t.is_floating_point()}
    size = sum(p.numel() for p in network.parameters())
    dtype = kinds.pop() if len(kinds) == 1 else torch.float64
    if dtype not in (torch.float32, torch.float64) or numbers - {dtype}:
        wide = torch.float64 in numbers or size <= TINY or len(numbers) > 2
        target = torch.float64 if wide else torch.float32
        names = ", ".join(sorted(str(n).removeprefix("torch.") for n in numbers))
        notes["precision"] = f"a copy in {str(target).removeprefix('torch.')} of a network in {names}"
        network, dtype = _copy(network).to(target), target
    outside = [name for name, wanted in flags.items() if not wanted]
    whole = {name for name, p in parameters.items() if not p.is_floating_point()}
    if outside and len(outside) < len(flags) and frozen == "exclude":
        count = sum(parameters[name].numel() for name in outside if name in parameters)
        notes["frozen"] = (
            f"{count} parameters that require no gradient were left out (frozen='include' takes them)"
        )
        network = _with_constants(network, set(outside))
    elif whole:
        notes["frozen"] = "parameters that are whole numbers were left out"
        network = _with_constants(network, whole)
    if forward is not None:
        network = Adapted(network, forward)
    return Prepared(network, dtype, notes)


def prepare_as_it_is(network: nn.Module, forward: Forward | None = None) -> nn.Module:
    """The unwrapped network with its outputs picked, in its own types."""
    network = _unwrapped(network)
    return network if forward is None else Adapted(network, forward)


def _unwrapped(network: object) -> nn.Module:
    if not isinstance(network, nn.Module):
        raise GapbenchError(f"The network must be a torch.nn.Module, not {type(network).__name__}.")
    inner: nn.Module = network
    while True:
        compiled = getattr(inner, "_orig_mod", None)
        if isinstance(inner, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = inner.module
        elif isinstance(compiled, nn.Module):
            inner = compiled
        else:
            return inner


def _check(network: nn.Module) -> None:
    if isinstance(network, torch.jit.ScriptModule) or any(
        isinstance(module, torch.jit.ScriptModule) for module in network.modules()
    ):
        raise GapbenchError("The network is scripted (torch.jit): give the nn.Module that it was made from.")
    tensors = [*network.named_parameters(), *network.named_buffers()]
    if not any(True for _ in network.parameters()):
        raise GapbenchError("The network has no parameters.")
    for name, tensor in tensors:
        if torch.nn.parameter.is_lazy(tensor):
            raise GapbenchError("The network has uninitialised (lazy) parameters: evaluate it once first.")
        if tensor.is_inference():
            raise GapbenchError(
                f"The tensor {name} was made within torch.inference_mode(), where nothing can be differentiated: "
                "build the network outside, or copy its state dict into one that was."
            )
        if isinstance(tensor, nn.Parameter) and not tensor.numel():
            raise GapbenchError(
                f"The parameter {name} is empty, of shape {tuple(tensor.shape)}: leave it out."
            )
        if tensor.is_complex():
            raise GapbenchError(
                f"The tensor {name} is complex: proxies are defined for real parameters. Write it as a real "
                "and an imaginary part."
            )


def _copy(network: nn.Module) -> nn.Module:
    try:
        return copied(network)
    except Exception as error:
        raise GapbenchError(f"The network cannot be copied: {type(error).__name__}: {error}") from error


def _with_constants(network: nn.Module, names: set[str]) -> nn.Module:
    """A copy in which these parameters are buffers."""
    held = {name: id(p) for name, p in network.named_parameters()}
    gone = {held[name] for name in names if name in held}
    places = [
        (path, key)
        for path, module in network.named_modules()
        for key, p in module._parameters.items()
        if p is not None and id(p) in gone
    ]
    result = _copy(network)
    for path, key in places:
        module = result.get_submodule(path)
        value = module._parameters.pop(key)
        assert value is not None
        module.register_buffer(key, value.detach())
    return result
