"""Training several networks together against one at a time, by architecture.

    python performance/stacking.py [--device cpu|cuda] [--rounds 5] [--networks 16] [--only WORD] [--runs 0]

Each round trains the same networks for the same epochs, evaluations included, by the plain loop and by every
engine that takes them, one after the other, and takes the ratio; a row has the median of the rounds and their
range. On a CPU it counts the time of the process in one thread, on CUDA the time of the clock. `decided` is what a
run would take by its trial, with `--stacks exact` and with `--stacks any`, and how long the trial took. With
`--runs` so many whole runs of a suite of 96 MLP-32 follow, without and with stacks in turn, each by two workers.
"""

from __future__ import annotations

import argparse
import copy
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from numpy import median

import gapbench
from gapbench.population.engines import ENGINES, Candidates, choose, size_of
from gapbench.population.stacked_parameters import Unsuitable
from gapbench.population.stacking import StackMember, train_together
from gapbench.population.stacks import evenly
from gapbench.population.training import train
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_tasks import load_task


@dataclass(frozen=True)
class Case:
    name: str
    family: str
    width: float
    task: str
    options: dict[str, object]
    batch: int
    epochs: int


DIGITS = {"train_size": 300}
SMALL = {"shape": (1, 28, 28), "train_size": 1000, "test_size": 1000}
LARGE = {"shape": (3, 32, 32), "train_size": 1000, "test_size": 1000}
CASES = (
    Case("MLP-32, 8 x 8", "plain/mlp", 0.5, "digits_rotations", DIGITS, 50, 60),
    Case("MLP-32, 28 x 28", "plain/mlp", 0.5, "separable", SMALL, 50, 10),
    Case("MLP-32, 3 x 32 x 32", "plain/mlp", 0.5, "separable", LARGE, 64, 10),
    Case("deep linear-32, 8 x 8", "plain/deep_linear", 0.5, "digits_rotations", DIGITS, 50, 60),
    Case("MLP-256, 8 x 8", "plain/mlp", 4.0, "digits_rotations", DIGITS, 50, 20),
    Case("MLP-256, 28 x 28", "plain/mlp", 4.0, "separable", SMALL, 50, 5),
    Case("CNN w = 4, 8 x 8", "plain/cnn", 0.25, "digits_rotations", DIGITS, 50, 10),
    Case("CNN w = 16, 8 x 8", "plain/cnn", 1.0, "digits_rotations", DIGITS, 50, 10),
    Case("VGG-11 with BN, w = 4, 8 x 8", "torchvision/vgg11_bn", 0.0625, "digits_rotations", DIGITS, 50, 5),
    Case("ResNet-18 with BN, w = 4, 8 x 8", "timm/resnet18", 0.0625, "digits_rotations", DIGITS, 50, 2),
)


def candidates(case: Case, count: int) -> Candidates:
    """Networks of four learning rates; none meets the stop criterion."""
    task = load_task(case.task, **case.options)

    def make(index: int) -> StackMember:
        values = Hyperparameters(
            learning_rate=0.01 * (1 + index % 4),
            batch_size=case.batch,
            max_epochs=case.epochs,
            stop_loss=1e-12,
        )
        model = gapbench.build_model(case.family, case.width, task.input_shape, task.num_classes, seed=index)
        return StackMember(str(index), model, task, values, index)

    return Candidates(make, count)


class Clock:
    def __init__(self, device: torch.device):
        self.device = device

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return time.perf_counter()
        return time.process_time()


def loop_seconds(group: list[StackMember], clock: Clock) -> float:
    group = copy.deepcopy(group)
    started = clock.now()
    for member in group:
        train(member.model, member.task, member.values, member.seed, clock.device)
    return clock.now() - started


def stack_seconds(group: list[StackMember], engine: str, size: int, clock: Clock) -> float:
    group = copy.deepcopy(group)
    started = clock.now()
    for part in evenly(group, size):
        train_together(part, ENGINES[engine], clock.device, lambda *_: None)
    return clock.now() - started


def row(case: Case, name: str, networks: int, rounds: int, clock: Clock) -> str:
    group = [candidates(case, networks).make(index) for index in range(networks)]
    size = size_of(group[0], 1, clock.device, workers=1)
    try:
        stack_seconds(group[:2], name, 2, clock)  # not counted; refused here if at all
        loop_seconds(group[:2], clock)
    except Unsuitable as error:
        return f"| {case.name} | {name} | | refused: {error} | |"
    ratios, together = [], []
    for _ in range(rounds):
        alone = loop_seconds(group, clock)
        together.append(stack_seconds(group, name, size, clock))
        ratios.append(alone / together[-1])
    hourly = 3600 * networks / median(together)
    return (
        f"| {case.name} | {name} | {min(size, networks)} | {median(ratios):.2f} | "
        f"{min(ratios):.2f} to {max(ratios):.2f} | {hourly:,.0f} |"
    )


def decided(case: Case, stacks: str, networks: int, device: torch.device) -> str:
    started = time.perf_counter()
    found = choose(candidates(case, networks), device, 1, stacks)
    seconds = time.perf_counter() - started
    if found.loop_seconds is None or found.stack_seconds is None:
        return f"{found.engine} ({seconds:.1f} s)"
    return f"{found.engine}, {found.loop_seconds / found.stack_seconds:.2f} ({seconds:.1f} s)"


POPULATION = """
name = "population"
version = 1
summary = "96 networks."
[training]
batch_size = 50
max_epochs = 150
[measure]
samples = 10
proxies = ["parameter_count"]
[[grid]]
task = "digits_rotations"
task_options = { train_size = 300 }
[grid.axes]
family = ["plain/mlp"]
width = [0.5]
label_noise = [0.0, 0.2]
learning_rate = [0.02, 0.04, 0.08]
weight_decay = [0.0, 0.001]
seed = [0, 1, 2, 3, 4, 5, 6, 7]
"""


def whole_runs(count: int) -> None:
    print(
        "\n| stacks | seconds of training, both workers | seconds of the run, by the clock |\n|---|---|---|"
    )
    for _ in range(count):
        for stacks in ("off", "exact"):
            with tempfile.TemporaryDirectory() as folder:
                suite = Path(folder) / "population.toml"
                suite.write_text(POPULATION)
                started = time.perf_counter()
                run = gapbench.run(
                    suite, Path(folder) / "run", device="cpu", workers=2, stacks=stacks, board=False
                )
                seconds = time.perf_counter() - started
                print(f"| {stacks} | {run.population['seconds'].sum():.1f} | {seconds:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", type=int, default=16)
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--runs", type=int, default=0, help="whole runs with and without stacks")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"one core of {platform.machine()}"
    print(f"{name}, torch {torch.__version__}, {options.networks} networks, {options.rounds} rounds\n")
    cases = [case for case in CASES if options.only in case.name]
    print("| network, inputs | engine | together | times the plain loop | range | networks an hour |")
    print("|---|---|---|---|---|---|")
    for case in cases:
        for engine in ENGINES:
            print(row(case, engine, options.networks, options.rounds, Clock(device)), flush=True)
    print("\n| network, inputs | decided, exact | decided, any |\n|---|---|---|")
    for case in cases:
        found = [decided(case, stacks, options.networks, device) for stacks in ("exact", "any")]
        print(f"| {case.name} | {found[0]} | {found[1]} |", flush=True)
    if options.runs:
        whole_runs(options.runs)


if __name__ == "__main__":
    main()
