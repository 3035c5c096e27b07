"""The value that a task is: two splits of fixed, preprocessed arrays and where they came from."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gapbench_tasks.max_margin import MaxMargin, NoMaximumMargin

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True)
class Upright:
    """The images of a split before the task turned each by its angle, preprocessed alike.

    They are made when they are first asked for, and then kept, so that who does not turn them again pays nothing.

    Attributes:
        make: gives the images (n, c, h, w).
        degrees: counter-clockwise, by which the task turned them (n,).
    """

    make: Callable[[], Tensor]
    degrees: Tensor

    @functools.cached_property
    def images(self) -> Tensor:
        """The images (n, c, h, w)."""
        return self.make()


@dataclass(frozen=True)
class Split:
    """Preprocessed examples: `inputs` (n, c, h, w) float32, `targets` (n,) int64.

    `upright` is what the inputs were before the task turned them, if it did. It belongs to these inputs alone: a
    split with others (`dataclasses.replace`) has none, unless it is given by `turned`.
    """

    inputs: Tensor
    targets: Tensor
    upright: Upright | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def turned(cls, inputs: Tensor, targets: Tensor, upright: Upright | None) -> Split:
        """A split whose inputs are the `upright` images, each turned by its angle."""
        split = cls(inputs, targets)
        object.__setattr__(split, "upright", upright)
        return split

    def moved(self, change: Callable[[Tensor], Tensor], device: torch.device | str = "cpu") -> Split:
        """The same on a device, with images changed by what keeps their values, such as their type or format.

        Returns:
            The split; what is equal to this one's shares its memory.
        """
        upright = self.upright
        if upright is not None:
            upright = Upright(functools.partial(_changed, upright, change), upright.degrees.to(device))
        return Split.turned(change(self.inputs), self.targets.to(device), upright)

    def part(self, chosen: Tensor) -> Split:
        """The examples `chosen` (k,), in that order."""
        upright = self.upright
        if upright is not None:
            upright = Upright(functools.partial(_rows, upright, chosen), upright.degrees[chosen])
        return Split.turned(self.inputs[chosen], self.targets[chosen], upright)

    def __len__(self) -> int:
        return len(self.targets)


def _rows(upright: Upright, chosen: Tensor) -> Tensor:
    return upright.images[chosen]


def _changed(upright: Upright, change: Callable[[Tensor], Tensor]) -> Tensor:
    return change(upright.images)


@dataclass(frozen=True)
class Unlabelled:
    """Inputs without targets, from where the training inputs come from; made when they are first asked for.

    Attributes:
        make: gives the inputs (n, c, h, w), preprocessed as those of the training split.
    """

    make: Callable[[], Tensor]

    @functools.cached_property
    def inputs(self) -> Tensor:
        """The inputs (n, c, h, w)."""
        return self.make()


POOL_SIZE = 1000
"""Inputs in a pool, at most."""


@dataclass(frozen=True)
class Task:
    """A classification problem with a fixed training and test split.

    `fingerprint` is the sha256 of the arrays used (pixels before preprocessing, labels after label noise,
    angles), so it is the same on every machine. `source` is `official`, `unofficial` (a data set whose
    checksum is not the published one), `bundled` or `synthetic`. `shift` says that training and test inputs
    follow different distributions by construction, which keeps a task off the gap board. `black` holds, per
    channel, the preprocessed value of a zero pixel: what augmentation fills with. `test_groups` (m,) int64 says of
    each test example which image it shows, where several show one: these are not independent. None: each its own.
    `held_out` are examples that were taken out of `train` to choose among the epochs of a training. `unlabelled`
    are further inputs, neither in the training nor in the test set; None where there are none.
    """

    name: str
    version: int
    train: Split
    test: Split
    num_classes: int
    input_shape: tuple[int, int, int]
    fingerprint: str
    source: str
    options: dict[str, Any] = field(default_factory=dict)
    shift: bool = False
    black: tuple[float, ...] = (0.0,)
    test_groups: Tensor | None = None
    held_out: Split | None = None
    unlabelled: Unlabelled | None = None

    def max_margin(self) -> MaxMargin:
        """The exact hard-margin solution on the training split, where the task has one.

        Raises:
            NoMaximumMargin: for any task but a `separable` one without label noise.
        """
        raise NoMaximumMargin(
            f"The task {self.name} has no known teacher: its maximum margin is not defined."
        )


def fingerprint(**arrays: NDArray[Any]) -> str:
    """sha256 over names, dtypes, shapes and little-endian bytes of the arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
