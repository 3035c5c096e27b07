"""The Hessians of other packages on a network of ten parameters: where they agree, and where not, who is right."""

import contextlib
import io

import pytest
import torch
from curvlinops import HessianLinearOperator
from pyhessian import hessian
from torch import nn
from torch.func import functional_call

from gapbench.measures import hessian_top_eigenvalue, hessian_trace

INPUTS = torch.tensor([[1.0, -0.5], [0.3, 0.8], [-0.7, 0.2], [0.9, 1.1], [-1.2, -0.4]], dtype=torch.float64)


def network(scale):
    """Ten parameters, drawn once."""
    made = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2, bias=False)).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(scale * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    assert sum(p.numel() for p in made.parameters()) == 10
    return made.eval()


def targets(made, wrong):
    """The classes that it predicts, or the others."""
    found = made(INPUTS).argmax(1)
    return 1 - found if wrong else found


def dense(made, labels):
    """The Hessian (10, 10), by differentiating twice."""
    sizes = [p.numel() for p in made.parameters()]
    names = [name for name, _ in made.named_parameters()]
    shapes = [p.shape for p in made.parameters()]

    def loss(theta):
        parts = zip(names, theta.split(sizes), shapes, strict=True)
        outputs = functional_call(made, {name: part.reshape(shape) for name, part, shape in parts}, (INPUTS,))
        return nn.functional.cross_entropy(outputs, labels)

    theta = torch.cat([p.detach().reshape(-1) for p in made.parameters()])
    return torch.func.hessian(loss)(theta)


@pytest.fixture(scope="module", params=[False, True], ids=["right labels", "wrong labels"])
def case(request):
    made = network(0.8)
    labels = targets(made, request.param)
    return made, labels, dense(made, labels)


def test_curvlinops_has_the_same_hessian(case):
    made, labels, expected = case
    parameters = list(made.parameters())
    operator = HessianLinearOperator(
        made, nn.CrossEntropyLoss(), parameters, [(INPUTS, labels)], check_deterministic=False
    )
    found = operator @ torch.eye(10, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert hessian_trace(made, INPUTS, labels) == pytest.approx(float(found.trace()), rel=1e-10)
    top = float(torch.linalg.eigvalsh(found)[-1])
    assert hessian_top_eigenvalue(made, INPUTS, labels) == pytest.approx(top, rel=1e-8)


def peer(made, labels):
    return hessian(made, nn.CrossEntropyLoss(), data=(INPUTS, labels), cuda=False)


def quietly(work):
    with contextlib.redirect_stdout(io.StringIO()):
        return work()


def test_pyhessian_finds_the_eigenvalue_of_largest_size_and_we_the_largest(case):
    """Where the largest in size is negative the two are different numbers, by definition."""
    made, labels, expected = case
    values = torch.linalg.eigvalsh(expected)
    torch.manual_seed(0)
    theirs = quietly(lambda: peer(made, labels).eigenvalues(maxIter=2000, tol=1e-10)[0][0])
    largest = float(values[values.abs().argmax()])
    assert theirs == pytest.approx(largest, rel=1e-4)
    assert hessian_top_eigenvalue(made, INPUTS, labels) == pytest.approx(float(values[-1]), rel=1e-8)


def test_the_largest_eigenvalue_is_not_that_of_largest_size_where_a_negative_one_is_larger():
    made = network(1.5)
    labels = targets(made, wrong=True)
    values = torch.linalg.eigvalsh(dense(made, labels))
    assert -values[0] > values[-1] > 0
    torch.manual_seed(0)
    theirs = quietly(lambda: peer(made, labels).eigenvalues(maxIter=5000, tol=1e-12)[0][0])
    assert theirs == pytest.approx(float(values[0]), rel=1e-3)
    assert hessian_top_eigenvalue(made, INPUTS, labels) == pytest.approx(float(values[-1]), rel=1e-8)


def test_the_trace_of_pyhessian_ends_far_from_the_trace(case):
    """It stops where the mean moves by less than a part in a thousand, which is no bound of its error."""
    made, labels, expected = case
    trace = float(expected.trace())
    assert hessian_trace(made, INPUTS, labels) == pytest.approx(trace, rel=1e-10)
    errors = []
    for seed in range(20):
        torch.manual_seed(seed)
        draws = quietly(lambda: peer(made, labels).trace(maxIter=100, tol=1e-3))
        errors.append(abs(sum(draws) / len(draws) / trace - 1))
    assert sorted(errors)[10] > 10 * 1e-3
