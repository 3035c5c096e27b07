"""What tasks made of images share: rotations, preprocessing, the value of black."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gapbench_base.errors import TaskError
from gapbench_base.seeds import named_generator
from gapbench_tasks.folder import SOURCES, load_images
from gapbench_tasks.options import Range
from gapbench_tasks.selection import further_subset, noisy_labels, stratified_subset
from gapbench_tasks.task import POOL_SIZE, Split, Task, Unlabelled, Upright, fingerprint

if TYPE_CHECKING:
    from torch import Tensor


def published_task(
    name: str,
    data_dir: str | os.PathLike[str] | None,
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    train_size: int,
    label_noise: float,
    seed: int,
) -> Task:
    """A task of a published set of images as they are, protocol version 1.

    Args:
        name: of the task and of the set; it also names the random draws.
        data_dir: the data folder.
        mean: subtracted from pixels in [0, 1], by channel.
        std: by which the difference is divided.
        train_size: size of the stratified training subset.
        label_noise: share of wrong training labels.
        seed: of the data.

    Returns:
        A stratified seeded training subset of the training images, and the full test set.
    """
    images, classes = load_images(name, data_dir), SOURCES[name].classes
    chosen = stratified_subset(images.y_train, train_size, name, seed)
    labels = noisy_labels(images.y_train[chosen].astype(np.int64), label_noise, classes, name, seed)
    test_labels = images.y_test.astype(np.int64)
    height, width, channels = images.x_train.shape[1:]
    further = further_subset(images.y_train, chosen, POOL_SIZE, name, seed)
    return Task(
        name=name,
        version=1,
        train=image_split(images.x_train[chosen], labels, mean, std),
        test=image_split(images.x_test, test_labels, mean, std),
        num_classes=classes,
        input_shape=(channels, height, width),
        fingerprint=fingerprint(
            x_train=images.x_train[chosen], y_train=labels, x_test=images.x_test, y_test=test_labels
        ),
        source="official" if images.official else "unofficial",
        options={"train_size": train_size, "label_noise": label_noise, "seed": seed},
        black=black(mean, std),
        unlabelled=_pool(images.x_train, further, mean, std),
    )


def rotated_task(
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
    test_copies: int = 1,
) -> Task:
    """A task of images that are each at one fixed angle, protocol version 1.

    Args:
        name: of the task; it also names the random draws.
        arrays: x_train (N, h, w), y_train (N,), x_test (M, h, w), y_test (M,), uint8.
        scale: what pixels are divided by.
        mean: subtracted after that, by channel.
        std: by which the difference is divided.
        source: as in `Task`.
        train_size: size of the stratified training subset.
        label_noise: share of wrong training labels.
        seed: of the data.
        angles: (low, high) in degrees, of training images.
        test_angles: of test images; as `angles` by default.
        test_copies: at how many angles each test image stands in the test set: all images once, then all at their
            second angle, and so on, so that the test sets of fewer copies are the beginning.

    Returns:
        The task; its fingerprint is of pixels, labels and angles.

    Raises:
        TaskError: angles or a number of copies that cannot be.
    """
    import torch

    x_train, y_train, x_test, y_test = arrays
    if test_copies < 1:
        raise TaskError(f"test_copies = {test_copies}: each test image is shown at least once.")
    angles = _angle_range("angles", angles)
    test_angles = angles if test_angles is None else _angle_range("test_angles", test_angles)
    # Angles belong to the images of the full set, so that subsets of one data seed stay nested.
    drawn_train = named_generator(name, "train_angles", seed).uniform(*angles, size=len(x_train))
    shown = torch.arange(len(x_test)).repeat(test_copies)
    drawn_test = _test_angles((name, "test_angles", seed), test_angles, len(x_test), test_copies)
    x_test, y_test = (np.concatenate([array] * test_copies) for array in (x_test, y_test))
    chosen = stratified_subset(y_train, train_size, name, seed)
    labels = noisy_labels(y_train[chosen].astype(np.int64), label_noise, 10, name, seed)
    test_labels = y_test.astype(np.int64)
    further = further_subset(y_train, chosen, POOL_SIZE, name, seed)
    options: dict[str, Any] = {"train_size": train_size, "label_noise": label_noise, "seed": seed}
    options |= {"angles": list(angles), "test_angles": list(test_angles), "test_copies": test_copies}
    return Task(
        name=name,
        version=1,
        train=image_split(x_train[chosen], labels, mean, std, scale, drawn_train[chosen]),
        test=image_split(x_test, test_labels, mean, std, scale, drawn_test),
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
        black=black(mean, std),
        test_groups=shown if test_copies > 1 else None,
        unlabelled=_pool(x_train, further, mean, std, scale, drawn_train[further]),
    )


def _pool(
    pixels: NDArray[np.uint8],
    further: NDArray[np.int64],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    scale: float = 255.0,
    degrees: NDArray[np.float64] | None = None,
) -> Unlabelled | None:
    """The images `further`, preprocessed as `image_split` does; None where there are none."""
    import torch

    if not len(further):
        return None
    turns = None if degrees is None else torch.from_numpy(degrees)
    chosen = pixels[further]
    return Unlabelled(lambda: _preprocessed(chosen, mean, std, scale, turns))


def _test_angles(names: tuple[object, ...], angles: Range, images: int, copies: int) -> NDArray[np.float64]:
    """Angles of all images once, then of all a second time, and so on; fewer copies are the beginning."""
    drawn = [names, *((*names, "copy", copy) for copy in range(1, copies))]
    return np.concatenate([named_generator(*own).uniform(*angles, size=images) for own in drawn])


def _angle_range(option: str, angles: Range) -> Range:
    try:
        low, high = (float(value) for value in angles)
    except (TypeError, ValueError):
        raise TaskError(f"{option} = {angles!r}: give two numbers in degrees, low and high.") from None
    if not (low <= high and np.isfinite([low, high]).all()):
        raise TaskError(f"{option} = {angles!r}: low must not exceed high, both finite degrees.")
    return low, high


def black(mean: tuple[float, ...], std: tuple[float, ...]) -> tuple[float, ...]:
    """The preprocessed value of a zero pixel, by channel."""
    return tuple(-m / s for m, s in zip(mean, std))


def image_split(
    pixels: NDArray[np.uint8],
    labels: NDArray[np.int64],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    scale: float = 255.0,
    degrees: NDArray[np.float64] | None = None,
) -> Split:
    """Preprocessed images: divided by `scale`, rotated by `degrees` (n,), normalised by channel.

    Returns:
        The split; of rotated images it knows what they were before.
    """
    import torch

    turns = None if degrees is None else torch.from_numpy(degrees)
    images = _preprocessed(pixels, mean, std, scale, turns)
    upright = None
    if turns is not None:
        upright = Upright(functools.partial(_preprocessed, pixels, mean, std, scale), turns)
    return Split.turned(images, torch.from_numpy(labels.copy()), upright)


def _preprocessed(
    pixels: NDArray[np.uint8],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    scale: float,
    degrees: Tensor | None = None,
) -> Tensor:
    import torch

    from gapbench_tasks.rotation import rotate

    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    images = torch.from_numpy(np.ascontiguousarray(pixels)).to(torch.float32) / scale
    if degrees is not None:
        images = rotate(images, degrees)
    shape = (1, -1, 1, 1)
    images = (images - torch.tensor(mean).reshape(shape)) / torch.tensor(std).reshape(shape)
    return images.contiguous()
