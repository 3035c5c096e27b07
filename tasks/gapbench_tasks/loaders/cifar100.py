"""CIFAR-100 (Krizhevsky 2009)."""

from __future__ import annotations

import os

from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.images import published_task
from gapbench_tasks.options import DataSeed, LabelNoise, TrainSize
from gapbench_tasks.task import Task

CIFAR100_MEAN, CIFAR100_STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)

TASK = TaskEntry(
    "cifar100",
    f"{__name__}:load_cifar100",
    "CIFAR-100, 32 x 32 colour, 100 classes, 10,000 test images",
    "cifar100",
    classes=100,
)


def load_cifar100(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: TrainSize = 50_000,
    label_noise: LabelNoise = 0.0,
    seed: DataSeed = 0,
) -> Task:
    """CIFAR-100 (Krizhevsky 2009) with its fine labels, protocol version 1.

    Returns:
        Stratified seeded training subset of the 50,000 training images, the full test set, pixels in [0, 1]
        normalised per channel by the fixed CIFAR100_MEAN and CIFAR100_STD.
    """
    return published_task(
        "cifar100",
        data_dir,
        mean=CIFAR100_MEAN,
        std=CIFAR100_STD,
        train_size=train_size,
        label_noise=label_noise,
        seed=seed,
    )
