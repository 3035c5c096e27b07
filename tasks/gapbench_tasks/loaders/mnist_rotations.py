"""Rotated MNIST (Larochelle et al. 2007)."""

from __future__ import annotations

import os

from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.folder import load_images
from gapbench_tasks.images import rotated_task
from gapbench_tasks.options import Angles, DataSeed, LabelNoise, TestAngles, TestCopies, TrainSize
from gapbench_tasks.task import Task

MNIST_MEAN, MNIST_STD = (0.1307,), (0.3081,)

TASK = TaskEntry(
    "mnist_rotations",
    f"{__name__}:load_mnist_rotations",
    "MNIST, every image at one fixed random angle, 10,000 test images",
    "mnist",
    classes=10,
)


def load_mnist_rotations(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: TrainSize = 12_000,
    label_noise: LabelNoise = 0.0,
    seed: DataSeed = 0,
    angles: Angles = (0.0, 360.0),
    test_angles: TestAngles = None,
    test_copies: TestCopies = 1,
) -> Task:
    """Rotated MNIST, protocol version 1, in the setting of Larochelle et al. 2007.

    One fixed angle per image of the training and of the test set, uniform on [low, high) degrees from the
    data seed (the ambiguity of 6 and 9 is accepted); bilinear, zeros outside, rotated before normalising.

    Returns:
        A task with all 10,000 test images, each at `test_copies` fixed angles, with `shift = True` where
        `test_angles` differ from `angles`.
    """
    images = load_images("mnist", data_dir)
    return rotated_task(
        "mnist_rotations",
        (images.x_train, images.y_train, images.x_test, images.y_test),
        scale=255.0,
        mean=MNIST_MEAN,
        std=MNIST_STD,
        source="official" if images.official else "unofficial",
        train_size=train_size,
        label_noise=label_noise,
        seed=seed,
        angles=angles,
        test_angles=test_angles,
        test_copies=test_copies,
    )
