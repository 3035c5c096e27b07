"""Whether two networks compute the same function, seen on given inputs and on random ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench.computation.tracing import own_type, plain_kernels

ACCEPTED = 1e-9  # change of outputs in float64, relative to their largest modulus
ROUNDING = 2.0**13  # units of rounding by which outputs may change in the network's own type
OUTLYING = 1e3  # an output that much larger than most has a scale of its own
LOOKED_AT = 16  # given inputs that are looked at, besides random ones
RANDOM = 4


def double_copy(network: nn.Module) -> nn.Module:
    """A float64 copy in eval mode."""
    return copied(network).double().eval()


def probes(example: Tensor) -> Tensor:
    """Inputs on which functions are compared: given ones and random ones.

    Whole numbers (token ids) are redrawn among those that occur, each in its own place of the input where
    several occur there.

    Returns:
        Up to `LOOKED_AT` of the given inputs (n, ...), then `RANDOM` drawn with their mean and spread;
        floating-point inputs in float64.
    """
    generator = torch.Generator().manual_seed(0)
    given = example[:LOOKED_AT].detach()
    if not given.is_floating_point():
        rows = torch.randint(0, len(given), (RANDOM, *given.shape[1:]), generator=generator)
        drawn = given.cpu().gather(0, rows)
        return torch.cat([given, drawn.to(given.device)])
    given = given.double()
    noise = torch.randn(RANDOM, *given.shape[1:], generator=generator, dtype=torch.float64)
    spread = float(given.std()) if given.numel() > 1 else 0.0
    drawn = float(given.mean()) + (spread or 1.0) * noise.to(given.device)
    return torch.cat([given, drawn])


@torch.no_grad()
def outputs(network: nn.Module, inputs: Tensor, logit_shift: bool) -> Tensor:
    """Outputs, or log probabilities where a common shift of the logits counts as no change."""
    with plain_kernels(own_type(network)):
        found = network(inputs)
    assert isinstance(found, Tensor)
    return torch.log_softmax(found, dim=1) if logit_shift else found


def change(before: Tensor, after: Tensor) -> float:
    """How far an output moves, relative to the largest that was finite.

    What was not finite before says nothing and is left out. Outputs that are a thousand times larger than the
    others (masked classes) do not count for the scale of the others.

    Returns:
        The largest change of an output (n, ...); inf for a new NaN or inf, and where nothing was finite.
    """
    if before.shape != after.shape:
        return float("inf")
    finite = before.isfinite()
    if not bool(finite.any()) or not bool(after[finite].isfinite().all()):
        return float("inf")
    zero = torch.zeros((), dtype=torch.float64, device=before.device)
    kept, moved = torch.where(finite, before.double(), zero), torch.where(finite, after.double(), zero)
    kept, moved = kept.reshape(len(kept), -1), moved.reshape(len(moved), -1)
    largest = kept.abs().max(dim=0).values
    usual = largest[largest <= OUTLYING * float(largest.quantile(0.25, interpolation="lower"))]
    scale = float(usual.max()) if usual.numel() and float(usual.max()) > 0 else float(largest.max())
    scales = torch.where(largest > OUTLYING * scale, largest, torch.full_like(largest, scale or 1.0))
    return float(((moved - kept).abs().max(dim=0).values / scales).max())


def largest_change(before: nn.Module, after: nn.Module, example: Tensor, logit_shift: bool = False) -> float:
    """`change` between two float64 networks on `probes(example)`."""
    inputs = probes(example)
    return change(outputs(before, inputs, logit_shift), outputs(after, inputs, logit_shift))


def rounded_change(before: nn.Module, after: nn.Module, example: Tensor, logit_shift: bool = False) -> float:
    """`change` between two networks of one type, in units of what its rounding may do.

    Returns:
        At most 1 for networks that are the same: the unit is `ROUNDING` times the type's rounding unit, and
        `ACCEPTED` at least.
    """
    kind = next(before.parameters()).dtype
    inputs = probes(example)
    inputs = inputs.to(kind) if inputs.is_floating_point() else inputs
    moved = change(outputs(before, inputs, logit_shift), outputs(after, inputs, logit_shift))
    return moved / max(ACCEPTED, ROUNDING * torch.finfo(kind).eps)
