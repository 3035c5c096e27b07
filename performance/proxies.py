"""Cost of every proxy in gradients of the loss on the same examples, by family, on one core.

    OMP_NUM_THREADS=1 python performance/proxies.py [--networks NAME ...] [--alone] [--record FILE]

Each network is trained for a few steps on images whose classes differ, then all proxies are measured one after
the other in one context (what they share is computed by the first that asks); with `--alone` each also in a context
of its own. The unit is the median of gradients taken between the measurements, in processor seconds: ratios carry
over to other machines, and other work on this one disturbs them little.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import gapbench
from gapbench.proxies.context import Context
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import checked_options, proxy_entry


@dataclass(frozen=True)
class Case:
    """A network of the registry at a width, and how many 32 x 32 images its loss is on."""

    family: str
    width: float
    images: int


CASES = {
    "mixer": Case("timm/mixer", 0.1875, 256),
    "vit": Case("timm/vit_tiny", 0.125, 64),
    "resnet18-1/8": Case("torchvision/resnet18", 0.125, 256),
    "resnet18-1/4": Case("torchvision/resnet18", 0.25, 128),
    "convnext": Case("timm/convnext_atto", 0.25, 128),
    "mobilenet": Case("torchvision/mobilenet_v2", 0.25, 128),
}
STEPS, GRADIENTS = 30, 5


def trained(case: Case) -> tuple[nn.Module, nn.Module, torch.Tensor, torch.Tensor]:
    """The network after a few steps, its start, images and classes."""
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(10, 3, 8, 8, generator=generator).repeat_interleave(4, 2).repeat_interleave(4, 3)
    targets = torch.randint(0, 10, (case.images,), generator=generator)
    inputs = means[targets] + torch.randn(case.images, 3, 32, 32, generator=generator)
    shape = (3, 32, 32)
    start = gapbench.build_model(case.family, width=case.width, input_shape=shape, num_classes=10, seed=0)
    network = gapbench.build_model(case.family, width=case.width, input_shape=shape, num_classes=10, seed=0)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    torch.manual_seed(0)
    network.train()
    for step in range(STEPS):
        chosen = torch.arange(64) + 64 * step
        chosen = chosen % case.images
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs[chosen]), targets[chosen]).backward()
        optimizer.step()
    return network.eval(), start.eval(), inputs, targets


def seconds(context: Context, name: str) -> tuple[float, str]:
    """Processor seconds of one measurement, and its status."""
    entry = proxy_entry(name)
    started = time.process_time()
    found = measure_in(context, entry, checked_options(entry, {}), 0)
    return time.process_time() - started, found.status


def costs(case: Case, alone: bool) -> dict[str, object]:
    """All that is measured on one network, in gradients."""
    network, start, inputs, targets = trained(case)
    context = make_context(network, inputs, targets, initial=start)
    reference = make_context(network, inputs, targets).landscape
    unit: list[float] = []

    def gradient() -> None:
        started = time.process_time()
        reference.raw_gradient()
        unit.append(time.process_time() - started)

    reference.raw_gradient()
    together: dict[str, float] = {}
    single: dict[str, float] = {}
    status: dict[str, str] = {}
    for name in gapbench.list_proxies():
        gradient()
        together[name], status[name] = seconds(context, name)
        if alone:
            single[name], _ = seconds(make_context(network, inputs, targets, initial=start), name)
    for _ in range(GRADIENTS):
        gradient()
    symmetry = context.symmetry
    projections = []
    for seed in range(3):
        z = torch.randn(len(symmetry.bound.theta), generator=torch.Generator().manual_seed(seed))
        started = time.process_time()
        symmetry.project(z)
        projections.append(time.process_time() - started)
    one = statistics.median(unit)
    return {
        "family": case.family,
        "width": case.width,
        "images": case.images,
        "parameters": context.landscape.dimension,
        "gradient_seconds": one,
        "projection": statistics.median(projections) / one,
        "together": {k: v / one for k, v in together.items()},
        "alone": {k: v / one for k, v in single.items()},
        "status": status,
        "sum": sum(together.values()) / one,
        "sum_alone": sum(single.values()) / one if alone else None,
    }


def main() -> None:
    """Measure and print, one network after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--alone", action="store_true", help="each proxy in a context of its own too")
    parser.add_argument("--record", type=Path, help="write the numbers to this file as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, object] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python performance/proxies.py " + " ".join(sys.argv[1:]),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "machine": platform.machine(),
    }
    for name in arguments.networks:
        row = costs(CASES[name], arguments.alone)
        found[name] = row
        print(f"\n{name}: {row['parameters']:,} parameters, {row['images']} images")
        print(
            f"  projection {row['projection']:.2f}, all together {row['sum']:.0f}, alone {row['sum_alone']}"
        )
        for proxy, cost in row["together"].items():  # type: ignore[attr-defined]
            print(f"  {proxy:45} {cost:8.1f} {row['alone'].get(proxy, float('nan')):8.1f}")  # type: ignore[attr-defined]
        sys.stdout.flush()
        if arguments.record is not None:
            arguments.record.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
