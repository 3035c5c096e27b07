"""Training ends at its criterion, not at the end of the epoch in which it was found to be met."""

import dataclasses

import pytest
import torch
from torch import nn

import gapbench
from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.course import Course, placed
from gapbench.population.evaluation import evaluate
from gapbench.population.optimizers import make_optimizer, step
from gapbench.population.training import mean_loss, train
from gapbench.suites.hyperparameters import Hyperparameters, hyperparameters
from gapbench_base.errors import GapbenchError
from gapbench_base.seeds import named_seed
from gapbench_tasks import load_task

DIGITS = load_task("digits_rotations", train_size=80)
POINTS = load_task("separable", shape=(1, 4, 4), train_size=60, test_size=300)
DEVICE = torch.device("cpu")


def in_double(task):
    splits = {
        part: dataclasses.replace(getattr(task, part), inputs=getattr(task, part).inputs.double())
        for part in ("train", "test")
    }
    return dataclasses.replace(task, **splits)


def network(family="plain/mlp", task=DIGITS, width=0.5, **options):
    return gapbench.build_model(family, width, task.input_shape, task.num_classes, seed=0, **options)


def criterion(model, task):
    reestimate_batch_norm(model, task.train.inputs)
    return evaluate(model, task.train.inputs, task.train.targets).cross_entropy


def trajectory(model, task, values, seed, steps):
    """Parameters after every step of the plain protocol, without any stop; a fresh generator a purpose."""
    data, black = placed(task, DEVICE)
    course = Course(data, black, values, seed, DEVICE)
    optimizer = make_optimizer(model, values)
    found = [[p.detach().clone() for p in model.parameters()]]
    torch.manual_seed(named_seed("dropout", seed))
    while len(found) <= steps:
        model.train()
        for index, chosen in enumerate(course.permutation().tensor_split(course.batches)):
            for group in optimizer.param_groups:
                group["lr"] = course.rate(index)
            inputs, targets = course.batch(chosen)
            step(model, optimizer, mean_loss(model, inputs, targets), values)
            found.append([p.detach().clone() for p in model.parameters()])
        course.history.append(0.0)
    return found


CASES = {
    "full batch": ("plain/mlp", {"batch_size": 80, "learning_rate": 0.1}),
    "two steps an epoch": ("plain/mlp", {"batch_size": 40, "learning_rate": 0.05}),
    "many steps an epoch": ("plain/mlp", {"batch_size": 4, "learning_rate": 0.02, "momentum": 0.0}),
    "adam": ("plain/mlp", {"optimizer": "adam", "learning_rate": 0.01, "batch_size": 16}),
    "sam": ("plain/mlp", {"optimizer": "sam", "learning_rate": 0.05, "batch_size": 16, "weight_decay": 1e-4}),
    "adamw, clipped": (
        "plain/mlp",
        {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 16, "gradient_clip": 0.5},
    ),
    "mixup": (
        "plain/mlp",
        {"augmentation": "mixup", "learning_rate": 0.05, "batch_size": 16, "stop_loss": 0.3},
    ),
    "smoothing": ("plain/mlp", {"label_smoothing": 0.1, "learning_rate": 0.05, "stop_loss": 0.1}),
    "dropout": ("plain/mlp", {"dropout": 0.3, "learning_rate": 0.02, "batch_size": 16}),
    "input noise": ("plain/mlp", {"input_noise": 0.3, "learning_rate": 0.05, "batch_size": 16}),
    "augmentation": ("plain/mlp", {"augmentation": "rot4", "learning_rate": 0.02, "batch_size": 16}),
    "batch normalisation": ("torchvision/vgg11_bn", {"learning_rate": 0.05, "batch_size": 20}),
}


@pytest.mark.parametrize("case", CASES)
def test_training_ends_at_the_criterion_on_the_way_that_it_took(case):
    family, options = CASES[case]
    values = Hyperparameters(max_epochs=400, **options)
    width = 0.0625 if family != "plain/mlp" else 0.5
    task = in_double(DIGITS)

    def fresh():
        return network(family, width=width, dropout=values.dropout).double()

    model = fresh()
    found = train(model, task, values, seed=3, channels_last=False)  # as the way below is taken
    assert found.status == "converged"
    assert 0.95 * values.stop_loss <= found.train.cross_entropy <= values.stop_loss
    assert criterion(model, task) == pytest.approx(found.train.cross_entropy, rel=1e-12)
    assert len(found.history) == -(-found.steps // -(-80 // values.batch_size))
    # The network lies on the way of the plain protocol, on the last step or at its end.
    way = trajectory(fresh(), task, values, 3, found.steps)
    before, after = way[found.steps - 1], way[found.steps]
    moved = torch.cat([(a - b).flatten() for a, b in zip(after, before)])
    taken = torch.cat([(p.detach() - b).flatten() for p, b in zip(model.parameters(), before)])
    part = float(taken @ moved / (moved @ moved))
    assert 0 < part <= 1 + 1e-12
    torch.testing.assert_close(taken, part * moved, rtol=0, atol=1e-12)
    at_start = fresh()
    for p, value in zip(at_start.parameters(), before):
        p.data.copy_(value)
    if part < 1 - 1e-9:  # a step is only cut where the one before it does not suffice
        assert criterion(at_start, task) > values.stop_loss


def test_a_factor_of_ten_in_one_step_is_met_inside_the_step():
    values = Hyperparameters(batch_size=60, learning_rate=200.0, momentum=0.0, max_epochs=100)
    model = network("plain/linear", POINTS)
    found = train(model, POINTS, values, seed=0)
    assert found.status == "converged"
    assert 0.95 * 0.01 <= found.train.cross_entropy <= 0.01


def test_a_criterion_met_at_once_ends_within_the_first_step():
    model = network(task=POINTS)
    found = train(model, POINTS, Hyperparameters(stop_loss=50.0, batch_size=10), seed=0)
    assert found.status == "converged"
    assert found.steps <= 6


def test_the_last_epoch_before_the_limit_is_looked_at():
    values = Hyperparameters(learning_rate=0.05, batch_size=16, max_epochs=400)
    epochs = train(network(), DIGITS, values, seed=0).epochs
    limited = dataclasses.replace(values, max_epochs=epochs)
    found = train(network(), DIGITS, limited, seed=0)
    assert found.epochs <= epochs
    assert (found.status == "converged") == (found.train.cross_entropy <= 0.01)


@pytest.mark.parametrize("steps", [1, 4, 5, 6, 13])
def test_a_budget_of_steps_is_kept_and_its_network_counts_whatever_its_error(steps):
    values = hyperparameters({"stop": "budget", "max_steps": steps, "batch_size": 16}, "here")
    model = network()
    found = train(model, DIGITS, values, seed=1)
    assert (found.status, found.steps) == ("converged", steps)
    assert found.train.error > 0
    assert len(found.history) == -(-steps // 5)
    way = trajectory(network(), DIGITS, values, 1, steps)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), way[steps]))


def test_a_budget_of_epochs_goes_on_below_the_criterion():
    values = Hyperparameters(stop="budget", max_epochs=150, learning_rate=0.02, batch_size=16)
    found = train(network(), DIGITS, values, seed=1)
    assert (found.epochs, found.steps, found.status) == (150, 750, "converged")
    assert found.train.cross_entropy < 0.005


def test_a_budget_does_not_hide_divergence():
    values = Hyperparameters(stop="budget", learning_rate=1e9, max_epochs=5)
    assert train(network(), DIGITS, values, seed=0).status == "diverged"


def test_the_schedule_ends_with_the_budget():
    values = hyperparameters(
        {"stop": "budget", "max_steps": 13, "batch_size": 16, "learning_rate": 1.0}, "here"
    )
    data, black = placed(DIGITS, DEVICE)
    course = Course(data, black, values, 0, DEVICE)
    rates = []
    while len(rates) < 13:
        rates += [course.rate(index) for index, _ in course.epoch()]
        course.steps = len(rates)
        course.history.append(0.0)
    assert len(rates) == 13
    epochs = [k / 5 for k in range(13)]
    decay = [
        max(1e-3, 0.5 * (1 + torch.cos(torch.tensor(torch.pi * (e - 1.56) / 1.04)).item())) for e in epochs
    ]
    assert rates == pytest.approx(
        [max(e, 1e-3) if e < 1 else 1.0 if e <= 1.56 else d for e, d in zip(epochs, decay)], rel=1e-5
    )


def test_steps_without_a_budget_are_refused():
    with pytest.raises(GapbenchError, match="budget"):
        hyperparameters({"max_steps": 10}, "here")
    with pytest.raises(GapbenchError, match="stop = 'steps' is none of loss, budget"):
        hyperparameters({"stop": "steps"}, "here")


def test_what_a_budget_makes_meaningless_changes_no_key():
    one = hyperparameters({"stop": "budget", "max_steps": 10, "max_epochs": 3, "stop_loss": 0.5}, "here")
    assert one == hyperparameters({"stop": "budget", "max_steps": 10}, "here")


def test_a_network_that_draws_nothing_leaves_the_random_state_alone():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    before = torch.get_rng_state()
    train(model, POINTS, Hyperparameters(learning_rate=1.0), seed=0)
    assert torch.equal(before, torch.get_rng_state())
