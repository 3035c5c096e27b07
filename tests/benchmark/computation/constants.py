"""Dense Jacobians and attained differences, to compare constants with."""

import itertools
import math

import torch
from torch import nn

from gapbench.computation.lipschitz import compose


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def composed(network, shape):
    return compose(network, torch.zeros(2, *shape, dtype=torch.float64))


def constant(network, shape):
    return math.exp(composed(network, shape).log_lipschitz)


def matrix_of(network, shape, at=None):
    """The dense Jacobian (outputs, inputs) at `at`."""
    point = torch.zeros(1, *shape, dtype=torch.float64) if at is None else at
    found = torch.autograd.functional.jacobian(network, point)
    return found.reshape(-1, math.prod(shape))


def largest_slope(network, shape, count=40):
    """The largest Jacobian norm and the largest difference quotient among random points and impulses."""
    generator = torch.Generator().manual_seed(0)
    best = 0.0
    points = [
        torch.randn(1, *shape, generator=generator, dtype=torch.float64) * 10 ** (i % 3 - 1)
        for i in range(count)
    ]
    flat = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, 1, *shape)
    with torch.no_grad():
        for base in (torch.zeros_like(points[0]), points[0]):
            for impulse in flat:
                for size in (0.1, -0.1, 5.0):
                    step = (network(base + size * impulse) - network(base)).norm() / abs(size)
                    best = max(best, float(step))
        for first, second in itertools.pairwise(points):
            best = max(best, float((network(first) - network(second)).norm() / (first - second).norm()))
    for point in points[:8]:
        best = max(best, float(torch.linalg.matrix_norm(matrix_of(network, shape, point), 2)))
    return best


def seeded(build):
    torch.manual_seed(0)
    return build().double().eval()


def randomised(layer):
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.3, 3.0)
    nn.init.normal_(layer.weight)
    return layer


class Block(nn.Module):
    def __init__(self, *inner, join="add"):
        super().__init__()
        self.inner, self.join = nn.Sequential(*inner), join

    def forward(self, x):
        y = self.inner(x)
        if self.join == "add":
            return x - 2 * y
        return torch.maximum(x, y) if self.join == "maximum" else torch.cat([x, y, x], 1)


class Rows(nn.Module):
    """Acts on each row of an example apart."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class Left(nn.Module):
    """Mixes the rows, as the token mixing of an MLP-mixer."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(5, 4))

    def forward(self, x):
        return torch.einsum("ij,bjk->bik", self.w, x)


class LeftBatched(Left):
    def forward(self, x):
        return torch.bmm(self.w.expand(len(x), -1, -1), x)


class Scale(nn.Module):
    """A learned factor that broadcasts, or divides."""

    def __init__(self, shape, divide=False, expand=False):
        super().__init__()
        self.scale, self.divide, self.expand = nn.Parameter(torch.rand(shape) + 0.5), divide, expand

    def forward(self, x):
        scale = self.scale.expand(len(x), *self.scale.shape[1:]) if self.expand else self.scale
        return x / scale if self.divide else x * scale


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, -0.2]).view(1, 2, 1, 1))
        self.register_buffer("std", torch.tensor([0.25, 3.0]).view(1, 2, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


class ByChannel(nn.Module):
    """A sum in which one term is broadcast."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        return x + torch.relu(self.inner(x.mean((2, 3), keepdim=True)))
