"""Test noise where several test examples show one image, which are no independent evidence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gapbench_leaderboard.statistics import TableError
from gapbench_leaderboard.statistics.noise import JointNoise, SeveralTestSets, joint_noise, noise_by_size


def _copied(
    random: np.random.Generator, images: int, copies: int, networks: int = 2
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
    """A test set of copies, most of which fare as their image does; the expected errors are exactly known."""
    rates = np.linspace(0.2, 0.4, networks)
    hard = random.random(images)
    of_image = hard[None, :, None] < rates[:, None, None]
    fresh = random.random((networks, images, copies)) < rates[:, None, None]
    own = random.random((networks, images, copies)) < 0.1
    wrong = np.where(own, fresh, of_image)
    groups = np.repeat(np.arange(images), copies)
    order = random.permutation(images * copies)
    return wrong.reshape(networks, -1)[:, order], groups[order], rates


def test_noise_of_copies_is_that_of_test_sets_of_other_images() -> None:
    """By simulation: errors on many test sets spread as the draws from one say; counting copies says too little."""
    random = np.random.default_rng(17)
    images, copies = 300, 5
    errors, said, naive, covered, covered_naive = [], [], [], [], []
    for _ in range(400):
        wrong, groups, rates = _copied(random, images, copies)
        errors.append(wrong.mean(axis=1))
        for groups_, spread, hits in ((groups, said, covered), (None, naive, covered_naive)):
            draws = JointNoise(wrong, groups=groups_).draw(random, 400)
            spread.append(np.cov(draws.T))
            low, high = errors[-1] - np.quantile(draws, [0.975, 0.025], axis=0)
            hits.append((low <= rates) & (rates <= high))
    true = np.cov(np.array(errors).T)
    np.testing.assert_allclose(np.mean(said, axis=0), true, rtol=0.25)
    assert (np.diag(np.mean(naive, axis=0)) < 0.4 * np.diag(true)).all()
    assert np.abs(np.mean(covered) - 0.95) < 0.03
    assert np.mean(covered_naive) < 0.75


def test_the_deviation_of_copies_is_that_of_draws() -> None:
    random = np.random.default_rng(23)
    wrong, groups, _ = _copied(random, 300, 4, networks=3)
    keep = random.random(wrong.shape[1]) < 0.8  # images with fewer copies than others
    noise = JointNoise(wrong[:, keep], groups=groups[keep])
    drawn = noise.draw(random, 20_000).std(axis=0)
    np.testing.assert_allclose(noise.deviation(), drawn, rtol=0.03)
    assert (noise.deviation() > 1.3 * JointNoise(wrong[:, keep]).deviation()).all()


def test_copies_of_one_image_are_drawn_together() -> None:
    random = np.random.default_rng(3)
    wrong = random.random((2, 12)) < 0.5
    groups = np.array([7, 7, 7, 1, 1, 1, 4, 4, 4, 2, 2, 2])[random.permutation(12)]
    noise = JointNoise(wrong, groups=groups)
    assert noise.independent == 4
    assert JointNoise(wrong).independent == 12
    means = np.stack([wrong[:, groups == g].mean(axis=1) for g in (1, 2, 4, 7)], axis=1)
    draws = noise.draw(random, 20_000)
    np.testing.assert_allclose(np.cov(draws.T), np.cov(means, bias=True) / 4, rtol=0.06, atol=2e-4)
    # Every draw is a mean of four images, each with its three copies.
    reached = (draws + wrong.mean(axis=1)) * 12
    np.testing.assert_allclose(reached, np.round(reached), atol=1e-4)
    part = noise.select(np.array([1]))
    assert part.draw(np.random.default_rng(0), 50)[:, 0] == pytest.approx(
        noise.draw(np.random.default_rng(0), 50)[:, 1]
    )
    # Each its own image: nothing but what is drawn without groups.
    own = JointNoise(wrong, groups=random.permutation(12)).draw(np.random.default_rng(1), 10)
    assert own.std() > 0
    same = JointNoise(wrong, groups=np.arange(12)).draw(np.random.default_rng(1), 10)
    np.testing.assert_array_equal(same, JointNoise(wrong).draw(np.random.default_rng(1), 10))


def test_images_with_different_numbers_of_copies() -> None:
    """The error of a draw is that of the examples drawn: wrong ones over all, image by image."""
    wrong = np.array([[True, True, False, False, True]])
    groups = np.array([0, 0, 0, 1, 1])
    draws = JointNoise(wrong, groups=groups).draw(np.random.default_rng(0), 300)[:, 0] + 0.6
    assert {round(float(d), 5) for d in draws} == {round(4 / 6, 5), round(3 / 5, 5), round(2 / 4, 5)}


def test_test_sets_with_copies_and_without_are_told_apart() -> None:
    random = np.random.default_rng(8)
    right = {cell: random.random(12) < 0.5 for cell in "abcd"}
    groups = {"b": np.arange(12) // 3, "d": np.arange(12) // 3}
    found = noise_by_size(list("abcd"), right, [12] * 4, groups)
    assert isinstance(found, SeveralTestSets)
    assert [list(index) for index in found.members] == [[0, 2], [1, 3]]
    assert found.independent == 4
    shared = noise_by_size(["b", "d"], right, [12] * 2, groups)
    assert isinstance(shared, JointNoise)
    np.testing.assert_array_equal(shared.groups, groups["b"])
    with pytest.raises(TableError, match="same test groups"):
        joint_noise(["a", "b"], right, [12] * 2, groups)
    for bad in (np.arange(11), np.zeros(12)):
        with pytest.raises(TableError, match="one for each of 12 test examples"):
            joint_noise(["a"], right, [12], {"a": bad})
