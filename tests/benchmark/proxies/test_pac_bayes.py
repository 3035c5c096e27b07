"""Sizes of perturbations and the bounds made of them, against closed forms and independent draws in float64."""

import copy
import math
import statistics

import numpy as np
import pytest
import scipy.stats
import torch
from torch import nn

import gapbench
from benchmark.small_networks import data, networks
from gapbench.curvature import crossing as crossings
from gapbench.curvature.least_perturbation import LeastPerturbation
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import proxy_entry
from gapbench_base.errors import NotDefined

NETWORKS = networks()
NOISE = ["pacbayes_flatness", "pacbayes_orig", "pacbayes_init"]
NOISE_RELATIVE = ["pacbayes_mag_flatness", "pacbayes_mag_orig", "pacbayes_mag_init"]
WORST = ["sharpness_flatness", "sharpness_orig", "sharpness_init"]
WORST_RELATIVE = ["sharpness_mag_flatness", "sharpness_mag_orig", "sharpness_mag_init"]
ALL = [*NOISE, *NOISE_RELATIVE, *WORST, *WORST_RELATIVE]
EPSILON = 1e-3


def single(weight):
    """One logit weight * x on one example x = 1 of class 1."""
    network = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        network.weight.fill_(weight)
    return network, torch.ones(1, 1, dtype=torch.float64), torch.ones(1, dtype=torch.int64)


def fitted(name, count=40):
    """A network, another one as its start, and inputs with the network's own predictions as targets."""
    network, shape = NETWORKS[name]
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    initial = copy.deepcopy(network)
    with torch.no_grad():
        for p in initial.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64))
        return network, initial, x, network(x).argmax(1)


def measured(names, network, x, y, initial=None, **options):
    found = {name: gapbench.measure(name, network, x, y, initial=initial, **options) for name in names}
    assert {f.status for f in found.values()} == {"ok"}, found
    return found


def flat(network):
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()])


def rises(network, x, y, scale, draws, seed):
    """Rise of the error under independent draws scale * N(0, 1), by changing a copy in place."""
    theta, generator = flat(network), torch.Generator().manual_seed(seed)
    moved = copy.deepcopy(network)
    with torch.no_grad():
        base = float((network(x).argmax(1) != y).double().mean())
        found = []
        for _ in range(draws):
            noise = scale * torch.randn(theta.shape, generator=generator, dtype=torch.float64)
            nn.utils.vector_to_parameters(theta + noise, moved.parameters())
            found.append(float((moved(x).argmax(1) != y).double().mean()) - base)
    return found


# ---- sigma -----------------------------------------------------------------------------------------------------


def test_sigma_is_a_standard_deviation_and_that_of_a_normal_quantile():
    """P(w + u < 0) = 0.1 at sigma = w / 1.2816; with a variance passed as the deviation it would be the root."""
    for weight in (3.0, 0.02):
        expected = weight / scipy.stats.norm.ppf(0.9)
        found = measured(["pacbayes_flatness"], *single(weight), samples=300)["pacbayes_flatness"]
        error = found.details["relative_error"]
        assert 0.01 < error < 0.1
        assert abs(math.log(found.details["sigma"] / expected)) < 4 * error
        assert abs(math.log(math.sqrt(expected) / expected)) > 4 * error
        assert found.value == pytest.approx(found.details["sigma"] ** -2, rel=1e-14)
        assert found.standard_error == pytest.approx(2 * error * found.value, rel=0.05)


def test_relative_sigma_adds_variances():
    """The noise on a weight w has standard deviation sqrt(sigma^2 w^2 + eps^2)."""
    for weight in (3.0, 0.002):
        needed = weight / scipy.stats.norm.ppf(0.9)
        expected = math.sqrt(needed**2 - EPSILON**2) / weight
        found = measured(["pacbayes_mag_flatness"], *single(weight), samples=300)["pacbayes_mag_flatness"]
        error = found.details["relative_error"]
        assert abs(math.log(found.details["sigma_relative"] / expected)) < 4 * error
        assert found.value == pytest.approx(found.details["sigma_relative"] ** -2, rel=1e-14)


@pytest.mark.parametrize("name", ["relu", "conv_bn", "attention"])
def test_the_error_rises_by_the_level_under_independent_noise(name):
    network, _, x, y = fitted(name)
    found = measured(["pacbayes_flatness", "pacbayes_mag_flatness"], network, x, y, samples=200)
    sigma = found["pacbayes_flatness"].details["sigma"]
    relative = found["pacbayes_mag_flatness"].details["sigma_relative"]
    scales = [sigma, (relative**2 * flat(network) ** 2 + EPSILON**2).sqrt()]
    for scale, seed in zip(scales, (11, 12)):
        seen = rises(network, x, y, scale, 500, seed)
        spread = statistics.stdev(seen)
        assert abs(statistics.fmean(seen) - 0.1) < 4 * spread * math.sqrt(1 / 500 + 1 / 200) + 0.002


def test_the_standard_error_is_that_of_other_draws():
    network, _, x, y = fitted("relu")
    found = [
        gapbench.measure("pacbayes_flatness", network, x, y, seed=s, samples=10).details for s in range(40)
    ]
    spread = statistics.stdev(math.log(f["sigma"]) for f in found)
    told = statistics.fmean(f["relative_error"] for f in found)
    assert 0.6 < told / spread < 1.7


def test_values_are_continuous_and_scale_with_the_weights():
    """Bisection to a fixed grid gave 33 distinct values in 4,836 networks."""
    network, _, x, y = fitted("deep_linear")
    values = []
    for step in range(12):
        with torch.no_grad():
            changed = copy.deepcopy(network)
            changed[1].weight.mul_(1 + 0.01 * step)
        values.append(gapbench.measure("pacbayes_flatness", changed, x, y).value)
    assert len({f"{v:.6g}" for v in values}) == len(values)
    linear = nn.Linear(4, 3, bias=False).double()
    x = x.flatten(1)
    with torch.no_grad():
        y = linear(x).argmax(1)
        larger = copy.deepcopy(linear)
        larger.weight.mul_(7.0)
    values = [gapbench.measure("pacbayes_flatness", n, x, y).value for n in (linear, larger)]
    assert values[0] == pytest.approx(49.0 * values[1], rel=1e-9)


# ---- alpha -----------------------------------------------------------------------------------------------------


def test_alpha_is_the_box_in_which_one_example_flips():
    """|u_i| <= alpha turns the sign of w . x first at alpha = w . x / |x|_1."""
    network = nn.Linear(5, 1, bias=False).double()
    generator = torch.Generator().manual_seed(0)
    w, x = torch.randn(2, 1, 5, generator=generator, dtype=torch.float64)
    w = w if float(w @ x.T) > 0 else -w
    with torch.no_grad():
        network.weight.copy_(w)
    y = torch.ones(1, dtype=torch.int64)
    found = measured(["sharpness_flatness", "sharpness_mag_flatness"], network, x, y)
    expected = float((w * x).sum() / x.abs().sum())
    assert found["sharpness_flatness"].details["alpha"] == pytest.approx(expected, rel=0.01)
    assert found["sharpness_flatness"].value == pytest.approx(expected**-2, rel=0.02)
    assert found["sharpness_flatness"].standard_error is None
    expected = float(((w * x).sum() - EPSILON * x.abs().sum()) / (w * x).abs().sum())
    assert found["sharpness_mag_flatness"].details["alpha_relative"] == pytest.approx(expected, rel=0.01)


def test_alpha_is_where_a_tenth_of_the_examples_flips():
    """One direction of growing length: the box that turns it turns all at once, unless biases hold some."""
    network = nn.Linear(1, 1).double()
    with torch.no_grad():
        network.weight.fill_(2.0)
        network.bias.fill_(1.0)
    x = torch.linspace(-0.25, 3.0, 20, dtype=torch.float64)[:, None]  # logits 0.5 to 7
    y = torch.ones(20, dtype=torch.int64)
    found = measured(["sharpness_flatness"], network, x, y)["sharpness_flatness"]

    def flipped(alpha):
        boxes = [(2 + a) * x + 1 + b for a in (-alpha, alpha) for b in (-alpha, alpha)]
        losses = [float(nn.functional.softplus(-z).mean()) for z in boxes]
        return float((boxes[int(np.argmax(losses))] <= 0).double().mean())

    alpha = found.details["alpha"]
    assert flipped(alpha * 0.98) <= 0.1 < flipped(alpha * 1.02)


# ---- bounds ----------------------------------------------------------------------------------------------------


def test_bounds_are_the_formulas_of_their_sizes():
    network, initial, x, y = fitted("relu")
    context = make_context(
        network, x, y, initial=initial, all_inputs=x.repeat(3, 1, 1, 1), all_targets=y.repeat(3)
    )
    found = {}
    for name in ALL:
        entry = proxy_entry(name)
        found[name] = measure_in(context, entry, dict(entry.options), 0)
        assert found[name].status == "ok", found[name]
    w, w0, m = flat(network).numpy(), flat(initial).numpy(), 120
    omega, dist, norm = len(w), ((flat(network) - flat(initial)) ** 2).sum().item(), (w**2).sum()
    sigma, alpha = found["pacbayes_init"].details["sigma"], found["sharpness_init"].details["alpha"]
    sigma_mag = found["pacbayes_mag_init"].details["sigma_relative"]
    alpha_mag = found["sharpness_mag_init"].details["alpha_relative"]

    def plain(squared, size):
        return math.sqrt((squared / (4 * size**2) + math.log(m / size) + 10) / m)

    def relative(squared, size, extra):
        top = EPSILON**2 + (size**2 + extra) * squared / omega
        total = sum(math.log(top / (EPSILON**2 + size**2 * (a - b) ** 2)) for a, b in zip(w, w0))
        return math.sqrt((total / 4 + math.log(m / size) + 10) / m)

    union = 4 * math.log(2 * omega / 0.05)
    expected = {
        "pacbayes_init": plain(dist, sigma),
        "pacbayes_orig": plain(norm, sigma),
        "pacbayes_flatness": sigma**-2,
        "sharpness_init": plain(dist * math.log(2 * omega), alpha),
        "sharpness_orig": plain(norm * math.log(2 * omega), alpha),
        "sharpness_flatness": alpha**-2,
        "pacbayes_mag_init": relative(dist, sigma_mag, 1.0),
        "pacbayes_mag_orig": relative(norm, sigma_mag, 1.0),
        "pacbayes_mag_flatness": sigma_mag**-2,
        "sharpness_mag_init": relative(dist, alpha_mag, union),
        "sharpness_mag_orig": relative(norm, alpha_mag, union),
        "sharpness_mag_flatness": alpha_mag**-2,
    }
    assert {n: f.value for n, f in found.items()} == pytest.approx(expected, rel=1e-10)
    for name in [*NOISE, *NOISE_RELATIVE]:
        assert 0 < found[name].standard_error < 0.5 * found[name].value
        assert found[name].details["reached"] is True
    # the square of the norm, not its fourth power, grows with the weights' scale
    assert found["pacbayes_orig"].value ** 2 * m - math.log(m / sigma) - 10 == pytest.approx(
        norm / (4 * sigma**2), rel=1e-9
    )


def test_the_network_itself_as_the_start_leaves_only_the_logarithm():
    network, _, x, y = fitted("relu")
    found = measured(["pacbayes_init", "pacbayes_mag_init"], network, x, y, initial=network)
    m, sigma = len(x), found["pacbayes_init"].details["sigma"]
    assert found["pacbayes_init"].value == pytest.approx(math.sqrt((math.log(m / sigma) + 10) / m), rel=1e-12)
    sigma = found["pacbayes_mag_init"].details["sigma_relative"]
    expected = math.sqrt((math.log(m / sigma) + 10) / m)
    assert found["pacbayes_mag_init"].value == pytest.approx(expected, rel=1e-12)


# ---- what is shared and where nothing is defined -----------------------------------------------------------------


def test_each_search_runs_once_for_all_proxies(monkeypatch):
    calls = []

    def counted(search):
        return lambda *a, **k: calls.append(1) or search(*a, **k)

    monkeypatch.setattr(crossings, "sampled_crossing", counted(crossings.sampled_crossing))
    monkeypatch.setattr(LeastPerturbation, "search", counted(LeastPerturbation.search))
    network, initial, x, y = fitted("relu")
    context = make_context(network, x, y, initial=initial)
    for seed, name in enumerate(ALL):
        entry = proxy_entry(name)
        assert measure_in(context, entry, dict(entry.options), seed).status == "ok"
    assert len(calls) == 4
    entry = proxy_entry("pacbayes_flatness")
    measure_in(context, entry, {**entry.options, "samples": 5}, 0)
    assert len(calls) == 5


@pytest.mark.parametrize("name", ALL)
def test_levels_that_are_not_reached_are_told(name):
    network, initial, x, y = fitted("relu")
    with torch.no_grad():
        wrong = network(x).argmin(1)  # an error of 1 cannot rise
    found = gapbench.measure(name, network, x, wrong, initial=initial)
    assert (found.status, found.value) == ("not_applicable", None)
    assert "does not reach 0.1" in found.reason
    with torch.no_grad():
        tied = nn.Sequential(nn.Flatten(), nn.Linear(4, 3, bias=False)).double()
        tied[1].weight.zero_()  # any noise breaks ties between its logits
    if "mag" not in name:
        found = gapbench.measure(name, tied, x, torch.zeros_like(y), initial=copy.deepcopy(tied))
        assert (found.status, found.value) == ("not_applicable", None)
        assert "smallest size tried" in found.reason


def test_regression_and_options_that_cannot_be():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "mse")
    found = gapbench.measure("pacbayes_flatness", network, x, y, loss="mse")
    assert found.status == "not_applicable"
    assert "classes" in found.reason
    network, _, x, y = fitted("relu")
    for name, options in (
        ("pacbayes_flatness", {"level": 0.0}),
        ("pacbayes_flatness", {"samples": 1}),
        ("sharpness_flatness", {"steps": 0}),
        ("sharpness_mag_init", {"delta": 1.0}),
    ):
        found = gapbench.measure(name, network, x, y, initial=copy.deepcopy(network), **options)
        assert found.status == "failed"
        assert next(iter(options)) in found.reason


# ---- the search itself -------------------------------------------------------------------------------------------


def test_crossings_of_known_functions():
    for power, level in ((1.0, 0.1), (2.0, 1.0), (0.5, 3.0)):
        found = crossings.crossing(lambda r, p=power: torch.tensor([r**p]), level, 0.03, 1e6, 1e-3)
        assert found.value == pytest.approx(level ** (1 / power), rel=1e-5)
        assert found.log_error is None
        assert found.trials < 14
    step = crossings.crossing(lambda r: torch.tensor([float(r > 0.7)]), 0.1, 40.0, 1e6, 1e-3)
    assert step.value == pytest.approx(0.7, rel=1e-3)
    assert step.trials <= 5 + 13  # to the interval of 2 ln 2, and its halves
    beyond = crossings.crossing(lambda r: torch.tensor([r if r < 0.2 else math.nan]), 5.0, 0.01, 1e6, 1e-3)
    assert beyond.value == pytest.approx(0.2, rel=1e-3)
    with pytest.raises(NotDefined, match="does not reach 2 up to size 10"):
        crossings.crossing(lambda r: torch.tensor([r / (1 + r)]), 2.0, 1.0, 10.0, 1e-3)
    calls = []
    with pytest.raises(NotDefined, match="smallest size tried"):
        crossings.crossing(lambda r: calls.append(r) or torch.tensor([3.0 + r]), 2.0, 1.0, 4.0**10, 1e-3)
    assert len(calls) == 3  # a limit above the level is seen at once
    with pytest.raises(NotDefined, match=r"smallest size tried, 0\.1"):
        crossings.crossing(lambda r: torch.tensor([3.0 + r]), 2.0, 1.0, 10.0, 1e-3)


def test_the_jackknife_of_a_crossing_is_that_of_the_mean_slope():
    """Rises a_k r cross at level / mean(a): the error of ln r is that of ln mean(a)."""
    slopes = torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    found = crossings.crossing(lambda r: slopes * r, 1.0, 0.1, 1e6, 1e-4)
    assert found.value == pytest.approx(1 / float(slopes.mean()), rel=1e-6)
    assert found.log_error == pytest.approx(float(slopes.std() / slopes.mean()) / 30**0.5, rel=0.1)


def test_every_proxy_of_the_family_is_tested_here():
    registered = {
        name
        for name in gapbench.list_proxies()
        if "catalogue/pac_bayes" in proxy_entry(name).origin.replace("\\", "/")
    }
    assert registered == set(ALL)
