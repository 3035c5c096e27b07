"""What `transform` and `balanced` return keeps the function at any parameters, or they refuse."""

import pytest
import torch
from torch import nn

import gapbench
from benchmark.symmetry import zoo
from benchmark.symmetry.siblings import siblings
from gapbench.symmetry import find
from gapbench.symmetry.canonical import CannotBalance
from gapbench_base.errors import GapbenchError

NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
# Networks with weights that are read as numbers: nothing moves them without changing the function.
READS_NUMBERS = {"largest weight as a number", "branch on a weight", "norm as a number"}


def fresh(network, x):
    """As its constructor left it."""


def generic(network, x):
    zoo.generic(network)


def trained(network, x):
    network.train()
    targets = torch.randint(0, 3, (len(x),))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(15):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), targets).backward()
        optimizer.step()


def affine(gain, shift):
    """A state in which gains and shifts are set by hand, in place."""

    def state(network, x):
        for module in network.modules():
            if isinstance(module, NORMALISATIONS) and module.weight is not None:
                gain(module.weight)
                if getattr(module, "bias", None) is not None:
                    shift(module.bias)

    return state


def one_zero(values):
    values[0] = 0.0


def zero_head(network, x):
    head = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
    for p in head.parameters():
        p.zero_()


def layers(change):
    def state(network, x):
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                change(module.weight)

    return state


STATES = {
    "fresh": fresh,
    "generic": generic,
    "trained": trained,
    "gains zero": affine(torch.Tensor.zero_, torch.Tensor.normal_),
    "shifts zero": affine(lambda w: w.uniform_(0.5, 1.5), torch.Tensor.zero_),
    "gains negative": affine(lambda w: w.uniform_(-1.5, -0.5), torch.Tensor.normal_),
    "gains and shifts repeated": affine(lambda w: w.fill_(0.7), lambda b: b.fill_(0.3)),
    "one gain zero": affine(one_zero, torch.Tensor.normal_),
    "gains tiny": affine(lambda w: w.mul_(1e-6), torch.Tensor.normal_),
    "head zero": zero_head,
    "a dead unit a layer": layers(lambda w: w[0].zero_()),
    "weights tiny": layers(lambda w: w.mul_(1e-6)),
    "rows the same": layers(lambda w: w.copy_(w[:1].expand_as(w).clone())),
    "all zero": lambda network, x: [p.zero_() for p in network.parameters()],
}
OFTEN = ("fresh", "generic", "trained")
NETWORKS = {
    **{name: (make, zoo.shape(name)) for name, make in zoo.zoo().items()},
    **{
        name: (make, (1, 4, 4) if name.startswith("image") else (1, 2, 2))
        for name, make in siblings().items()
    },
}


def test_there_are_networks_of_all_operator_kinds():
    assert len(NETWORKS) >= 60


def cases():
    """Every network in the first three states and in four of the others, all of which come up."""
    rare = [state for state in STATES if state not in OFTEN]
    for number, name in enumerate(NETWORKS):
        for state in (*OFTEN, *(rare[(4 * number + i) % len(rare)] for i in range(4))):
            yield name, state


def network_in(name, state):
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    network = make().double().eval()
    x = torch.randn(42, *shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    if state == "trained":
        trained(network, x[:12])
    else:
        with torch.no_grad():
            STATES[state](network, x)
    return network.eval(), x[:12], x[12:]


@pytest.mark.parametrize(("name", "state"), list(cases()))
def test_the_function_is_kept_or_the_change_refused(name, state):
    network, given, others = network_in(name, state)
    symmetry = find(network, given[:2])
    assert symmetry.certificate.passed
    with torch.no_grad():
        before = network(others)
    for make in (
        lambda: symmetry.transform(1, 0.5),
        lambda: symmetry.transform(2, 1.0),
        symmetry.balanced,
    ):
        try:
            changed = make()
        except (GapbenchError, CannotBalance):
            # Refusing is right, but not where nothing is special.
            assert name in READS_NUMBERS or state in ("head zero", "all zero", "weights tiny")
            continue
        with torch.no_grad():
            after = changed(others)
        assert (after - before).abs().max() <= 1e-9 * (float(before.abs().max()) or 1.0)


@pytest.mark.parametrize("name", [n for n in NETWORKS if n not in READS_NUMBERS | {"branch on an input"}])
def test_the_group_is_never_larger_than_the_null_space(name):
    """Of a fresh network, whose gains and shifts have special values."""
    network, given, _ = network_in(name, "fresh")
    d = sum(p.numel() for p in network.parameters())
    shape = NETWORKS[name][1]
    x = torch.randn(
        max(48, 2 * d // 3 + 8), *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    values = torch.linalg.svdvals(zoo.jacobian(network, x))
    assert find(network, given[:2]).dimension <= d - int((values > 1e-11 * values[0]).sum())


@pytest.mark.slow
@pytest.mark.parametrize("family", gapbench.list_models())
def test_freshly_built_families_keep_their_function(family):
    """Shifts that are still zero, gains that are still one: decisions must not depend on it."""
    task = gapbench.load_task("digits_rotations", train_size=40, label_noise=0.0, seed=0)
    network = gapbench.build_model(family, width=0.125, input_shape=task.input_shape, num_classes=10, seed=0)
    network = network.double().eval()
    x = task.train.inputs[:12].double()
    symmetry = find(network, x[:2])
    assert not symmetry.dropped
    with torch.no_grad():
        before = network(x)
        for changed in (symmetry.transform(seed=0, strength=0.5), symmetry.balanced()):
            assert (changed(x) - before).abs().max() <= 1e-8 * before.abs().max()
