"""Second derivatives side by side, in one run, in units of one gradient.

    python performance/curvature.py [--examples 128]

* a Hessian product with the gradient's graph kept, beside one that rebuilds it each time;
* the exact trace beside Hutchinson's estimate brought to the same relative standard error of 5 % and 1 %
  (extrapolated from the spread of 16 probes);
* Lanczos to 1e-3.

Prints ratios; absolute times depend on the machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from numpy import median, std

import gapbench
from gapbench.computation.eigenvalue import largest_eigenvalue
from gapbench.curvature.loss import Landscape
from gapbench.curvature.trace import gauss_newton_trace

NETWORKS = (("plain/mlp", 4.0), ("torchvision/vgg11_bn", 0.125), ("torchvision/resnet18", 0.125))


def median_seconds(works: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Medians of interleaved repeats, after one call of each that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            if repeat:
                times[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in times.items()}


def anew(landscape: Landscape) -> float:
    """The exact trace, computed again, without testing the derivatives again."""
    other = Landscape(landscape.model, landscape.inputs, landscape.targets, landscape.loss)
    other._findings = landscape.findings
    return gauss_newton_trace(other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--examples", type=int, default=128)
    count = parser.parse_args().examples
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    print(
        f"{'network':24} {'kept graph':>10} {'rebuilt':>8} {'exact trace':>11} {'probes 5 %':>10} "
        f"{'probes 1 %':>10} {'Lanczos':>8}"
    )
    for family, width in NETWORKS:
        network = gapbench.build_model(family, width, (1, 8, 8), 10, seed=0).eval()
        inputs = torch.randn(count, 1, 8, 8, generator=generator)
        targets = torch.randint(0, 10, (count,), generator=generator)
        landscape = Landscape(network, inputs, targets, "cross_entropy")
        vector = torch.randn(landscape.dimension, generator=generator)

        def rebuilt(landscape: Landscape = landscape, vector: torch.Tensor = vector) -> None:
            landscape._kept = None
            landscape.hessian_product(vector)

        times = median_seconds(
            {
                "gradient": landscape.value_and_gradient,
                "kept": lambda landscape=landscape, vector=vector: landscape.hessian_product(vector),
                "trace": lambda landscape=landscape: anew(landscape),
            }
        )
        times |= median_seconds({"rebuilt": rebuilt})
        probes = []
        for _ in range(16):
            z = (torch.randint(0, 2, (landscape.dimension,), generator=generator) * 2 - 1).float()
            probes.append(float(z.double() @ landscape.hessian_product(z).double()))
        spread = float(std(probes, ddof=1)) / abs(gauss_newton_trace(landscape))
        products = [(spread / error) ** 2 * times["kept"] for error in (0.05, 0.01)]
        pair = largest_eigenvalue(landscape.hessian_product, vector, 1e-3, 100)
        unit = times["gradient"]
        print(
            f"{family + ' ' + str(width):24} {times['kept'] / unit:10.2f} {times['rebuilt'] / unit:8.2f} "
            f"{times['trace'] / unit:11.1f} {products[0] / unit:10.1f} {products[1] / unit:10.0f} "
            f"{pair.products:6d} H"
        )


if __name__ == "__main__":
    main()
