"""The axes of training: what each does to a step, against closed forms, and what it does to keys."""

import copy
import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import gapbench
from gapbench.population.course import Course, learning_rate_factor, placed
from gapbench.population.network import trained_networks, untrained
from gapbench.population.optimizers import make_optimizer, step
from gapbench.population.plan import TaskFacts, describe
from gapbench.population.training import mean_loss, train
from gapbench.runs.weights import save_weights, state_of
from gapbench.suites.hyperparameters import AUGMENTATIONS, OPTIMIZERS, Hyperparameters, hyperparameters
from gapbench.suites.suite import Configuration, parse_suite
from gapbench_base.errors import GapbenchError
from gapbench_tasks import load_task

DIGITS = load_task("digits_rotations", train_size=80)
CPU = torch.device("cpu")


def course(values, task=DIGITS, seed=0):
    data, black = placed(task, CPU)
    return Course(data, black, values, seed, CPU, task.num_classes)


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(3, 2).double(), torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 1])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"optimizer": "adamv"}, "optimizer = 'adamv' is none of sgd, adam, adamw, sam. Did you mean"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
        ({"schedule": 1}, "schedule = 1 is none of"),
        ({"augmentation": "flipcrop"}, "Did you mean 'flip_crop'"),
        ({"augmentation": ["flip"]}, "is none of"),
        ({"activation": "gellu"}, "Did you mean 'gelu'"),
        ({"activaton": "gelu"}, "no hyper-parameter 'activaton'. Did you mean 'activation'"),
        ({"augmentation_strength": 0}, "augmentation_strength = 0 must be a positive number of at most 1"),
        (
            {"augmentation_strength": 1.5},
            "augmentation_strength = 1.5 must be a positive number of at most 1",
        ),
        ({"augmentation_strength": True}, "not a finite number"),
        ({"label_smoothing": 1}, "label_smoothing = 1 must be a number of at least 0 and below 1"),
        ({"label_smoothing": -0.1}, "must be a number of at least 0"),
        ({"gradient_clip": -1}, "must be a number of at least 0"),
        ({"gradient_clip": float("inf")}, "not a finite number"),
        ({"mixup_alpha": 0}, "must be a positive number"),
    ],
)
def test_what_an_axis_cannot_be_is_said(values, words):
    with pytest.raises(GapbenchError) as caught:
        hyperparameters(values, "here")
    assert words in str(caught.value)
    assert str(caught.value).startswith("here: ")


def key_of(**values):
    configuration = Configuration("t", (), "plain/mlp", 1.0, hyperparameters(values, "h", "plain/mlp"), 0)
    return describe(configuration, TaskFacts(1, "f", "synthetic", False))["training"]


def test_defaults_and_values_without_effect_are_in_no_key():
    defaults = {field.name: field.default for field in dataclasses.fields(Hyperparameters)}
    defaults = {name: value for name, value in defaults.items() if value is not None}
    assert key_of(**defaults) == key_of() == {}
    for without_effect in (
        {"augmentation_strength": 0.5},
        {"mixup_alpha": 0.2},
        {"gradient_clip": 0},
        {"activation": "relu"},  # what the family has anyway
    ):
        assert key_of(**without_effect) == {}
    assert key_of(optimizer="adamw", momentum=0.5) == key_of(optimizer="adamw")
    assert key_of(augmentation="flip", mixup_alpha=0.2, augmentation_strength=1) == {"augmentation": "flip"}
    mixed = {"augmentation": "mixup", "augmentation_strength": 0.5, "mixup_alpha": 0.2}
    assert key_of(**mixed) == mixed


def test_adamw_shrinks_the_parameters_beside_its_step():
    """Two steps of Loshchilov and Hutter 2019, algorithm 2, written out."""
    model, x, y = linear()
    values = Hyperparameters(optimizer="adamw", learning_rate=0.1, weight_decay=0.3).normalised()
    reference = copy.deepcopy(model)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in reference.parameters()]
    optimizer = make_optimizer(model, values)
    for t in (1, 2):
        step(model, optimizer, mean_loss(model, x, y), values)
        loss = nn.functional.cross_entropy(reference(x), y)
        gradients = torch.autograd.grad(loss, list(reference.parameters()))
        with torch.no_grad():
            for p, g, (m, v) in zip(reference.parameters(), gradients, moments):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                update = (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
                p.copy_(p - 0.1 * 0.3 * p - 0.1 * update)
    for p, q in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)


def test_schedules():
    def factors(schedule, epochs, warm_up=True, limit=11):
        values = Hyperparameters(max_epochs=limit, schedule=schedule)
        return [learning_rate_factor(epoch, values, warm_up) for epoch in epochs]

    half = math.sqrt(0.5)
    assert factors("cosine", [0, 0.5, 1, 3.5, 6, 8.5, 11]) == pytest.approx(
        [1e-3, 0.5, 1, (1 + half) / 2, 0.5, (1 - half) / 2, 1e-3]
    )
    assert factors("cosine", [0, 2.75, 5.5, 11], warm_up=False) == pytest.approx(
        [1, (1 + half) / 2, 0.5, 1e-3]
    )
    assert factors("constant", [0, 0.25, 1, 5, 11, 20]) == [1e-3, 0.25, 1, 1, 1, 1]
    assert factors("constant", [0, 0.25, 11], warm_up=False) == [1, 1, 1]
    assert factors("hold", [0.5, 1, 6.6, 8.8, 11]) == pytest.approx([0.5, 1, 1, 0.5, 1e-3])
    for schedule in ("hold", "cosine", "constant"):  # an epoch limit of one epoch
        assert factors(schedule, [0.5], limit=1) == [0.5]
        assert all(0 < f <= 1 for f in factors(schedule, [1, 2], limit=1))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_label_smoothing_is_torchs(smoothing):
    values = Hyperparameters(label_smoothing=smoothing)
    chosen = torch.arange(0, 80, 3)
    inputs, targets = course(values).batch(chosen)
    logits = torch.randn(len(chosen), 10, generator=torch.Generator().manual_seed(0))
    expected = nn.functional.cross_entropy(logits, DIGITS.train.targets[chosen], label_smoothing=smoothing)
    found = mean_loss(nn.Identity(), logits, targets)()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(inputs, DIGITS.train.inputs[chosen])
    assert targets.is_floating_point() == (smoothing > 0)


def test_training_stops_by_the_loss_on_labels_as_they_are():
    """The smoothed loss never falls below its entropy, far above the criterion that is met."""
    points = load_task("separable", shape=(1, 4, 4), train_size=40, test_size=10, margin=0.5)
    model = gapbench.build_model("plain/linear", 1.0, points.input_shape, 2, seed=0)
    values = Hyperparameters(label_smoothing=0.05, learning_rate=0.5, stop_loss=0.12, max_epochs=1000)
    found = train(model, points, values, seed=0)
    loss = nn.functional.cross_entropy(model(points.train.inputs), points.train.targets)
    entropy = -(0.975 * math.log(0.975) + 0.025 * math.log(0.025))
    assert found.status == "converged"
    loss = loss.detach()
    assert float(loss) <= 0.12
    assert found.train.cross_entropy == pytest.approx(float(loss), rel=1e-5)
    assert min(found.history) >= entropy


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_gradient_that_the_optimizer_gets_is_clipped(optimizer):
    """By the gradient's norm over all parameters, before weight decay; with SAM at the moved point."""
    bound = 0.05
    model, x, y = linear()
    values = Hyperparameters(
        optimizer=optimizer,
        learning_rate=0.1,
        weight_decay=0.2,
        gradient_clip=bound,
        sam_rho=0.3,
        momentum=0.9,
    ).normalised()
    plain = dataclasses.replace(values, gradient_clip=0.0)
    reference = copy.deepcopy(model)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, loss, scale):
            ctx.scale = scale
            return loss

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.scale, None

    optimizers = make_optimizer(model, values), make_optimizer(reference, plain)
    for _ in range(3):
        step(model, optimizers[0], mean_loss(model, x, y), values)
        calls = []

        def clipped_loss(calls=calls):
            loss = nn.functional.cross_entropy(reference(x), y)
            calls.append(None)
            if optimizer == "sam" and len(calls) == 1:
                return loss
            gradients = torch.autograd.grad(loss, list(reference.parameters()), retain_graph=True)
            norm = math.sqrt(sum(float(g.pow(2).sum()) for g in gradients))
            assert norm > bound
            return Scaled.apply(loss, bound / norm)

        step(reference, optimizers[1], clipped_loss, plain)
    for p, q in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)  # torch divides by the norm + 1e-6


def test_a_small_gradient_is_not_clipped():
    model, x, y = linear()
    other = copy.deepcopy(model)
    for net, clip in ((model, 0.0), (other, 1e3)):
        values = Hyperparameters(gradient_clip=clip)
        step(net, make_optimizer(net, values), mean_loss(net, x, y), values)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters()))


MLP = (
    'name = "t"\nversion = 1\n[[grid]]\ntask = "separable"\n[grid.axes]\nfamily = ["plain/mlp", "{family}"]\n'
)
MLP += "width = [0.25]\nseed = [0]\nactivation = {activations}\n"


def test_suites_refuse_an_activation_that_a_family_cannot_take():
    text = MLP.format(family="timm/resnet18", activations='["default", "gelu"]')
    with pytest.raises(GapbenchError, match=r"grid 1: timm/resnet18: the activations .* fixed \(relu\)"):
        parse_suite(text, "t")
    assert len(parse_suite(text.replace(', "gelu"', ""), "t").configurations) == 2
    suite = parse_suite(MLP.format(family="plain/cnn", activations='["default", "relu", "gelu"]'), "t")
    assert [c.training.activation for c in suite.configurations] == ["default", "gelu"] * 2
    assert suite.axes == ("activation",)


@pytest.mark.parametrize("family", ["plain/mlp", "plain/cnn"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "silu"])
def test_a_trained_network_is_rebuilt_with_its_activation(tmp_path, family, activation):
    values = hyperparameters({"activation": activation, "max_epochs": 2, "depth": 2}, "t", family)
    configuration = Configuration("digits_rotations", (), family, 0.25, values, 0)
    model = untrained(configuration, 3, DIGITS)
    initial, before = state_of(model), model(DIGITS.test.inputs[:20])
    train(model, DIGITS, values, seed=0)
    path = tmp_path / "w.safetensors"
    sha256, _ = save_weights(path, initial, state_of(model))
    trained, start = trained_networks(configuration, DIGITS, path, sha256)
    assert torch.equal(trained(DIGITS.test.inputs[:20]), model(DIGITS.test.inputs[:20]))
    assert torch.equal(start(DIGITS.test.inputs[:20]), before)


def test_every_combination_of_axes_trains():
    """No two axes are in each other's way: one epoch of everything gives finite losses and is repeatable."""
    for optimizer, augmentation in itertools.product(OPTIMIZERS, AUGMENTATIONS):
        values = Hyperparameters(
            optimizer=optimizer,
            augmentation=augmentation,
            augmentation_strength=0.7,
            label_smoothing=0.1,
            gradient_clip=1.0,
            input_noise=0.1,
            max_epochs=1,
            learning_rate=0.01,
        ).normalised()
        histories = []
        for _ in range(2):
            model = gapbench.build_model("plain/mlp", 0.1, DIGITS.input_shape, 10, seed=0)
            histories.append(train(model, DIGITS, values, seed=2).history)
        assert histories[0] == histories[1]
        assert np.isfinite(histories[0]).all()
