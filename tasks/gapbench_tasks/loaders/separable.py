"""Synthetic data that a linear classifier through the origin separates with a known margin."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gapbench_base.errors import TaskError
from gapbench_base.seeds import named_generator
from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.max_margin import MaxMargin, NoMaximumMargin, hard_margin
from gapbench_tasks.selection import noisy_labels
from gapbench_tasks.task import Split, Task, fingerprint

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]
CHUNK = 1024
SMALLEST_ACCEPTANCE = 1e-4

TASK = TaskEntry(
    "separable",
    f"{__name__}:load_separable",
    "synthetic, linearly separable through the origin with a known margin",
    classes="num_classes",
)


@dataclass(frozen=True)
class SeparableTask(Task):
    """A task with a linear `teacher`, (c h w,) for two classes, else (classes, c h w), and a `margin` to it."""

    teacher: Tensor = field(kw_only=True)
    margin: float = field(kw_only=True)

    def max_margin(self) -> MaxMargin:
        """The exact hard-margin solution on the training split; see `gapbench_tasks.max_margin`.

        Returns:
            The solution.

        Raises:
            NoMaximumMargin: under label noise, which leaves the data not separable.
        """
        if self.options.get("label_noise", 0.0):
            raise NoMaximumMargin(
                "With label noise the task is not separable: its maximum margin is not defined."
            )
        return hard_margin(self.train.inputs.numpy(), self.train.targets.numpy(), self.num_classes)


def load_separable(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    shape: tuple[int, int, int] = (1, 8, 8),
    num_classes: int = 2,
    margin: float = 0.2,
    train_size: int = 400,
    test_size: int = 10_000,
    label_noise: float = 0.0,
    seed: int = 0,
) -> SeparableTask:
    """Isotropic Gaussian inputs labelled by unit teacher directions, protocol version 1.

    Two classes: x has label [u . x > 0] for a unit vector u. More: label argmax_k u_k . x for unit vectors
    u_k, orthogonal where the dimension c h w admits it. Points nearer than `margin` to a pairwise boundary
    are rejected: for two classes |u . x| >= margin, for more min_{j != y} (u_y - u_j) . x / |u_y - u_j| >=
    margin. The dimension may exceed `train_size`. `data_dir` is accepted and ignored.
    Training sets of one seed are nested; test labels are clean.

    Returns:
        The task with its teacher.

    Raises:
        TaskError: an option that cannot be, or a margin that too few points keep.
    """
    del data_dir
    import torch

    shape = _shape(shape)
    dimension = prod(shape)
    if num_classes < 2:
        raise TaskError(f"num_classes = {num_classes}: a separable task needs at least 2.")
    if not (np.isfinite(margin) and margin >= 0):
        raise TaskError(f"margin = {margin}: give a finite distance of at least 0.")
    if train_size < num_classes or test_size < 1:
        raise TaskError(
            f"train_size = {train_size}, test_size = {test_size}: at least {num_classes} training points and "
            "one test point are needed."
        )
    identity = ("separable", shape, num_classes, float(margin), seed)
    teacher = _teacher(dimension, num_classes, named_generator(*identity, "teacher"))
    x_train, y_train = _sample(teacher, margin, train_size, named_generator(*identity, "train"))
    x_test, y_test = _sample(teacher, margin, test_size, named_generator(*identity, "test"))
    labels = noisy_labels(y_train, label_noise, num_classes, "separable", seed)
    options: dict[str, Any] = {"shape": list(shape), "num_classes": num_classes, "margin": margin}
    options |= {"train_size": train_size, "test_size": test_size, "label_noise": label_noise, "seed": seed}
    inputs = [torch.from_numpy(x.astype(np.float32)).reshape(-1, *shape) for x in (x_train, x_test)]
    return SeparableTask(
        name="separable",
        version=1,
        train=Split(inputs[0], torch.from_numpy(labels)),
        test=Split(inputs[1], torch.from_numpy(y_test)),
        num_classes=num_classes,
        input_shape=shape,
        fingerprint=fingerprint(
            x_train=inputs[0].numpy(), y_train=labels, x_test=inputs[1].numpy(), y_test=y_test
        ),
        source="synthetic",
        options=options,
        black=(0.0,) * shape[0],
        teacher=torch.from_numpy(teacher),
        margin=float(margin),
    )


def _shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    values = tuple(shape) if isinstance(shape, tuple | list) else ()
    if len(values) != 3 or not all(isinstance(v, int) and v > 0 for v in values):
        raise TaskError(f"shape = {shape!r}: give three positive whole numbers (channels, height, width).")
    return values


def _teacher(dimension: int, num_classes: int, generator: np.random.Generator) -> Array:
    if num_classes == 2:
        direction = generator.standard_normal(dimension)
        unit: Array = direction / np.linalg.norm(direction)
        return unit
    directions = generator.standard_normal((num_classes, dimension))
    if dimension >= num_classes:
        directions = np.linalg.qr(directions.T)[0].T
    units: Array = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return units


def boundary_distance(teacher: Array, inputs: Array) -> tuple[Array, NDArray[np.int64]]:
    """Distance (n,) of each input (n, dimension) to the nearest pairwise boundary, and its label (n,)."""
    if teacher.ndim == 1:
        projection = inputs @ teacher
        return np.abs(projection), (projection > 0).astype(np.int64)
    scores = inputs @ teacher.T
    labels = scores.argmax(axis=1)
    between = np.linalg.norm(teacher[:, None] - teacher[None], axis=2)
    np.fill_diagonal(between, np.inf)
    rows = np.arange(len(inputs))
    difference = (scores[rows, labels][:, None] - scores) / between[labels]
    difference[rows, labels] = np.inf
    return difference.min(axis=1), labels.astype(np.int64)


def _sample(
    teacher: Array, margin: float, size: int, generator: np.random.Generator
) -> tuple[Array, NDArray[np.int64]]:
    dimension = teacher.shape[-1]
    inputs, labels, accepted, drawn = [], [], 0, 0
    while accepted < size:
        points = generator.standard_normal((CHUNK, dimension))
        distance, label = boundary_distance(teacher, points)
        # Rounding to float32 moves a point by 1e-7 of its size; the margin is to hold for what is stored.
        keep = distance >= margin + 1e-5
        inputs.append(points[keep])
        labels.append(label[keep])
        accepted, drawn = accepted + int(keep.sum()), drawn + CHUNK
        if drawn >= 100 * CHUNK and accepted < SMALLEST_ACCEPTANCE * drawn:
            raise TaskError(
                f"margin = {margin} is too large: of {drawn} points of a standard normal distribution only "
                f"{accepted} keep this distance from the boundary. Choose a margin of at most about 3."
            )
    return np.concatenate(inputs)[:size], np.concatenate(labels)[:size]
