"""Random small modules against dense float64 derivatives: `python tests/benchmark/proxies/fuzz.py --count 300`.

Layers, readers, ties and reshapes are drawn at random. What is compared does not use gapbench: values of the
loss on networks changed in place, their differences, and outputs. A status other than ok is never wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gapbench

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "abs": torch.abs,
    "leaky": lambda x: F.leaky_relu(x, 0.2),
    "softplus": F.softplus,
    "elu": F.elu,
    "sine": torch.sin,
    "clamp": lambda x: x.clamp(-0.7, 0.8),
    "square": lambda x: 0.3 * x * x,
}


Operation = Callable[["RandomNetwork", list[Tensor]], Tensor]


class RandomNetwork(nn.Module):
    """x (n, 4) -> (n, 3) through a random program of `length` steps on a list of activations (n, 4)."""

    def __init__(self, seed: int, length: int):
        super().__init__()
        self.draw = torch.Generator().manual_seed(seed)
        self.layers, self.raw = nn.ModuleList(), nn.ParameterList()
        self.program: list[tuple[str, tuple[int, ...], Operation]] = []
        self.width = 4
        for step in range(length):
            self.program.append(self.step(step + 1))
        self.head = self.layer(nn.Linear(4, 3))
        del self.draw

    # ---- drawing -------------------------------------------------------------------------------------------

    def number(self, high: int) -> int:
        return int(torch.randint(0, high, (1,), generator=self.draw))

    def choose(self, among: list) -> object:
        return among[self.number(len(among))]

    def layer(self, module: nn.Module) -> int:
        """The place of a new layer: steps find it there, so that copies of the network use their own."""
        self.layers.append(module)
        return len(self.layers) - 1

    def parameter(self, values: Tensor) -> int:
        self.raw.append(nn.Parameter(values))
        return len(self.raw) - 1

    def earlier(self, count: int) -> int:
        return count - 1 if self.number(3) else self.number(count)

    def step(self, count: int):
        kinds = (
            "linear,linear,linear,activation,activation,tied,batch norm,layer norm,group norm,rms norm,layer scale,"
            "shift,add,concatenate,gate,reorder,attention,residual,weight norm,spectral norm,"
            "convolution,checkpoint,number,maxout,pool,softmax,normalise,two readers,raw,stop,"
            "batch mean,linear without bias,pad"
        ).split(",")
        kind = str(self.choose(kinds))
        a, b = self.earlier(count), self.earlier(count)
        return kind, (a, b), self.operation(kind, a, b)

    def operation(self, kind: str, a: int, b: int) -> Operation:
        act = ACTIVATIONS[str(self.choose(sorted(ACTIVATIONS)))]
        if kind in ("linear", "linear without bias", "checkpoint"):
            i = self.layer(nn.Linear(4, 4, bias=kind != "linear without bias"))
            if kind == "checkpoint":
                return lambda s, v: checkpoint(lambda z: act(s.layers[i](z)), v[a], use_reentrant=False)
            return lambda s, v: s.layers[i](v[a])
        if kind == "tied":
            known = [
                i for i, m in enumerate(self.layers) if type(m) is nn.Linear and m.weight.shape == (4, 4)
            ]
            i = self.choose(known) if known else self.layer(nn.Linear(4, 4))
            if self.number(2):
                return lambda s, v: F.linear(v[a], s.layers[i].weight.t())
            return lambda s, v: s.layers[i](v[a])
        if kind == "activation":
            return lambda s, v: act(v[a])
        if kind in ("batch norm", "layer norm", "group norm", "rms norm"):
            make = {
                "batch norm": lambda: nn.BatchNorm1d(4, affine=bool(self.number(4))),
                "layer norm": lambda: nn.LayerNorm(4, elementwise_affine=bool(self.number(4))),
                "group norm": lambda: nn.GroupNorm(2, 4),
                "rms norm": lambda: nn.RMSNorm(4),
            }[kind]
            i = self.layer(make())
            return lambda s, v: s.layers[i](v[a])
        if kind in ("layer scale", "shift"):
            i = self.parameter(torch.rand((4,) if self.number(3) else (1,)) + 0.5)
            return (lambda s, v: v[a] * s.raw[i]) if kind == "layer scale" else (lambda s, v: v[a] + s.raw[i])
        if kind == "add":
            return lambda s, v: v[a] + v[b]
        if kind == "residual":
            i = self.layer(nn.Linear(4, 4))
            return lambda s, v: v[a] + s.layers[i](act(v[b]))
        if kind == "concatenate":
            i = self.layer(nn.Linear(8, 4))
            return lambda s, v: s.layers[i](torch.cat([v[a], v[b]], 1))
        if kind == "two readers":
            i, j = (self.layer(nn.BatchNorm1d(4)) for _ in range(2))
            return lambda s, v: act(s.layers[i](v[a])) + torch.relu(s.layers[j](v[a]))
        if kind == "gate":
            return lambda s, v: v[a] * torch.sigmoid(v[b])
        if kind == "reorder":
            ways = [
                lambda z: z.flip(1), lambda z: z.reshape(-1, 2, 2).transpose(1, 2).reshape(-1, 4),
                lambda z: torch.roll(z, 1, 1), lambda z: torch.cat(z.chunk(2, 1)[::-1], 1),
            ]  # fmt: skip
            way = self.choose(ways)
            return lambda s, v: way(v[a])
        if kind == "attention":
            i, j = self.layer(nn.Linear(2, 2)), self.layer(nn.Linear(2, 2))

            def attend(s: RandomNetwork, v: list[Tensor]) -> Tensor:
                tokens = v[a].reshape(-1, 2, 2)
                found = F.scaled_dot_product_attention(
                    s.layers[i](tokens), s.layers[j](tokens), v[b].reshape(-1, 2, 2)
                )
                return found.reshape(-1, 4)

            return attend
        if kind in ("weight norm", "spectral norm"):
            wrap = nn.utils.parametrizations.weight_norm
            if kind == "spectral norm":
                wrap = nn.utils.parametrizations.spectral_norm
            i = self.layer(wrap(nn.Linear(4, 4)))
            return lambda s, v: s.layers[i](v[a])
        if kind == "convolution":
            i = self.layer(nn.Conv1d(1, 2, 2, stride=2))
            return lambda s, v: s.layers[i](v[a][:, None]).flatten(1)
        if kind == "number":
            i = self.layer(nn.Linear(4, 4))
            return lambda s, v: s.layers[i](v[a]) / (1 + float(s.layers[i].weight.detach().norm()))
        if kind == "maxout":
            i = self.layer(nn.Linear(4, 8))
            return lambda s, v: s.layers[i](v[a]).reshape(-1, 4, 2).amax(2)
        if kind == "pool":
            return lambda s, v: F.avg_pool1d(v[a][:, None], 3, 1, 1)[:, 0]
        if kind == "pad":
            i = self.layer(nn.Linear(6, 4))
            return lambda s, v: s.layers[i](F.pad(v[a], (1, 1)))
        if kind == "softmax":
            return lambda s, v: torch.softmax(v[a], 1) * 3
        if kind == "normalise":
            return lambda s, v: F.normalize(v[a] + 0.1, dim=1) * 2
        if kind == "raw":
            i = self.parameter(torch.randn(4, 4) * 0.5)
            return lambda s, v: torch.einsum("ni,ji->nj", v[a], s.raw[i])
        if kind == "stop":
            return lambda s, v: v[a] + 0.5 * v[b].detach()
        assert kind == "batch mean"
        return lambda s, v: v[a] - v[a].mean(0)

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for _, _, operation in self.program:
            values.append(operation(self, values))
        return self.layers[self.head](values[-1])


def network_of(seed: int) -> tuple[RandomNetwork, Tensor, Tensor]:
    """A random network in float64 and eval mode (fresh, or generic gains and statistics) with data."""
    torch.manual_seed(seed)
    network = RandomNetwork(seed, 3 + seed % 5).double().eval()
    with torch.no_grad():
        if seed % 2:
            for module in network.modules():
                if isinstance(module, nn.BatchNorm1d):
                    module.running_mean.normal_()
                    module.running_var.uniform_(0.3, 2.0)
                if isinstance(module, nn.BatchNorm1d | nn.LayerNorm | nn.GroupNorm | nn.RMSNorm):
                    for p in module.parameters():
                        p.normal_()
    x = torch.randn(9, 4, dtype=torch.float64)
    return network, x, torch.randint(0, 3, (9,))


# ---- what is true ----------------------------------------------------------------------------------------------


@dataclass
class Truth:
    """By differences of the loss: gradient, diagonal of H (None at a kink), dense H where gradients are right."""

    loss: float
    gradient: Tensor
    diagonal: Tensor | None
    dense: Tensor | None


@torch.no_grad()
def _each(network: nn.Module, h: float, value: Callable[[], float]) -> tuple[Tensor, Tensor, float]:
    base, first, second = value(), [], []
    for p in network.parameters():
        flat = p.view(-1)
        for i in range(len(flat)):
            old = float(flat[i])
            flat[i] = old + h
            up = value()
            flat[i] = old - h
            down = value()
            flat[i] = old
            first.append((up - down) / (2 * h))
            second.append((up - 2 * base + down) / h**2)
    return torch.tensor(first, dtype=torch.float64), torch.tensor(second, dtype=torch.float64), base


def truth_of(network: nn.Module, x: Tensor, y: Tensor) -> Truth:
    def value() -> float:
        return float(F.cross_entropy(network(x), y).detach())

    gradient, second, loss = _each(network, 1e-4, value)
    _, again, _ = _each(network, 3e-5, value)
    scale = float(second.abs().sum())
    smooth = float((second - again).abs().sum()) <= 1e-3 * scale + 1e-5
    dense = _dense(network, x, y, gradient)
    # Differences of right gradients are more exact than second differences of the loss.
    diagonal = again if dense is None else dense.diagonal()
    return Truth(loss, gradient, diagonal if smooth else None, dense)


def _dense(network: nn.Module, x: Tensor, y: Tensor, gradient: Tensor, h: float = 1e-5) -> Tensor | None:
    parameters = list(network.parameters())

    def slope() -> Tensor:
        found = torch.autograd.grad(
            F.cross_entropy(network(x), y), parameters, allow_unused=True, materialize_grads=True
        )
        return torch.cat([g.reshape(-1) for g in found])

    if float((slope() - gradient).norm()) > 1e-5 * float(gradient.norm()) + 1e-7:
        return None
    rows = []
    for p in parameters:
        for i in range(p.numel()):
            with torch.no_grad():
                old = float(p.view(-1)[i])
                p.view(-1)[i] = old + h
            up = slope()
            with torch.no_grad():
                p.view(-1)[i] = old - h
            down = slope()
            with torch.no_grad():
                p.view(-1)[i] = old
            rows.append((up - down) / (2 * h))
    found = torch.stack(rows)
    return found if float((found - found.T).abs().max()) <= 1e-4 * float(found.abs().max()) + 1e-7 else None


# ---- comparing -------------------------------------------------------------------------------------------------


@dataclass
class Report:
    wrong: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)

    def near(self, what: str, found: gapbench.Measurement, true: float, allowed: float) -> None:
        self.tally[f"{what}: {found.status}"] += 1
        if found.status == "ok" and not abs(found.value - true) <= allowed:
            self.wrong.append(f"{what} is {found.value:.8g}, should be {true:.8g}")


def check(seed: int) -> Report:
    """Compare all that can be compared on one network."""
    report = Report()
    network, x, y = network_of(seed)
    weights = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    true = truth_of(network, x, y)

    def measure(name: str, subject: nn.Module = network, **options: object) -> gapbench.Measurement:
        return gapbench.measure(name, subject, x, y, **options)

    report.near("train_loss", measure("train_loss"), true.loss, 1e-12 + 1e-12 * abs(true.loss))
    if true.diagonal is not None:
        allowed = 2e-4 * float(true.diagonal.abs().sum()) + 1e-5
        report.near("hessian_trace", measure("hessian_trace"), float(true.diagonal.sum()), allowed)
        relative = true.diagonal * weights**2
        allowed = 2e-4 * float(relative.abs().sum()) + 1e-5 * float(weights.pow(2).max())
        report.near("adaptive_trace", measure("adaptive_trace"), float(relative.sum()), allowed)
    else:
        report.tally["a kink: not compared"] += 1
    if true.dense is not None and true.diagonal is not None:
        values = torch.linalg.eigvalsh((true.dense + true.dense.T) / 2)
        size = float(values.abs().max())
        top = measure("hessian_top_eigenvalue", max_products=400)
        report.near("hessian_top_eigenvalue", top, float(values[-1]), 1e-4 * size + 1e-6)
    _check_group(report, network, x, true, measure)
    _check_sharpness(report, network, x, y, true, measure)
    _check_bound(report, network, x, measure)
    now = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    if not torch.equal(now, weights):
        report.wrong.append("the network was changed")
    return report


def _check_group(report: Report, network: nn.Module, x: Tensor, true: Truth, measure: Callable) -> None:
    try:
        symmetry = gapbench.symmetry.find(network, x[:2])
    except gapbench.GapbenchError as error:
        report.tally[f"find: refused ({str(error)[:40]})"] += 1
        return
    fresh = torch.randn(40, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for what, make in (
        ("transform", lambda: symmetry.transform(1, 0.5)),
        ("balanced", symmetry.balanced),
    ):
        try:
            other = make()
        except ValueError:
            report.tally[f"{what}: refused"] += 1
            continue
        report.tally[f"{what}: ok"] += 1
        with torch.no_grad():
            before, after = network(fresh), other(fresh)
        moved = float((after - before).abs().max() / before.abs().max())
        if not moved <= 1e-8:
            report.wrong.append(f"{what} changes outputs by {moved:.1e}")
    d = len(true.gradient)
    if true.dense is not None and true.diagonal is not None:
        projection = torch.stack([symmetry.project(row) for row in torch.eye(d, dtype=torch.float64)])
        if abs(float(projection.trace()) - (d - symmetry.dimension)) > 1e-6:
            report.wrong.append("the projection has another rank than d - k")
        if (
            float((projection @ true.gradient - true.gradient).norm())
            > 1e-5 * float(true.gradient.norm()) + 1e-6
        ):
            report.wrong.append("the gradient is not horizontal")
        expected = float((projection @ true.dense @ projection).trace())
        allowed = 1e-3 * float(true.dense.diagonal().abs().sum()) + 1e-5
        report.near("hessian_trace_quotient", measure("hessian_trace_quotient"), expected, allowed)


def _check_sharpness(
    report: Report, network: nn.Module, x: Tensor, y: Tensor, true: Truth, measure: Callable
) -> None:
    radius = 0.2
    full, quotient = (measure(f"sharpness_{kind}", radius=radius) for kind in ("full", "quotient"))
    average = measure("sharpness_average_full", radius=radius, samples=200)
    for what, found in (("sharpness_full", full), ("sharpness_quotient", quotient), ("average", average)):
        report.tally[f"{what}: {found.status}"] += 1
    if full.status == quotient.status == "ok" and quotient.value > full.value * (1 + 1e-9) + 1e-12:
        report.wrong.append(f"S_quot {quotient.value} > S_full {full.value}")
    generator = torch.Generator().manual_seed(11)
    rises, beaten = [], False
    parameters = list(network.parameters())
    with torch.no_grad():
        before = [p.clone() for p in parameters]
        for _ in range(200):
            draw = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters]
            size = radius / float(sum(z.pow(2).sum() for z in draw)) ** 0.5
            pair = []
            for sign in (1.0, -1.0):
                for p, old, z in zip(parameters, before, draw):
                    p.copy_(old + sign * size * z)
                pair.append(float(F.cross_entropy(network(x), y)) - true.loss)
            rises.append(sum(pair) / 2)
            if full.status == "ok" and max(pair) > full.value * (1 + 1e-9) + 1e-12:
                beaten = True
        for p, old in zip(parameters, before):
            p.copy_(old)
    # A lower bound of a maximum is not wrong, but where 200 random steps do better the search was poor.
    report.tally["sharpness_full: beaten by a random step"] += beaten
    if average.status == "ok":
        mean = sum(rises) / len(rises)
        error = (sum((r - mean) ** 2 for r in rises) / len(rises) ** 2 + average.standard_error**2) ** 0.5
        if abs(average.value - mean) > 6 * error + 1e-12:
            report.wrong.append(f"average sharpness {average.value}, should be {mean} +- {error}")


def _check_bound(report: Report, network: nn.Module, x: Tensor, measure: Callable) -> None:
    with torch.no_grad():
        labels = network(x).argmax(1)
    found = gapbench.measure("spectral_margin_bound", network, x, labels, gamma=0.1)
    report.tally[f"spectral_margin_bound: {found.status}"] += 1
    if found.status != "ok":
        return
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for scale in (1e-3, 0.1, 1.0, 10.0):
            z = torch.randn(60, 4, generator=generator, dtype=torch.float64)
            w = z + scale * torch.randn(60, 4, generator=generator, dtype=torch.float64)
            slopes = (network(z) - network(w)).norm(dim=1) / (z - w).norm(dim=1)
            if float(slopes.max()) > found.details["lipschitz"] * (1 + 1e-9):
                report.wrong.append(f"Lipschitz {found.details['lipschitz']} < slope {float(slopes.max())}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tally: Counter[str] = Counter()
    bad, started = 0, time.time()
    for seed in range(given.first, given.first + given.count):
        report = check(seed)
        tally += report.tally
        if report.wrong:
            bad += 1
            program = " > ".join(f"{kind}{places}" for kind, places, _ in network_of(seed)[0].program)
            print(f"seed {seed}: {'; '.join(report.wrong[:4])}\n    {program}", flush=True)
    for what, count in sorted(tally.items()):
        print(f"{count:5d}  {what}")
    print(f"{given.count} networks, {bad} with a wrong number, {time.time() - started:.0f} s")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
