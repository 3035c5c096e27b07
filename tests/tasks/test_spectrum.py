"""Separable data with a spectrum of variances, and teachers along strong or weak directions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gapbench_base.seeds import named_generator
from gapbench_tasks import TaskError, load_task
from gapbench_tasks.directions import deviations, random_directions


def matrix(dimension, *names):
    """The directions as columns."""
    return random_directions(dimension, named_generator(*names)).place(np.eye(dimension)).T


def of_task(shape, seed=0):
    return matrix(int(np.prod(shape)), "separable", shape, seed, "directions")


@pytest.mark.parametrize(
    ("options", "fingerprint"),
    [
        ({}, "6c37c62f03fe1aad69fd617793ed5524a22eaee9f2a758fad653dc9f25186ad7"),
        (
            {
                "shape": (3, 4, 5),
                "num_classes": 5,
                "margin": 0.1,
                "seed": 3,
                "train_size": 77,
                "test_size": 99,
            }
            | {"label_noise": 0.2},
            "bc252ce11c0428f96ce1e006912ca42809265db6d623f65b52547cbc0e89376d",
        ),
        (
            {"shape": (1, 3, 3), "num_classes": 12, "margin": 0.05},
            "fc840a11c286dec421204e051c7dcda3280d275bdc19d9435727ffe4bd446406",
        ),
    ],
)
def test_isotropic_data_are_those_of_before(options, fingerprint):
    assert load_task("separable", **options).fingerprint == fingerprint
    explicit = load_task("separable", **options, spectrum=0, teacher="random")
    assert explicit.fingerprint == fingerprint


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 16, 65])
def test_directions_are_orthonormal_and_no_pixels(dimension):
    found = matrix(dimension, "d", 0)
    np.testing.assert_allclose(found.T @ found, np.eye(dimension), atol=1e-13)
    coordinates = np.random.default_rng(0).normal(size=(4, dimension))
    placed = random_directions(dimension, named_generator("d", 0)).place(coordinates)
    np.testing.assert_allclose(placed, coordinates @ found.T, atol=1e-12)
    if dimension >= 16:  # sum of fourth powers: 1 for a pixel, about 3 / d for a random direction
        assert (found**4).sum(0).max() < 1 / 2
        assert (found**4).sum(0).mean() < 5 / dimension
        assert not np.allclose(found, matrix(dimension, "d", 1))


def test_directions_are_equally_likely_everywhere():
    """Over seeds the mean of R is 0 and that of its squares 1 / d, entry by entry."""
    found = np.stack([matrix(6, "d", seed) for seed in range(3000)])
    assert np.abs(found.mean(0)).max() < 5 / (6 * 3000) ** 0.5
    assert np.abs((found**2).mean(0) - 1 / 6).max() < 5 * 0.25 / 3000**0.5


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 3.0])
def test_deviations_have_the_spectrum_and_unit_mean_variance(power):
    found = deviations(50, power) ** 2
    assert found.mean() == pytest.approx(1, rel=1e-6)
    np.testing.assert_allclose(found / found[0], np.arange(1, 51) ** -power, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_inputs_have_the_spectrum_along_the_directions(classes):
    task = load_task(
        "separable",
        shape=(2, 3, 3),
        num_classes=classes,
        spectrum=1.5,
        margin=0.0,
        train_size=3,
        test_size=40_000,
        seed=4,
    )
    along = task.test.inputs.double().flatten(1).numpy() @ of_task((2, 3, 3), 4)
    covariance = along.T @ along / len(along)
    expected = deviations(18, 1.5)
    np.testing.assert_allclose(
        covariance / np.outer(expected, expected), np.eye(18), atol=6 * (2 / len(along)) ** 0.5
    )


@pytest.mark.parametrize("shape", [(1, 3, 3), (2, 4, 4)])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("where", ["leading", "trailing"])
def test_the_teacher_lies_in_its_quarter(where, classes, shape):
    options = {"shape": shape, "num_classes": classes, "train_size": 20, "test_size": 5, "margin": 0.01}
    dimension = int(np.prod(shape))
    quarter = {9: 3, 32: 8}[dimension]
    for seed in (0, 1):
        task = load_task("separable", **options, spectrum=1.0, teacher=where, seed=seed)
        along = np.atleast_2d(task.teacher.numpy()) @ of_task(shape, seed)
        outside = along[:, quarter:] if where == "leading" else along[:, : dimension - quarter]
        assert np.abs(outside).max() < 1e-14
        np.testing.assert_allclose(np.linalg.norm(along, axis=1), 1, atol=1e-13)
        if 2 < classes <= quarter:
            np.testing.assert_allclose(along @ along.T, np.eye(classes), atol=1e-13)


@given(
    classes=st.sampled_from([2, 3, 6]),
    power=st.floats(0.0, 2.5),
    where=st.sampled_from(["random", "leading", "trailing"]),
    seed=st.integers(0, 5),
)
@settings(max_examples=30, deadline=None)
def test_margin_labels_and_the_maximum_margin(classes, power, where, seed):
    """Every stored point keeps the margin to every boundary; the best classifier has no smaller one."""
    margin = 0.05
    task = load_task(
        "separable",
        shape=(1, 4, 4),
        num_classes=classes,
        spectrum=power,
        teacher=where,
        seed=seed,
        margin=margin,
        train_size=60,
        test_size=40,
    )
    teacher = task.teacher.numpy()
    teacher = np.stack([-teacher, teacher]) if classes == 2 else teacher
    for split in (task.train, task.test):
        x, y = split.inputs.double().flatten(1).numpy(), split.targets.numpy()
        for j in range(classes):
            across = teacher[y] - teacher[j]
            other = y != j
            distance = (across * x).sum(1)[other] / np.linalg.norm(across, axis=1)[other]
            assert distance.min() >= margin
    if len(np.unique(task.train.targets)) < classes:
        return
    found = task.max_margin()
    x, y = task.train.inputs.double().flatten(1).numpy(), task.train.targets.numpy()
    solution = found.solution if classes > 2 else np.stack([-found.solution / 2, found.solution / 2])
    scores = x @ solution.T
    slack = scores[np.arange(len(y)), y][:, None] - scores
    assert slack[np.arange(classes)[None] != y[:, None]].min() > 1 - 1e-7
    # The teacher, scaled to keep every constraint, is one of the classifiers that the solution is the least of.
    own = x @ teacher.T
    gaps = (own[np.arange(len(y)), y][:, None] - own)[np.arange(classes)[None] != y[:, None]]
    scale = 1 / gaps.min()
    norm = np.linalg.norm(teacher) if classes > 2 else 2.0
    assert np.linalg.norm(found.solution) <= scale * norm * (1 + 1e-9)


def test_the_maximum_margin_against_a_general_solver():
    from scipy.optimize import minimize

    task = load_task(
        "separable",
        shape=(1, 2, 4),
        spectrum=2.0,
        teacher="trailing",
        margin=0.1,
        train_size=40,
        test_size=1,
    )
    z = task.train.inputs.double().flatten(1).numpy() * (2 * task.train.targets.numpy() - 1)[:, None]
    found = task.max_margin()
    other = minimize(
        lambda w: 0.5 * w @ w,
        1.5 * found.solution,
        jac=lambda w: w,
        constraints={"type": "ineq", "fun": lambda w: z @ w - 1, "jac": lambda w: z},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    np.testing.assert_allclose(found.solution, other.x, rtol=1e-4, atol=1e-5)


def test_training_sets_are_nested_and_every_option_tells_in_the_fingerprint():
    options = {"shape": (1, 4, 4), "test_size": 50, "spectrum": 1.0}
    small, large = (load_task("separable", **options, train_size=n) for n in (30, 80))
    assert torch.equal(small.train.inputs, large.train.inputs[:30])
    found = {
        load_task("separable", **(options | {"train_size": 30, "spectrum": a, "teacher": where})).fingerprint
        for a in (0.0, 1.0, 1.5)
        for where in ("random", "leading", "trailing")
    }
    assert len(found) == 9
    assert small.options["spectrum"] == 1.0
    assert small.options["teacher"] == "random"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"spectrum": -1.0}, "spectrum = -1.0 must be a number of at least 0"),
        ({"spectrum": float("inf")}, "spectrum"),
        ({"teacher": "leadin"}, "Did you mean 'leading'"),
        ({"teacher": 3}, "must be one of random, leading, trailing"),
        ({"shape": (1, 2, 2), "num_classes": 3, "teacher": "trailing"}, "only two classes"),
        ({"spectrum": 4.0, "teacher": "trailing"}, r"margin = 0.2 is too large: .* deviation of about 0\.0"),
    ],
)
def test_wrong_options_say_what_is_wrong(options, words):
    with pytest.raises(TaskError, match=words):
        load_task("separable", **options)
