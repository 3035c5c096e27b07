"""What training a suite takes in arithmetic, and so in hours at a measured rate.

    python performance/suite_flops.py SUITE [--data FOLDER] [--steps 3] [--measure timm/resnet18]

Operations of a forward pass by `torch.utils.flop_counter` (2 for a multiply-add), three times that for a training
step (forward, and the gradients by inputs and by weights), times the training examples and epochs that a
configuration may have. A training that meets its criterion ends earlier, so this is the most that it can take. Then
training steps of one family at every width of the suite are timed on one core, and the hours of the whole are
stated at the rate that they reach.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict

import torch
from torch.utils.flop_counter import FlopCounterMode

from gapbench.population.facts import facts_source
from gapbench.suites.suite import Configuration, load_suite
from gapbench_models import build_model
from gapbench_tasks.registry import number_of_classes

SHAPES = {"cifar10": (3, 32, 32), "cifar100": (3, 32, 32), "mnist_rotations": (1, 28, 28)}
OF_A_STEP = 3
BATCH = 32


def built(configuration: Configuration) -> tuple[torch.nn.Module, tuple[int, ...]]:
    """The network of a configuration, and the shape of its inputs."""
    options = dict(configuration.task_options)
    shape = SHAPES.get(configuration.task) or tuple(options["shape"])  # type: ignore[arg-type]
    classes = number_of_classes(configuration.task, options) or 2
    values = configuration.training
    model = build_model(
        configuration.family,
        configuration.width,
        shape,
        classes,
        0,
        depth=values.depth,
        activation=values.activation,
    )
    return model, shape


def forward_operations(configuration: Configuration) -> int:
    """Of one example."""
    model, shape = built(configuration)
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model.eval()(torch.zeros(1, *shape))
    return int(counter.get_total_flops())


def rate(configuration: Configuration, operations: int, steps: int) -> float:
    """Operations a second of training steps on one core: the median of several."""
    model, shape = built(configuration)
    model.train()
    inputs, targets = torch.randn(BATCH, *shape), torch.zeros(BATCH, dtype=torch.long)
    took = []
    for _ in range(steps + 1):
        start = time.process_time()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        took.append(time.process_time() - start)
    return OF_A_STEP * operations * BATCH / statistics.median(took[1:])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument(
        "--measure", default="timm/resnet18", help="the family whose training steps are timed"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    facts = facts_source(arguments.data)
    known: dict[object, int] = {}
    whole: dict[tuple[str, str], list[float]] = defaultdict(list)
    timed: dict[float, tuple[Configuration, int]] = {}
    for configuration in load_suite(arguments.suite).configurations:
        values = configuration.training
        options = tuple((name, str(value)) for name, value in configuration.task_options if name == "shape")
        same = (configuration.task, options, configuration.family, configuration.width, values.depth)
        if same not in known:
            known[same] = forward_operations(configuration)
        size = facts(configuration).train_size or dict(configuration.task_options).get("train_size") or 0
        examples = float(str(size)) * values.max_epochs
        if values.max_steps is not None:
            examples = float(values.max_steps * values.batch_size)
        whole[configuration.task, configuration.family].append(OF_A_STEP * known[same] * examples)
        if configuration.family == arguments.measure:
            timed[configuration.width] = (configuration, known[same])
    print("| task | family | networks | 1e15 operations, at most |\n|---|---|---:|---:|")
    for (task, family), own in sorted(whole.items()):
        print(f"| {task} | {family} | {len(own)} | {sum(own) / 1e15:.1f} |")
    total = sum(map(sum, whole.values()))
    print(f"| in all | | {sum(map(len, whole.values()))} | {total / 1e15:.0f} |\n")
    rates = {width: rate(*found, arguments.steps) for width, found in sorted(timed.items())}
    for width, found in rates.items():
        print(f"{arguments.measure} at width {width:g}: {found / 1e9:.1f} GFLOP/s on one core")
    if rates:
        hours = total / max(rates.values()) / 3600
        print(f"At the best of these rates: {hours:.0f} hours of one core at most")


if __name__ == "__main__":
    main()
