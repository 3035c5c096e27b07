"""What keeps the search for symmetries small on large networks, and that it changes nothing."""

import pytest
import torch

import gapbench
from benchmark.symmetry import zoo
from gapbench.symmetry import certificate, find
from gapbench.symmetry.parameters import flat_parameters
from gapbench.symmetry.structure import Span, place, stored


def test_positions_are_listed_only_where_they_are_not_consecutive():
    consecutive = torch.arange(5, 29).reshape(1, 4, 3, 2).numpy()
    span = stored(consecutive)
    assert isinstance(span, Span)
    assert (span.positions() == consecutive).all()
    for other in (consecutive[..., ::-1], consecutive.transpose(0, 2, 1, 3), consecutive[:, ::2]):
        assert stored(other) is other
        assert not isinstance(place(other), slice)


def test_weights_of_a_whole_network_are_held_as_spans():
    network = gapbench.build_model("torchvision/vgg11_bn", 0.125, (3, 32, 32), 10, seed=0)
    found = find(network, torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    theta = found.bound.theta.numpy()
    for use in found.findings.linear:
        assert isinstance(use.stored, Span)
        assert (use.values(theta) == theta[use.weight]).all()
        assert use.shape == use.weight.shape


@pytest.mark.parametrize("name", ["cnn bn", "vit cls 1", "convnext"])
def test_trial_points_give_back_the_memory_of_the_parameters_as_it_was(name):
    network = zoo.build(name)
    before = [p.detach().clone() for p in network.parameters()]
    found = find(network, zoo.inputs(name, 2))
    theta = found.bound.theta.clone()
    assert torch.equal(theta, flat_parameters(network))
    for point in certificate.points(found, 0):
        assert torch.equal(flat_parameters(point.orbit.network), point.orbit.bound.theta)
        break  # and the generator is closed before its end
    found.certify(1)
    assert torch.equal(found.bound.theta, theta)
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), before))


def test_groups_of_a_network_that_was_trained_on_meanwhile_stay_where_they_were_found():
    network = zoo.build("cnn bn")
    found = find(network, zoo.inputs("cnn bn", 2))
    theta = found.bound.theta.clone()
    with torch.no_grad():
        next(network.parameters()).mul_(1.5)
    found.certify(1)
    assert torch.equal(found.bound.theta, theta)
