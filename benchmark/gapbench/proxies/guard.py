"""A measurement must leave everything as it was: weights, buffers, flags, gradients, global random state."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@dataclass
class GuardReport:
    """What a guarded block changed, in words; everything named here has been restored."""

    changes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def guarded(network: nn.Module, seed: int) -> Iterator[GuardReport]:
    """Run a block with `network` in eval mode and a fixed global random state; compare and restore after.

    The caller's modes, flags, gradients and random states come back whatever happens.

    Yields:
        A report that is filled when the block ends.
    """
    report = GuardReport()
    modes = [(module, module.training) for module in network.modules()]
    parameters = dict(network.named_parameters())
    flags = {name: p.requires_grad for name, p in parameters.items()}
    gradients = {name: p.grad for name, p in parameters.items()}
    places: list[tuple[dict[str, Any], str, Tensor]] = []
    for module in network.modules():
        both: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        places += [(held, key, t) for held in both for key, t in held.items() if t is not None]
    tensors = {**parameters, **dict(network.named_buffers())}
    before = {name: t.detach().clone() for name, t in tensors.items()}
    outside = _random_states()
    network.eval()
    for p in parameters.values():
        p.grad = None
        if p.is_floating_point():
            p.requires_grad_(True)
    _seed_all(seed)
    inside = _random_states()
    try:
        yield report
    finally:
        for name, tensor in tensors.items():
            if not _equal(tensor.detach(), before[name]):
                kind = "weights" if name in parameters else "buffer"
                report.changes.append(f"it changed the {kind} {name}")
                with torch.no_grad():
                    tensor.copy_(before[name])
        now = {**dict(network.named_parameters()), **dict(network.named_buffers())}
        if now.keys() != tensors.keys() or any(now[name] is not tensors[name] for name in tensors):
            report.changes.append("it replaced parameters or buffers of the network")
            for held, key, tensor in places:
                held[key] = tensor
        if any(module.training for module in network.modules()):
            report.changes.append("it left the network in training mode")
        if any(p.grad is not None for p in parameters.values()):
            report.changes.append("it left gradients in the parameters")
        if any(not p.requires_grad for p in parameters.values() if p.is_floating_point()):
            report.changes.append("it changed requires_grad of a parameter")
        if not _same_states(_random_states(), inside):
            report.changes.append("it drew from the global random state instead of context.generator")
        for module, mode in modes:
            module.training = mode
        for name, p in parameters.items():
            p.requires_grad_(flags[name])
            p.grad = gradients[name]
        _restore(outside)


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


@dataclass(frozen=True)
class _RandomStates:
    """The global random states; `cuda` is empty where no device is in use."""

    torch: Tensor
    numpy: tuple[Any, ...]
    python: tuple[Any, ...]
    cuda: list[Tensor]


def _random_states() -> _RandomStates:
    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()
    return _RandomStates(
        torch.get_rng_state(),
        tuple(np.random.get_state(legacy=True)),  # noqa: NPY002
        random.getstate(),
        torch.cuda.get_rng_state_all() if in_use else [],
    )


def _same_states(a: _RandomStates, b: _RandomStates) -> bool:
    return (
        torch.equal(a.torch, b.torch)
        and all(np.array_equal(x, y) for x, y in zip(a.numpy, b.numpy))
        and a.python == b.python
        and all(torch.equal(x, y) for x, y in zip(a.cuda, b.cuda))
    )


def _seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


def _restore(states: _RandomStates) -> None:
    torch.set_rng_state(states.torch)
    np.random.set_state(states.numpy)  # noqa: NPY002
    random.setstate(states.python)
    if states.cuda:
        torch.cuda.set_rng_state_all(states.cuda)
