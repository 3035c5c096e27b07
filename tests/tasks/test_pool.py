"""Unlabelled inputs: further examples of the task, neither of its training nor of its test set."""

import numpy as np
import pytest
import torch

from gapbench_tasks import load_task
from gapbench_tasks.loaders.separable import boundary_distance
from gapbench_tasks.selection import further_subset, stratified_subset

STILL = {"angles": (0.0, 0.0)}


def rows(inputs):
    return {row.numpy().tobytes() for row in inputs}


def test_the_pool_of_images_is_disjoint_from_both_splits():
    task = load_task("digits_rotations", train_size=300, **STILL)
    pool = task.unlabelled.inputs
    assert pool.shape == (500, 1, 8, 8)  # of the 800 that are not tested on
    assert len(rows(pool)) >= 499  # one digit of the set stands in it twice
    assert len(rows(pool) & (rows(task.train.inputs) | rows(task.test.inputs))) <= 1
    everything = load_task("digits_rotations", train_size=800, **STILL)
    assert everything.unlabelled is None
    assert rows(pool) | rows(task.train.inputs) == rows(everything.train.inputs)


def test_the_pool_is_turned_as_the_training_images_are():
    turned, still = (load_task("digits_rotations", train_size=300, **o) for o in ({}, STILL))
    assert not torch.equal(turned.unlabelled.inputs, still.unlabelled.inputs)
    larger = load_task("digits_rotations", train_size=700)
    assert rows(turned.unlabelled.inputs) <= rows(larger.unlabelled.inputs) | rows(larger.train.inputs)


def test_the_pool_changes_no_fingerprint_and_is_the_same_each_time():
    first, second = (load_task("separable", shape=(1, 4, 4), train_size=50, test_size=100) for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert torch.equal(first.unlabelled.inputs, second.unlabelled.inputs)


def test_separable_points_of_the_pool_keep_the_margin_and_are_new():
    task = load_task("separable", shape=(1, 4, 4), margin=0.3, train_size=50, test_size=100, spectrum=1.0)
    pool = task.unlabelled.inputs
    assert pool.shape == (1000, 1, 4, 4)
    distance, _ = boundary_distance(task.teacher.numpy(), pool.reshape(1000, -1).double().numpy())
    assert distance.min() >= 0.3
    assert not rows(pool) & (rows(task.train.inputs) | rows(task.test.inputs))


@pytest.mark.parametrize(("size", "more", "expected"), [(20, 10, 10), (20, 500, 70), (90, 5, 0)])
def test_further_examples_continue_the_subset(size, more, expected):
    labels = np.repeat([0, 1, 2], [45, 30, 15])
    chosen = stratified_subset(labels, size, "x", 1)
    found = further_subset(labels, chosen, more, "x", 1)
    assert len(found) == expected
    assert not set(found) & set(chosen)
    both = np.sort(np.concatenate([chosen, found]))
    assert np.array_equal(both, stratified_subset(labels, size + expected, "x", 1))
