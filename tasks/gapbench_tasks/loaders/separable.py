"""Synthetic data that a linear classifier through the origin separates with a known margin.

With `spectrum` a > 0 the inputs have variance i^-a along the i-th of orthogonal directions, scaled to a mean
variance of 1, before points are rejected. The directions are random, and fixed by the shape and the data seed. A
`teacher` that is `leading` (`trailing`) is drawn within the span of the first (last) quarter of the directions,
rounded up; without a spectrum these are as good as any.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gapbench_base.errors import TaskError
from gapbench_base.rules import Rule
from gapbench_base.seeds import named_generator
from gapbench_base.suggestions import did_you_mean
from gapbench_tasks.directions import Directions, deviations, random_directions
from gapbench_tasks.entry import TaskEntry
from gapbench_tasks.max_margin import MaxMargin, NoMaximumMargin, hard_margin
from gapbench_tasks.options import DataSeed, LabelNoise, TestSize, TrainSize
from gapbench_tasks.selection import noisy_labels
from gapbench_tasks.task import POOL_SIZE, Split, Task, Unlabelled, fingerprint

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Array = NDArray[np.float64]
CHUNK = 1024
SMALLEST_ACCEPTANCE = 1e-4
TEACHERS = ("random", "leading", "trailing")

Shape = Annotated[
    tuple[int, int, int],
    Rule(
        meaning="of one input",
        example=((1, 4, 4), (1, 8, 8)),
        values="a list of numbers: three positive whole ones, for channels, height and width",
    ),
]
Classes = Annotated[int, Rule(meaning="number of classes", example=(2, 3), whole=True, least=2)]
Margin = Annotated[
    float,
    Rule(
        meaning="least distance of an example from the boundary between two classes",
        example=(0.1, 0.2),
        least=0,
    ),
]
Spectrum = Annotated[
    float,
    Rule(
        meaning="a of the variances i^-a along orthogonal directions, their mean 1; 0 is isotropic",
        example=(0.0, 0.5),
        least=0,
    ),
]
TeacherKind = Annotated[
    str,
    Rule(
        meaning="whether labels depend on any direction, or on those of largest or smallest variance",
        example=("random", "leading"),
        choices=TEACHERS,
    ),
]

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
    shape: Shape = (1, 8, 8),
    num_classes: Classes = 2,
    margin: Margin = 0.2,
    train_size: TrainSize = 400,
    test_size: TestSize = 10_000,
    label_noise: LabelNoise = 0.0,
    seed: DataSeed = 0,
    spectrum: Spectrum = 0.0,
    teacher: TeacherKind = "random",
) -> SeparableTask:
    """Gaussian inputs, isotropic by default, labelled by unit teacher directions, protocol version 1.

    Two classes: x has label [u . x > 0] for a unit vector u. More: label argmax_k u_k . x for unit vectors
    u_k, orthogonal where the dimension c h w admits it. Points nearer than `margin` to a pairwise boundary
    are rejected: for two classes |u . x| >= margin, for more min_{j != y} (u_y - u_j) . x / |u_y - u_j| >=
    margin. The dimension may exceed `train_size`. `data_dir` is accepted and ignored. Training sets of one seed
    are nested; test labels are clean. `spectrum` and `teacher`: see the module's text.

    Returns:
        The task with its teacher.

    Raises:
        TaskError: an option that cannot be, or a margin that too few points keep.
    """
    del data_dir
    import torch

    shape = _shape(shape)
    dimension = prod(shape)
    _check(num_classes, margin, train_size, test_size, spectrum, teacher)
    directions = random_directions(dimension, named_generator("separable", shape, seed, "directions"))
    identity = ("separable", shape, num_classes, float(margin), seed)
    units = _units(teacher, directions, num_classes, named_generator(*identity, "teacher"))
    cloud = Cloud(dimension, directions, float(spectrum))
    x_train, y_train = _sample(units, margin, train_size, cloud, named_generator(*identity, "train"))
    x_test, y_test = _sample(units, margin, test_size, cloud, named_generator(*identity, "test"))
    labels = noisy_labels(y_train, label_noise, num_classes, "separable", seed)

    def further() -> torch.Tensor:
        points, _ = _sample(units, margin, POOL_SIZE, cloud, named_generator(*identity, "unlabelled"))
        return torch.from_numpy(points.astype(np.float32)).reshape(-1, *shape)

    options: dict[str, Any] = {"shape": list(shape), "num_classes": num_classes, "margin": margin}
    options |= {"train_size": train_size, "test_size": test_size, "label_noise": label_noise, "seed": seed}
    options |= {"spectrum": float(spectrum), "teacher": teacher}
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
        teacher=torch.from_numpy(units),
        margin=float(margin),
        unlabelled=Unlabelled(further),
    )


def _check(
    num_classes: int, margin: float, train_size: int, test_size: int, spectrum: float, teacher: str
) -> None:
    if num_classes < 2:
        raise TaskError(f"num_classes = {num_classes}: a separable task needs at least 2.")
    if not (np.isfinite(margin) and margin >= 0):
        raise TaskError(f"margin = {margin}: give a finite distance of at least 0.")
    if train_size < num_classes or test_size < 1:
        raise TaskError(
            f"train_size = {train_size}, test_size = {test_size}: at least {num_classes} training points and "
            "one test point are needed."
        )
    if not (np.isfinite(spectrum) and spectrum >= 0):
        raise TaskError(f"spectrum = {spectrum}: give a finite exponent of at least 0.")
    if teacher not in TEACHERS:
        hint = did_you_mean(teacher, TEACHERS)
        raise TaskError(f"teacher = {teacher!r} is none of {', '.join(TEACHERS)}.{hint}")


def _shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    values = tuple(shape) if isinstance(shape, tuple | list) else ()
    if len(values) != 3 or not all(isinstance(v, int) and v > 0 for v in values):
        raise TaskError(f"shape = {shape!r}: give three positive whole numbers (channels, height, width).")
    return values


@dataclass(frozen=True)
class Cloud:
    """What the inputs are drawn from: a Gaussian in `dimension` dimensions, isotropic if `spectrum` is 0."""

    dimension: int
    directions: Directions
    spectrum: float

    def draw(self, count: int, generator: np.random.Generator) -> Array:
        """Points (count, dimension)."""
        points = generator.standard_normal((count, self.dimension))
        if not self.spectrum:
            return points
        placed = self.directions.place(points * deviations(self.dimension, self.spectrum))
        rounded: Array = placed.astype(np.float32)  # what is stored is what keeps the margin
        return rounded.astype(np.float64)


def _units(kind: str, directions: Directions, num_classes: int, generator: np.random.Generator) -> Array:
    """The teacher's unit vectors, in the span of the directions that `kind` says."""
    dimension = directions.dimension
    if kind == "random":
        return _teacher(dimension, num_classes, generator)
    quarter = -(-dimension // 4)
    if num_classes > 2 and quarter < 2:
        raise TaskError(
            f"teacher = {kind!r}: a quarter of {dimension} dimensions is one direction, in which only two classes "
            "can be told apart. Choose a larger shape, two classes, or a random teacher."
        )
    within = np.atleast_2d(_teacher(quarter, num_classes, generator))
    coordinates = np.zeros((len(within), dimension))
    coordinates[:, slice(0, quarter) if kind == "leading" else slice(dimension - quarter, None)] = within
    units = directions.place(coordinates)
    return units[0] if num_classes == 2 else units


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
    teacher: Array, margin: float, size: int, cloud: Cloud, generator: np.random.Generator
) -> tuple[Array, NDArray[np.int64]]:
    inputs, labels, accepted, drawn = [], [], 0, 0
    while accepted < size:
        points = cloud.draw(CHUNK, generator)
        distance, label = boundary_distance(teacher, points)
        # Rounding to float32 moves a point by 1e-7 of its size; the margin is to hold for what is stored.
        keep = distance >= margin + 1e-5
        inputs.append(points[keep])
        labels.append(label[keep])
        accepted, drawn = accepted + int(keep.sum()), drawn + CHUNK
        if drawn >= 100 * CHUNK and accepted < SMALLEST_ACCEPTANCE * drawn:
            spread = _spread(teacher, points)
            raise TaskError(
                f"margin = {margin} is too large: of {drawn} points only {accepted} keep this distance from the "
                f"boundary, across which they have a standard deviation of about {spread:.1g}. Choose a margin of "
                f"at most about {3 * spread:.1g}."
            )
    return np.concatenate(inputs)[:size], np.concatenate(labels)[:size]


def _spread(teacher: Array, points: Array) -> float:
    """Standard deviation of points (n, dimension) across the pairwise boundaries, the smallest over pairs."""
    if teacher.ndim == 1:
        return float((points @ teacher).std())
    pairs = [(i, j) for i in range(len(teacher)) for j in range(i)]
    across = np.stack([teacher[i] - teacher[j] for i, j in pairs])
    return float((points @ (across / np.linalg.norm(across, axis=1, keepdims=True)).T).std(axis=0).min())
