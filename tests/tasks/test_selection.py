import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapbench_base.seeds import named_seed
from gapbench_tasks import TaskError, list_tasks, load_task, task_entry
from gapbench_tasks.registry import number_of_classes
from gapbench_tasks.selection import (
    noisy_error_slope,
    noisy_labels,
    noisy_test_error,
    stratified_subset,
    wrong_share,
)

LABELS = np.repeat(np.arange(5), [40, 30, 30, 20, 10])


@given(size=st.integers(5, 130), seed=st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_subset_keeps_class_shares_to_within_one_example(size, seed):
    chosen = stratified_subset(LABELS, size, "t", seed)
    assert len(chosen) == len(set(chosen)) == size
    counts = np.bincount(LABELS[chosen], minlength=5)
    assert np.abs(counts - np.bincount(LABELS) * size / len(LABELS)).max() <= 1.0


@given(sizes=st.tuples(st.integers(5, 130), st.integers(5, 130)), seed=st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_subsets_of_one_seed_are_nested(sizes, seed):
    small, large = (set(stratified_subset(LABELS, s, "t", seed)) for s in sorted(sizes))
    assert small <= large


def test_subset_depends_on_seed_and_refuses_impossible_sizes():
    assert not np.array_equal(stratified_subset(LABELS, 50, 0), stratified_subset(LABELS, 50, 1))
    for size in (0, 4, 131):
        with pytest.raises(TaskError, match="train_size"):
            stratified_subset(LABELS, size, 0)


@given(share=st.floats(0, 1), seed=st.integers(0, 50), classes=st.integers(2, 10))
@settings(max_examples=60, deadline=None)
def test_label_noise_makes_exactly_the_asked_share_wrong(share, seed, classes):
    labels = np.arange(101) % classes
    noisy = noisy_labels(labels, share, classes, seed)
    assert int((noisy != labels).sum()) == round(share * 101)
    assert noisy.min() >= 0
    assert noisy.max() < classes


def test_wrong_labels_of_a_smaller_share_are_among_those_of_a_larger():
    labels = np.arange(200) % 4
    few, many = (noisy_labels(labels, share, 4, "t", 3) for share in (0.1, 0.4))
    wrong = few != labels
    assert np.array_equal(few[wrong], many[wrong])


def test_wrong_classes_are_uniform_over_the_others():
    noisy = noisy_labels(np.zeros(9000, dtype=np.int64), 1.0, 10, "t", 0)
    counts = np.bincount(noisy, minlength=10)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 1000).max() < 5 * np.sqrt(1000)


def test_named_seeds_are_fixed_forever():
    assert named_seed("a", 1) == 6861350103018950465
    assert named_seed("a", 1) != named_seed("a1") != named_seed("a", "1 ")


@pytest.mark.parametrize(
    ("error", "share", "classes", "expected"),
    [
        (0.3, 0.0, 10, 0.3),
        (0.0, 0.2, 10, 0.2),  # right everywhere: wrong where the label is
        (1.0, 0.2, 10, 1 - 0.2 / 9),  # wrong everywhere: right where the label became the class predicted
        (0.25, 0.1, 2, 0.25 * 0.9 + 0.75 * 0.1),  # two classes: a label turned over
        (0.37, 0.9, 10, 0.9),  # labels that say nothing: nine tenths, whatever is predicted
    ],
)
def test_expected_error_on_noisy_test_labels_in_closed_form(error, share, classes, expected):
    assert noisy_test_error(error, share, classes) == pytest.approx(expected, abs=1e-15)
    slope = noisy_test_error(error + 0.01, share, classes) - noisy_test_error(error, share, classes)
    assert slope == pytest.approx(0.01 * noisy_error_slope(share, classes), abs=1e-15)


@pytest.mark.parametrize(("classes", "share"), [(2, 0.1), (3, 0.4), (10, 0.25)])
def test_expected_error_is_that_on_labels_drawn_as_those_of_training(classes, share):
    """The noise of `noisy_labels` itself, drawn 2,000 times: the mean error within four standard errors."""
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, 150)
    predicted = np.where(random.random(150) < 0.3, random.integers(0, classes, 150), labels)
    errors = np.array(
        [(predicted != noisy_labels(labels, share, classes, "test", k)).mean() for k in range(2000)]
    )
    rho = wrong_share(share, len(labels))
    assert all((labels != noisy_labels(labels, share, classes, k)).mean() == rho for k in range(5))
    expected = noisy_test_error(float((predicted != labels).mean()), rho, classes)
    assert abs(errors.mean() - expected) < 4 * errors.std() / np.sqrt(len(errors))


def test_tasks_say_how_many_classes_they_have():
    assert number_of_classes("separable", {}) == 2
    assert number_of_classes("separable", {"num_classes": 5}) == 5
    assert load_task("separable", num_classes=5, train_size=50, test_size=50).num_classes == 5
    assert load_task("digits_rotations", train_size=50).num_classes == number_of_classes(
        "digits_rotations", {}
    )
    assert all(task_entry(name).classes is not None for name in list_tasks())
