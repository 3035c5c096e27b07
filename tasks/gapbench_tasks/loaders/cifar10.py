"""CIFAR-10 (Krizhevsky 2009)."""

from __future__ import annotations

import os

import numpy as np

from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.folder import load_images
from gapbench_tasks.images import black, image_split
from gapbench_tasks.selection import noisy_labels, stratified_subset
from gapbench_tasks.task import Task, fingerprint

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
    train_size: int = 50_000,
    label_noise: float = 0.0,
    seed: int = 0,
) -> Task:
    """CIFAR-10 (Krizhevsky 2009), protocol version 1.

    Returns:
        Stratified seeded training subset of the 50,000 training images, the full test set, pixels in [0, 1]
        normalised per channel by the fixed CIFAR10_MEAN and CIFAR10_STD.
    """
    images = load_images("cifar10", data_dir)
    chosen = stratified_subset(images.y_train, train_size, "cifar10", seed)
    labels = noisy_labels(images.y_train[chosen].astype(np.int64), label_noise, 10, "cifar10", seed)
    test_labels = images.y_test.astype(np.int64)
    return Task(
        name="cifar10",
        version=1,
        train=image_split(images.x_train[chosen], labels, CIFAR10_MEAN, CIFAR10_STD),
        test=image_split(images.x_test, test_labels, CIFAR10_MEAN, CIFAR10_STD),
        num_classes=10,
        input_shape=(3, 32, 32),
        fingerprint=fingerprint(
            x_train=images.x_train[chosen], y_train=labels, x_test=images.x_test, y_test=test_labels
        ),
        source="official" if images.official else "unofficial",
        options={"train_size": train_size, "label_noise": label_noise, "seed": seed},
        black=black(CIFAR10_MEAN, CIFAR10_STD),
    )
