"""SVHN (Netzer et al. 2011)."""

from __future__ import annotations

import os

from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.images import published_task
from gapbench_tasks.options import DataSeed, LabelNoise, TrainSize
from gapbench_tasks.task import Task

SVHN_MEAN, SVHN_STD = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)

TASK = TaskEntry(
    "svhn",
    f"{__name__}:load_svhn",
    "SVHN, 32 x 32 colour, 10 classes, 26,032 test images",
    "svhn",
    classes=10,
)


def load_svhn(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: TrainSize = 73_257,
    label_noise: LabelNoise = 0.0,
    seed: DataSeed = 0,
) -> Task:
    """SVHN (Netzer et al. 2011) without its extra images, protocol version 1.

    Returns:
        Stratified seeded training subset of the 73,257 training images, the full test set, pixels in [0, 1]
        normalised per channel by the fixed SVHN_MEAN and SVHN_STD.
    """
    return published_task(
        "svhn",
        data_dir,
        mean=SVHN_MEAN,
        std=SVHN_STD,
        train_size=train_size,
        label_noise=label_noise,
        seed=seed,
    )
