"""Sizes at which something has risen: against fine grids and whole searches, with a count of the work."""

import math

import pytest
import torch
from torch import nn

from benchmark.small_networks import data, networks
from gapbench.curvature import directions as directions_module
from gapbench.curvature.crossing import AlreadyPassed, crossing, sampled_crossing
from gapbench.curvature.directions import FixedDirections
from gapbench.curvature.elementwise import Boxes
from gapbench.curvature.error_rate import ErrorRate
from gapbench.curvature.least_perturbation import LeastPerturbation
from gapbench.curvature.loss import Landscape
from gapbench.curvature.sharpness import maximise
from gapbench_base.errors import NotDefined

NETWORKS = networks()
SPAN, TOLERANCE, STEPS = 4.0**10, 0.01, 10


def landscape_of(name):
    network, shape = NETWORKS[name]
    return Landscape(network, *data(shape, "cross_entropy"), "cross_entropy")


def mean_rises(landscape, samples, seen):
    """The rise of the loss along fixed directions of Gaussian noise; `seen` collects sizes and positions."""
    theta, base = landscape.theta(), landscape.value()
    generator = torch.Generator().manual_seed(4)
    noise = torch.randn(samples, len(theta), generator=generator, dtype=torch.float64)

    def rises(size, positions):
        seen.append((size, positions))
        found = [
            0.5 * (landscape.value(theta + size * noise[i]) + landscape.value(theta - size * noise[i]))
            for i in positions
        ]
        return torch.tensor(found, dtype=torch.float64) - base

    return rises


# ---- means of samples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "attention"])
@pytest.mark.parametrize("start", [1e-3, 3.0])
def test_the_crossing_of_a_mean_is_that_of_a_fine_grid_and_takes_few_evaluations(name, start):
    seen, samples = [], 12
    rises = mean_rises(landscape_of(name), samples, seen)
    found = sampled_crossing(rises, samples, 0.3, start, SPAN, TOLERANCE)
    assert sum(len(positions) for _, positions in seen) <= 4 * samples + 2 * 13
    assert len({size for size, positions in seen if positions.stop == samples}) == found.trials <= 4
    grid = [found.value * math.exp(0.0005 * k) for k in range(-20, 21)]
    values = [float(rises(size, range(samples)).mean()) for size in grid]
    above = next(k for k, value in enumerate(values) if value > 0.3)
    assert above > 0
    assert found.value == pytest.approx(grid[above], rel=0.005)


def test_a_mean_that_jumps_is_narrowed_to_the_tolerance():
    def rises(size, positions):
        return torch.tensor([float(size > 0.7)] * len(positions))

    found = sampled_crossing(rises, 20, 0.1, 40.0, 1e6, 1e-3)
    assert found.value == pytest.approx(0.7, rel=1e-3)


def test_few_samples_that_pass_nothing_leave_the_search_to_all():
    slopes = torch.tensor([0.0, 0.0, *[1.0] * 8], dtype=torch.float64)

    def rises(size, positions):
        return (slopes * min(size, 3.0))[positions.start : positions.stop]

    assert sampled_crossing(rises, 10, 0.4, 0.01, 1e6, 0.01).value == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(NotDefined, match=r"does not reach 2\.5 up to size 10: it is 2\.4 at most"):
        sampled_crossing(rises, 10, 2.5, 1.0, 10.0, 0.01)


def test_samples_that_rise_apart_have_the_error_of_the_mean_slope():
    slopes = torch.rand(40, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.5

    def rises(size, positions):
        return slopes[positions.start : positions.stop] * size**2

    found = sampled_crossing(rises, 40, 1.0, 0.1, 1e6, 0.01)
    expected = 0.5 * float(slopes.std() / slopes.mean()) / 40**0.5
    assert found.value == pytest.approx(float(slopes.mean()) ** -0.5, rel=1e-4)
    assert found.log_error == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("start", [0.3, 0.9, 1.05, 4.0])
def test_from_a_guess_few_sizes_are_tried(power, start):
    found = crossing(lambda r: torch.tensor([r**power]), 1.0, start, 1e6, 1e-3, near=True)
    assert found.value == pytest.approx(1.0, rel=1e-4)
    assert found.trials <= 6


def test_a_guess_that_leads_nowhere_is_given_up():
    found = crossing(lambda r: torch.tensor([float(r > 1e4)]), 0.5, 1.0, 1e6, 1e-3, near=True)
    assert found.value == pytest.approx(1e4, rel=1e-3)
    with pytest.raises(AlreadyPassed, match="smallest size tried"):
        crossing(lambda r: torch.tensor([2.0 + r]), 1.0, 1.0, 1e3, 1e-3, near=True)


@pytest.mark.parametrize("kept", [2**28, 8 * 5 * 4 - 1])
def test_directions_are_the_same_whether_kept_or_drawn_again(kept, monkeypatch):
    monkeypatch.setattr(directions_module, "KEPT", kept)
    generator = torch.Generator().manual_seed(3)
    expected = [torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(4)]
    drawn = []

    def draw(generator):
        drawn.append(1)
        return torch.randn(5, generator=generator, dtype=torch.float64)

    found = FixedDirections(draw, 3, 4)
    for positions in (range(2), range(2, 4), range(1), range(4), range(3, 4)):
        assert torch.equal(
            torch.stack(list(found.some(positions))), torch.stack(expected[positions.start : positions.stop])
        )
    assert (len(drawn) == 4) is (kept == 2**28)


# ---- worst cases -----------------------------------------------------------------------------------------------


def shapes_of(landscape, norm, error):
    theta = landscape.theta()

    def scale(size):
        return torch.full_like(theta, size)

    measured = ErrorRate(landscape) if error else landscape.value
    return Boxes(landscape, scale, norm, landscape.value_and_gradient(), measured, measured(theta))


def by_whole_ascents(shapes, level, start):
    """The crossing by an ascent from the gradient at every size, and how many gradients that takes."""
    gradients = []

    def rise(size):
        generator = torch.Generator().manual_seed(0)
        best = maximise(
            shapes.surface(size), 1.0, STEPS, 1, generator, norm=shapes.norm, origin=shapes.origin(size)
        )
        gradients.append(best.gradients)
        return torch.tensor([shapes.rise(size, best.perturbation)], dtype=torch.float64)

    return crossing(rise, level, start, SPAN, TOLERANCE), sum(gradients)


@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "attention"])
@pytest.mark.parametrize(("norm", "error"), [("l2", False), ("linf", False), ("linf", True)])
def test_followed_directions_are_no_worse_than_whole_ascents_at_every_size_and_take_less(name, norm, error):
    landscape = landscape_of(name)
    if error:  # classes that the network gives itself, so that the error may rise
        with torch.no_grad():
            targets = landscape.model(landscape.inputs).argmax(1)
        landscape = Landscape(landscape.model, landscape.inputs, targets, "cross_entropy")
    shapes, level = shapes_of(landscape, norm, error), 0.2
    search = LeastPerturbation(shapes, STEPS, level, 0.01, SPAN, TOLERANCE, "the rise")
    found = search.search()
    whole, gradients = by_whole_ascents(shapes, level, 0.01)
    assert found.value <= whole.value * (1 + TOLERANCE)
    assert search.gradients <= 60
    assert search.gradients < gradients
    # No ascent from the gradient reaches the level a percent below.
    low = 0.99 * found.value
    generator = torch.Generator().manual_seed(0)
    best = maximise(shapes.surface(low), 1.0, STEPS, 1, generator, norm=norm, origin=shapes.origin(low))
    assert shapes.rise(low, best.perturbation) <= level


class Product(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a, dtype=torch.float64))
        self.b = nn.Parameter(torch.tensor(b, dtype=torch.float64))

    def forward(self, x):
        return self.a * self.b * x


@pytest.mark.parametrize(("a", "b"), [(1.5, 0.4), (0.2, 3.0), (2.0, 0.5)])
@pytest.mark.parametrize("level", [0.01, 0.5])
def test_the_least_radius_of_a_product_by_brute_force(a, b, level):
    """0.5 (ab - 1)^2; at (2, 0.5) the gradient vanishes, and every radius gets an ascent."""
    one = torch.ones(1, 1, dtype=torch.float64)
    landscape = Landscape(Product(a, b), one, one, "mse")
    angles = torch.linspace(0, 2 * math.pi, 4001, dtype=torch.float64)
    radii = torch.exp(torch.linspace(math.log(1e-3), math.log(3.0), 8001, dtype=torch.float64))[:, None]
    values = 0.5 * ((a + radii * angles.cos()) * (b + radii * angles.sin()) - 1) ** 2
    risen = (values.max(1).values - 0.5 * (a * b - 1) ** 2) > level
    expected = float(radii[int(risen.nonzero()[0])])
    search = LeastPerturbation(
        shapes_of(landscape, "l2", False), 40, level, 0.05, SPAN, TOLERANCE, "the rise of the loss"
    )
    assert search.search().value == pytest.approx(expected, rel=0.006)


def test_a_level_that_is_passed_at_the_smallest_size_takes_no_ascent():
    landscape = landscape_of("relu")
    plain = shapes_of(landscape, "linf", False)
    shapes = Boxes(
        landscape, lambda size: torch.tensor(1.0 + size), "linf", plain.known, landscape.value, plain.base
    )
    search = LeastPerturbation(shapes, STEPS, 1e-3, 0.01, SPAN, TOLERANCE, "the rise")
    with pytest.raises(AlreadyPassed):
        search.search()
    assert search.gradients == 0
