"""Copies of networks."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn


def copied(network: nn.Module) -> nn.Module:
    """A deep copy; also of networks that keep a computed tensor as an attribute (torch's older weight_norm).

    Raises whatever an attribute that cannot be copied raises.
    """
    memo: dict[int, Any] = {}
    for module in network.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    return copy.deepcopy(network, memo)
