"""Errors, probabilities, margins and derivatives in the inputs, against closed forms and brute force in float64."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch import nn

import gapbench
from benchmark.proxies import strangers
from benchmark.small_networks import data, networks

NETWORKS = networks()
PROBABILITIES = ["output_entropy", "mean_confidence", "calibration_error", "brier_score"]
MARGINS = ["negative_mean_margin", "margin_quantile", "margin_moment", "input_margin_distance"]
SENSITIVITIES = ["input_gradient_norm", "input_jacobian_norm", "input_margin_distance"]
ALL = sorted({"train_error", "label_wise_mixup_accuracy", *PROBABILITIES, *MARGINS, *SENSITIVITIES})


def given_logits(logits, targets, name, **options):
    """Measure with a network whose outputs on its inputs are `logits`."""
    network = nn.Linear(logits.shape[1], logits.shape[1]).double()
    with torch.no_grad():
        network.weight.copy_(torch.eye(logits.shape[1]))
        network.bias.zero_()
    return gapbench.measure(name, network, logits, targets, **options)


def drawn(count=60, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, classes, (count,), generator=generator)


# ---- values ----------------------------------------------------------------------------------------------------


def test_training_error():
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 2.0], [0.0, 5.0]], dtype=torch.float64)
    assert given_logits(logits, torch.tensor([0, 0, 0, 1]), "train_error").value == 0.25
    logits, targets = drawn()
    wrong = np.mean([row.argmax() != t for row, t in zip(logits.numpy(), targets.numpy())])
    assert given_logits(logits, targets, "train_error").value == pytest.approx(wrong, rel=1e-15)


def test_entropy_and_confidence_are_those_of_the_softmax():
    logits, targets = drawn()
    p = torch.softmax(logits, 1).numpy()
    entropy = scipy.stats.entropy(p, axis=1).mean()
    assert given_logits(logits, targets, "output_entropy").value == pytest.approx(entropy, rel=1e-12)
    assert given_logits(logits, targets, "mean_confidence").value == pytest.approx(p.max(1).mean(), rel=1e-12)
    even = torch.zeros(5, 4, dtype=torch.float64)
    labels = torch.arange(5) % 4
    assert given_logits(even, labels, "output_entropy").value == pytest.approx(math.log(4), rel=1e-14)
    assert given_logits(even, labels, "mean_confidence").value == pytest.approx(0.25, rel=1e-14)
    sure = 2000.0 * torch.eye(4, dtype=torch.float64)  # probabilities of 0, whose logarithm is not finite
    assert given_logits(sure, torch.arange(4), "output_entropy").value == 0.0


def test_margins_and_their_moments():
    logits, targets = drawn()
    margins = []
    for row, t in zip(logits.tolist(), targets.tolist()):
        margins.append(row[t] - max(v for j, v in enumerate(row) if j != t))
    margins = np.array(margins)
    found = given_logits(logits, targets, "negative_mean_margin")
    assert found.value == pytest.approx(-margins.mean(), rel=1e-12)
    assert found.details["quartiles"] == pytest.approx(np.quantile(margins, [0, 0.25, 0.5, 0.75, 1]).tolist())
    for q in (0.0, 0.1, 0.5, 0.75, 1.0):
        found = given_logits(logits, targets, "margin_quantile", quantile=q)
        assert found.value == pytest.approx(np.quantile(margins, q), rel=1e-12)
    assert (
        given_logits(logits, targets, "margin_quantile", quantile=0.1).value < 0
    )  # as it is, not made positive
    for order in (2, 3, 4, 5):
        moment = scipy.stats.moment(margins, order)
        found = given_logits(logits, targets, "margin_moment", order=order)
        assert found.value == pytest.approx(math.copysign(abs(moment) ** (1 / order), moment), rel=1e-10)
    assert given_logits(logits, targets, "margin_moment").value == pytest.approx(margins.std(), rel=1e-12)


def calibration_by_counting(p, targets, bins):
    """Bin by bin, (low, high]."""
    total, n = 0.0, len(targets)
    confidence, predicted = p.max(1), p.argmax(1)
    for b in range(bins):
        inside = [i for i in range(n) if b / bins < confidence[i] <= (b + 1) / bins]
        if inside:
            accuracy = np.mean([predicted[i] == targets[i] for i in inside])
            total += len(inside) / n * abs(accuracy - np.mean([confidence[i] for i in inside]))
    return total


@pytest.mark.parametrize("bins", [1, 7, 15])
def test_calibration_error_is_that_of_counting_bin_by_bin(bins):
    logits, targets = drawn(count=200)
    expected = calibration_by_counting(torch.softmax(logits, 1).numpy(), targets.numpy(), bins)
    found = given_logits(logits, targets, "calibration_error", bins=bins)
    assert found.value == pytest.approx(expected, rel=1e-10)
    assert sum(found.details["sizes"]) == 200


def test_calibration_error_in_closed_form():
    """All say 3/4, half are right; certain ones that are right add nothing."""
    logits = torch.tensor([[math.log(3.0), 0.0]] * 4, dtype=torch.float64)
    targets = torch.tensor([0, 0, 1, 1])
    assert given_logits(logits, targets, "calibration_error").value == pytest.approx(0.25, rel=1e-12)
    sure = torch.tensor([[900.0, 0.0]] * 4, dtype=torch.float64)
    both = torch.cat([logits, sure]), torch.cat([targets, torch.zeros(4, dtype=torch.int64)])
    assert given_logits(*both, "calibration_error").value == pytest.approx(0.125, rel=1e-12)


def test_brier_score_in_closed_form_and_by_sums():
    logits, targets = drawn()
    p = torch.softmax(logits, 1).numpy()
    total = sum(
        (p[i, c] - float(c == int(targets[i]))) ** 2 for i, c in itertools.product(range(60), range(4))
    )
    assert given_logits(logits, targets, "brier_score").value == pytest.approx(float(total) / 60, rel=1e-12)
    even = torch.zeros(3, 2, dtype=torch.float64)
    assert given_logits(even, torch.tensor([0, 1, 1]), "brier_score").value == pytest.approx(0.5, rel=1e-14)
    wrong = torch.tensor([[0.0, 5000.0]], dtype=torch.float64)
    assert given_logits(wrong, torch.tensor([0]), "brier_score").value == 2.0


@pytest.mark.parametrize("name", ["train_error", *PROBABILITIES])
def test_one_logit_is_two_classes(name):
    generator = torch.Generator().manual_seed(1)
    z = 2 * torch.randn(40, 1, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 2, (40,), generator=generator)
    two = torch.cat([torch.zeros_like(z), z], dim=1)
    found = given_logits(z, targets, name).value
    assert found == pytest.approx(given_logits(two, targets, name).value, rel=1e-12)


@pytest.mark.parametrize("name", ["train_error", *PROBABILITIES, *MARGINS[:3]])
def test_examples_and_classes_in_another_order_change_nothing(name):
    logits, targets = drawn()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(2))
    classes = torch.tensor([2, 0, 3, 1])
    inverse = torch.argsort(classes)
    before = given_logits(logits, targets, name).value
    assert given_logits(logits[order], targets[order], name).value == pytest.approx(before, rel=1e-12)
    found = given_logits(logits[:, classes], inverse[targets], name).value
    assert found == pytest.approx(before, rel=1e-12)


# ---- midpoints -------------------------------------------------------------------------------------------------


def test_midpoints_of_pairs_are_counted_by_class():
    """Two examples a class: the only midpoint of each class is known, whatever is drawn."""
    x = torch.tensor([[3.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [4.0, 1.0]], dtype=torch.float64)
    y = torch.tensor([0, 0, 1, 1])
    # Midpoints (1, 0), of class 0, and (2, 1), also seen as class 0.
    found = given_logits(x, y, "label_wise_mixup_accuracy")
    assert (found.value, found.standard_error) == (0.5, 0.0)
    assert found.details["midpoints"] == 4 * 4


def test_midpoints_never_pair_an_example_with_itself_or_another_class():
    """Antipodal pairs: of two different members of a class midpoints are 0 where they are opposite."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(1, 3, generator=generator, dtype=torch.float64)
    x = torch.cat([half, -half, half, -half])
    network = nn.Linear(3, 2).double()
    with torch.no_grad():
        network.weight.copy_(torch.cat([half, -half]))
        network.bias.copy_(torch.tensor([-0.1, 0.1]))
    # An example with itself would be classified by its own sign; midpoints of different ones are all 0.
    y = torch.tensor([0, 0, 1, 1])
    found = gapbench.measure("label_wise_mixup_accuracy", network, x, y)
    assert found.value == 0.5
    assert gapbench.measure("train_error", network, x, y).value == 0.5


def test_midpoints_are_sampled_around_the_share_over_all_pairs():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 3, (40,), generator=generator)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    shares, weights = [], []
    for label in range(3):
        members = (y == label).nonzero()[:, 0]
        pairs = list(itertools.combinations(members.tolist(), 2))
        middle = torch.stack([0.5 * (x[a] + x[b]) for a, b in pairs])
        shares.append(float((network(middle).argmax(1) == label).double().mean()))
        weights.append(len(members) / len(y))
    expected = sum(w * s for w, s in zip(weights, shares))
    found = gapbench.measure("label_wise_mixup_accuracy", network, x, y, rounds=400)
    assert abs(found.value - expected) <= 4 * found.standard_error
    assert found.standard_error < 0.01
    again = [gapbench.measure("label_wise_mixup_accuracy", network, x, y, seed=5).value for _ in range(2)]
    assert again[0] == again[1]


def test_classes_of_one_example_are_left_out_and_none_left_is_said():
    x, y = torch.eye(3, dtype=torch.float64), torch.tensor([0, 1, 2])
    found = given_logits(x, y, "label_wise_mixup_accuracy")
    assert (found.status, found.reason) == ("not_applicable", "no class has two training examples")
    x, y = torch.cat([x, 2 * x[:1]]), torch.tensor([0, 1, 2, 0])
    assert given_logits(x, y, "label_wise_mixup_accuracy").details["midpoints"] == 4 * 2


# ---- derivatives in the inputs ---------------------------------------------------------------------------------


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(4, 3).double(), torch.randn(20, 4, dtype=torch.float64), torch.randint(0, 3, (20,))


def test_sensitivities_of_linear_classifiers_in_closed_form():
    network, x, y = linear()
    w, b = network.weight.detach(), network.bias.detach()
    found = gapbench.measure("input_jacobian_norm", network, x, y).value
    assert found == pytest.approx(float(w.norm()) ** 2, rel=1e-12)
    p = torch.softmax(x @ w.T + b, 1) - nn.functional.one_hot(y, 3)
    found = gapbench.measure("input_gradient_norm", network, x, y).value
    assert found == pytest.approx(float((p @ w).norm(dim=1).mean()), rel=1e-12)
    distances = []
    for xi, yi in zip(x, y.tolist()):
        logits = w @ xi + b
        j = max((c for c in range(3) if c != yi), key=lambda c: float(logits[c]))
        # The signed distance of a point to the hyperplane where both logits are equal.
        distances.append(float((w[yi] - w[j]) @ xi + b[yi] - b[j]) / float((w[yi] - w[j]).norm()))
    for q in (0.0, 0.3, 0.5, 1.0):
        found = gapbench.measure("input_margin_distance", network, x, y, quantile=q).value
        assert found == pytest.approx(np.quantile(distances, q), rel=1e-10)


def differences(function, x, h=1e-6):
    """Gradients of `function` (inputs -> a number each) in each input, by central differences."""
    found = torch.zeros_like(x)
    for place in itertools.product(*map(range, x.shape[1:])):
        step = torch.zeros_like(x)
        step[(slice(None), *place)] = h
        with torch.no_grad():
            found[(slice(None), *place)] = (function(x + step) - function(x - step)) / (2 * h)
    return found.flatten(1)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "attention", "depthwise_residual"])
def test_sensitivities_are_those_of_differences(name, loss):
    network, shape = NETWORKS[name]
    x, y = data(shape, loss)

    def loss_of(inputs):
        outputs = network(inputs)
        if loss == "mse":
            return 0.5 * (outputs - y).pow(2).sum(1)
        return nn.functional.cross_entropy(outputs, y, reduction="none")

    gradient = differences(loss_of, x).norm(dim=1).mean()
    found = gapbench.measure("input_gradient_norm", network, x, y, loss=loss).value
    assert found == pytest.approx(float(gradient), rel=1e-6)
    squares = sum(differences(lambda z, k=k: network(z)[:, k], x).pow(2).sum(1) for k in range(3))
    found = gapbench.measure("input_jacobian_norm", network, x, y, loss=loss).value
    assert found == pytest.approx(float(squares.mean()), rel=1e-6)
    if loss == "mse":
        return
    logits = network(x).detach()
    other = logits.scatter(1, y[:, None], -torch.inf).argmax(1)
    pair = torch.arange(len(x))
    gradients = differences(lambda z: network(z)[pair, y] - network(z)[pair, other], x)
    distances = (logits[pair, y] - logits[pair, other]) / gradients.norm(dim=1)
    found = gapbench.measure("input_margin_distance", network, x, y).value
    assert found == pytest.approx(float(distances.median()), rel=1e-6)


def test_scaling_logits_changes_no_distance_and_squares_the_jacobian():
    network, x, y = linear()
    names = ("input_margin_distance", "input_jacobian_norm")
    before = [gapbench.measure(n, network, x, y).value for n in names]
    with torch.no_grad():
        network.weight.mul_(3.0)
        network.bias.mul_(3.0)
    after = [gapbench.measure(n, network, x, y).value for n in names]
    assert after == pytest.approx([before[0], 9 * before[1]], rel=1e-12)


def test_distances_are_infinite_where_the_gradient_vanishes():
    network = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        network[0].weight.fill_(1.0)
        network[0].bias.zero_()
        network[2].weight.copy_(torch.tensor([[1.0], [0.0]]))
        network[2].bias.copy_(torch.tensor([1.0, 0.0]))
    x = torch.tensor([[-1.0], [1.0], [2.0]], dtype=torch.float64)  # the first is behind the kink
    y = torch.zeros(3, dtype=torch.int64)  # distances to the boundary at -1: infinite, 2, 3
    found = gapbench.measure("input_margin_distance", network, x, y)
    assert found.value == pytest.approx(3.0, rel=1e-12)
    assert found.details["vanishing"] == 1
    assert gapbench.measure("input_margin_distance", network, x, y, quantile=0.0).value == pytest.approx(2.0)
    found = gapbench.measure("input_margin_distance", network, x, y, quantile=0.9)
    assert found.status == "not_applicable"
    assert "vanishes at 1" in found.reason


def jacobian_norm_by_differences(stranger):
    network, x = stranger.network, stranger.inputs
    columns = network(x[:1]).numel()
    squares = [
        differences(lambda z, k=k: network(z).reshape(len(z), -1)[:, k], x).pow(2) for k in range(columns)
    ]
    return float(sum(s.sum(1) for s in squares).mean())


@pytest.mark.parametrize("name", sorted(strangers.wrong_gradients()))
def test_gradients_that_are_not_derivatives_are_refused(name):
    stranger = strangers.make(strangers.wrong_gradients()[name])
    data_of = (stranger.network, stranger.inputs, stranger.targets)
    found = gapbench.measure("input_jacobian_norm", *data_of, loss=stranger.loss)
    if found.status == "ok":  # what is wrong is the derivative in the parameters alone
        assert found.value == pytest.approx(jacobian_norm_by_differences(stranger), rel=1e-5)
    else:
        assert "not the derivative" in found.reason or "whole numbers" in found.reason
    other = gapbench.measure("input_gradient_norm", *data_of, loss=stranger.loss)
    assert other.status == found.status


def test_reentrant_checkpoints_have_the_sensitivities_of_the_plain_network():
    values = []
    for name in ("checkpointed", "checkpointed reentrantly"):
        stranger = strangers.make(strangers.strangers()[name])
        values.append(
            [
                gapbench.measure(p, stranger.network, stranger.inputs, stranger.targets).value
                for p in SENSITIVITIES
            ]
        )
    assert values[0] == pytest.approx(values[1], rel=1e-10)


# ---- where they are not defined --------------------------------------------------------------------------------


def sequence():
    """Logits (n, 5, 3) for targets (n, 5)."""
    torch.manual_seed(0)
    network = nn.Linear(4, 3).double()
    return network, torch.randn(6, 5, 4, dtype=torch.float64), torch.randint(0, 3, (6, 5))


def test_sequences_of_logits_count_each_position():
    network, x, y = sequence()
    logits = network(x).detach().reshape(30, 3)
    for name in ("train_error", *PROBABILITIES):
        expected = given_logits(logits, y.reshape(30), name).value
        assert gapbench.measure(name, network, x, y).value == pytest.approx(expected, rel=1e-12)
    for name in (*MARGINS, "label_wise_mixup_accuracy"):
        assert gapbench.measure(name, network, x, y).status == "not_applicable"
    squares = 5 * float(network.weight.detach().norm()) ** 2
    assert gapbench.measure("input_jacobian_norm", network, x, y).value == pytest.approx(squares, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_regression_has_sensitivities_alone(name):
    network, x, _ = linear()
    found = gapbench.measure(name, network, x, torch.randn(20, 3).double(), loss="mse")
    assert found.status == (
        "ok" if name in ("input_gradient_norm", "input_jacobian_norm") else "not_applicable"
    )


@pytest.mark.parametrize("name", PROBABILITIES)
def test_the_squared_loss_gives_no_probabilities(name):
    network, x, y = linear()
    found = gapbench.measure(name, network, x, y, loss="mse")
    assert found.status == "not_applicable"
    assert "squared loss" in found.reason
    assert gapbench.measure("train_error", network, x, y, loss="mse").value == pytest.approx(
        gapbench.measure("train_error", network, x, y).value
    )


@pytest.mark.parametrize("name", ALL)
def test_half_precision_is_measured_in_a_copy_of_more(name):
    network, x, y = linear()
    wide = network.half().double()  # the rounded weights
    expected = gapbench.measure(name, wide, x.half().double(), y)
    found = gapbench.measure(name, network.half(), x.half(), y)
    assert found.status == expected.status == "ok"
    assert found.value == pytest.approx(expected.value, rel=1e-12)


@pytest.mark.parametrize("name", ["label_wise_mixup_accuracy", *SENSITIVITIES])
def test_examples_that_meet_and_whole_numbers_are_refused(name):
    for kind in (strangers.mixing()["batch centred"], strangers.strangers()["tokens"]):
        stranger = strangers.make(kind)
        found = gapbench.measure(name, stranger.network, stranger.inputs, stranger.targets)
        assert found.status == "not_applicable"
        assert "depend on the others" in found.reason or "whole numbers" in found.reason
