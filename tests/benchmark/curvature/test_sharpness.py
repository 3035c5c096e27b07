import copy
import math

import pytest
import torch
from torch import nn

import gapbench
from benchmark.small_networks import data, networks
from gapbench.curvature import averages
from gapbench.curvature.averages import average, controlled, independent, on_spheres
from gapbench.curvature.loss import Landscape
from gapbench.curvature.sharpness import identity, improve, maximise
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import checked_options, proxy_entry

NETWORKS = networks()


class Product(nn.Module):
    """f(x) = a b x, so that with x = y = 1 the loss is 0.5 (ab - 1)^2."""

    def __init__(self, a, b):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(float(a), dtype=torch.float64))
        self.b = nn.Parameter(torch.tensor(float(b), dtype=torch.float64))

    def forward(self, x):
        return self.a * self.b * x


def product_landscape(a, b):
    one = torch.ones(1, 1, dtype=torch.float64)
    return Landscape(Product(a, b), one, one, "mse")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 0.5), (0.2, 5.0), (1.5, 0.4)])
@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_maximum_of_the_product_by_brute_force(a, b, radius):
    angles = torch.linspace(0, 2 * math.pi, 200_001, dtype=torch.float64)
    values = 0.5 * ((a + radius * angles.cos()) * (b + radius * angles.sin()) - 1) ** 2
    expected = float(values.max()) - 0.5 * (a * b - 1) ** 2
    found = maximise(product_landscape(a, b), radius, 60, 6, generator())
    assert found.value == pytest.approx(expected, rel=1e-8)
    assert float(found.perturbation.norm()) <= radius * (1 + 1e-12)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_value_is_attained_inside_the_ball_and_grows_with_radius_and_effort(name):
    network, shape = NETWORKS[name]
    landscape = Landscape(network, *data(shape, "cross_entropy"), "cross_entropy")
    theta, base = landscape.theta(), landscape.value()
    values = []
    for radius in (0.05, 0.2, 0.5):
        found = maximise(landscape, radius, 20, 2, generator())
        assert float(found.perturbation.norm()) <= radius * (1 + 1e-9)
        assert landscape.value(theta + found.perturbation) - base == pytest.approx(found.value, rel=1e-9)
        assert 0 <= found.halfway <= found.value
        values.append(found.value)
        warm = maximise(landscape, radius, 5, 1, generator(), warm_starts=(found.perturbation,))
        assert warm.value >= found.value * (1 - 1e-12)
    assert values == sorted(values)


def test_first_order_limit_is_radius_times_gradient_norm():
    network, shape = NETWORKS["gelu"]
    landscape = Landscape(network, *data(shape, "cross_entropy"), "cross_entropy")
    norm = float(landscape.value_and_gradient()[1].norm())
    found = maximise(landscape, 1e-5, 10, 1, generator())
    assert found.value == pytest.approx(1e-5 * norm, rel=1e-4)


def test_at_a_critical_point_random_starts_find_the_top_of_the_bowl():
    landscape = product_landscape(2.0, 0.5)  # gradient exactly zero
    found = maximise(landscape, 1e-3, 40, 3, generator())
    assert found.value == pytest.approx(0.5 * 1e-6 * 4.25, rel=1e-2)


def test_projection_restricts_the_ball():
    landscape = product_landscape(2.0, 0.5)
    horizontal = torch.tensor([0.5, 2.0], dtype=torch.float64) / math.sqrt(4.25)
    found = maximise(landscape, 0.3, 40, 3, generator(), projection=lambda v: horizontal * (horizontal @ v))
    # Along b/r, a/r: product 1 + eps r + eps^2 / r^2 with r^2 = a^2 + b^2.
    r = math.sqrt(4.25)
    assert found.value == pytest.approx((0.3 * r + 0.09 / r**2) ** 2 / 2, rel=1e-9)


def test_average_of_the_product_in_closed_form():
    """(eps^2 r^2 / 2 + eps^4 / 8) / 2 on the sphere (a circle here), for ab = 1."""
    found = average(product_landscape(2.0, 0.5), 0.3, 4000, generator())
    expected = (0.09 * 4.25 / 2 + 0.3**4 / 8) / 2
    assert abs(found.value - expected) < 4 * found.standard_error
    assert found.standard_error < 0.02 * expected


def test_average_tends_to_the_trace_and_antithetic_pairs_cancel_the_gradient():
    network, shape = NETWORKS["gelu"]
    inputs, targets = data(shape, "cross_entropy")
    landscape = Landscape(network, inputs, targets, "cross_entropy")
    trace = gapbench.measure("hessian_trace", network, inputs, targets).value
    found = average(landscape, 1e-3, 2000, generator())
    expected = 1e-6 / (2 * landscape.dimension) * trace
    assert abs(found.value - expected) < 4 * found.standard_error
    # Without cancelling, the gradient alone would spread the values by 1e-3 |g| / sqrt(d).
    spread = 1e-3 * float(landscape.value_and_gradient()[1].norm()) / math.sqrt(landscape.dimension)
    assert found.standard_error < spread / math.sqrt(2000) / 5


def test_proxies_report_effort_and_refuse_wrong_options():
    network, shape = NETWORKS["relu"]
    inputs, targets = data(shape, "cross_entropy")
    found = gapbench.measure("sharpness_full", network, inputs, targets, radius=0.1, steps=10, restarts=2)
    assert found.details["steps"] == 10
    assert found.details["restarts"] == 2
    assert 0 <= found.details["gain_from_doubling"] < 1
    assert len(found.details["ascents"]) == 3  # the third from the maximiser of the quotient
    for options, word in (
        ({"relative_radius": -0.1}, "relative_radius"),
        ({"radius": 0.0}, "radius"),
        ({"steps": 0}, "steps"),
    ):
        failed = gapbench.measure("sharpness_full", network, inputs, targets, **options)
        assert failed.status == "failed"
        assert word in failed.reason
        assert failed.value is None


RELATED = [
    ("sharpness_full", "sharpness_quotient"),
    ("sharpness_full_balanced", "sharpness_quotient_balanced"),
    ("sharpness_adaptive", "sharpness_adaptive_quotient"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "attention", "scaled"])
@pytest.mark.parametrize(("full", "quotient"), RELATED)
def test_both_spaces_are_searched_alike_and_in_any_order(name, full, quotient):
    network, shape = NETWORKS[name]
    inputs, targets = data(shape, "cross_entropy")
    for options in ({"radius": 0.3}, {"radius": 1.0, "steps": 3, "restarts": 3}):
        found = {}
        for order in ((full, quotient), (quotient, full)):
            context = make_context(network, inputs, targets)
            context._cache["ascent_seed"] = 5
            for seed, proxy in enumerate(order):  # each proxy has a seed of its own, as in a suite
                entry = proxy_entry(proxy)
                one = measure_in(context, entry, checked_options(entry, options), seed)
                if one.status == "not_applicable":
                    pytest.skip(one.reason)
                found.setdefault(proxy, []).append(one)
        for first, second in found.values():
            assert first.value == second.value
        whole, part = found[full][0], found[quotient][0]
        assert part.value <= whole.value
        assert len(part.details["ascents"]) == len(whole.details["ascents"]) == options.get("restarts", 1) + 1
        steps, restarts = options.get("steps", 20), options.get("restarts", 1)
        most = restarts * (steps + 1) + -(-steps // 2) + 1
        assert max(one.details["gradients"] for one in (whole, part)) <= most
        for one in (whole, part):
            assert one.details["converged"] is (one.details["gain_from_doubling"] <= 0.05)


def test_the_quotient_is_not_less_than_where_the_full_maximiser_leads():
    for name in ("relu", "gelu", "conv_bn"):
        network, shape = NETWORKS[name]
        inputs, targets = data(shape, "cross_entropy")
        context = make_context(network, inputs, targets)
        landscape, project = context.landscape, context.symmetry.project
        own = maximise(landscape, 0.5, 6, 1, generator())
        start = project(own.perturbation)
        start = start * (0.5 / float(start.norm()))
        led = improve(landscape, 0.5, 3, start, project)
        found = gapbench.measure("sharpness_quotient", network, inputs, targets, radius=0.5, steps=6)
        assert found.value >= led.best[-1] * (1 - 1e-12)
        assert found.value >= maximise(landscape, 0.5, 6, 1, generator(), project).value * (1 - 1e-12)
        assert found.details["ascents"][-1] == pytest.approx(led.best[-1], rel=1e-12)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn"])
def test_twice_the_steps_go_on_from_where_half_of_them_end(name, norm):
    network, shape = NETWORKS[name]
    landscape = Landscape(network, *data(shape, "cross_entropy"), "cross_entropy")
    short, long = (maximise(landscape, 0.4, steps, 2, generator(), norm=norm) for steps in (6, 12))
    assert long.course[:7] == short.course
    assert long.halfway == short.value
    assert long.gain == pytest.approx(long.value / short.value - 1)


def test_maximum_over_a_disc_by_brute_force():
    """0.5 (ab - 1)^2 on a whole disc, on which it is neither convex nor concave."""
    landscape = product_landscape(0.3, 0.4)
    angles = torch.linspace(0, 2 * math.pi, 4001, dtype=torch.float64)
    radii = torch.linspace(0, 0.6, 601, dtype=torch.float64)[:, None]
    values = 0.5 * ((0.3 + radii * angles.cos()) * (0.4 + radii * angles.sin()) - 1) ** 2
    found = maximise(landscape, 0.6, 60, 4, generator())
    expected = float(values.max()) - 0.5 * (0.12 - 1) ** 2
    assert expected * (1 - 1e-6) <= found.value <= expected * (1 + 1e-5)


def test_an_interior_maximum_is_reached():
    class Hill:
        def theta(self):
            return torch.zeros(3, dtype=torch.float64)

        def value(self, theta=None):
            return self.value_and_gradient(theta)[0]

        def value_and_gradient(self, theta=None):
            top = torch.tensor([0.2, -0.1, 0.3], dtype=torch.float64)
            away = (self.theta() if theta is None else theta) - top
            return float(-away @ away), -2 * away

    for norm in ("l2", "linf"):
        found = maximise(Hill(), 1.0, 80, 1, generator(), norm=norm)
        assert found.value == pytest.approx(0.14, rel=1e-3)


def test_a_loss_that_is_not_finite_is_a_failure_not_a_flat_minimum():
    network, shape = NETWORKS["relu"]
    broken = copy.deepcopy(network)
    with torch.no_grad():
        next(broken.parameters())[0, 0] = math.nan
    inputs, targets = data(shape, "cross_entropy")
    for proxy in ("sharpness_full", "sharpness_average_full", "hessian_top_eigenvalue", "hessian_trace"):
        found = gapbench.measure(proxy, broken, inputs, targets)
        assert found.status == "failed"
        assert found.value is None


class Quadratic:
    """0.5 x' diag(curvatures) x + slopes . x, counting its gradients."""

    def __init__(self, curvatures, slopes):
        self.curvatures = torch.tensor(curvatures, dtype=torch.float64)
        self.slopes = torch.tensor(slopes, dtype=torch.float64)
        self.gradients = 0

    def theta(self):
        return torch.zeros_like(self.slopes)

    def value(self, theta=None):
        x = self.theta() if theta is None else theta
        return float(0.5 * self.curvatures @ (x * x) + self.slopes @ x)

    def value_and_gradient(self, theta=None):
        self.gradients += 1
        x = self.theta() if theta is None else theta
        return self.value(x), self.curvatures * x + self.slopes


def test_ascents_end_where_they_have_arrived():
    surface = Quadratic([4.0, 1.0, 1.0], [0.5, 0.0, 0.0])
    found = maximise(surface, 0.5, 1000, 1, generator())
    assert found.value == pytest.approx(0.5 * 4.0 * 0.25 + 0.5 * 0.5, rel=1e-12)
    assert surface.gradients == found.gradients < 10
    assert len(found.course) == 1001


@pytest.mark.parametrize("aside", [1e-3, 1e-5])
def test_ascents_do_not_end_at_a_saddle_that_they_are_leaving(aside):
    """The gradient points almost along the lesser curvature, where the linearised loss promises almost nothing."""
    surface = Quadratic([8.0, 1.0], [aside, 1.0])
    found = maximise(surface, 1.0, 200, 1, generator())
    angles = torch.linspace(0, 2 * math.pi, 400_001, dtype=torch.float64)
    x = torch.stack([angles.cos(), angles.sin()])
    values = 0.5 * (surface.curvatures[:, None] * x * x).sum(0) + surface.slopes @ x
    assert found.value == pytest.approx(float(values.max()), rel=1e-8)


def _quadratic_control(d, left, projection):
    draw = torch.randn(3, d, generator=generator(3), dtype=torch.float64)
    basis = torch.linalg.qr(draw.T)[0].T
    form = torch.diag(torch.tensor([9.0, 4.0, 1.0], dtype=torch.float64))
    form[0, 1] = form[1, 0] = 1.5
    return on_spheres(basis, form, projection, left, torch.float64)


@pytest.mark.parametrize("horizontal", [False, True])
def test_the_control_variate_has_mean_zero_on_the_sphere(horizontal):
    d = 12
    kept = torch.linalg.qr(torch.randn(d, 7, generator=generator(4), dtype=torch.float64))[0]
    projection = (lambda v: kept @ (kept.T @ v)) if horizontal else identity
    known = _quadratic_control(d, 7 if horizontal else d, projection)
    projector = kept @ kept.T if horizontal else torch.eye(d, dtype=torch.float64)
    # E delta delta' = r^2 P / rank(P).
    whole = known.basis.T @ known.form @ known.basis
    assert known.mean == pytest.approx(0.5 * float(torch.trace(whole @ projector) / torch.trace(projector)))
    delta = projection(torch.randn(d, generator=generator(5), dtype=torch.float64))
    expected = 0.5 * float(delta @ whole @ delta) - known.mean * float(delta @ delta)
    assert known(delta, float(delta.norm())) == pytest.approx(expected)


@pytest.mark.parametrize("variance", [1.0, 1 / 3])
def test_the_control_variate_of_independent_entries_has_mean_zero(variance):
    basis = torch.randn(2, 5, generator=generator(3), dtype=torch.float64)
    form = torch.tensor([[3.0, 1.0], [1.0, -2.0]], dtype=torch.float64)
    known = independent(basis, form, variance)
    xi = torch.randn(100_000, 5, generator=generator(5), dtype=torch.float64)
    if variance < 1:
        xi = torch.rand(xi.shape, generator=generator(6), dtype=torch.float64) * 2 - 1
    delta = 0.3 * xi @ basis.T
    sampled = 0.5 * torch.einsum("ni,ij,nj->n", delta, form, delta)
    assert abs(float(sampled.mean()) - known.mean * 0.09) < 4 * float(sampled.std()) / len(xi) ** 0.5
    assert known(0.3 * xi[0], 0.3) == pytest.approx(float(sampled[0]) - known.mean * 0.09)


def test_a_controlled_mean_leaves_each_value_out_of_its_own_coefficient():
    y = torch.randn(9, generator=generator(1), dtype=torch.float64)
    c = torch.randn(9, generator=generator(2), dtype=torch.float64)
    parts = []
    for i in range(9):
        others = torch.arange(9) != i
        a, b = c[others] - c[others].mean(), y[others] - y[others].mean()
        parts.append(float(y[i] - (a @ b) / (a @ a) * c[i]))
    found = controlled(y, c)
    parts = torch.tensor(parts, dtype=torch.float64)
    assert found.value == pytest.approx(float(parts.mean()), rel=1e-12)
    assert found.standard_error == pytest.approx(float(parts.std()) / 3, rel=1e-12)


def test_controlled_means_have_no_bias_and_an_honest_error():
    """Dependence that no line fits: the mean of exp(z) over z ~ N(0, 1), with z^3 and few samples."""
    z = torch.randn(20_000, 10, generator=generator(7), dtype=torch.float64)
    found = [controlled(row.exp(), row**3) for row in z]
    means = torch.tensor([f.value for f in found], dtype=torch.float64)
    assert abs(float(means.mean()) - math.exp(0.5)) < 4 * float(means.std()) / len(means) ** 0.5
    linear = [controlled(3 * row + 1.0, row) for row in z[:50]]
    assert all(f.value == pytest.approx(1.0, rel=1e-9) and f.standard_error < 1e-9 for f in linear)


@pytest.mark.parametrize(
    "proxy", ["sharpness_average_full", "sharpness_average_quotient", "sharpness_average_adaptive"]
)
@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn"])
def test_control_variates_leave_the_average_and_lessen_its_error(name, proxy, monkeypatch):
    network, shape = NETWORKS[name]
    inputs, targets = data(shape, "cross_entropy")
    options = {"radius": 0.2}
    found = [
        gapbench.measure(proxy, network, inputs, targets, samples=20, seed=s, **options) for s in range(30)
    ]
    monkeypatch.setattr(averages, "FEWEST", 10**6)
    exact = gapbench.measure(proxy, network, inputs, targets, samples=4000, seed=100, **options)
    values = torch.tensor([f.value for f in found], dtype=torch.float64)
    error = float(values.std()) / len(values) ** 0.5
    assert abs(float(values.mean()) - exact.value) < 4 * (error + exact.standard_error)
    plain = exact.standard_error * (4000 / 20) ** 0.5
    typical = sum(f.standard_error for f in found) / len(found)
    assert typical < plain
    assert 0.6 < float(values.std()) / typical < 1.7
