"""What a proxy may see beside the network: its sibling of another seed, and unlabelled inputs."""

import math

import pytest
import torch

import gapbench
from benchmark.conftest import WALLS
from benchmark.tiny_suite import TINY
from gapbench.population.siblings import siblings
from gapbench.proxies import registry
from gapbench.runs.weight_location import weights_of
from gapbench.runs.weights import load_weights
from gapbench.sandbox.limits import Limits
from gapbench.submission.submitting import submit
from gapbench_tasks import load_task

SUITE = TINY.replace(
    '"param_norm",', '"param_norm", "between_seeds", "seeds_agree", "sibling_if_any",'
).replace("width = [0.125, 0.25, 0.5]", "width = [0.125, 0.25]")
FILE = '''
"""How far two networks of one configuration are apart."""
import torch
import gapbench


@gapbench.proxy("apart", needs=("sibling", "unlabelled"))
def apart(context):
    """Mean distance of the outputs of two seeds on unlabelled inputs."""
    with torch.no_grad():
        x = context.require_unlabelled()
        return float((context.model(x) - context.require_sibling()(x)).double().abs().mean())
'''


def between_seeds(context):
    """Distance between the weights of two seeds."""
    pairs = zip(context.parameters, context.require_sibling().parameters())
    return math.sqrt(sum(float((a - b.detach()).double().pow(2).sum()) for a, b in pairs))


def seeds_agree(context):
    """Share of unlabelled inputs on which two seeds disagree."""
    inputs = context.require_unlabelled()
    with torch.no_grad():
        mine, other = context.model(inputs).argmax(1), context.require_sibling()(inputs).argmax(1)
    return float((mine != other).double().mean())


def sibling_if_any(context):
    """Names no need, so that in a suite it has no sibling."""
    return float(context.sibling is not None)


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The proxies of this file, which no other test sees."""
    registry.list_proxies()  # those that come with gapbench are found once
    before = dict(registry._ENTRIES)
    gapbench.proxy("between_seeds", needs=("sibling",))(between_seeds)
    gapbench.proxy("seeds_agree", needs=["sibling", "unlabelled"])(seeds_agree)
    gapbench.proxy("sibling_if_any")(sibling_if_any)
    yield
    registry._ENTRIES.clear()
    registry._ENTRIES.update(before)


def written(tmp_path, text=SUITE):
    file = tmp_path / "tiny.toml"
    file.write_text(text)
    return file


def table(run):
    return run.measurements.pivot(index="cell", columns="proxy", values="value")


def apart_by_hand(folder, a, b):
    (_, one), (_, other) = (load_weights(weights_of(folder, cell), None) for cell in (a, b))
    return math.sqrt(sum(float((one[k] - other[k]).double().pow(2).sum()) for k in one))


def test_a_sibling_is_the_same_configuration_at_its_next_seed():
    described = {
        f"{family}{seed}": {"family": family, "options": {"x": 1}, "seed": seed}
        for family, seed in [("a", 7), ("a", 0), ("a", 3), ("b", 0)]
    }
    assert siblings(described) == {"a0": "a3", "a3": "a7", "a7": "a0"}


def test_proxies_of_a_suite_see_the_sibling_and_the_unlabelled_inputs(tmp_path):
    run = gapbench.run(written(tmp_path), tmp_path / "run", device="cpu", workers=0, board=False)
    values, networks = table(run), run.population.set_index("cell")
    assert len(networks) == 8
    assert (values["sibling_if_any"] == 0.0).all()
    pairs = networks.groupby(["width", "learning_rate"]).groups.values()
    unlabelled = load_task("separable", shape=(1, 4, 4), train_size=60, test_size=200).unlabelled.inputs
    for first, second in pairs:
        by_hand = apart_by_hand(tmp_path / "run", first, second)
        assert values.loc[first, "between_seeds"] == pytest.approx(by_hand, rel=1e-6)
        assert values.loc[second, "between_seeds"] == pytest.approx(by_hand, rel=1e-6)
        assert values.loc[first, "seeds_agree"] == values.loc[second, "seeds_agree"]
        share = values.loc[first, "seeds_agree"] * len(unlabelled)
        assert share == pytest.approx(round(share), abs=1e-9)
        assert 0 < share < len(unlabelled) / 2


def test_what_waits_for_a_sibling_is_measured_once_that_is_trained(tmp_path):
    file = written(tmp_path)
    part = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False, limit=5)
    known = table(part)
    pairs = {cell for cell in known.index if not math.isnan(known.loc[cell].get("between_seeds", math.nan))}
    assert {"param_norm", "sibling_if_any"} <= set(known.columns)
    assert known["param_norm"].notna().all()
    assert len(pairs) in (2, 4)  # the siblings of the other networks are still to be trained
    whole = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False)
    at_once = gapbench.run(file, tmp_path / "other", device="cpu", workers=0, board=False)
    assert len(whole.measurements) == len(at_once.measurements) == 8 * 8
    assert table(whole).equals(table(at_once))


def test_without_a_second_seed_there_is_no_sibling(tmp_path):
    file = written(tmp_path, SUITE.replace("seed = [0, 1]", "seed = [0]"))
    run = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False)
    rows = run.measurements[run.measurements["proxy"] == "between_seeds"]
    assert len(rows) == 4
    assert set(rows["status"]) == {"not_applicable"}
    assert rows["reason"].str.contains("another seed").all()


@pytest.mark.slow
def test_a_submission_sees_them_too(run_folder, hosts, tmp_path):
    file = tmp_path / "apart.py"
    file.write_text(FILE)
    entry = submit(file, run_folder, hosts=hosts, unsandboxed=bool(WALLS), limits=Limits(seconds=20)).entry
    networks = gapbench.open_run(run_folder).population.set_index("cell")
    assert len(entry.values) == len(networks)
    assert {value.status for value in entry.values.values()} == {"ok"}
    for first, second in networks.groupby(["width", "learning_rate"]).groups.values():
        assert entry.values[first].value == pytest.approx(entry.values[second].value, rel=1e-6)
        assert entry.values[first].value > 0


def test_measured_alone_they_are_what_was_given():
    torch.manual_seed(0)
    network, other = (torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)) for _ in range(2))
    inputs, targets = torch.randn(6, 1, 2, 2), torch.tensor([0, 1, 0, 1, 0, 1])
    found = gapbench.measure("between_seeds", network, inputs, targets, sibling=other)
    expected = math.sqrt(
        sum(float((a - b).detach().pow(2).sum()) for a, b in zip(network.parameters(), other.parameters()))
    )
    assert found.value == pytest.approx(expected, rel=1e-6)
    missing = gapbench.measure("between_seeds", network, inputs, targets)
    assert missing.status == "not_applicable"
    assert gapbench.measure("seeds_agree", network, inputs, targets, sibling=other).status == "not_applicable"


@pytest.mark.parametrize("needs", ["sibling", ("siblings",), ("labels",)])
def test_what_nobody_can_need_is_refused(needs):
    with pytest.raises(
        gapbench.GapbenchError, match=r"needs = .* initial, history, checkpoints, sibling, unlabelled"
    ):
        gapbench.proxy("needy", needs=needs)
