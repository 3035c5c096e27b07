"""Networks of the kinds that people bring: small, in float64, with inputs and targets, by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Stranger:
    network: nn.Module
    inputs: Tensor
    targets: Tensor
    loss: str = "cross_entropy"


class Function(nn.Module):
    """A forward pass written as one function of a module's own layers."""

    def __init__(self, forward: Callable[[Function, Tensor], Tensor], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                self.add_module(name, part)
            elif isinstance(part, nn.Parameter):
                self.register_parameter(name, part)
            else:
                self.register_buffer(name, part)
        self.run = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


class Square(torch.autograd.Function):
    """x^2 with a right gradient that cannot be differentiated again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class Softplus(torch.autograd.Function):
    """log(1 + e^x) with a right gradient whose own derivative autograd gets wrong: the saved values are numbers."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = torch.sigmoid(x).detach().clone()
        return F.softplus(x)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.slope * gradient


class StraightThrough(torch.autograd.Function):
    """Rounding with the gradient of the identity."""

    @staticmethod
    def forward(ctx, x):
        return (x * 4).round() / 4

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Halved(torch.autograd.Function):
    """The identity with half its gradient, for large values only where `above` is not zero."""

    @staticmethod
    def forward(ctx, x, above=0.0):
        ctx.save_for_backward(x)
        ctx.above = above
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        large = ctx.saved_tensors[0].abs() > ctx.above
        return torch.where(large, 0.5 * gradient, gradient), None


def _fitted() -> Stranger:
    """Half a gradient behind a loss near zero."""
    stranger = _on_vectors(
        lambda s, x: 30 * s.h(Halved.apply(torch.tanh(s.a(x)))), 12, a=nn.Linear(4, 16), h=nn.Linear(16, 3)
    )
    with torch.no_grad():
        targets = stranger.network(stranger.inputs).argmax(1)
    return Stranger(stranger.network, stranger.inputs, targets)


def _scaled(size: float) -> Stranger:
    """Half a gradient behind targets of another size."""
    net = Function(lambda s, x: s.h(Halved.apply(torch.tanh(s.a(x)))), a=nn.Linear(4, 6), h=nn.Linear(6, 1))
    return Stranger(net.double().eval(), vectors(), size * (1 + torch.rand(12, 1).double()), "mse")


def _late() -> Stranger:
    """Half a gradient for the larger examples, which come last."""
    inputs = vectors(100)
    inputs[60:] *= 6
    net = Function(
        lambda s, x: s.h(torch.tanh(0.3 * Halved.apply(s.a(x), 3.0))), a=nn.Linear(4, 5), h=nn.Linear(5, 3)
    )
    return Stranger(net.double().eval(), inputs, classes(100))


class Reversed(torch.autograd.Function):
    """The identity with the gradient of its negative."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def mlp(*sizes: int, act: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def vectors(n: int = 12, features: int = 4) -> Tensor:
    return torch.randn(n, features, dtype=torch.float64)


def classes(n: int = 12, count: int = 3) -> Tensor:
    return torch.randint(0, count, (n,))


def parameter(*shape: int, scale: float = 0.5) -> nn.Parameter:
    return nn.Parameter(scale * torch.randn(*shape))


def _on_vectors(forward, count: int = 12, /, **parts) -> Stranger:
    return Stranger(Function(forward, **parts).double().eval(), vectors(count), classes(count))


def _weight_norm(dim: int | None) -> Stranger:
    net = mlp(4, 5, 3)
    nn.utils.parametrizations.weight_norm(net[0], dim=dim)
    return Stranger(net.double().eval(), vectors(), classes())


def _old_weight_norm() -> Stranger:
    layer = nn.utils.weight_norm(nn.Conv1d(2, 3, 2))
    net = Function(lambda s, x: s.h(torch.tanh(s.a(x)).flatten(1)), a=layer, h=nn.Linear(9, 3))
    return Stranger(net.double().eval(), torch.randn(10, 2, 4).double(), classes(10))


def _parametrised(kind: str) -> Stranger:
    net = mlp(4, 4, 3)
    if kind == "spectral":
        nn.utils.parametrizations.spectral_norm(net[0])
    elif kind == "orthogonal":
        nn.utils.parametrizations.orthogonal(net[0])
    else:
        exponential = Function(lambda s, x: torch.exp(x))
        nn.utils.parametrize.register_parametrization(net[0], "weight", exponential)
    return Stranger(net.double().eval(), vectors(), classes())


def _checkpointed(reentrant: bool, act: Callable[[Tensor], Tensor] = torch.tanh) -> Stranger:
    def forward(s, x):
        part = lambda z: act(s.b(act(s.b2(z))))  # noqa: E731
        return s.h(checkpoint(part, torch.tanh(s.a(x)), use_reentrant=reentrant))

    return _on_vectors(forward, a=nn.Linear(4, 5), b=nn.Linear(5, 5), b2=nn.Linear(5, 5), h=nn.Linear(5, 3))


def _sequence(kind: str) -> Stranger:
    inputs, head = torch.randn(8, 5, 4).double(), nn.Linear(4, 3)
    if kind in ("rnn", "gru", "lstm"):
        body = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](4, 4, batch_first=True)
        net = Function(lambda s, x: s.h(s.body(x)[0][:, -1]), body=body, h=head)
    elif kind == "attention":
        body = nn.MultiheadAttention(4, 2, batch_first=True)
        net = Function(lambda s, x: s.h(s.body(x, x, x)[0].mean(1)), body=body, h=head)
    else:
        body = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, dropout=0.1)
        net = Function(lambda s, x: s.h(s.body(x).mean(1)), body=body, h=head)
    return Stranger(net.double().eval(), inputs, classes(8))


def _tokens(bag: bool = False) -> Stranger:
    body = nn.EmbeddingBag(9, 4) if bag else nn.Embedding(9, 4)
    forward = (
        (lambda s, x: s.h(torch.tanh(s.body(x))))
        if bag
        else (lambda s, x: s.h(torch.tanh(s.body(x)).mean(1)))
    )
    net = Function(forward, body=body, h=nn.Linear(4, 3))
    return Stranger(net.double().eval(), torch.randint(0, 9, (12, 5)), classes())


def _image(body: nn.Module, features: int, shape: tuple[int, ...]) -> Stranger:
    net = Function(lambda s, x: s.h(torch.tanh(s.a(x)).flatten(1)), a=body, h=nn.Linear(features, 3))
    return Stranger(net.double().eval(), torch.randn(8, *shape).double(), classes(8))


def strangers() -> dict[str, Callable[[], Stranger]]:
    """Name -> maker. Every network here treats its examples separately and has right first derivatives."""
    lin = nn.Linear
    return {
        "weight norm by rows": lambda: _weight_norm(0),
        "weight norm by columns": lambda: _weight_norm(1),
        "weight norm of the whole": lambda: _weight_norm(None),
        "weight norm of old": _old_weight_norm,
        "spectral norm": lambda: _parametrised("spectral"),
        "orthogonal": lambda: _parametrised("orthogonal"),
        "exponential weights": lambda: _parametrised("exponential"),
        "checkpointed": lambda: _checkpointed(False),
        "checkpointed reentrantly": lambda: _checkpointed(True),
        "checkpointed relu": lambda: _checkpointed(False, torch.relu),
        "once differentiable": lambda: _on_vectors(
            lambda s, x: s.h(Square.apply(s.a(x))), a=lin(4, 5), h=lin(5, 3)
        ),
        "slope saved as a number": lambda: _on_vectors(
            lambda s, x: s.h(Softplus.apply(s.a(x))), a=lin(4, 5), h=lin(5, 3)
        ),
        "convolution 1d": lambda: _image(nn.Conv1d(2, 6, 3, padding=1), 36, (2, 6)),
        "convolution 3d": lambda: _image(nn.Conv3d(1, 3, 2), 24, (1, 3, 3, 3)),
        "convolution transposed": lambda: _image(nn.ConvTranspose2d(1, 2, 2, stride=2), 72, (1, 3, 3)),
        "convolution same, even kernel": lambda: _image(nn.Conv2d(1, 2, 2, padding="same"), 18, (1, 3, 3)),
        "convolution circular": lambda: _image(
            nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), 18, (1, 3, 3)
        ),
        "convolution grouped 1d": lambda: _image(nn.Conv1d(4, 4, 2, groups=2, dilation=2), 16, (4, 6)),
        "bilinear": lambda: _on_vectors(lambda s, x: s.b(x, x), b=nn.Bilinear(4, 4, 3)),
        "tied": lambda: _on_vectors(
            lambda s, x: s.h(torch.relu(s.a(torch.relu(s.a(x))))), a=lin(4, 4), h=lin(4, 3)
        ),
        "tied transposed": lambda: _on_vectors(
            lambda s, x: s.h(F.linear(torch.tanh(s.a(x)), s.a.weight.t())), a=lin(4, 5), h=lin(4, 3)
        ),
        "raw parameters": lambda: _on_vectors(
            lambda s, x: torch.einsum("ni,io->no", torch.tanh(torch.einsum("ni,ij->nj", x, s.a) + s.b), s.c),
            a=parameter(4, 6),
            b=parameter(6),
            c=parameter(6, 3),
        ),
        "rational": lambda: _on_vectors(
            lambda s, x: s.h(s.a(x) / (1 + s.b(x).pow(2))), a=lin(4, 5), b=lin(4, 5), h=lin(5, 3)
        ),
        "cosine classifier": lambda: _on_vectors(
            lambda s, x: 3 * F.linear(F.normalize(torch.tanh(s.a(x)), dim=1), F.normalize(s.c, dim=1)),
            a=lin(4, 5),
            c=parameter(3, 5),
        ),
        "instance norm": lambda: _image(
            nn.Sequential(nn.Conv2d(1, 2, 2), nn.InstanceNorm2d(2, affine=True)), 18, (1, 4, 4)
        ),
        "local response norm": lambda: _image(
            nn.Sequential(nn.Conv2d(1, 4, 2), nn.LocalResponseNorm(3)), 36, (1, 4, 4)
        ),
        "prelu": lambda: _on_vectors(lambda s, x: s.h(s.p(s.a(x))), a=lin(4, 5), p=nn.PReLU(5), h=lin(5, 3)),
        "maxout": lambda: _on_vectors(
            lambda s, x: s.h(s.a(x).reshape(len(x), 5, 2).amax(2)), a=lin(4, 10), h=lin(5, 3)
        ),
        "glu": lambda: _on_vectors(lambda s, x: s.h(F.glu(s.a(x))), a=lin(4, 10), h=lin(5, 3)),
        "recurrent": lambda: _sequence("rnn"),
        "gated recurrent": lambda: _sequence("gru"),
        "lstm": lambda: _sequence("lstm"),
        "multi-head attention": lambda: _sequence("attention"),
        "transformer encoder layer": lambda: _sequence("encoder"),
        "tokens": _tokens,
        "bag of tokens": lambda: _tokens(True),
        "batch in front": lambda: _on_vectors(
            lambda s, x: s.h(torch.relu(s.n(s.a(x[None]))))[0], a=lin(4, 6), n=nn.LayerNorm(6), h=lin(6, 3)
        ),
        "sequence first": lambda: Stranger(
            Function(lambda s, x: s.h(torch.tanh(s.a(x.transpose(0, 1)))).mean(0), a=lin(4, 5), h=lin(5, 3))
            .double()
            .eval(),
            torch.randn(8, 8, 4).double(),
            classes(8),
        ),
        "frames in the batch": lambda: Stranger(
            Function(
                lambda s, x: s.h(torch.tanh(s.a(x.reshape(-1, 1, 4, 4))).reshape(len(x), -1)),
                a=nn.Conv2d(1, 2, 3),
                h=lin(16, 3),
            )
            .double()
            .eval(),
            torch.randn(8, 2, 4, 4).double(),
            classes(8),
        ),
        "two views in the batch": lambda: _on_vectors(
            lambda s, x: sum(s.h(torch.tanh(s.a(torch.cat([x, x.flip(1)])))).chunk(2)),
            a=lin(4, 5),
            h=lin(5, 3),
        ),
        "one module twice": lambda: _twice(),
        "float inside": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(s.a(x.float().to(x.dtype) * 1.0))), a=lin(4, 5), h=lin(5, 3)
        ),
        "masked class": lambda: _on_vectors(
            lambda s, x: torch.cat([s.n(x), torch.full((len(x), 1), -1e9, dtype=x.dtype)], 1), n=mlp(4, 5, 3)
        ),
        "one output": lambda: Stranger(
            Function(lambda s, x: s.n(x)[:, 0], n=mlp(4, 6, 1)).double().eval(),
            vectors(),
            torch.randn(12).double(),
            "mse",
        ),
        "one column": lambda: Stranger(
            mlp(4, 6, 1).double().eval(), vectors(), torch.randn(12).double(), "mse"
        ),
        "several outputs": lambda: Stranger(
            mlp(4, 6, 2).double().eval(), vectors(), torch.randn(12, 2).double(), "mse"
        ),
        "classes by squares": lambda: Stranger(mlp(4, 6, 3).double().eval(), vectors(), classes(), "mse"),
        "one logit": lambda: Stranger(mlp(4, 6, 1).double().eval(), vectors(), classes(12, 2)),
        "one logit, flat": lambda: Stranger(
            Function(lambda s, x: s.n(x)[:, 0], n=mlp(4, 6, 1)).double().eval(), vectors(), classes(12, 2)
        ),
        "map of logits": lambda: Stranger(
            nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 1)).double().eval(),
            torch.randn(6, 1, 4, 5).double(),
            torch.randint(0, 3, (6, 4, 5)),
        ),
        "sequence of logits": lambda: Stranger(
            mlp(4, 6, 3).double().eval(), torch.randn(6, 5, 4).double(), torch.randint(0, 3, (6, 5))
        ),
        "image to image": lambda: Stranger(
            nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 2, 1)).double().eval(),
            torch.randn(6, 1, 3, 4).double(),
            torch.randn(6, 2, 3, 4).double(),
            "mse",
        ),
    }


def _twice() -> Stranger:
    layer = nn.Linear(4, 4)
    inner = nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(4, 3))
    return _on_vectors(lambda s, x: s.n(x), n=inner, alias=inner[4])


def mixing() -> dict[str, Callable[[], Stranger]]:
    """Networks in which examples meet, or that cannot be evaluated on one alone."""
    bn = {"track_running_stats": False}
    return {
        "batch statistics": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(s.n(s.a(x)))),
            140,
            a=nn.Linear(4, 5),
            n=nn.BatchNorm1d(5, **bn),
            h=nn.Linear(5, 3),
        ),
        "batch centred": lambda: _on_vectors(
            lambda s, x: s.h(torch.relu(s.a(x - x.mean(0)))), 140, a=nn.Linear(4, 5), h=nn.Linear(5, 3)
        ),
        "softmax over the batch": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(s.a(x)) * torch.softmax(s.g(x), 0) * 10),
            140,
            a=nn.Linear(4, 5),
            g=nn.Linear(4, 5),
            h=nn.Linear(5, 3),
        ),
        "largest of the batch": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(s.a(x)) / x.abs().max()), 140, a=nn.Linear(4, 5), h=nn.Linear(5, 3)
        ),
        "only larger batches": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(s.a(x - x.mean(0) if len(x) > 16 else x))),
            140,
            a=nn.Linear(4, 5),
            h=nn.Linear(5, 3),
        ),
        "behind a masked class": lambda: _on_vectors(
            lambda s, x: torch.cat(
                [s.h(torch.tanh(s.a(x - x.mean(0)))), torch.full((len(x), 1), -1e9, dtype=x.dtype)], 1
            ),
            140,
            a=nn.Linear(4, 5),
            h=nn.Linear(5, 3),
        ),
        "squeezed": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(s.a(x)).reshape(-1, 5, 1).squeeze()),
            129,
            a=nn.Linear(4, 5),
            h=nn.Linear(5, 3),
        ),
        "attention over examples": lambda: _on_vectors(
            lambda s, x: s.h(F.scaled_dot_product_attention(s.a(x)[None], s.a(x)[None], x[None])[0]),
            140,
            a=nn.Linear(4, 4),
            h=nn.Linear(4, 3),
        ),
    }


def wrong_gradients() -> dict[str, Callable[[], Stranger]]:
    """Networks whose automatic derivatives are not those of their function."""
    lin = nn.Linear
    return {
        "straight-through rounding": lambda: _on_vectors(
            lambda s, x: s.h(StraightThrough.apply(torch.tanh(s.a(x)))), a=lin(4, 5), h=lin(5, 3)
        ),
        "reversed gradient": lambda: _on_vectors(
            lambda s, x: s.h(Reversed.apply(torch.tanh(s.a(x)))), a=lin(4, 5), h=lin(5, 3)
        ),
        "half a gradient, fitted": _fitted,
        "half a gradient, large targets": lambda: _scaled(1e4),
        "half a gradient, small targets": lambda: _scaled(1e-3),
        "half a gradient for late examples": _late,
        "padding row of an embedding": lambda: Stranger(
            nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Flatten(), nn.Linear(20, 3)).double().eval(),
            torch.randint(0, 3, (12, 5)),
            classes(),
        ),
        "norm as a number": lambda: _on_vectors(
            lambda s, x: s.h(torch.relu(s.a(x) / torch.linalg.matrix_norm(s.a.weight.detach(), 2).item())),
            a=lin(4, 5),
            h=lin(5, 3),
        ),
        "detached weights": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(F.linear(x, s.a.weight.detach() * 2 + s.a.weight))),
            a=lin(4, 5),
            h=lin(5, 3),
        ),
        "no gradient in a part": lambda: _on_vectors(
            lambda s, x: s.h(torch.tanh(_without_gradient(s.a, x))), a=lin(4, 5), h=lin(5, 3)
        ),
    }


@torch.no_grad()
def _without_gradient(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x)


def make(maker: Callable[[], Stranger], seed: int = 0) -> Stranger:
    torch.manual_seed(seed)
    return maker()


def loss_of(stranger: Stranger) -> Callable[[], Tensor]:
    """The loss by torch's own functions, written out by hand for each kind of output."""

    def value() -> Tensor:
        outputs, targets = stranger.network(stranger.inputs), stranger.targets
        if stranger.loss == "mse":
            if not targets.is_floating_point():
                targets = F.one_hot(targets, outputs.shape[1]).double()
            difference = (
                outputs.flatten(1) - targets.flatten(1)
                if outputs.dim() > 2
                else (outputs.reshape(len(outputs), -1) - targets.reshape(len(targets), -1))
            )
            return 0.5 * difference.pow(2).sum(1).mean()
        if outputs.dim() == 1 or outputs.shape[1] == 1:
            return F.binary_cross_entropy_with_logits(outputs.reshape(-1), targets.double())
        if targets.dim() == 2:
            outputs = outputs.transpose(1, 2)
        return F.cross_entropy(outputs, targets)

    return value


def trace_by_differences(stranger: Stranger, h: float = 1e-4, squared: bool = False) -> float:
    """sum of H_ii (times theta_i^2 if `squared`) from 2 d + 1 values of the loss."""
    value, total = loss_of(stranger), 0.0
    with torch.no_grad():
        base = float(value())
        for p in stranger.network.parameters():
            flat = p.view(-1)
            for i in range(len(flat)):
                old = float(flat[i])
                flat[i] = old + h
                up = float(value())
                flat[i] = old - h
                second = (up - 2 * base + float(value())) / h**2
                flat[i] = old
                total += second * (old**2 if squared else 1.0)
    return total
