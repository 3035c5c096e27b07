import copy
import dataclasses

import pytest
import torch
from torch import nn

import gapbench
from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.augmentation import augment
from gapbench.population.course import Course, learning_rate_factor, placed
from gapbench.population.evaluation import evaluate
from gapbench.population.optimizers import make_optimizer, step
from gapbench.population.training import train
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_tasks import load_task

DIGITS = load_task("digits_rotations", train_size=80)
POINTS = load_task("separable", shape=(1, 4, 4), train_size=60, test_size=300)


def network(family="plain/mlp", task=DIGITS, width=0.25, **options):
    return gapbench.build_model(family, width, task.input_shape, task.num_classes, seed=0, **options)


def test_the_stop_criterion_holds_on_the_final_network():
    model = network(task=POINTS)
    found = train(model, POINTS, Hyperparameters(max_epochs=200, learning_rate=0.2), seed=1)
    assert found.status == "converged"
    assert not model.training
    loss = nn.functional.cross_entropy(model(POINTS.train.inputs), POINTS.train.targets).detach()
    assert float(loss) <= 0.01
    assert found.train.cross_entropy == pytest.approx(float(loss), rel=1e-5)
    assert found.epochs == len(found.history) < 200
    assert found.steps == found.epochs  # 60 points in one batch of 64
    wrong = (model(POINTS.test.inputs).argmax(1) != POINTS.test.targets).double().mean()
    assert found.test.error == pytest.approx(float(wrong), abs=1e-12)
    assert found.gap == found.test.error - found.train.error
    assert found.loss_gap == found.test.cross_entropy - found.train.cross_entropy
    assert found.test.correct.sum().item() == round(300 * (1 - found.test.error))


def test_train_error_counts_the_noisy_labels_trained_on():
    noisy = load_task("separable", shape=(1, 4, 4), train_size=60, test_size=300, label_noise=0.5)
    model = network("plain/linear", noisy)
    found = train(model, noisy, Hyperparameters(max_epochs=5), seed=0)
    wrong = (model(noisy.train.inputs).argmax(1) != noisy.train.targets).double().mean()
    assert found.train.error == pytest.approx(float(wrong), abs=1e-12)


def test_same_seed_same_numbers_and_the_global_random_state_plays_no_part():
    values = Hyperparameters(max_epochs=3, input_noise=0.3, augmentation="rotate", dropout=0.2)
    results = []
    for state in (0, 1):
        torch.manual_seed(state)
        before = torch.get_rng_state()
        model = network(dropout=0.2)
        results.append((train(model, DIGITS, values, seed=5), model))
        assert torch.equal(before, torch.get_rng_state())
    (a, first), (b, second) = results
    assert a.history == b.history
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters()))
    model = network(dropout=0.2)
    assert train(model, DIGITS, values, seed=6).history != a.history


def test_divergence_is_a_status_not_a_number():
    found = train(network(), DIGITS, Hyperparameters(learning_rate=1e9, max_epochs=20), seed=0)
    assert found.status == "diverged"
    assert found.epochs < 20


def test_epoch_limit_without_the_criterion_is_not_converged():
    found = train(network(), DIGITS, Hyperparameters(learning_rate=1e-5, max_epochs=2), seed=0)
    assert (found.status, found.epochs) == ("not_converged", 2)


def test_learning_rate_schedule():
    values = Hyperparameters(max_epochs=10)
    factors = [learning_rate_factor(e, values, warm_up=True) for e in (0.0, 0.5, 1.0, 6.0, 8.0, 10.0)]
    assert factors == pytest.approx([1e-3, 0.5, 1.0, 1.0, 0.5, 1e-3])
    assert learning_rate_factor(0.0, values, warm_up=False) == 1.0


def test_full_batch_gradient_descent_is_plain_gradient_descent():
    model = network("plain/linear", POINTS).double()
    reference = copy.deepcopy(model)
    task = dataclasses.replace(
        POINTS,
        train=dataclasses.replace(POINTS.train, inputs=POINTS.train.inputs.double()),
        test=dataclasses.replace(POINTS.test, inputs=POINTS.test.inputs.double()),
    )
    train(model, task, Hyperparameters(momentum=0.0, batch_size=60, learning_rate=0.3, max_epochs=4), seed=0)
    for factor in (1.0, 1.0, 1.0, learning_rate_factor(3.0, Hyperparameters(max_epochs=4), False)):
        loss = nn.functional.cross_entropy(reference(task.train.inputs), task.train.targets)
        gradients = torch.autograd.grad(loss, list(reference.parameters()))
        with torch.no_grad():
            for p, g in zip(reference.parameters(), gradients):
                p -= 0.3 * factor * g
    for p, q in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)


def test_sam_steps_along_the_gradient_at_the_perturbed_point():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double()
    reference = copy.deepcopy(model)
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 1])
    values = Hyperparameters(optimizer="sam", sam_rho=0.2, learning_rate=0.1, momentum=0.0, weight_decay=0.01)

    def loss_of(net):
        return nn.functional.cross_entropy(net(x), y)

    step(model, make_optimizer(model, values), lambda: loss_of(model), values)
    gradients = torch.autograd.grad(loss_of(reference), list(reference.parameters()))
    norm = torch.sqrt(sum(g.pow(2).sum() for g in gradients))
    moved = copy.deepcopy(reference)
    with torch.no_grad():
        for p, g in zip(moved.parameters(), gradients):
            p += 0.2 * g / norm
    second = torch.autograd.grad(loss_of(moved), list(moved.parameters()))
    for p, q, g in zip(model.parameters(), reference.parameters(), second):
        torch.testing.assert_close(p, q - 0.1 * (g + 0.01 * q), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "sam"])
def test_every_optimizer_learns(optimizer):
    rate = 0.01 if optimizer == "adam" else 0.1
    found = train(
        network(), DIGITS, Hyperparameters(optimizer=optimizer, learning_rate=rate, max_epochs=15), seed=0
    )
    assert found.history[-1] < 0.5 * found.history[0]


def test_batch_norm_statistics_are_those_of_the_training_set():
    model = network("torchvision/vgg11_bn", width=1 / 16)
    train(model, DIGITS, Hyperparameters(max_epochs=2), seed=0)
    first = next(m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    conv = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
    features = conv(DIGITS.train.inputs).detach()
    torch.testing.assert_close(first.running_mean, features.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(first.running_var, features.var((0, 2, 3)), rtol=1e-3, atol=1e-5)
    assert first.momentum == 0.1


def test_reestimation_is_idempotent_and_leaves_dropout_and_modes_alone():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Dropout(0.5), nn.BatchNorm2d(4)).train()
    reestimate_batch_norm(model, DIGITS.train.inputs)
    before = {k: v.clone() for k, v in model.state_dict().items() if "num_batches" not in k}
    reestimate_batch_norm(model, DIGITS.train.inputs)
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())
    assert all(m.training for m in model.modules())


def test_no_part_of_an_epoch_is_a_single_example():
    task = load_task("digits_rotations", train_size=11)
    model = network("torchvision/vgg11_bn", width=1 / 16)
    found = train(model, task, Hyperparameters(batch_size=2, max_epochs=1), seed=0)
    assert found.steps == 5
    assert train(model, task, Hyperparameters(batch_size=1, max_epochs=1), seed=0).steps == 5


def test_non_finite_logits_are_errors():
    class Broken(nn.Module):
        def forward(self, x):
            out = torch.zeros(len(x), 10)
            out[0] = torch.nan
            return out

    targets = torch.zeros(4, dtype=torch.int64)
    assert evaluate(Broken(), DIGITS.train.inputs[:4], targets).error == 0.25


def test_augmentation_averages_over_the_group():
    images = DIGITS.train.inputs[:1].repeat(4000, 1, 1, 1)
    black = torch.tensor(DIGITS.black)
    generator = torch.Generator().manual_seed(0)
    orbit = [torch.rot90(images[0], k, (-2, -1)) for k in range(4)]
    turned = augment(images, "rot4", black, generator)
    counts = [int((turned == o).flatten(1).all(1).sum()) for o in orbit]
    assert sum(counts) == 4000
    assert max(abs(c - 1000) for c in counts) < 5 * (4000 * 0.25 * 0.75) ** 0.5
    rotated = augment(images, "rotate", black, generator)
    corner = rotated[:, 0, 0, 0]
    assert float(corner.min()) == pytest.approx(DIGITS.black[0], abs=1e-5)  # what is uncovered is black
    mean = rotated.mean(0)
    # The mean over all angles is invariant under quarter turns.
    assert (mean - torch.rot90(mean, 1, (-2, -1))).abs().max() < 0.15
    assert augment(images, "none", black, generator) is images
    with pytest.raises(gapbench.GapbenchError, match="square"):
        augment(torch.zeros(2, 1, 4, 5), "rot4", black, generator)


def test_an_estimate_spares_looking_only_where_it_leaves_no_doubt():
    model, asked = network(task=POINTS), []

    def look():
        asked.append(True)
        return model

    with torch.no_grad():
        loss = evaluate(model, POINTS.train.inputs, POINTS.train.targets).cross_entropy
    values = Hyperparameters(stop_loss=loss, max_epochs=100)
    data, black = placed(POINTS, torch.device("cpu"))

    def ends(mean, estimate):
        course = Course(data, black, values, 0, torch.device("cpu"))
        asked.clear()
        return course.end_epoch(torch.tensor([mean]), look, estimate), len(asked), course.status

    assert ends(2 * loss, 1.02 * loss) == (False, 0, "not_converged")
    assert ends(2 * loss, 1.005 * loss) == (True, 1, "converged")  # the network itself decides
    assert ends(2 * loss, None) == (True, 1, "converged")
    assert ends(4 * loss, None) == (False, 0, "not_converged")  # too far away to be looked at
    assert ends(float("inf"), None) == (True, 0, "diverged")
