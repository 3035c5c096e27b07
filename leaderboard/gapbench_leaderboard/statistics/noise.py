"""Test noise: how the test errors would differ on another test set of the same size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.configurations import TableError

_CELLS_AT_ONCE = 50_000_000


class TestNoise(Protocol):
    """Draws of the deviation of all test errors from their expectation."""

    @property
    def joint(self) -> bool:
        """True where all networks share the test examples that are drawn."""
        ...

    def draw(self, random: np.random.Generator, draws: int) -> NDArray[np.float64]:
        """Deviations, shape (draws, networks)."""
        ...

    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of each network's own test error, shape (networks,)."""
        ...

    def select(self, index: NDArray[np.intp]) -> TestNoise:
        """The same for a part of the networks."""
        ...


@dataclass(frozen=True)
class BinomialNoise:
    """Independent binomial test errors, for tables without per-example correctness."""

    error: NDArray[np.float64]
    """Test errors, fractions in [0, 1], shape (networks,)."""
    size: NDArray[np.int64]
    """Number of test examples of each network, shape (networks,)."""
    joint: bool = False

    def draw(self, random: np.random.Generator, draws: int) -> NDArray[np.float64]:
        """See `TestNoise.draw`."""
        wrong = random.binomial(self.size, self.error, size=(draws, len(self.error)))
        return wrong / self.size - self.error

    def deviation(self) -> NDArray[np.float64]:
        """See `TestNoise.deviation`."""
        found: NDArray[np.float64] = np.sqrt(self.error * (1 - self.error) / self.size)
        return found

    def select(self, index: NDArray[np.intp]) -> BinomialNoise:
        """The noise of a part of the networks."""
        return BinomialNoise(self.error[index], self.size[index])


@dataclass(frozen=True)
class JointNoise:
    """Test examples drawn with replacement, the same draw for all networks.

    Examples that show one image are no independent evidence: with `groups` images are drawn, each with all its
    examples, and the error is that of the examples drawn.
    """

    wrong: NDArray[np.bool_]
    """Shape (networks, test examples)."""
    joint: bool = True
    groups: NDArray[np.int64] | None = None
    """The image that each test example shows, shape (test examples,); None: each its own."""

    @property
    def independent(self) -> int:
        """How many independent draws a test set consists of."""
        return self.wrong.shape[1] if self.groups is None else len(np.unique(self.groups))

    def draw(self, random: np.random.Generator, draws: int) -> NDArray[np.float64]:
        """See `TestNoise.draw`."""
        wrong, sizes = self._by_image()
        images = len(sizes)
        result = np.empty((draws, len(wrong)))
        chance = np.full(images, 1.0 / images)
        errors = self.wrong.mean(axis=1)
        step = max(1, _CELLS_AT_ONCE // max(1, images))
        for start in range(0, draws, step):
            stop = min(draws, start + step)
            counts = random.multinomial(images, chance, size=stop - start).astype(np.float32)
            result[start:stop] = (counts @ wrong.T) / (counts @ sizes)[:, None] - errors
        return result

    def deviation(self) -> NDArray[np.float64]:
        """See `TestNoise.deviation`; with images of several examples that of the ratio of two sums over images."""
        wrong, sizes = self._by_image()
        error = self.wrong.mean(axis=1, keepdims=True)
        found: NDArray[np.float64] = np.sqrt(((wrong - error * sizes) ** 2).sum(axis=1)) / self.wrong.shape[1]
        return found

    def _by_image(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Wrong examples of each image (networks, images), and how many it has; counts below 2^24 are exact."""
        if self.groups is None:
            return self.wrong.astype(np.float32), np.ones(self.wrong.shape[1], dtype=np.float32)
        _, image, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
        wrong = np.stack([np.bincount(image, weights=row, minlength=len(sizes)) for row in self.wrong])
        return wrong.astype(np.float32), sizes.astype(np.float32)

    def select(self, index: NDArray[np.intp]) -> JointNoise:
        """The noise of a part of the networks."""
        return JointNoise(self.wrong[index], groups=self.groups)


@dataclass(frozen=True)
class ScaledNoise:
    """The noise of a target that moves with the test error by a factor of its own for each network."""

    noise: TestNoise
    factor: NDArray[np.float64]
    """Shape (networks,)."""

    @property
    def joint(self) -> bool:
        """See `TestNoise.joint`."""
        return self.noise.joint

    def draw(self, random: np.random.Generator, draws: int) -> NDArray[np.float64]:
        """See `TestNoise.draw`."""
        return self.noise.draw(random, draws) * self.factor

    def deviation(self) -> NDArray[np.float64]:
        """See `TestNoise.deviation`."""
        return self.noise.deviation() * np.abs(self.factor)

    def select(self, index: NDArray[np.intp]) -> ScaledNoise:
        """The noise of a part of the networks."""
        return ScaledNoise(self.noise.select(index), self.factor[index])


@dataclass(frozen=True)
class SeveralTestSets:
    """Networks on test sets of different sizes: examples are drawn jointly within a set, sets independently."""

    sets: tuple[JointNoise, ...]
    members: tuple[NDArray[np.intp], ...]
    """The networks of each set, by position."""
    joint: bool = True

    @property
    def independent(self) -> int:
        """How many independent draws the smallest of the test sets consists of."""
        return min(noise.independent for noise in self.sets)

    def draw(self, random: np.random.Generator, draws: int) -> NDArray[np.float64]:
        """See `TestNoise.draw`."""
        result = np.empty((draws, sum(len(index) for index in self.members)))
        for noise, index in zip(self.sets, self.members):
            result[:, index] = noise.draw(random, draws)
        return result

    def deviation(self) -> NDArray[np.float64]:
        """See `TestNoise.deviation`."""
        result = np.empty(sum(len(index) for index in self.members))
        for noise, index in zip(self.sets, self.members):
            result[index] = noise.deviation()
        return result

    def select(self, index: NDArray[np.intp]) -> SeveralTestSets:
        """The noise of a part of the networks."""
        place = {int(network): position for position, network in enumerate(index)}
        kept = [
            np.array([k for k, i in enumerate(own) if int(i) in place], dtype=np.intp) for own in self.members
        ]
        chosen = [(noise, own, part) for noise, own, part in zip(self.sets, self.members, kept) if len(part)]
        return SeveralTestSets(
            tuple(noise.select(part) for noise, _, part in chosen),
            tuple(np.array([place[int(i)] for i in own[part]], dtype=np.intp) for _, own, part in chosen),
        )


def unpack_test(entry: object, test_size: int | None, cell: str) -> NDArray[np.bool_]:
    """Test correctness of one network as booleans.

    Args:
        entry: a one-dimensional bool array, or a pair of packed bits (train, test) as `numpy.packbits` makes
            them, each a uint8 array or bytes.
        test_size: number of test examples; needed where bits are packed.
        cell: of the network, for messages.

    Returns:
        shape (test_size,).

    Raises:
        TableError: for anything else, or where packed bits come without a test size or with too few bits.
    """
    if isinstance(entry, tuple | list) and len(entry) == 2 and not isinstance(entry[1], bool | np.bool_):
        packed = entry[1]
        raw = isinstance(packed, bytes | bytearray | memoryview)
        bits = np.frombuffer(packed, dtype=np.uint8) if raw else np.asarray(packed)
        if bits.dtype != np.uint8 or bits.ndim != 1:
            raise TableError(f"packed correctness of cell {cell!r} must be bytes or uint8 of one dimension")
        if test_size is None or not 0 <= len(bits) * 8 - test_size < 8:
            raise TableError(
                f"cell {cell!r} has {len(bits)} bytes of packed test correctness, test_size {test_size}: "
                "they do not fit; the population needs the right column test_size"
            )
        return np.unpackbits(bits, count=test_size).astype(bool)
    array = np.asarray(entry)
    if array.dtype != np.bool_ or array.ndim != 1 or not len(array):
        raise TableError(
            f"correctness of cell {cell!r} must be a bool array of one dimension, or packed bits"
        )
    return array


def noise_by_size(
    cells: list[str],
    correctness: Mapping[str, object],
    sizes: list[int | None],
    groups: Mapping[str, object] | None = None,
) -> JointNoise | SeveralTestSets:
    """Joint noise of networks whose test sets have the sizes given: those of one size and `groups` share theirs.

    Returns:
        Joint noise where all share one test set, else that of several.

    Raises:
        TableError: as `joint_noise`, for the networks of each size.
    """
    by_set: dict[tuple[int, bytes], list[int]] = {}
    for position, (cell, size) in enumerate(zip(cells, sizes)):
        shown = b"" if cell not in (groups or {}) else np.asarray((groups or {})[cell]).tobytes()
        by_set.setdefault((-1 if size is None else size, shown), []).append(position)
    if len(by_set) < 2:
        return joint_noise(cells, correctness, sizes, groups)
    members = [by_set[key] for key in sorted(by_set)]
    return SeveralTestSets(
        tuple(
            joint_noise([cells[i] for i in own], correctness, [sizes[i] for i in own], groups)
            for own in members
        ),
        tuple(np.array(own, dtype=np.intp) for own in members),
    )


def joint_noise(
    cells: list[str],
    correctness: Mapping[str, object],
    sizes: list[int | None],
    groups: Mapping[str, object] | None = None,
) -> JointNoise:
    """Joint noise of the networks `cells`, which must have correctness on the same test examples.

    `groups`: for cells whose test examples are not independent, the image that each shows, (test examples,).

    Returns:
        The noise, networks in the order of `cells`.

    Raises:
        TableError: for a network without correctness, different numbers of examples, or malformed entries.
    """
    missing = [cell for cell in cells if cell not in correctness]
    if missing:
        raise TableError(
            f"{len(missing)} of {len(cells)} networks have no per-example correctness, first {missing[0]!r}: "
            "give it for all networks that are ranked, or for none (then test errors are taken as independent)"
        )
    rows = [unpack_test(correctness[cell], size, cell) for cell, size in zip(cells, sizes)]
    for cell, row in zip(cells, rows):
        if len(row) != len(rows[0]):
            raise TableError(
                f"networks of one task must share their test set, but {cell!r} has the correctness of {len(row)} "
                f"examples and {cells[0]!r} of {len(rows[0])}"
            )
    return JointNoise(~np.stack(rows), groups=_shared_groups(cells, groups or {}, len(rows[0])))


def _shared_groups(cells: list[str], groups: Mapping[str, object], examples: int) -> NDArray[np.int64] | None:
    known = [cell for cell in cells if cell in groups]
    if not known:
        return None
    first = np.asarray(groups[known[0]])
    if first.shape != (examples,) or not np.issubdtype(first.dtype, np.integer):
        raise TableError(
            f"the test groups of cell {known[0]!r} must be whole numbers, one for each of {examples} test examples"
        )
    if len(known) < len(cells) or not all(np.array_equal(first, np.asarray(groups[cell])) for cell in known):
        raise TableError(
            f"networks that share a test set must have the same test groups, as {known[0]!r} has them"
        )
    return first.astype(np.int64)
