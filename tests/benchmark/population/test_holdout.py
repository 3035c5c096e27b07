"""Early stopping by examples held out: which they are, which epoch is kept, and what is told of it."""

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn

import gapbench
from benchmark.tiny_suite import TINY
from gapbench.population.facts import facts_source, task_of
from gapbench.population.holdout import BestEpoch, parted
from gapbench.population.network import handover_of, measured_examples
from gapbench.population.stored import open_population
from gapbench.population.training import train
from gapbench.runs.store import Store
from gapbench.suites.hyperparameters import Hyperparameters, hyperparameters
from gapbench.suites.suite import Configuration, parse_suite
from gapbench_base.errors import GapbenchError
from gapbench_tasks import load_task

DIGITS = load_task("digits_rotations", train_size=100, label_noise=0.2)


def rows(split):
    return [(tuple(x), y) for x, y in zip(split.inputs.flatten(1).tolist(), split.targets.tolist())]


@pytest.mark.parametrize("share", [0.05, 0.2, 1 / 3, 0.5])
def test_a_stratified_share_is_held_out_and_nothing_is_lost(share):
    task = parted(DIGITS, share)
    assert len(task.held_out) == round(share * 100)
    assert sorted(rows(task.train) + rows(task.held_out)) == sorted(rows(DIGITS.train))
    assert set(rows(task.train)).isdisjoint(rows(task.held_out))
    assert torch.equal(task.test.inputs, DIGITS.test.inputs)
    counts = torch.bincount(DIGITS.train.targets, minlength=10).double()
    held = torch.bincount(task.held_out.targets, minlength=10)
    assert float((held - share * counts).abs().max()) <= 1.0
    again = parted(load_task("digits_rotations", train_size=100, label_noise=0.2), share)
    assert torch.equal(again.held_out.inputs, task.held_out.inputs)
    for split in (task.train, task.held_out):  # what images were stays with them
        upright = {
            tuple(x): d for x, d in zip(split.inputs.flatten(1).tolist(), split.upright.degrees.tolist())
        }
        whole = DIGITS.train
        for x, degrees in zip(whole.inputs.flatten(1).tolist(), whole.upright.degrees.tolist()):
            assert upright.get(tuple(x), degrees) == degrees
        assert len(split.upright.images) == len(split)


def test_other_data_hold_out_others_and_a_part_is_not_parted_again():
    task = parted(DIGITS, 0.2)
    assert parted(task, 0.2) is task
    assert parted(DIGITS, 0.0) is DIGITS
    assert len(parted(DIGITS, 1e-6).held_out) == 1
    clean = parted(load_task("digits_rotations", train_size=100), 0.2)
    assert set(rows(clean.held_out)) != set(rows(task.held_out))


def test_a_class_without_examples_is_refused():
    with pytest.raises(GapbenchError, match=r"validation = 0.5 leaves 6 of 12 .* fewer than the 10 classes"):
        parted(load_task("digits_rotations", train_size=12), 0.5)


@pytest.mark.parametrize(("family", "width"), [("plain/mlp", 0.25), ("torchvision/vgg11_bn", 1 / 16)])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_best_epoch_is_kept(family, width, noise):
    """Against networks trained for 1, 2, ... epochs on the same part: at a constant rate they are the same."""
    task = load_task("digits_rotations", train_size=80, label_noise=noise, seed=3)
    part = parted(task, 0.25)
    values = Hyperparameters(
        validation=0.25, max_epochs=8, schedule="constant", learning_rate=0.1, batch_size=16
    ).normalised()
    model = gapbench.build_model(family, width, task.input_shape, 10, seed=1)
    start = copy.deepcopy(model)
    found = train(model, task, values, seed=7)
    losses, states, evaluations = [], [], []
    for epochs in range(1, 9):
        other = copy.deepcopy(start)
        plain = dataclasses.replace(values, validation=0.0, max_epochs=epochs, stop_loss=1e-12)
        evaluations.append(train(other, dataclasses.replace(part, held_out=None), plain, seed=7))
        logits = other(part.held_out.inputs).detach().double()
        losses.append(float(nn.functional.cross_entropy(logits, part.held_out.targets)))
        states.append(other.state_dict())
    best = int(np.argmin(losses))
    assert (found.epochs, found.status) == (8, "converged")
    if noise:
        assert best < 7  # with wrong labels the last is not the best
    for name, value in model.state_dict().items():
        if "num_batches" not in name:
            assert torch.equal(value, states[best][name]), name
    assert found.history == evaluations[-1].history
    assert found.train.error == evaluations[best].train.error
    assert found.test.error == evaluations[best].test.error
    assert len(found.train.correct) == 60
    assert not model.training


def test_of_equal_losses_the_first_and_never_one_that_is_no_number():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    best = BestEpoch(parted(DIGITS, 0.2).held_out)
    with torch.no_grad():
        model[1].weight.fill_(torch.nan)
        best.look(model, DIGITS.train)
        assert best.loss == float("inf")
        model[1].weight.zero_()
        model[1].bias.fill_(1.0)
        best.look(model, DIGITS.train)
        model[1].bias.fill_(2.0)  # the same outputs but for a shift, which the loss does not see
        best.look(model, DIGITS.train)
        model[1].weight.fill_(torch.nan)
        best.look(model, DIGITS.train)
    best.restore(model)
    assert torch.equal(model[1].bias, torch.ones(10))
    assert best.loss == pytest.approx(np.log(10))


def test_divergence_stays_divergence():
    model = gapbench.build_model("plain/mlp", 0.25, DIGITS.input_shape, 10, seed=0)
    values = Hyperparameters(validation=0.2, learning_rate=1e9, max_epochs=20)
    assert train(model, DIGITS, values, seed=0).status == "diverged"


def test_bounds_and_what_has_no_effect():
    assert hyperparameters({"validation": 0.5}, "t").validation == 0.5
    for value, words in ((0.6, "at most 0.5"), (-0.1, "at least 0"), (True, "finite number")):
        with pytest.raises(GapbenchError, match=words):
            hyperparameters({"validation": value}, "t")
    one, other = (hyperparameters({"validation": 0.2, "stop_loss": x}, "t") for x in (0.1, 0.2))
    assert one == other


def suite_text(values):
    return TINY.replace(
        "learning_rate = [0.1, 0.2]", f"learning_rate = [0.1]\nvalidation = {values}"
    ).replace('"param_norm",', '"param_norm", "train_loss",')


def test_the_share_changes_what_is_learned_from():
    suite = parse_suite(suite_text("[0.0, 0.2]"), "t")
    assert suite.axes == ("width", "validation")
    assert suite.problem == ("validation",)


def test_facts_are_of_the_task_and_cells_have_the_part():
    def of(share):
        values = Hyperparameters(validation=share).normalised()
        return Configuration("separable", (("train_size", 60),), "plain/mlp", 1.0, values, 0)

    facts = facts_source(None)
    assert facts(of(0.2)) == facts(of(0.0))
    assert facts(of(0.2)).train_size == 60
    assert (len(task_of(of(0.0), None).train), len(task_of(of(0.2), None).train)) == (60, 48)
    assert task_of(of(0.2), None) is task_of(of(0.2), None)


def test_a_run_tells_of_the_examples_trained_on_and_measures_on_no_other(tmp_path):
    (tmp_path / "t.toml").write_text(suite_text("[0.2]"))
    names = ["param_norm", "train_loss"]
    run = gapbench.run(tmp_path / "t.toml", tmp_path / "run", workers=0, board=False, proxies=names)
    assert set(run.population["train_size"]) == {48}
    assert set(run.population["status"]) == {"converged"}
    with Store(run.folder, readonly=True) as store:
        cells = {row.cell: row for row in store.cells()}
    losses = run.measurements[run.measurements["proxy"] == "train_loss"].set_index("cell")["value"]
    population = open_population(run.folder)
    for member in population.members:
        row = cells[member.key]
        assert json.loads(row.description)["training"]["validation"] == 0.2
        given = handover_of(member, population)
        part = task_of(member.configuration, None)
        assert torch.equal(given.all_inputs, part.train.inputs)
        held = set(rows(part.held_out))
        assert held.isdisjoint(zip(map(tuple, given.inputs.flatten(1).tolist()), given.targets.tolist()))
        assert measured_examples(part, 40, 0).max() < 48
        logits = given.model(given.all_inputs)
        right = (logits.argmax(1) == given.all_targets).numpy()
        np.testing.assert_array_equal(
            np.unpackbits(np.frombuffer(row.train_correct, np.uint8), count=48).astype(bool), right
        )
        assert row.train_error == pytest.approx(1 - right.mean())
        loss = float(nn.functional.cross_entropy(logits, given.all_targets).detach())
        assert losses[member.key] == pytest.approx(loss, rel=1e-5)
        assert row.train_loss == pytest.approx(loss, rel=1e-5)
