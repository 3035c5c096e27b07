import numpy as np
import pytest
import torch

from gapbench_tasks import NotDefined, TaskError, load_task
from gapbench_tasks.loaders.separable import boundary_distance
from gapbench_tasks.max_margin import hard_margin


def brute_margin(teacher, x):
    """Distance to the nearest pairwise boundary, pair by pair."""
    scores = teacher @ x
    label = int(np.argmax(scores))
    distances = [
        (teacher[label] - teacher[j]) @ x / np.linalg.norm(teacher[label] - teacher[j])
        for j in range(len(teacher))
        if j != label
    ]
    return min(distances), label


@pytest.mark.parametrize("classes", [2, 3, 5, 12])
def test_every_point_keeps_the_margin_and_has_the_teachers_label(classes):
    task = load_task(
        "separable", shape=(1, 3, 3), num_classes=classes, margin=0.1, train_size=50, test_size=70
    )
    teacher = task.teacher.numpy()
    if classes == 2:
        assert abs(np.linalg.norm(teacher) - 1) < 1e-12
        teacher = np.stack([-teacher, teacher])
    for split in (task.train, task.test):
        for x, y in zip(split.inputs.double().flatten(1).numpy(), split.targets.tolist()):
            distance, label = brute_margin(teacher, x)
            assert distance >= 0.1
            assert label == y


def test_two_teachers_with_opposite_signs_are_the_binary_case():
    u = np.array([0.6, 0.8])
    x = np.random.default_rng(0).normal(size=(30, 2))
    for a, b in zip(boundary_distance(u, x), boundary_distance(np.stack([-u, u]), x)):
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_shape_sizes_nesting_and_fingerprint():
    small = load_task("separable", shape=(3, 4, 5), train_size=30, test_size=40)
    large = load_task("separable", shape=(3, 4, 5), train_size=90, test_size=40)
    assert small.train.inputs.shape == (30, 3, 4, 5)
    assert small.input_shape == (3, 4, 5)
    assert torch.equal(small.train.inputs, large.train.inputs[:30])
    assert torch.equal(small.test.inputs, large.test.inputs)
    assert len({small.fingerprint, large.fingerprint}) == 2
    assert (
        small.fingerprint == load_task("separable", shape=(3, 4, 5), train_size=30, test_size=40).fingerprint
    )


def test_noise_changes_only_training_labels():
    clean, noisy = (load_task("separable", train_size=100, label_noise=n) for n in (0.0, 0.3))
    assert int((clean.train.targets != noisy.train.targets).sum()) == 30
    assert torch.equal(clean.train.inputs, noisy.train.inputs)
    assert torch.equal(clean.test.targets, noisy.test.targets)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"margin": 9.0}, "too large"),
        ({"margin": -1.0}, "margin"),
        ({"num_classes": 1}, "num_classes"),
        ({"shape": (2, 3)}, "shape"),
        ({"train_size": 1}, "train_size"),
        ({"label_noise": 1.5}, "label_noise"),
        ({"marign": 1.0}, "Did you mean 'margin'"),
        ({"train_size": 10.5}, "whole number"),
    ],
)
def test_wrong_options_say_what_is_wrong(options, word):
    with pytest.raises(TaskError, match=word):
        load_task("separable", **options)


def test_hard_margin_in_closed_form():
    # Two points at (+-a, b): the separator is the first axis with margin a, whatever b.
    x = np.array([[2.0, 1.0], [-2.0, 1.0], [5.0, -3.0]])
    found = hard_margin(x, np.array([1, 0, 1]), 2)
    np.testing.assert_allclose(found.direction, [1.0, 0.0], atol=1e-12)
    assert abs(found.margin - 2.0) < 1e-12
    assert found.support == 2


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("size", [(20, 6), (15, 40)])
def test_hard_margin_solves_the_quadratic_program(classes, size):
    """Against a general-purpose solver on the same program, and its optimality conditions."""
    from scipy.optimize import minimize

    count, dimension = size
    task = load_task(
        "separable", shape=(1, 1, dimension), num_classes=classes, margin=0.05, train_size=count, test_size=1
    )
    x, y = task.train.inputs.double().flatten(1).numpy(), task.train.targets.numpy()
    found = task.max_margin()
    width = 1 if classes == 2 else classes

    def constraints(w):
        w = w.reshape(width, dimension)
        if classes == 2:
            return (2 * y - 1) * (x @ w[0]) - 1
        scores = x @ w.T
        return np.concatenate([scores[i, y[i]] - np.delete(scores[i], y[i]) - 1 for i in range(count)])

    assert constraints(found.solution.ravel()).min() > -1e-8
    start = found.solution.ravel() * 1.5
    other = minimize(
        lambda w: 0.5 * w @ w,
        start,
        jac=lambda w: w,
        constraints={"type": "ineq", "fun": constraints},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    np.testing.assert_allclose(found.solution.ravel(), other.x, atol=2e-5)
    assert abs(found.margin - 1 / np.linalg.norm(found.solution)) < 1e-12


def test_hard_margin_agrees_with_linear_svc():
    from sklearn.svm import LinearSVC

    task = load_task("separable", shape=(1, 4, 5), margin=0.2, train_size=60)
    x, y = task.train.inputs.double().flatten(1).numpy(), task.train.targets.numpy()
    svc = LinearSVC(C=1e5, fit_intercept=False, loss="hinge", max_iter=2_000_000, tol=1e-10).fit(x, y)
    w = svc.coef_[0] / np.linalg.norm(svc.coef_)
    assert w @ task.max_margin().direction > 1 - 1e-6


def test_max_margin_is_not_defined_with_noise_or_without_separability():
    with pytest.raises(NotDefined, match="label noise"):
        load_task("separable", label_noise=0.1).max_margin()
    with pytest.raises(NotDefined, match="not linearly separable"):
        hard_margin(np.array([[1.0], [2.0], [-1.0]]), np.array([1, 0, 0]), 2)
    with pytest.raises(NotDefined, match="teacher"):
        load_task("digits_rotations").max_margin()


def test_gradient_descent_turns_to_the_maximum_margin():
    """Soudry et al. 2018: plain full-batch gradient descent on the logistic loss, w = w_1 - w_0.

    The approach is like 1 / log t, so the direction of change is tested, in 25 dimensions.
    """
    task = load_task("separable", shape=(1, 5, 5), margin=0.3, train_size=60)
    x = task.train.inputs.double().flatten(1)
    signs = 2.0 * task.train.targets.double() - 1.0
    solution = task.max_margin()
    direction = torch.from_numpy(solution.direction)
    norm = 1.0 / solution.margin
    w = torch.zeros(25, dtype=torch.float64)
    angles, ratios = [], []
    for t in range(1, 20_001):
        # Two logits with rate 0.5 each move w at rate 1.
        residual = torch.sigmoid(-signs * (x @ w)) * signs
        w = w + 1.0 * (residual @ x) / len(x)
        if t in (200, 2_000, 20_000):
            angles.append(float(torch.acos((w @ direction) / w.norm())))
            ratios.append(abs(float(w.norm()) / np.log(t) - norm))
    assert angles[0] > angles[1] > angles[2]
    assert ratios[0] > ratios[1] > ratios[2]
