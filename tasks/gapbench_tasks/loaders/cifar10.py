"""CIFAR-10 (Krizhevsky 2009)."""

from __future__ import annotations

import os

from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.images import published_task
from gapbench_tasks.options import DataSeed, LabelNoise, TrainSize
from gapbench_tasks.task import Task

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

TASK = TaskEntry(
    "cifar10",
    f"{__name__}:load_cifar10",
    "CIFAR-10, 32 x 32 colour, 10 classes, 10,000 test images",
    "cifar10",
    classes=10,
)


def load_cifar10(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: TrainSize = 50_000,
    label_noise: LabelNoise = 0.0,
    seed: DataSeed = 0,
) -> Task:
    """CIFAR-10 (Krizhevsky 2009), protocol version 1.

    Returns:
        Stratified seeded training subset of the 50,000 training images, the full test set, pixels in [0, 1]
        normalised per channel by the fixed CIFAR10_MEAN and CIFAR10_STD.
    """
    return published_task(
        "cifar10",
        data_dir,
        mean=CIFAR10_MEAN,
        std=CIFAR10_STD,
        train_size=train_size,
        label_noise=label_noise,
        seed=seed,
    )
