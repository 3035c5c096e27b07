import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapbench_base.seeds import named_seed
from gapbench_tasks import TaskError
from gapbench_tasks.selection import noisy_labels, stratified_subset

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
