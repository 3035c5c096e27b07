"""Projections by direct solves: the parts that they are made of, against the same by dense linear algebra."""

import pytest
import torch

from benchmark.symmetry import zoo
from gapbench.symmetry import find, sparse_tangents
from gapbench.symmetry.detection.records import Slot, Space
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.mixing_solver import mixing_solver
from gapbench.symmetry.mixing_tangents import MixingTangents
from gapbench.symmetry.projection import SPARSE, Projector
from gapbench.symmetry.sparse_tangents import SparseTangents


def _normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(scope="module", params=sorted(zoo.zoo()))
def symmetry(request):
    network = zoo.build(request.param)
    with torch.no_grad():
        for i, p in enumerate(network.parameters()):  # gains that differ, shifts that are not zero
            p.add_(0.2 * _normal(*p.shape, seed=i).to(p.dtype))
    return find(network, zoo.inputs(request.param, 2))


def _joint(groups, d, device):
    """T of several groups by the definition of each."""
    columns = [
        g.tangent(row) for g in groups for row in torch.eye(g.size, dtype=torch.float64, device=device)
    ]
    return torch.stack(columns, dim=1) if columns else torch.zeros(d, 0, dtype=torch.float64)


def test_tangents_of_all_groups_at_once_are_those_of_each(symmetry):
    theta = symmetry.bound.theta
    d, device = len(theta), theta.device
    groups = [g for g in symmetry.bound.all() if g.size]
    sparse = [g for g in groups if isinstance(g, SPARSE)]
    mixings = [g for g in groups if isinstance(g, Mixing)]
    for together, parts in (
        (SparseTangents(sparse, d, device), sparse),
        (MixingTangents(mixings, d, device), mixings),
    ):
        expected = _joint(parts, d, device)
        assert together.size == expected.shape[1]
        if not together.size:
            continue
        c, z = _normal(together.size), _normal(d, seed=1)
        out = torch.ones(d, dtype=torch.float64)
        together.add_to(out, c)
        assert (out - 1.0 - expected @ c).norm() <= 1e-12 * (expected.norm() * c.norm())
        assert (together.cotangent(z) - expected.T @ z).norm() <= 1e-12 * (expected.norm() * z.norm())


@pytest.mark.parametrize("way", ["listed", "layer by layer", "null directions iterated"])
def test_every_way_to_project_is_the_dense_one(symmetry, way, monkeypatch):
    if way != "listed":
        monkeypatch.setattr(sparse_tangents, "LARGEST_FACTORED", 0)
    if way == "null directions iterated":
        monkeypatch.setattr(sparse_tangents, "LISTED", 0)
    d, device = len(symmetry.bound.theta), symmetry.bound.theta.device
    projector = Projector(symmetry.bound.all(), d, device, dense=False)
    z = _normal(d, seed=2)
    found = projector.project(z)
    tangents = _joint([g for g in symmetry.bound.all() if g.size], d, device)
    if tangents.shape[1]:
        left, values, _ = torch.linalg.svd(
            tangents / tangents.norm(dim=0).clamp_min(1e-300), full_matrices=False
        )
        basis = left[:, values > 1e-9 * values[0]]
        dense = z - basis @ (basis.T @ z)
    else:
        dense = z
    assert (found.vector - dense).norm() <= 1e-8 * z.norm()
    assert found.residual <= 2e-10
    assert found.vector.norm() <= z.norm() * (1 + 1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sylvester_equation_of_a_pair_of_layers_is_solved_exactly(weighted):
    n, before, after = 5, 7, 9
    theta = torch.cat([_normal(n * before), _normal(n * after, seed=1), 1.5 + _normal(n, seed=2).tanh()])
    at = torch.arange(len(theta)).numpy()
    writer, reader = at[: n * before].reshape(n, before), at[n * before : -n].reshape(n, after)
    gain = at[-n:].reshape(n, 1) if weighted else None
    slots = (Slot(writer, False, gain), Slot(reader, True))
    mixings = [Mixing(theta, Space("mixing", "", "gl", at[:n], slots)) for _ in range(2)]
    solve = mixing_solver(mixings, theta.device)
    tangents = _joint([mixings[0]], len(theta), theta.device)
    right = _normal(2 * n * n, seed=3)
    exact = torch.cat([torch.linalg.solve(tangents.T @ tangents, r) for r in right.split(n * n)])
    assert (solve(right) - exact).norm() <= 1e-9 * exact.norm()


def test_mixings_that_meet_null_directions_need_few_iterations():
    found = find(zoo.build("vit cls 2"), zoo.inputs("vit cls 2", 2))
    d = len(found.bound.theta)
    projector = Projector(found.bound.all(), d, torch.device("cpu"), dense=False)
    assert max(projector.project(_normal(d, seed=i)).iterations for i in range(3)) <= 60
