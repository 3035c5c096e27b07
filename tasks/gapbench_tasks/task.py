"""The value that a task is: two splits of fixed, preprocessed arrays and where they came from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gapbench_tasks.max_margin import MaxMargin, NoMaximumMargin

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Preprocessed examples: `inputs` (n, c, h, w) float32, `targets` (n,) int64."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Task:
    """A classification problem with a fixed training and test split.

    `fingerprint` is the sha256 of the arrays used (pixels before preprocessing, labels after label noise,
    angles), so it is the same on every machine. `source` is `official`, `unofficial` (a data set whose
    checksum is not the published one), `bundled` or `synthetic`. `shift` says that training and test inputs
    follow different distributions by construction, which keeps a task off the gap board. `black` holds, per
    channel, the preprocessed value of a zero pixel: what augmentation fills with.
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
