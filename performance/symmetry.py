"""Cost of finding symmetries and of projecting on the horizontal space, on one core.

    OMP_NUM_THREADS=1 python performance/symmetry.py [WIDTH]

Detection (structure, certificate and rank) in seconds; a projection, after the factorisation that the first
one makes, in units of one gradient at batch 128 of the same network in the same run.
"""

from __future__ import annotations

import sys
import time

import torch

import gapbench
from gapbench.curvature.loss import Landscape

DETECTED = {
    "torchvision/resnet18": 15,
    "torchvision/vgg11_bn": 15,
    "torchvision/mobilenet_v2": 15,
    "torchvision/densenet121": 15,
    "timm/vit_tiny": 60,
}


def measured(name: str, width: float) -> str:
    """One row of the table."""
    shape = (1, 8, 8) if name.startswith("plain/") else (3, 32, 32)
    network = gapbench.build_model(name, width=width, input_shape=shape, num_classes=10, seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(128, *shape, generator=generator)
    targets = torch.randint(0, 10, (128,), generator=generator)
    started = time.process_time()
    symmetry = gapbench.symmetry.find(network, inputs[:2])
    found = time.process_time() - started
    landscape = Landscape(network, inputs, targets, "cross_entropy")
    landscape.raw_gradient()  # once to warm up; without the test of derivatives that comes first elsewhere
    started = time.process_time()
    landscape.raw_gradient()
    gradient = time.process_time() - started
    projector, z = symmetry.projector, torch.randn(len(symmetry.bound.theta), dtype=torch.float64)
    assert projector is not None
    started = time.process_time()
    first = projector.project(z)
    once = time.process_time() - started
    started = time.process_time()
    again = projector.project(torch.randn(len(z), dtype=torch.float64))
    after = time.process_time() - started
    limit = f" (limit {DETECTED[name]} s)" if width == 1 and name in DETECTED else ""
    return (
        f"| {name} | {len(z):,} | {symmetry.dimension:,} | {found:.1f}{limit} | {once:.1f} | "
        f"{after / gradient:.2f} | {again.iterations} | {max(first.residual, again.residual):.0e} |"
    )


def main() -> None:
    """Print the table: the named networks at width 1, or the whole registry at another width."""
    torch.set_num_threads(1)
    width = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    names = list(DETECTED) if width == 1 else gapbench.list_models()
    print(
        "| network | d | k | detection, s | first projection, s | projection / gradient | iterations | residual |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in names:
        print(measured(name, width), flush=True)


if __name__ == "__main__":
    main()
