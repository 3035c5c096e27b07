"""Baseline rows: numbers that are published beside every proxy so that a disguised one is recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


@proxy("random", reference="control", cost="weights", central=True)
def random_number(context: Context) -> float:
    """A standard normal number from the measurement's generator: what no information is worth."""
    import torch

    return float(torch.randn((), generator=context.generator, dtype=torch.float64))


@proxy("parameter_count", reference="Jiang et al. 2020, eq. 20", cost="weights", central=True)
def parameter_count(context: Context) -> float:
    """Number of parameters, each shared one once."""
    return float(sum(p.numel() for p in context.parameters))


@proxy("train_loss", reference="Jiang et al. 2020, eq. 21", cost="cheap", central=True)
def train_loss(context: Context) -> float:
    """Mean loss on the whole training set, labels trained on, eval mode."""
    return context.train_loss
