"""The families and the small instances of them that the tests of this folder share."""

from __future__ import annotations

import copy
import functools

import torch
from torch import nn

from gapbench_models import build_model, describe, list_models

FAMILIES = list_models()


def tiny(
    name: str,
    shape: tuple[int, int, int] = (1, 8, 8),
    num_classes: int = 3,
    seed: int = 0,
    width: float = 1 / 16,
    dropout: float = 0.0,
) -> nn.Module:
    """A narrow and shallow network of the family: a copy, so that each is built only once."""
    return copy.deepcopy(_built(name, shape, num_classes, seed, width, dropout))


def freshly_built(
    name: str,
    shape: tuple[int, int, int] = (1, 8, 8),
    num_classes: int = 3,
    seed: int = 0,
    width: float = 1 / 16,
    dropout: float = 0.0,
) -> nn.Module:
    """The same, built anew."""
    depth = 1 if describe(name).supports_depth else None
    return build_model(name, width, shape, num_classes, seed, depth=depth, dropout=dropout)


_built = functools.cache(freshly_built)


def images(
    shape: tuple[int, int, int], samples: int = 4, seed: int = 0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Standard normal images (samples, *shape)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, *shape, generator=generator, dtype=torch.float64).to(dtype)


def with_generic_statistics(net: nn.Module, seed: int = 0) -> nn.Module:
    """Give statistics and all vectors generic values, so that nothing holds by a special one."""
    generator = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.copy_(0.1 * torch.randn(module.num_features, generator=generator))
            module.running_var.copy_(0.5 + torch.rand(module.num_features, generator=generator))
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return net
