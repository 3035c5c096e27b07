"""What is found against the null space of the Jacobian, and the projection against dense linear algebra."""

import itertools

import pytest
import torch
from torch import nn

import gapbench
from benchmark.symmetry import zoo
from gapbench.symmetry import find
from gapbench.symmetry.orbit import kinds
from gapbench.symmetry.projection import Projector

# Networks where more directions leave the function alone than the detected group has, and why.
MISSING = {
    "flat tied": "a layer used twice blocks what touches it",
    "flat post norm": "transvections of a stream that a normalisation and a linear layer read",
    "vit post": "transvections of a stream that a normalisation and a linear layer read",
    "vit cls 1": "the class token's query does not depend on the input",
    "mobilenet relu": "units that no input of the sample switches on or off",
    "se silu": "the gate of channels that no input of the sample switches",
    "resnet": "units that no input of the sample switches",
    "padded after norm": "shifts of a normalisation's output taken up by its reader's null direction (4)",
    "joined after norm": "the same (4), and rotations that turn learnt tokens along (3)",
    "densenet": "units that no input of the sample switches",
}
SEEDS = 6


@pytest.fixture(scope="module", params=sorted(zoo.zoo()))
def case(request):
    network = zoo.build(request.param)
    return request.param, network, find(network, zoo.inputs(request.param, 2))


def test_tangents_lie_in_the_null_space_and_their_number_is_its_dimension(case):
    name, network, symmetry = case
    jacobian = zoo.jacobian(network, zoo.inputs(name, 40))
    if symmetry.projector.size:
        tangents = symmetry.projector.columns()
        assert (jacobian @ tangents).norm() <= 1e-13 * jacobian.norm() * tangents.norm()
    missing = []
    for seed in range(SEEDS if name not in MISSING else 1):
        other = zoo.build(name, seed)
        found = find(other, zoo.inputs(name, 2))
        null, _ = zoo.null_dimension(name, other)
        missing.append(null - found.dimension)
        assert missing[-1] >= 0
        if missing[-1] == 0:
            break
    if name not in MISSING:
        assert min(missing) == 0


def test_the_sizes_of_the_families_add_up_to_the_rank(case):
    _, _, symmetry = case
    assert sum(f.size for f in symmetry.families) == symmetry.dimension
    structural = sum(f.size for f in symmetry.families if not f.kind.startswith("dependences"))
    assert structural == symmetry.dimension


def test_certificate(case):
    _, _, symmetry = case
    assert symmetry.certificate.error <= 1e-11
    assert not symmetry.dropped
    assert all(moved > 1e-3 for moved in symmetry.certificate.moved.values())


def test_the_projection_is_the_dense_one(case):
    _, _, symmetry = case
    d = len(symmetry.bound.theta)
    z = torch.randn(d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    if not symmetry.dimension:
        assert torch.equal(symmetry.project(z), z)
        return
    left, values, _ = torch.linalg.svd(symmetry.projector.columns(), full_matrices=False)
    basis = left[:, values > 1e-10 * values[0]]
    dense = z - basis @ (basis.T @ z)
    iterative = Projector(symmetry.bound.all(), d, z.device, dense=False)
    for found in (symmetry.project(z), iterative.project(z).vector):
        assert (found - dense).norm() <= 1e-8 * z.norm()
    # Idempotent and symmetric.
    other = torch.randn(d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    once = iterative.project(z).vector
    assert (iterative.project(once).vector - once).norm() <= 1e-8 * z.norm()
    assert float(once @ other) == pytest.approx(float(z @ iterative.project(other).vector), abs=1e-8 * d)


def test_the_share_that_is_left_is_the_horizontal_one(case):
    _, _, symmetry = case
    d, k = len(symmetry.bound.theta), symmetry.dimension
    z = torch.randn(400, d, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    shares = torch.stack([symmetry.project(row).pow(2).sum() / row.pow(2).sum() for row in z])
    spread = float(shares.std()) / 20 + 1e-12
    assert abs(float(shares.mean()) - (d - k) / d) <= 5 * spread


def test_the_gradient_is_horizontal(case):
    name, network, symmetry = case
    x = zoo.inputs(name, 12)
    y = torch.randint(0, 3, (12,), generator=torch.Generator().manual_seed(4))
    context_loss = nn.functional.cross_entropy(network(x), y)
    gradient = torch.cat(
        [g.reshape(-1) for g in torch.autograd.grad(context_loss, list(network.parameters()))]
    )
    assert (symmetry.project(gradient) - gradient).norm() <= 1e-10 * gradient.norm()


def test_transformations_leave_the_function_alone_and_move_the_parameters(case):
    name, network, symmetry = case
    x = zoo.inputs(name, 6, seed=9)
    with torch.no_grad():
        before = network(x)
        for kind in kinds(symmetry):
            other = symmetry.transform(3, 0.6, [kind])
            assert (other(x) - before).abs().max() <= 1e-11 * before.abs().max()
            moved = sum(float((p - q).norm()) for p, q in zip(other.parameters(), network.parameters()))
            assert moved > 1e-3


def test_tangents_are_the_derivatives_of_the_transformations(case):
    _, _, symmetry = case
    bound, step = symmetry.bound, 1e-6
    generator = torch.Generator().manual_seed(0)
    for family in [bound.rescaling, *bound.writer_nulls, *bound.reader_nulls, *bound.mixings]:
        if not family.size:
            continue
        c = torch.randn(family.size, generator=generator, dtype=torch.float64)
        forward, back = (family.finite(bound.theta, s * step * c) for s in (1, -1))
        tangent = family.tangent(c)
        assert ((forward - back) / (2 * step) - tangent).norm() <= 1e-6 * tangent.norm()
        z = torch.randn(len(bound.theta), generator=generator, dtype=torch.float64)
        assert float(z @ tangent) == pytest.approx(float(family.cotangent(z) @ c), rel=1e-10, abs=1e-10)


def test_logit_shift_is_found_only_where_it_is_asked_for():
    network = zoo.build("flat mlp relu")
    x = zoo.inputs("flat mlp relu", 2)
    with_shift = find(network, x, logit_shift=True)
    assert with_shift.dimension == find(network, x).dimension + 7 + 1
    other = with_shift.transform(0, 0.5)
    difference = other(x) - network(x)
    assert difference.abs().max() > 1e-3
    assert (difference - difference[:, :1]).abs().max() < 1e-12


@pytest.mark.parametrize("widths", [(3, 10, 2), (20, 64, 64, 2), (5, 9, 8, 7, 4)])
def test_wide_deep_linear_networks(widths):
    torch.manual_seed(0)
    layers = [nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths)]
    network = nn.Sequential(*layers).double()
    x = torch.randn(2, widths[0], dtype=torch.float64)
    found = find(network, x)
    # The function is the product of rank r: the fibre at a generic point has dimension d - r (n + p - r).
    d, rank = sum(p.numel() for p in network.parameters()), min(widths)
    fibre = d - rank * (widths[0] + widths[-1] - rank)
    assert found.dimension <= fibre
    if len(widths) == 3:
        assert found.dimension == 44
    if widths[1] == 64:
        projector = Projector(found.bound.all(), d, x.device, dense=False)
        z = torch.randn(200, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        shares = torch.stack([projector.project(row).vector.pow(2).sum() / row.pow(2).sum() for row in z])
        assert abs(float(shares.mean()) - (d - found.dimension) / d) <= 5 * float(shares.std()) / 200**0.5


@pytest.mark.parametrize("widths", [(3, 10, 2), (12, 30, 30, 2), (5, 9, 8, 7, 4), (9, 4, 8)])
def test_chains_of_linear_layers_are_projected_in_closed_form(widths):
    torch.manual_seed(0)
    layers = [nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths)]
    found = find(nn.Sequential(*layers).double(), torch.randn(2, widths[0], dtype=torch.float64))
    d, families = len(found.bound.theta), found.bound.all()
    closed = Projector(families, d, torch.device("cpu"), dense=False, dimension=found.dimension)
    assert closed._chain is not None
    z = torch.randn(d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    dense = Projector(families, d, torch.device("cpu"), dense=True).project(z).vector
    assert (closed.project(z).vector - dense).norm() <= 1e-9 * z.norm()


@pytest.mark.parametrize("widths", [(6, 9, 5), (6, 5, 3, 5, 6)])
def test_chains_whose_fibre_is_larger_than_the_orbit_are_not_projected_in_closed_form(widths):
    torch.manual_seed(0)
    network = nn.Sequential(*[nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths)]).double()
    if len(widths) == 3:  # lost rank; the other has channels that nothing tells apart behind its bottleneck
        with torch.no_grad():
            network[0].weight[:, 3:] = network[0].weight[:, :3]
    found = find(network, torch.randn(2, 6, dtype=torch.float64))
    d, families = len(found.bound.theta), found.bound.all()
    projector = Projector(families, d, torch.device("cpu"), dense=False, dimension=found.dimension)
    z = torch.randn(d, dtype=torch.float64)
    dense = Projector(families, d, torch.device("cpu"), dense=True).project(z).vector
    assert (projector.project(z).vector - dense).norm() <= 1e-8 * z.norm()


def test_unknown_operators_block_what_touches_them():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.c(torch.relu(self.b(torch.cumprod(torch.relu(self.a(x.flatten(1))), dim=1))))

    torch.manual_seed(0)
    network = Odd().double()
    found = find(network, torch.randn(2, 1, 2, 2, dtype=torch.float64))
    assert found.dimension == 5  # the units of b alone
    assert "cumprod" in found.uncovered


def test_a_wrong_family_is_dropped_and_reported(monkeypatch):
    from gapbench.symmetry.operators import HANDLERS, pointwise

    monkeypatch.setitem(HANDLERS, "gelu", pointwise.relu_like)
    found = find(zoo.build("flat mlp gelu"), zoo.inputs("flat mlp gelu", 2))
    assert found.dimension == 0
    assert found.dropped == ["rescaling of units"]
    assert found.certificate.error <= 1e-11


@pytest.mark.parametrize(
    ("name", "scales", "shifts"), [("torchvision/resnet18", 7680, 896), ("plain/mlp", None, None)]
)
def test_known_dimensions(name, scales, shifts):
    if name == "plain/mlp":
        network = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
        assert find(network, torch.randn(2, 1, 28, 28)).dimension == 1024
        return
    # The table's network has a 7 x 7 stem; channels, not kernels, decide.
    network = gapbench.build_model(name, width=0.25, input_shape=(3, 32, 32), num_classes=10, seed=0)
    found = find(network, torch.randn(2, 3, 32, 32))
    kinds_found = found.kinds()
    assert kinds_found["shift around batch normalisations"] == shifts // 4
    assert found.dimension == (scales + shifts) // 4
