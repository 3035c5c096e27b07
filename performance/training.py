"""Training throughput: images per second of one process, by family and width.

    python performance/training.py [--device cpu|cuda] [--size 32] [--steps 20]

One row a network: forward, backward and SGD step at batch 128, median over steps after three that are not
counted, relative to the narrowest network of the family.
"""

from __future__ import annotations

import argparse
import time

import torch
from numpy import median

import gapbench
from gapbench.population.optimizers import make_optimizer, step
from gapbench.suites.hyperparameters import Hyperparameters

NETWORKS = (
    ("plain/mlp", (1.0, 8.0)),
    ("timm/resnet18", (0.0625, 0.25)),
    ("torchvision/vgg11_bn", (0.0625, 0.25)),
    ("timm/convmixer", (0.0625, 0.25)),
)
BATCH = 128


def step_seconds(family: str, width: float, device: torch.device, size: int, steps: int) -> float:
    network = gapbench.build_model(family, width, (3, size, size), 10, seed=0).to(device).train()
    inputs = torch.randn(BATCH, 3, size, size, device=device)
    if device.type == "cuda":
        network.to(memory_format=torch.channels_last)
        inputs = inputs.to(memory_format=torch.channels_last)
    targets = torch.randint(0, 10, (BATCH,), device=device)
    values = Hyperparameters()
    optimizer = make_optimizer(network, values)
    times = []
    for _ in range(steps + 3):
        started = time.perf_counter()
        step(network, optimizer, lambda: torch.nn.functional.cross_entropy(network(inputs), targets), values)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return float(median(times[3:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "one CPU core"
    print(f"{name}, torch {torch.__version__}, {options.size} x {options.size}, batch {BATCH}")
    for family, widths in NETWORKS:
        first = None
        for width in widths:
            seconds = step_seconds(family, width, device, options.size, options.steps)
            first = first or seconds
            print(f"{family:24} width {width:<7g} {BATCH / seconds:10.0f} images/s {seconds / first:7.2f}x")


if __name__ == "__main__":
    main()
