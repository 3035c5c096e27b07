"""Tasks made of images that exist: CIFAR-10, rotated MNIST and the rotated digits of scikit-learn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gapbench_base.errors import TaskError
from gapbench_base.seeds import named_generator
from gapbench_tasks.folder import load_images
from gapbench_tasks.selection import noisy_labels, stratified_subset
from gapbench_tasks.task import Split, Task, fingerprint

if TYPE_CHECKING:
    from torch import Tensor

Range = tuple[float, float]

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
MNIST_MEAN, MNIST_STD = (0.1307,), (0.3081,)
DIGITS_MEAN, DIGITS_STD = (0.3053,), (0.3760,)
DIGITS_TRAIN_POOL = 800


def load_cifar10(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: int = 50_000,
    label_noise: float = 0.0,
    seed: int = 0,
) -> Task:
    """CIFAR-10 (Krizhevsky 2009), protocol version 1.

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
        train=_split(images.x_train[chosen], labels, CIFAR10_MEAN, CIFAR10_STD),
        test=_split(images.x_test, test_labels, CIFAR10_MEAN, CIFAR10_STD),
        num_classes=10,
        input_shape=(3, 32, 32),
        fingerprint=fingerprint(
            x_train=images.x_train[chosen], y_train=labels, x_test=images.x_test, y_test=test_labels
        ),
        source="official" if images.official else "unofficial",
        options={"train_size": train_size, "label_noise": label_noise, "seed": seed},
        black=_black(CIFAR10_MEAN, CIFAR10_STD),
    )


def load_mnist_rotations(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: int = 12_000,
    label_noise: float = 0.0,
    seed: int = 0,
    angles: Range = (0.0, 360.0),
    test_angles: Range | None = None,
) -> Task:
    """Rotated MNIST, protocol version 1, in the setting of Larochelle et al. 2007.

    One fixed angle per image of the training and of the test set, uniform on [low, high) degrees from the
    data seed (the ambiguity of 6 and 9 is accepted); bilinear, zeros outside, rotated before normalising.
    All 10,000 test images. A `test_angles` that differs from `angles` makes a task with `shift = True`.
    """
    images = load_images("mnist", data_dir)
    return _rotated(
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
    )


def load_digits_rotations(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    train_size: int = 600,
    label_noise: float = 0.0,
    seed: int = 0,
    angles: Range = (0.0, 360.0),
    test_angles: Range | None = None,
) -> Task:
    """The 1,797 8 x 8 digits bundled with scikit-learn, rotated as in `mnist_rotations`, protocol version 1.

    800 images (stratified, by the data seed) are the pool for training subsets, the other 997 the test set.
    Needs no download; `data_dir` is accepted and ignored.
    """
    del data_dir
    from sklearn.datasets import load_digits

    bundle = load_digits()
    images, labels = bundle.images.astype(np.uint8), bundle.target.astype(np.uint8)
    pool = stratified_subset(labels, DIGITS_TRAIN_POOL, "digits_pool", seed)
    held_out = np.setdiff1d(np.arange(len(labels)), pool)
    return _rotated(
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
    )


def _rotated(
    name: str,
    arrays: tuple[NDArray[np.uint8], ...],
    *,
    scale: float,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    source: str,
    train_size: int,
    label_noise: float,
    seed: int,
    angles: Range,
    test_angles: Range | None,
) -> Task:
    x_train, y_train, x_test, y_test = arrays
    angles = _angle_range("angles", angles)
    test_angles = angles if test_angles is None else _angle_range("test_angles", test_angles)
    # Angles belong to the images of the full set, so that subsets of one data seed stay nested.
    drawn_train = named_generator(name, "train_angles", seed).uniform(*angles, size=len(x_train))
    drawn_test = named_generator(name, "test_angles", seed).uniform(*test_angles, size=len(x_test))
    chosen = stratified_subset(y_train, train_size, name, seed)
    labels = noisy_labels(y_train[chosen].astype(np.int64), label_noise, 10, name, seed)
    test_labels = y_test.astype(np.int64)
    options: dict[str, Any] = {"train_size": train_size, "label_noise": label_noise, "seed": seed}
    options |= {"angles": list(angles), "test_angles": list(test_angles)}
    return Task(
        name=name,
        version=1,
        train=_split(x_train[chosen], labels, mean, std, scale, drawn_train[chosen]),
        test=_split(x_test, test_labels, mean, std, scale, drawn_test),
        num_classes=10,
        input_shape=(1, *x_train.shape[1:3]),
        fingerprint=fingerprint(
            x_train=x_train[chosen],
            y_train=labels,
            a_train=drawn_train[chosen],
            x_test=x_test,
            y_test=test_labels,
            a_test=drawn_test,
        ),
        source=source,
        options=options,
        shift=test_angles != angles,
        black=_black(mean, std),
    )


def _angle_range(option: str, angles: Range) -> Range:
    try:
        low, high = (float(value) for value in angles)
    except (TypeError, ValueError):
        raise TaskError(f"{option} = {angles!r}: give two numbers in degrees, low and high.") from None
    if not (low <= high and np.isfinite([low, high]).all()):
        raise TaskError(f"{option} = {angles!r}: low must not exceed high, both finite degrees.")
    return low, high


def _black(mean: tuple[float, ...], std: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(-m / s for m, s in zip(mean, std))


def _split(
    pixels: NDArray[np.uint8],
    labels: NDArray[np.int64],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    scale: float = 255.0,
    degrees: NDArray[np.float64] | None = None,
) -> Split:
    import torch

    from gapbench_tasks.rotation import rotate

    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    images: Tensor = torch.from_numpy(np.ascontiguousarray(pixels)).to(torch.float32) / scale
    if degrees is not None:
        images = rotate(images, torch.from_numpy(degrees))
    shape = (1, -1, 1, 1)
    images = (images - torch.tensor(mean).reshape(shape)) / torch.tensor(std).reshape(shape)
    return Split(images.contiguous(), torch.from_numpy(labels.copy()))
