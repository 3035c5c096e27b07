"""The last linear layer of a network: its features, and the loss's curvature in its outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.loss import Landscape
from gapbench_base.errors import NotDefined

CONSTANT = 1e-6  # of a feature's size: its standard deviation where it does not vary but for rounding


@dataclass(frozen=True)
class LinearHead:
    """Outputs f = weight phi + bias of each example, in float64.

    `features` phi (n, m), `weight` (C, m), `curvature` (n, C, C): the Hessian of each loss in the outputs.
    """

    features: Tensor
    weight: Tensor
    curvature: Tensor

    def normalised(self) -> LinearHead:
        """From features of standard deviation 1, without those that do not vary: they act as a bias."""
        spread = self.features.std(dim=0, correction=0)
        varies = spread > CONSTANT * self.features.abs().amax(dim=0)
        features, weight, spread = self.features[:, varies], self.weight[:, varies], spread[varies]
        return LinearHead(features / spread, weight * spread, self.curvature)

    def trace(self) -> float:
        """sum_{s,s'} <w_s, w_s'> Tr(H_{s,s'}), H_{s,s'} the block of the loss Hessian in rows s and s'."""
        gram = self.weight @ self.weight.T
        each = (self.curvature * gram).sum(dim=(1, 2))
        return float((self.features.pow(2).sum(1) * each).mean())

    def largest(self) -> float:
        """sum_s |w_s|^2 lambda_max(H_{s,s})."""
        total = 0.0
        for s, row in enumerate(self.weight if self.features.numel() else []):
            # H_ss = mean_i c_i phi_i phi_i' with c_i >= 0: both losses are convex in the outputs.
            scaled = self.features * (self.curvature[:, s, s, None] / len(self.features)).clamp_min(0).sqrt()
            total += float(row @ row) * float(torch.linalg.matrix_norm(scaled, 2)) ** 2
        return total


def linear_head(landscape: Landscape) -> LinearHead:
    """The layer whose outputs are the network's.

    Returns:
        It, on the landscape's examples.

    Raises:
        NotDefined: the outputs are not those of one `nn.Linear` with a weight of its own that is used once, or
            examples meet.
    """
    if landscape.mixed is not None:
        raise NotDefined(f"examples have no features of their own: {landscape.mixed}")
    network = landscape.model
    owners: dict[int, int] = {}
    for module in network.modules():
        for p in module.parameters(recurse=False):
            owners[id(p)] = owners.get(id(p), 0) + 1
    layers = [
        m
        for m in network.modules()
        if isinstance(m, nn.Linear)
        and isinstance(m._parameters.get("weight"), nn.Parameter)
        and owners[id(m.weight)] == 1
    ]
    calls: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def remember(module: nn.Linear, args: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((module, args[0].detach().clone(), output.detach().clone()))

    handles = [layer.register_forward_hook(remember) for layer in layers]
    features, outputs, heads = [], [], []
    try:
        with torch.no_grad(), plain_kernels(landscape.dtype):
            for x, _ in landscape.chunks():
                calls.clear()
                found = network(x.clone())
                head = calls[-1][0] if calls else None
                same = head is not None and torch.equal(calls[-1][2], found) and found.dim() == 2
                if not same or sum(call[0] is head for call in calls) != 1:
                    raise NotDefined("the outputs are not those of one linear layer that is used once")
                heads.append(head)
                features.append(calls[-1][1].double())
                outputs.append(found.double())
    finally:
        for handle in handles:
            handle.remove()
    head = heads[0]
    if head is None or any(other is not head for other in heads):
        raise NotDefined("the outputs are not always those of the same linear layer")
    return LinearHead(
        torch.cat(features), head.weight.detach().double(), _curvature(torch.cat(outputs), landscape.loss)
    )


def _curvature(outputs: Tensor, loss: str) -> Tensor:
    """d^2 l / df^2 (n, C, C) of each example: 1 for the squared loss, diag(p) - p p' for cross-entropy."""
    n, count = outputs.shape
    if loss == "mse":
        return torch.eye(count, dtype=torch.float64, device=outputs.device).expand(n, count, count)
    if count == 1:  # one logit z stands for (0, z)
        p = torch.sigmoid(outputs)
        return (p * (1.0 - p))[:, :, None]
    p = torch.softmax(outputs, dim=1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
