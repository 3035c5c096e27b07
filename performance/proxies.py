"""Cost of every proxy in gradients of the loss on the same examples, by family, on one core.

    OMP_NUM_THREADS=1 python performance/proxies.py [--networks NAME ...] [--alone] [--record FILE]

Each network is trained for a few steps on images whose classes differ, then all proxies are measured one after
the other in one context (what they share is computed by the first that asks); with `--alone` each also in a context
of its own. The unit is the median of gradients taken between the measurements, in processor seconds: ratios carry
over to other machines, and other work on this one disturbs them little.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import gapbench
from gapbench.proxies.context import Context
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import checked_options, proxy_entry
from gapbench_base.allocation import keep_freed_memory


@dataclass(frozen=True)
class Case:
    """A network of the registry, and how many images its loss is on, of how many that it was trained on."""

    family: str
    width: float
    images: int
    of: int | None = None
    shape: tuple[int, int, int] = (3, 32, 32)
    options: tuple[tuple[str, object], ...] = ()


DIGITS = (1, 8, 8)
CASES = {
    "mixer": Case("timm/mixer", 0.1875, 256),
    "vit": Case("timm/vit_tiny", 0.125, 64),
    "resnet18-1/8": Case("torchvision/resnet18", 0.125, 256),
    "resnet18-1/4": Case("torchvision/resnet18", 0.25, 256),
    "convnext": Case("timm/convnext_atto", 0.25, 128),
    "mobilenet": Case("torchvision/mobilenet_v2", 0.25, 128),
    # The largest of each family of the suite `quick`, measured on as many images as there.
    "quick-cnn": Case("plain/cnn", 2, 48, 300, DIGITS, (("depth", 4),)),
    "quick-resnet18": Case("torchvision/resnet18", 0.25, 48, 300, DIGITS, (("depth", 1),)),
    "quick-convmixer": Case("timm/convmixer", 0.25, 48, 300, DIGITS, (("depth", 3),)),
    "quick-mlp-relu": Case("plain/mlp", 4, 48, 300, DIGITS, (("depth", 4),)),
    "quick-mlp-gelu": Case("plain/mlp", 4, 48, 300, DIGITS, (("depth", 4), ("activation", "gelu"))),
}
STEPS, GRADIENTS = 30, 5


def trained(case: Case) -> tuple[nn.Module, nn.Module, torch.Tensor, torch.Tensor]:
    """The network after a few steps, its start, images and classes."""
    generator = torch.Generator().manual_seed(0)
    count, (channels, side, _) = case.of or case.images, case.shape
    means = torch.randn(10, channels, 8, 8, generator=generator)
    means = means.repeat_interleave(side // 8, 2).repeat_interleave(side // 8, 3)
    targets = torch.randint(0, 10, (count,), generator=generator)
    inputs = means[targets] + torch.randn(count, *case.shape, generator=generator)
    options = {
        "width": case.width,
        "input_shape": case.shape,
        "num_classes": 10,
        "seed": 0,
        **dict(case.options),
    }
    start, network = (gapbench.build_model(case.family, **options) for _ in range(2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    torch.manual_seed(0)
    network.train()
    for step in range(STEPS):
        chosen = torch.arange(64) + 64 * step
        chosen = chosen % count
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


def costs(case: Case, alone: bool) -> dict[str, Any]:
    """All that is measured on one network, in gradients."""
    network, start, all_inputs, all_targets = trained(case)
    inputs, targets = all_inputs[: case.images], all_targets[: case.images]
    data = {"all_inputs": all_inputs, "all_targets": all_targets, "initial": start}
    context = make_context(network, inputs, targets, **data)
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
            single[name], _ = seconds(make_context(network, inputs, targets, **data), name)
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
        "seconds": sum(together.values()),
        "sum_alone": sum(single.values()) / one if alone else None,
    }


def write_table(path: Path, row: dict[str, Any]) -> None:
    """Seconds and gradients of each proxy, as `scripts/proxies_docs.py` reads them."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(["proxy", "status", "seconds", "gradients"])
        for name, cost in sorted(row["together"].items()):
            seconds = f"{cost * row['gradient_seconds']:.3g}"
            out.writerow([name, row["status"][name], seconds, f"{cost:.3g}"])


def main() -> None:
    """Measure and print, one network after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--alone", action="store_true", help="each proxy in a context of its own too")
    parser.add_argument(
        "--table", type=Path, help="write the last network's to this file, for docs/proxies.md"
    )
    parser.add_argument("--record", type=Path, help="write the numbers to this file as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as in the workers of a run
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
            f"  projection {row['projection']:.2f}, all together {row['sum']:.0f} ({row['seconds']:.1f} s), "
            f"alone {row['sum_alone']}"
        )
        for proxy, cost in row["together"].items():
            print(f"  {proxy:45} {cost:8.1f} {row['alone'].get(proxy, float('nan')):8.1f}")
        sys.stdout.flush()
        if arguments.table is not None:
            write_table(arguments.table, row)
        if arguments.record is not None:
            arguments.record.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
