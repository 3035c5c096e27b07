"""Tiny float64 networks with every kind of symmetry, and their dense Jacobians."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call


class Residual(nn.Module):
    def __init__(self, inner: nn.Module, short: nn.Module | None = None) -> None:
        super().__init__()
        self.inner, self.short = inner, short or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.short(x) + self.inner(x)


class Dense(nn.Module):
    """Concatenates its input with what it computes."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.inner(x)], dim=1)


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, hidden, 1), nn.Conv2d(hidden, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.up(F.relu(self.down(x.mean((2, 3), keepdim=True))))
        return x * torch.sigmoid(gate)


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(n, t, d))


class Block(nn.Module):
    def __init__(
        self, dim: int, heads: int, post: bool, norm: Callable[[], nn.Module], act: nn.Module
    ) -> None:
        super().__init__()
        self.n1, self.n2, self.post = norm(), norm(), post
        self.attention = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim + 1), act, nn.Linear(dim + 1, dim))

    def forward(self, x: Tensor) -> Tensor:
        if self.post:
            x = self.n1(x + self.attention(x))
            return self.n2(x + self.mlp(x))
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    """Patches of 2 x 2 from 4 x 4 images: four tokens."""

    def __init__(
        self,
        dim=6,
        heads=2,
        blocks=1,
        pool="mean",
        post=False,
        affine=True,
        act=None,
        norm="layer",
        last=True,
    ):
        super().__init__()

        def make() -> nn.Module:
            if norm == "rms":
                return nn.RMSNorm(dim, eps=1e-6)
            return nn.LayerNorm(dim, elementwise_affine=affine)

        self.pool = pool
        self.patch = nn.Conv2d(1, dim, 2, 2)
        self.cls = nn.Parameter(torch.randn(1, 1, dim)) if pool == "cls" else None
        self.pos = nn.Parameter(torch.randn(1, 5 if pool == "cls" else 4, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads, post, make, act or nn.GELU()) for _ in range(blocks)])
        self.norm = make() if last and not post else nn.Identity()
        self.head = nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        if self.cls is not None:
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        x = self.norm(self.blocks(x + self.pos))
        return self.head(x[:, 0] if self.pool == "cls" else x.mean(1))


class MixerBlock(nn.Module):
    def __init__(self, dim: int, tokens: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(tokens, 3), nn.GELU(), nn.Linear(3, tokens))
        self.channels = nn.Sequential(nn.Linear(dim, 4), nn.GELU(), nn.Linear(4, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 2, 2)
        self.block, self.norm, self.head = MixerBlock(dim, 4), nn.LayerNorm(dim), nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(self.patch(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.scale = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(1, dim, 2, 2), nn.LayerNorm(dim)
        self.block, self.norm, self.head = ConvNeXtBlock(dim), nn.LayerNorm(dim), nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem_norm(self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.head(self.norm(self.block(x).mean((2, 3))))


class LayerScaleViT(nn.Module):
    """A pre-norm MLP block with layer scale."""

    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(4, dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 6), nn.GELU(), nn.Linear(6, dim))
        self.scale = nn.Parameter(torch.rand(dim) + 0.5)
        self.last, self.head = nn.LayerNorm(dim), nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.flatten(1))
        x = x + self.mlp(self.norm(x)) * self.scale
        return self.head(self.last(x))


class Tied(nn.Module):
    """One layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x.flatten(1)))
        return self.head(torch.relu(self.layer(torch.relu(self.layer(x)))))


class Gated(nn.Module):
    """SwiGLU-like gating."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.head(F.silu(self.a(x)) * self.b(x))


class AfterNorm(nn.Module):
    """Normalised tokens joined by zeros of padded windows or by learnt tokens, then read by attention."""

    def __init__(self, padded: bool):
        super().__init__()
        self.embed, self.norm = nn.Conv2d(1, 4, 2, 2), nn.LayerNorm(4)
        self.register = None if padded else nn.Parameter(torch.randn(1, 2, 4))
        self.read, self.head = nn.Linear(4, 9), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.embed(x).permute(0, 2, 3, 1))
        if self.register is None:
            x = nn.functional.pad(x, (0, 0, 0, 1, 0, 1))
            x = torch.roll(x, (1, 1), (1, 2))
        else:
            x = torch.cat([x.flatten(1, 2), self.register.expand(len(x), -1, -1)], dim=1)
        q, k, v = self.read(x).flatten(1, -2).split(3, dim=2)
        x = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head(nn.functional.gelu(x).mean(1))


def conv_bn(i: int, o: int, k: int = 3, groups: int = 1, act: nn.Module | None = None, bias: bool = False):
    layers = [nn.Conv2d(i, o, k, padding=k // 2, groups=groups, bias=bias), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act] if act else []))


def zoo() -> dict[str, Callable[[], nn.Module]]:
    """Name -> constructor; all take (n, 1, 4, 4) and give three outputs, but for `flat` ones (n, 1, 2, 2)."""
    seq, lin, relu = nn.Sequential, nn.Linear, nn.ReLU
    pooled = lambda c: (nn.AdaptiveAvgPool2d(1), nn.Flatten(), lin(c, 3))  # noqa: E731
    return {
        "flat mlp relu": lambda: seq(nn.Flatten(), lin(4, 8), relu(), lin(8, 7), relu(), lin(7, 3)),
        "flat mlp leaky": lambda: seq(nn.Flatten(), lin(4, 8), nn.LeakyReLU(0.1), lin(8, 3)),
        "flat mlp prelu": lambda: seq(nn.Flatten(), lin(4, 6), nn.PReLU(6), lin(6, 3)),
        "flat mlp gelu": lambda: seq(nn.Flatten(), lin(4, 6), nn.GELU(), lin(6, 3)),
        "flat mlp tanh": lambda: seq(nn.Flatten(), lin(4, 6, bias=False), nn.Tanh(), lin(6, 3)),
        "flat deep linear": lambda: seq(nn.Flatten(), *[lin(a, b) for a, b in ((4, 6), (6, 4), (4, 3))]),
        "flat wide linear": lambda: seq(nn.Flatten(), lin(4, 10, bias=False), lin(10, 3, bias=False)),
        "flat wide linear chain": lambda: seq(
            nn.Flatten(), lin(4, 7, bias=False), lin(7, 6, bias=False), lin(6, 3, bias=False)
        ),
        "flat bottleneck": lambda: seq(
            nn.Flatten(), lin(4, 8), relu(), lin(8, 4), lin(4, 8), relu(), lin(8, 3)
        ),
        "flat layer norm": lambda: seq(nn.Flatten(), lin(4, 6), nn.LayerNorm(6), relu(), lin(6, 3)),
        "flat norm linear": lambda: seq(nn.Flatten(), nn.LayerNorm(4), lin(4, 3)),
        "flat post norm": lambda: seq(
            nn.Flatten(), lin(4, 5), Residual(seq(lin(5, 6), relu(), lin(6, 5))), nn.LayerNorm(5), lin(5, 3)
        ),
        "flat layer scale": LayerScaleViT,
        "flat tied": Tied,
        "flat gated": Gated,
        "flat bn1d": lambda: seq(nn.Flatten(), lin(4, 6), nn.BatchNorm1d(6), relu(), lin(6, 3)),
        "flat bn first": lambda: seq(nn.Flatten(), nn.BatchNorm1d(4), lin(4, 6), relu(), lin(6, 3)),
        "cnn": lambda: seq(
            nn.Conv2d(1, 3, 3, padding=1), relu(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), relu(), nn.Flatten(),
            lin(4, 3),
        ),
        "cnn flatten": lambda: seq(nn.Conv2d(1, 3, 3), relu(), nn.Flatten(), lin(12, 3)),
        "cnn bn": lambda: seq(
            conv_bn(1, 3, act=relu()), conv_bn(3, 4, act=relu(), bias=True), *pooled(4)
        ),
        "resnet": lambda: seq(
            conv_bn(1, 4, act=relu()),
            Residual(seq(conv_bn(4, 4, act=relu()), conv_bn(4, 4))), relu(),
            Residual(seq(conv_bn(4, 5, act=relu()), conv_bn(5, 5)), conv_bn(4, 5, 1)), relu(), *pooled(5),
        ),
        "preact resnet": lambda: seq(
            nn.Conv2d(1, 4, 3, padding=1, bias=False),
            Residual(seq(nn.BatchNorm2d(4), relu(), nn.Conv2d(4, 4, 3, padding=1, bias=False),
                         nn.BatchNorm2d(4), relu(), nn.Conv2d(4, 4, 3, padding=1, bias=False))),
            nn.BatchNorm2d(4), relu(), *pooled(4),
        ),
        "mobilenet": lambda: seq(
            conv_bn(1, 4, act=nn.SiLU()), conv_bn(4, 3, 1),
            Residual(seq(conv_bn(3, 6, 1, act=nn.SiLU()), conv_bn(6, 6, groups=6, act=nn.SiLU()),
                         conv_bn(6, 3, 1))),
            conv_bn(3, 6, 1, act=nn.SiLU()), *pooled(6),
        ),
        "mobilenet relu": lambda: seq(
            conv_bn(1, 4, act=relu()), conv_bn(4, 3, 1),
            Residual(seq(conv_bn(3, 6, 1, act=relu()), conv_bn(6, 6, groups=6, act=relu()), conv_bn(6, 3, 1))),
            conv_bn(3, 6, 1, act=relu()), *pooled(6),
        ),
        "depthwise": lambda: seq(
            nn.Conv2d(1, 4, 3, padding=1), relu(), nn.Conv2d(4, 4, 3, padding=1, groups=4), relu(),
            nn.Conv2d(4, 4, 1), relu(), *pooled(4),
        ),
        "grouped": lambda: seq(
            nn.Conv2d(1, 4, 3, padding=1), relu(), nn.Conv2d(4, 6, 3, padding=1, groups=2), relu(), *pooled(6)
        ),
        "se silu": lambda: seq(
            conv_bn(1, 4, act=nn.SiLU()), SqueezeExcite(4, 2), conv_bn(4, 3, 1), conv_bn(3, 4, 1, act=nn.SiLU()),
            *pooled(4),
        ),
        "densenet": lambda: seq(
            conv_bn(1, 4, act=relu()),
            *[Dense(seq(nn.BatchNorm2d(4 + 2 * i), relu(), nn.Conv2d(4 + 2 * i, 3, 1, bias=False),
                        nn.BatchNorm2d(3), relu(), nn.Conv2d(3, 2, 3, padding=1, bias=False)))
              for i in range(2)],
            nn.BatchNorm2d(8), relu(), nn.Conv2d(8, 4, 1, bias=False), nn.AvgPool2d(2), nn.BatchNorm2d(4), relu(),
            *pooled(4),
        ),
        "group norm": lambda: seq(
            nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), relu(), nn.Conv2d(4, 4, 3, padding=1),
            nn.GroupNorm(1, 4), relu(), *pooled(4),
        ),
        "vit mean": ViT,
        "vit one head": lambda: ViT(dim=4, heads=1),
        "vit cls 2": lambda: ViT(blocks=2, pool="cls"),
        "vit cls 1": lambda: ViT(pool="cls"),
        "vit relu": lambda: ViT(act=relu()),
        "vit no affine": lambda: ViT(affine=False),
        "vit rms": lambda: ViT(norm="rms"),
        "vit post": lambda: ViT(post=True),
        "padded after norm": lambda: AfterNorm(padded=True),
        "joined after norm": lambda: AfterNorm(padded=False),
        "mixer": Mixer,
        "convnext": ConvNeXt,
    }  # fmt: skip


def build(name: str, seed: int = 0) -> nn.Module:
    """A network of the zoo in float64 and eval mode with generic weights and statistics."""
    torch.manual_seed(seed)
    return generic(zoo()[name]())


def generic(network: nn.Module) -> nn.Module:
    """The network in float64 and eval mode with generic weights and statistics."""
    network = network.double().eval()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.running_mean.normal_(std=0.3)
                module.running_var.uniform_(0.5, 2.0)
            normalises = isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm | nn.GroupNorm)
            if normalises and module.weight is not None:
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(std=0.3)
            if isinstance(module, nn.RMSNorm):
                module.weight.uniform_(0.5, 1.5)
            if isinstance(module, nn.Linear | nn.Conv2d):
                if not bool(module.weight.any()):
                    module.weight.normal_(std=0.3)
                module.weight.mul_(1.5)
                if module.bias is not None:
                    module.bias.normal_(std=0.2)
    return network


def shape(name: str) -> tuple[int, ...]:
    return (1, 2, 2) if name.startswith("flat") else (1, 4, 4)


def inputs(name: str, count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, *shape(name), generator=generator, dtype=torch.float64)


def jacobian(network: nn.Module, x: Tensor) -> Tensor:
    """d outputs / d parameters: (n * classes, d)."""
    parameters = {k: p.detach() for k, p in network.named_parameters()}
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        one = torch.func.jacrev(lambda p, x: functional_call(network, p, (x[None],))[0])
        try:
            parts = torch.func.vmap(one, in_dims=(None, 0), chunk_size=64)(parameters, x)
        except RuntimeError:  # PReLU cannot be batched
            each = [one(parameters, example) for example in x]
            parts = {k: torch.stack([e[k] for e in each]) for k in parameters}
    return torch.cat([p.reshape(len(x) * p.shape[1], -1) for p in parts.values()], dim=1)


def null_dimension(name: str, network: nn.Module) -> tuple[int, Tensor]:
    """Dimension of the null space of the Jacobian with 2 d outputs and more, and its singular values."""
    d = sum(p.numel() for p in network.parameters())
    values = torch.linalg.svdvals(jacobian(network, inputs(name, max(48, 2 * d // 3 + 8))))
    kept = int((values > 1e-11 * values[0]).sum())
    return d - kept, values
