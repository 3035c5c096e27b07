"""Curvature and sharpness beside the packages that others use: same network, same data, same run, interleaved.

    pip install pyhessian curvlinops-for-pytorch
    OMP_NUM_THREADS=1 python performance/peers.py [--repeats 5] [--record FILE]

A ReLU ResNet-18 of width 1/4 (128 images of 32 x 32, 10 classes), trained to a cross-entropy of `FITTED`.
Times are processor seconds, medians of repeats taken in turn, in units of one gradient of the loss; ratios have
their least and largest values over the repeats. What anyone needs for an accuracy, we or a peer, is found first,
by raising the effort until it is there.
Our tests of a network (whether examples meet, whether derivatives are right), made once for all proxies, are a row
of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime
import io
import platform
import runpy
import statistics as middle
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from curvlinops import HessianLinearOperator
from pyhessian import hessian
from torch import Tensor, nn

from gapbench.computation.eigenvalue import Lanczos
from gapbench.curvature.loss import Landscape
from gapbench.curvature.sharpness import Maximum, maximise
from gapbench.curvature.trace import gauss_newton_trace

FITTED = 0.01  # cross-entropy of the images, where training ends
ACCURACY = 1e-3  # of top eigenvalues
EXAMPLES = 128
PROBES = 64  # from which the spread of PyHessian's probes is known
RADIUS, STEPS = 0.1, 20


def quietly(work: Callable[[], object]) -> object:
    """Without what a peer prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return work()


def interleaved(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Processor seconds of each, in turn, after one call that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        for name, work in works.items():
            started = time.process_time()
            quietly(work)
            if repeat:
                times[name].append(time.process_time() - started)
    return times


def fresh(tested: Landscape) -> Landscape:
    """The same landscape, remembering nothing but what is tested once per network."""
    landscape = copy.copy(tested)
    landscape._remembered, landscape._kept = {}, None
    return landscape


def usual_ascent(network: nn.Module, inputs: Tensor, targets: Tensor, steps: int) -> float:
    """Projected gradient ascent as it is usually written: parameter by parameter, from copies of the state."""
    network = copy.deepcopy(network)
    start = copy.deepcopy(network.state_dict())
    criterion = nn.CrossEntropyLoss()
    with torch.no_grad():
        base = float(criterion(network(inputs), targets))
    best = 0.0
    for _ in range(steps):
        network.zero_grad()
        criterion(network(inputs), targets).backward()
        parameters = dict(network.named_parameters())
        norm = sum(float(p.grad.pow(2).sum()) for p in parameters.values() if p.grad is not None) ** 0.5
        with torch.no_grad():
            for p in parameters.values():
                if p.grad is not None:
                    p.add_(p.grad * (2.5 * RADIUS / steps / norm))
            size = sum(float((p - start[name]).pow(2).sum()) for name, p in parameters.items()) ** 0.5
            if size > RADIUS:
                for name, p in parameters.items():
                    p.copy_(start[name] + (p - start[name]) * (RADIUS / size))
            best = max(best, float(criterion(network(inputs), targets)) - base)
    return best


def fitted(network: nn.Module, inputs: Tensor, targets: Tensor) -> nn.Module:
    """The network trained on these images until their loss is `FITTED`."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    for _ in range(2000):
        network.eval()
        with torch.no_grad():
            loss = float(nn.functional.cross_entropy(network(inputs), targets))
        if loss <= FITTED:
            return network
        network.train()
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), targets).backward()
        optimizer.step()
    raise SystemExit(f"the loss is still {loss:.3g} after 2000 steps")


def lanczos_tolerance(landscape: Landscape, start: Tensor, expected: float) -> float:
    """The residual at which our eigenvalue is right to `ACCURACY`."""
    tolerance = 1e-1
    while abs(Lanczos(landscape.hessian_product, start).largest(tolerance, 200).value - expected) > (
        ACCURACY * abs(expected)
    ):
        tolerance /= 3
    return tolerance


def power_iterations(network: nn.Module, inputs: Tensor, targets: Tensor, expected: float) -> float:
    """The tolerance at which PyHessian's eigenvalue is right to `ACCURACY`."""
    tolerance = 1e-2
    while True:
        computed = hessian(network, nn.CrossEntropyLoss(), data=(inputs, targets), cuda=False)
        torch.manual_seed(0)
        found = computed.eigenvalues(maxIter=1000, tol=tolerance)[0][0]
        if abs(found - expected) <= ACCURACY * abs(expected) or tolerance < 1e-8:
            return tolerance
        tolerance /= 3


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", type=Path, help="write the table to this file as Markdown")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    costs = runpy.run_path(str(Path(__file__).with_name("proxies.py")))
    network, _, inputs, targets = costs["trained"](costs["CASES"]["resnet18-1/4"])
    inputs, targets = inputs[:EXAMPLES], targets[:EXAMPLES]
    network = fitted(network, inputs, targets)
    tested = Landscape(network, inputs, targets, "cross_entropy")
    exact = gauss_newton_trace(tested)
    start = torch.randn(tested.dimension, generator=torch.Generator().manual_seed(1))
    top = Lanczos(tested.hessian_product, start).largest(1e-7, 200).value
    criterion = nn.CrossEntropyLoss()
    own_tolerance = lanczos_tolerance(tested, start, top)
    tolerance = power_iterations(network, inputs, targets, top)
    theirs = hessian(network, criterion, data=(inputs, targets), cuda=False)
    torch.manual_seed(0)
    each = [float(v) for v in theirs.trace(maxIter=PROBES, tol=0.0)]
    probes = (middle.stdev(each) / abs(exact) / 0.05) ** 2
    operator = HessianLinearOperator(
        network,
        criterion,
        list(network.parameters()),
        [(inputs, targets)],
        check_deterministic=False,
    )
    kept = fresh(tested)

    def pyhessian_trace() -> object:
        return hessian(network, criterion, data=(inputs, targets), cuda=False).trace(maxIter=4, tol=0.0)

    def pyhessian_top() -> object:
        torch.manual_seed(0)
        computed = hessian(network, criterion, data=(inputs, targets), cuda=False)
        return computed.eigenvalues(maxIter=1000, tol=tolerance)

    def own_top() -> object:
        landscape = fresh(tested)
        return Lanczos(landscape.hessian_product, start).largest(own_tolerance, 200)

    def own_ascent(steps: int) -> Maximum:
        landscape = fresh(tested)
        return maximise(landscape, RADIUS, steps, 1, torch.Generator().manual_seed(0))

    own, usual_value = own_ascent(STEPS), usual_ascent(network, inputs, targets, STEPS)
    own_value = own.value
    few = next((k for k, v in enumerate(own.course) if v >= usual_value * (1 - 1e-4)), STEPS)
    times = interleaved(
        {
            "gradient": tested.raw_gradient,
            "tests": lambda: Landscape(network, inputs, targets, "cross_entropy").findings,
            "product": lambda: kept.hessian_product(start),
            "curvlinops product": lambda: operator @ start,
            "trace": lambda: gauss_newton_trace(fresh(tested)),
            "PyHessian, 4 probes": pyhessian_trace,
            "top": own_top,
            "PyHessian top": pyhessian_top,
            "ascent": lambda: own_ascent(few),
            "whole ascent": lambda: own_ascent(STEPS),
            "usual ascent": lambda: usual_ascent(network, inputs, targets, STEPS),
        },
        arguments.repeats,
    )
    unit = middle.median(times["gradient"])
    times["PyHessian trace to 5 %"] = [t / 4 * probes for t in times["PyHessian, 4 probes"]]

    def row(what: str, own: str, other: str) -> str:
        ratios = [b / a for a, b in zip(times[own], times[other])]
        ours, others = (middle.median(times[name]) / unit for name in (own, other))
        spread = f"{middle.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        return f"| {what} | {ours:.1f} | {others:.1f} | {spread} |"

    lines = [
        f"{datetime.datetime.now(datetime.UTC).date().isoformat()}, torch {torch.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}, one core, `python performance/peers.py "
        f"{' '.join(sys.argv[1:])}`; {tested.dimension:,} parameters, one gradient {unit:.3f} s.",
        "",
        "| work | gapbench, gradients | peer, gradients | ratio (least to largest) |",
        "|---|--:|--:|--:|",
        f"| tests of the network, once | {middle.median(times['tests']) / unit:.1f} | | |",
        row("one Hessian product; curvlinops", "product", "curvlinops product"),
        row(f"trace: exact; PyHessian's {probes:.0f} probes for 5 %", "trace", "PyHessian trace to 5 %"),
        row(
            f"top eigenvalue to {ACCURACY:g}, at a residual of {own_tolerance:.1g}; PyHessian, at {tolerance:.1g}",
            "top",
            "PyHessian top",
        ),
        row(f"ascent of {few} steps to {usual_value:.4g}; usual loop of {STEPS}", "ascent", "usual ascent"),
        row(
            f"ascent of at most {STEPS} steps to {own_value:.4g}; usual loop to {usual_value:.4g}",
            "whole ascent",
            "usual ascent",
        ),
    ]
    print("\n".join(lines))
    if arguments.record is not None:
        arguments.record.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
