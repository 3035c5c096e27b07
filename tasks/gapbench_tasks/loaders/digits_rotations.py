"""The rotated digits of scikit-learn, which need no download."""

from __future__ import annotations

import os

import numpy as np

from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.images import rotated_task
from gapbench_tasks.options import Angles, DataSeed, LabelNoise, TestAngles, TestCopies, TrainSize
from gapbench_tasks.selection import stratified_subset
from gapbench_tasks.task import Task

DIGITS_MEAN, DIGITS_STD = (0.3053,), (0.3760,)
DIGITS_TRAIN_POOL = 800

TASK = TaskEntry(
    "digits_rotations",
    f"{__name__}:load_digits_rotations",
    "scikit-learn's bundled 8 x 8 digits, rotated; needs no download",
    classes=10,
)


def load_digits_rotations(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: TrainSize = 600,
    label_noise: LabelNoise = 0.0,
    seed: DataSeed = 0,
    angles: Angles = (0.0, 360.0),
    test_angles: TestAngles = None,
    test_copies: TestCopies = 1,
) -> Task:
    """The 1,797 8 x 8 digits bundled with scikit-learn, rotated as in `mnist_rotations`, protocol version 1.

    Needs no download; `data_dir` is accepted and ignored.

    Returns:
        800 images (stratified, by the data seed) are the pool for training subsets, the other 997 the test set,
        each at `test_copies` fixed angles.
    """
    del data_dir
    from sklearn.datasets import load_digits

    bundle = load_digits()
    images, labels = bundle.images.astype(np.uint8), bundle.target.astype(np.uint8)
    pool = stratified_subset(labels, DIGITS_TRAIN_POOL, "digits_pool", seed)
    held_out = np.setdiff1d(np.arange(len(labels)), pool)
    return rotated_task(
        "digits_rotations",
        (images[pool], labels[pool], images[held_out], labels[held_out]),
        scale=16.0,
        mean=DIGITS_MEAN,
        std=DIGITS_STD,
        source="bundled",
        train_size=train_size,
        label_noise=label_noise,
        seed=seed,
        angles=angles,
        test_angles=test_angles,
        test_copies=test_copies,
    )
