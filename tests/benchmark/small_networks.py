"""Tiny float64 networks of every kind of operator, and dense derivatives to compare with."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gapbench.curvature.heads import per_example_loss


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.layer(torch.relu(self.layer(x.flatten(1))))))


class Scaled(nn.Module):
    """A layer scale, a position embedding and a functional in-place activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.scale = nn.Parameter(torch.rand(5) + 0.5)
        self.position = nn.Parameter(torch.randn(4))
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x.flatten(1) + self.position)
        return self.head(hidden.relu_() * self.scale)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x.reshape(len(x), 2, -1).repeat(1, 1, 2))
        return self.head((x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Name -> (network in eval mode, float64, random weights and statistics; shape of one input)."""
    torch.manual_seed(0)
    found: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
        "relu": (nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), (1, 2, 2)),
        "leaky": (
            nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Linear(4, 3)),
            (1, 2, 2),
        ),
        "prelu": (nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.PReLU(4), nn.Linear(4, 3)), (1, 2, 2)),
        "gelu": (nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 3)), (1, 2, 2)),
        "deep_linear": (
            nn.Sequential(nn.Flatten(), nn.Linear(4, 5, bias=False), nn.Linear(5, 3, bias=False)),
            (1, 2, 2),
        ),
        "conv_bn": (
            nn.Sequential(
                nn.Conv2d(1, 3, 3, padding=1),
                nn.BatchNorm2d(3),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(3, 4, 2, groups=1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(4, 3),
            ),
            (1, 4, 4),
        ),
        "depthwise_residual": (
            nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1, bias=False),
                Residual(
                    nn.Sequential(
                        nn.BatchNorm2d(4), nn.ReLU6(), nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)
                    )
                ),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(4, 3),
            ),
            (1, 4, 4),
        ),
        "shared": (Shared(), (1, 2, 2)),
        "scaled": (Scaled(), (1, 2, 2)),
        "attention": (Attention(), (1, 2, 2)),
        "input_norm": (nn.Sequential(nn.Flatten(), nn.LayerNorm(4), nn.Linear(4, 3)), (1, 2, 2)),
        "hidden_norm": (
            nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3)),
            (1, 2, 2),
        ),
    }
    for network, _ in found.values():
        network.double().eval()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(std=0.3)
                module.running_var.uniform_(0.5, 2.0)
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, std=0.3)
    return found


def data(shape: tuple[int, ...], loss: str, count: int = 7) -> tuple[Tensor, Tensor]:
    """Random inputs and targets for three outputs."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    if loss == "mse":
        return inputs, torch.randn(count, 3, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(0, 3, (count,), generator=generator)


def dense_hessian(network: nn.Module, inputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """The Hessian (d, d) of the mean loss, by composing reverse mode with itself."""
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    shapes = [p.shape for p in parameters.values()]
    sizes = [p.numel() for p in parameters.values()]

    def of_flat(theta: Tensor) -> Tensor:
        parts = theta.split(sizes)
        values = {n: p.reshape(s) for n, p, s in zip(parameters, parts, shapes)}
        return per_example_loss(functional_call(network, values, (inputs,)), targets, loss).mean()

    theta = torch.cat([p.reshape(-1) for p in parameters.values()])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return torch.autograd.functional.hessian(of_flat, theta)


__all__ = ["data", "dense_hessian", "networks"]
