"""Time of a training step with channels last, relative to torch's default order, by family, width and inputs.

    OMP_NUM_THREADS=1 python performance/memory_format.py [--families NAME ...] [--rounds 7]

Steps of the two orders are taken in turn, in one process on one core, in processor seconds. `taken` says what a
run trains with (`gapbench.computation.memory_format`).
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch.nn.functional import cross_entropy

import gapbench
from gapbench.computation.memory_format import LEAST_CONVOLUTIONS, channels_last_pays
from gapbench_base.allocation import keep_freed_memory
from gapbench_models import list_models

CASES = ((0.125, (3, 32, 32)), (0.25, (1, 28, 28)), (0.125, (1, 8, 8)), (0.5, (1, 8, 8)))
BATCH = 32


class Way:
    """A network that is trained in one order."""

    def __init__(self, family: str, width: float, shape: tuple[int, int, int], order: torch.memory_format):
        self.network = gapbench.build_model(family, width, shape, 10, seed=0).train().to(memory_format=order)
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(BATCH, *shape, generator=generator)
        self.targets = torch.randint(0, 10, (BATCH,), generator=generator)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3, momentum=0.9)

    def seconds(self) -> float:
        """Of one step."""
        started = time.process_time()
        self.optimizer.zero_grad()
        cross_entropy(self.network(self.inputs), self.targets).backward()
        self.optimizer.step()
        return time.process_time() - started


def compared(family: str, width: float, shape: tuple[int, int, int], rounds: int) -> str | None:
    """A row of the table; None for a network that has no convolutions to speak of."""
    plain, last = (
        Way(family, width, shape, order) for order in (torch.contiguous_format, torch.channels_last)
    )
    convolutions = sum(isinstance(m, torch.nn.Conv2d) for m in plain.network.modules())
    if convolutions < LEAST_CONVOLUTIONS:
        return None
    taken = "last" if channels_last_pays(plain.network, plain.inputs, BATCH) else "default"
    pairs = [(plain.seconds(), last.seconds()) for _ in range(rounds + 1)][1:]
    ratios = sorted(after / before for before, after in pairs)
    middle, least, most = statistics.median(ratios), ratios[0], ratios[-1]
    size = " x ".join(map(str, shape))
    before = 1e3 * statistics.median(before for before, _ in pairs)
    return f"| {family} | {width:g} | {size} | {before:.1f} | {middle:.2f} | {least:.2f} to {most:.2f} | {taken} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--families", nargs="+", default=list_models())
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    print(f"one CPU core, torch {torch.__version__}, batch {BATCH}\n")
    print("| family | width | inputs | default order, ms | channels last | least to largest | taken |")
    print("|---|--:|---|--:|--:|--:|---|")
    for family in given.families:
        for width, shape in CASES:
            row = compared(family, width, shape, given.rounds)
            if row is not None:
                print(row, flush=True)


if __name__ == "__main__":
    main()
