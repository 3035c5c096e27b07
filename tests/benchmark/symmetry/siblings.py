"""Small networks in which a layer, a parameter or a normalisation meets more than one thing at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TwoReaders(nn.Module):
    """One layer's output is read by two branches."""

    def __init__(self, first: nn.Module, second: nn.Module, width: int = 4, bias: bool = True) -> None:
        super().__init__()
        self.a, self.first, self.second = nn.Linear(4, width, bias=bias), first, second
        self.h = nn.Linear(2 * width, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x.flatten(1))
        return self.h(torch.cat([torch.relu(self.first(z)), torch.relu(self.second(z))], 1))


class SummedReaders(nn.Module):
    """Two normalisations of one layer are added up: what one shifts the other may shift back."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.a, self.first, self.second, self.h = nn.Linear(4, 4), first, second, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x.flatten(1))
        return self.h(torch.relu(self.first(z) + self.second(z)))


class Scales(nn.Module):
    """Two layer scales read one layer, or a layer scale meets the layer itself again."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.a, self.h, self.again = nn.Linear(4, 5), nn.Linear(5, 3), again
        self.p, self.q = nn.Parameter(torch.rand(5) + 0.5), nn.Parameter(torch.rand(5) - 0.5)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x.flatten(1))
        other = z if self.again else self.q * z
        return self.h(torch.relu(self.p * z) + torch.relu(other))


class ReadAsNumber(nn.Module):
    """What a weight is worth is taken out of the graph and used as a number."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.a, self.n, self.h = nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x, w = x.flatten(1), self.a.weight
        if self.kind == "norm":
            return self.h(torch.relu(self.a(x) / torch.linalg.matrix_norm(w.detach(), 2).item()))
        if self.kind == "largest":
            return self.h(torch.relu(self.n(self.a(x)) * float(w.detach().abs().max())))
        if self.kind == "branch":
            return self.h(torch.relu(self.a(x)) if float(w.detach().norm()) < 1.6 else self.a(x))
        return self.h(torch.relu(self.a(x)) + float(self.h.weight.detach().sum()))


class Twice(nn.Module):
    """A normalisation that is called twice, or whose parameters two of them share."""

    def __init__(self, norm: nn.Module, shared: bool) -> None:
        super().__init__()
        self.a, self.b, self.h = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.n, self.m = norm, nn.LayerNorm(4)
        if shared:
            self.m.weight = norm.weight

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.n(self.a(x.flatten(1))))
        return self.h(torch.relu(self.m(self.n(self.b(x)))))


class Broadcast(nn.Module):
    """Raw parameters that are added and multiplied in shapes of their own."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.a, self.h = nn.Conv2d(1, 4, 2), nn.Linear(36, 3)
        self.gain, self.shift = nn.Parameter(torch.rand(shape) + 0.5), nn.Parameter(torch.rand(shape))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.a(x) * self.gain + self.shift)
        return self.h(x.flatten(1))


class Branching(nn.Module):
    """Another nonlinearity for inputs of another sign: one recorded pass sees one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.h = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x.flatten(1))
        rows = [torch.relu(r) if float(s) > 0 else torch.tanh(r) for r, s in zip(z, x.flatten(1)[:, 0])]
        return self.h(torch.stack(rows))


class TiedHead(nn.Module):
    """Input and output layer share one matrix, in between a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n, self.b = nn.Linear(4, 6, bias=False), nn.LayerNorm(6), nn.Linear(6, 6)
        self.h = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.n(self.a(x.flatten(1)))
        return self.h(F.linear(torch.relu(self.b(z)), self.a.weight.t()))


class TwoStreams(nn.Module):
    """Two residual streams with normalisations that share readers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 5), nn.Linear(4, 5)
        self.n, self.m, self.read = nn.LayerNorm(5), nn.LayerNorm(5), nn.Linear(5, 6)
        self.h = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.h(F.gelu(self.read(self.n(self.a(x)))) + F.gelu(self.read(self.m(self.b(x)))))


def siblings() -> dict[str, Callable[[], nn.Module]]:
    """Name -> constructor; all take (n, 1, 2, 2) but for `image` ones (n, 1, 4, 4), and give three outputs."""
    bn, ln = nn.BatchNorm1d, nn.LayerNorm
    return {
        "two batch norms": lambda: TwoReaders(bn(4), bn(4)),
        "two batch norms, no bias": lambda: TwoReaders(bn(4), bn(4), bias=False),
        "batch norm and identity": lambda: TwoReaders(bn(4), nn.Identity()),
        "batch norm and linear": lambda: TwoReaders(bn(4), nn.Linear(4, 4)),
        "batch norm and layer norm": lambda: TwoReaders(bn(4), ln(4)),
        "batch norm without affine": lambda: TwoReaders(bn(4), bn(4, affine=False)),
        "two layer norms": lambda: TwoReaders(ln(4), ln(4)),
        "layer norm and identity": lambda: TwoReaders(ln(4), nn.Identity()),
        "group norm and batch norm": lambda: TwoReaders(nn.GroupNorm(2, 4), bn(4)),
        "rms norm and layer norm": lambda: TwoReaders(nn.RMSNorm(4), ln(4)),
        "chained batch norms": lambda: TwoReaders(nn.Sequential(bn(4), bn(4)), bn(4)),
        "summed batch norms": lambda: SummedReaders(bn(4), bn(4)),
        "summed layer norms": lambda: SummedReaders(ln(4), ln(4)),
        "two layer scales": lambda: Scales(False),
        "layer scale and layer": lambda: Scales(True),
        "norm as a number": lambda: ReadAsNumber("norm"),
        "largest weight as a number": lambda: ReadAsNumber("largest"),
        "branch on a weight": lambda: ReadAsNumber("branch"),
        "sum of weights as a number": lambda: ReadAsNumber("sum"),
        "batch norm called twice": lambda: Twice(bn(4), False),
        "layer norm called twice": lambda: Twice(ln(4), False),
        "gains shared": lambda: Twice(ln(4), True),
        "gains shared with a batch norm": lambda: Twice(bn(4), True),
        "branch on an input": Branching,
        "tied head": TiedHead,
        "two streams": TwoStreams,
        "image broadcast channel": lambda: Broadcast((1, 4, 1, 1)),
        "image broadcast one": lambda: Broadcast((1,)),
        "image broadcast pixel": lambda: Broadcast((3, 3)),
        "image broadcast all": lambda: Broadcast((4, 3, 3)),
    }
