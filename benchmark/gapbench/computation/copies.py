"""Copies of networks, and networks that hold other parameters for a while."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gapbench_base.errors import GapbenchError


def copied(network: nn.Module) -> nn.Module:
    """A deep copy; also of networks that keep a computed tensor as an attribute (torch's older weight_norm).

    Returns:
        The copy. Whatever an attribute that cannot be copied raises is raised here.
    """
    memo: dict[int, Any] = {}
    for module in network.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    return copy.deepcopy(network, memo)


DRAWN = 99_991  # random numbers for one tensor, at most; a prime, so that rows of a matrix differ


@contextlib.contextmanager
def holding(network: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """The network with other parameters and buffers, by the names of `named_parameters` and `named_buffers`.

    Wherever one is registered, under several names too, all are replaced and put back. What runs again during
    a backward pass (checkpointing) sees them as long as that pass is inside.
    """
    known = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    new = {id(known[name]): value for name, value in tensors.items()}
    places: list[tuple[dict[str, Any], str, Any]] = []
    recurrent: list[tuple[nn.RNNBase, list[Any]]] = []
    for module in network.modules():
        both: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for held in both:
            places += [(held, key, t) for key, t in held.items() if t is not None and id(t) in new]
        if isinstance(module, nn.RNNBase):
            recurrent.append((module, module._flat_weights))
    try:
        for held, key, old in places:
            held[key] = new[id(old)]
        for module, _ in recurrent:
            module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
        yield
    finally:
        for held, key, old in places:
            held[key] = old
        for module, weights in recurrent:
            module._flat_weights = weights


def _noise(like: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """Random numbers of a tensor's shape and type; in large ones the same come again."""
    count = min(like.numel(), DRAWN)
    draw = (scale * torch.randn(count, generator=generator, dtype=torch.float64)).to(like)
    return draw.repeat(-(-like.numel() // count))[: like.numel()].reshape(like.shape)


def check_copies(network: nn.Module, inputs: Tensor) -> None:
    """Refuse networks whose deep copy does not compute with its own parameters.

    Functions that capture layers (`self.part = lambda x: self.layer(x)`) are not copied with them: a copy goes on
    using the layers of the original, and whatever is done to it is not seen. The copy gets other parameters and is
    compared with the network itself under the same ones. Draws from the global random state; a network that
    cannot be copied or evaluated is left to whoever needs its copies.

    Raises:
        GapbenchError: the copy's outputs do not follow its own parameters.
    """
    try:
        other = copied(network)
    except Exception:
        return
    generator = torch.Generator().manual_seed(0)
    if inputs.is_floating_point():  # given inputs may be zero, and say nothing
        noise = torch.randn(inputs.shape, generator=generator, dtype=torch.float64)
        inputs = torch.cat([inputs, inputs + noise.to(inputs)])
    for size in (0.1, 1.0):
        with torch.no_grad():
            for p in other.parameters():
                if p.is_floating_point() and p.numel():
                    norm = float(torch.linalg.vector_norm(p.reshape(-1), dtype=torch.float64))
                    p.add_(_noise(p, size * norm / p.numel() ** 0.5 + 1e-3, generator))
            tensors = {**dict(other.named_parameters()), **dict(other.named_buffers())}
            held = {k: t.detach().clone() for k, t in tensors.items()}
            try:
                torch.manual_seed(0)
                base = network(inputs)
                torch.manual_seed(0)
                again = network(inputs)
                torch.manual_seed(0)
                with holding(network, held):
                    expected = network(inputs)
                torch.manual_seed(0)
                found = other(inputs)
            except (RuntimeError, TypeError, ValueError, IndexError):
                return
        if not isinstance(found, Tensor) or not isinstance(expected, Tensor) or not found.is_floating_point():
            return
        if not torch.equal(base, again) or not bool(base.isfinite().all() and expected.isfinite().all()):
            return  # never the same, or not finite: others say so
        scale = float(expected.abs().max()) if expected.numel() else 0.0
        allowed = 1e3 * torch.finfo(found.dtype).eps * max(scale, 1e-3)
        if not torch.allclose(found, expected, rtol=0.0, atol=allowed):
            raise GapbenchError(
                "A copy of the network does not compute with its own parameters: something in it captures layers "
                "(a lambda or a function kept as an attribute). Write it as a method, or give it the module."
            )
        if not torch.equal(expected, base):
            return
    raise GapbenchError(
        "The network's outputs do not depend on its parameters: it computes with others, captured by a function "
        "(a lambda kept as an attribute, or a forward= that names another network), or no unit is active."
    )
