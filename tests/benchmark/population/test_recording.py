"""What is recorded of the course of a training, and that nothing of the training depends on it."""

import copy
import itertools
import json
import math

import pytest
import torch
from torch import nn

import gapbench
from benchmark.conftest import WALLS
from benchmark.population.test_stacking import CLEAN, NOISY
from benchmark.tiny_suite import TINY
from gapbench.population.evaluation import evaluate
from gapbench.population.layer_stack import LayerStack
from gapbench.population.network import history_of
from gapbench.population.recording import Recorder, gradient_noise, recorded_epochs
from gapbench.population.stacking import StackMember, train_together
from gapbench.population.training import train
from gapbench.population.vmap_stack import VmapStack
from gapbench.proxies import registry
from gapbench.runs.weight_location import weights_of
from gapbench.runs.weights import load_checkpoints, load_weights, save_weights
from gapbench.sandbox.limits import Limits
from gapbench.submission.submitting import submit
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench.suites.suite import load_suite, parse_suite

COLUMNS = ["epoch", "train_loss", "train_error", "gradient_noise", "gradient_norm"]
RECORDED = TINY.replace("version = 1", 'version = 1\nrecord = "path"', 1)


class Normalised(nn.Module):
    """Batch normalisation, dropout and a buffer that training moves."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 10)
        )

    def forward(self, x):
        return self.layers(x)


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).double()


def test_epochs_are_powers_of_the_root_of_two():
    assert recorded_epochs(100) == [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91]
    assert recorded_epochs(1) == [1]
    assert all(recorded_epochs(k)[-1] <= k for k in range(1, 400))


def test_gradient_noise_is_the_trace_of_the_covariance():
    """A linear softmax: the gradient of one example is (p - e_y) x', in closed form."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 3)).double()
    inputs, targets = torch.randn(9, 5, dtype=torch.float64), torch.randint(3, (9,))
    probabilities = network(inputs).softmax(1).detach()
    away = probabilities - nn.functional.one_hot(targets, 3)
    gradients = torch.cat([(away[:, :, None] * inputs[:, None, :]).flatten(1), away], 1)
    noise, norm = gradient_noise(network, inputs, targets)
    assert noise == pytest.approx(float(gradients.T.cov().trace()), rel=1e-12)
    assert norm == pytest.approx(float(gradients.mean(0).norm()), rel=1e-12)
    assert all(p.grad is None for p in network.parameters())
    same = gradient_noise(network, inputs[:1].repeat(4, 1), targets[:1].repeat(4))
    assert same[0] == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(gradient_noise(network, inputs[:1], targets[:1])[0])


@pytest.mark.parametrize(
    "values",
    [
        {"max_epochs": 9, "learning_rate": 0.05},
        {"max_epochs": 40, "stop_loss": 1.2, "learning_rate": 0.2},
        {"max_epochs": 7, "augmentation": "rotate", "input_noise": 0.1, "schedule": "cosine"},
        {"max_epochs": 6, "validation": 0.25},
        {"stop": "budget", "max_steps": 13},
        {"max_epochs": 5, "learning_rate": 1e6},
    ],
    ids=["limit", "criterion", "augmented", "held out", "budget", "diverges"],
)
def test_nothing_of_a_training_depends_on_what_is_recorded(values):
    torch.manual_seed(1)
    model = Normalised().double()
    found = {}
    for record in ("none", "losses", "path"):
        network = copy.deepcopy(model)
        torch.manual_seed(3)  # the global state plays no part either
        given = Hyperparameters(**{"batch_size": 16, **values}).normalised()
        result = train(network, CLEAN, given, seed=5, record=record)
        found[record] = result, network.state_dict()
    (plain, state), (losses, _), (path, _) = found.values()
    for result, own in found.values():
        assert result.history == plain.history or result.status == "diverged"
        assert (result.status, result.steps, result.epochs) == (plain.status, plain.steps, plain.epochs)
        assert all(torch.equal(own[k], v) or not torch.isfinite(v).all() for k, v in state.items())
    assert plain.recorded is None
    assert losses.recorded is not None
    assert path.recorded is not None
    assert losses.recorded.states == {}
    assert path.recorded.epochs == losses.recorded.epochs
    end = path.steps / 3  # three mini-batches an epoch
    if values.get("validation"):
        end = path.recorded.epochs[-1]
    assert path.recorded.epochs[-1] == end
    assert (
        list(path.recorded.epochs[:-1])
        == [e for e in recorded_epochs(100) if e < end][: len(path.recorded.epochs) - 1]
    )
    assert list(path.recorded.states) == list(path.recorded.epochs[:-1])
    if plain.status != "diverged":
        assert path.recorded.losses[-1] == path.train.cross_entropy
        assert path.recorded.errors[-1] == path.train.error
        assert len(path.recorded.epochs) >= 4


def test_a_checkpoint_is_the_network_that_a_shorter_training_gives():
    torch.manual_seed(2)
    model = linear()
    values = {"stop": "budget", "schedule": "constant", "batch_size": 16, "learning_rate": 0.1}
    long = train(
        copy.deepcopy(model), CLEAN, Hyperparameters(max_steps=24, **values).normalised(), 7, record="path"
    )
    assert long.recorded is not None
    assert long.recorded.epochs == (1, 2, 3, 4, 6, 8)
    for position, epoch in enumerate(long.recorded.epochs[:-1]):
        short = copy.deepcopy(model)
        ended = train(short, CLEAN, Hyperparameters(max_steps=3 * int(epoch), **values).normalised(), 7)
        state = long.recorded.states[int(epoch)]
        assert all(torch.equal(state[k], v) for k, v in short.state_dict().items())
        assert long.recorded.losses[position] == ended.train.cross_entropy
        assert long.recorded.errors[position] == ended.train.error
        whole = gradient_noise(short, CLEAN.train.inputs, CLEAN.train.targets)  # 46 examples, fewer than 64
        assert (long.recorded.noise[position], long.recorded.gradient_norms[position]) == whole


@pytest.mark.parametrize("engine", [LayerStack, VmapStack])
def test_in_a_stack_the_same_is_recorded(engine):
    different = [{"learning_rate": 0.05}, {"learning_rate": 0.3, "stop_loss": 1.5}, {"max_epochs": 3}]
    torch.manual_seed(4)
    group = [
        StackMember(
            str(k),
            linear(),
            (CLEAN, NOISY)[k % 2],
            Hyperparameters(**({"batch_size": 16, "max_epochs": 12} | values)),
            seed=k,
            record="path",
        )
        for k, values in enumerate(different)
    ]
    found = {}
    train_together(copy.deepcopy(group), engine, "cpu", lambda member, r: found.update({member.key: r}))
    for member in group:
        model = copy.deepcopy(member.model)
        own = train(model, member.task, member.values, member.seed, record="path").recorded
        other = found[member.key].recorded
        assert own is not None
        assert other.epochs == own.epochs
        for name in ("losses", "errors", "noise", "gradient_norms"):
            assert getattr(other, name) == pytest.approx(getattr(own, name), rel=1e-9, abs=1e-12)
        for epoch, state in own.states.items():
            for key, value in state.items():
                torch.testing.assert_close(other.states[epoch][key], value, rtol=1e-9, atol=1e-12)


def test_batch_normalisation_is_that_of_the_end_at_every_record():
    """As `course.finish` judges a network: statistics of the whole training set, not those that training left."""
    torch.manual_seed(5)
    recorder, model = Recorder("path", CLEAN.train), Normalised().double()
    before = copy.deepcopy(model.state_dict())
    recorder.look(model, 1)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert model.training
    found = recorder.end(model.eval(), 2.0, evaluate(model, CLEAN.train.inputs, CLEAN.train.targets))
    hidden = model.layers[1](CLEAN.train.inputs.flatten(1)).detach()
    torch.testing.assert_close(found.states[1]["layers.2.running_mean"], hidden.mean(0))


def test_a_weight_file_keeps_checkpoints(tmp_path):
    states = [{"a.b": torch.full((2,), float(k)), "c": torch.tensor(k)} for k in range(5)]
    path = tmp_path / "x.safetensors"
    sha256, _ = save_weights(path, states[0], states[1], checkpoints={16: states[2], 2: states[3]})
    initial, final = load_weights(path, sha256)
    assert all(torch.equal(initial[k], v) for k, v in states[0].items())
    assert all(torch.equal(final[k], v) for k, v in states[1].items())
    found = load_checkpoints(path, sha256)
    assert list(found) == [2, 16]
    assert all(torch.equal(found[2][k], v) for k, v in states[3].items())
    plain, _ = save_weights(path, states[0], states[1])
    assert load_checkpoints(path, plain) == {}


def test_history_of_both_forms():
    assert history_of(None) is None
    assert history_of("[1.5, null]")["loss"][0] == 1.5
    assert math.isnan(history_of("[1.5, null]")["loss"][1])
    both = history_of(json.dumps({"loss": [1.0], "epoch": [1.0], "train_loss": [None]}))
    assert both["loss"] == [1.0]
    assert math.isnan(both["train_loss"][0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('version = 1\nrecord = "everything"', r"record.*none.*losses.*path|record"),
        ("version = 1\nrecord = 3", "record"),
    ],
)
def test_what_cannot_be_recorded_is_refused(text, said):
    with pytest.raises(gapbench.GapbenchError, match=said):
        parse_suite(TINY.replace("version = 1", text, 1), "given")
    with pytest.raises(gapbench.GapbenchError, match="record"):
        parse_suite(TINY.replace("[grid.axes]", '[grid.axes]\nrecord = ["none", "path"]', 1), "given")


def test_a_suite_says_what_is_recorded(tmp_path):
    file = tmp_path / "recorded.toml"
    file.write_text(RECORDED)
    assert load_suite(file).record == "path"
    assert load_suite("quick").record == "none"


def path_length(context):
    """Length of the way through the checkpoints, and what the history says, which the checkpoints must bear out."""
    networks = [context.require_initial(), *(c.network for c in context.require_checkpoints()), context.model]
    vectors = [nn.utils.parameters_to_vector(n.parameters()).detach().double() for n in networks]
    losses = context.require_history("train_loss")
    epochs = context.require_history("epoch")
    assert [c.epoch for c in context.checkpoints] == epochs[:-1]
    for checkpoint, loss in zip(context.checkpoints, losses):
        found = evaluate(checkpoint.network, context.all_inputs, context.all_targets).cross_entropy
        assert found == pytest.approx(loss, rel=1e-4)
    return float(sum((b - a).norm() for a, b in itertools.pairwise(vectors)))


def checkpoints_if_any(context):
    """Names no need, so that in a suite it is given none."""
    return float(context.checkpoints is not None)


@pytest.fixture
def registered():
    registry.list_proxies()  # those that come with gapbench are found once
    before = dict(registry._ENTRIES)
    gapbench.proxy("path_length", needs=("initial", "history", "checkpoints"))(path_length)
    gapbench.proxy("checkpoints_if_any")(checkpoints_if_any)
    yield
    registry._ENTRIES.clear()
    registry._ENTRIES.update(before)


WITH_PROXIES = '"param_norm", "path_length", "checkpoints_if_any",'


def test_proxies_of_a_suite_see_the_recorded_path(registered, tmp_path):
    file = tmp_path / "recorded.toml"
    file.write_text(RECORDED.replace('"param_norm",', WITH_PROXIES, 1))
    run = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False)
    found = run.measurements.pivot(index="cell", columns="proxy", values="value")
    assert (run.measurements[run.measurements["proxy"] == "path_length"]["status"] == "ok").all()
    distance = run.measurements.pivot(index="cell", columns="proxy", values="status")
    assert set(distance["checkpoints_if_any"]) == {"ok"}
    assert (found["checkpoints_if_any"] == 0.0).all()
    assert (found["path_length"] > 0).all()
    # without it the networks are the same, and what needs the path is not applicable
    file.write_text(TINY.replace('"param_norm",', WITH_PROXIES, 1))
    plain = gapbench.run(file, tmp_path / "plain", device="cpu", workers=0, board=False)
    assert set(plain.population["cell"]) == set(run.population["cell"])
    columns = ["cell", "gap", "train_loss", "steps"]
    assert plain.population[columns].equals(run.population[columns])
    rows = plain.measurements[plain.measurements["proxy"] == "path_length"]
    assert set(rows["status"]) == {"not_applicable"}
    assert rows["reason"].str.contains("record").all()


def test_a_damaged_file_is_restored_with_its_checkpoints(tmp_path):
    file = tmp_path / "recorded.toml"
    file.write_text(RECORDED)
    run = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False, limit=2)
    paths = [weights_of(run.folder, cell) for cell in run.population["cell"]]
    before = [path.read_bytes() for path in paths]
    assert all(load_checkpoints(path, None) for path in paths)
    paths[0].write_bytes(before[0][:-1])
    paths[1].unlink()
    again = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False, limit=2)
    assert not again.problems
    assert [path.read_bytes() for path in paths] == before


FILE = '''
"""Looks at the way, and may change it."""
import torch
import gapbench


@gapbench.proxy("way", needs=("checkpoints", "history"))
def way(context, *, harm: bool = False):
    """Mean training loss on the way."""
    networks = [c.network for c in context.require_checkpoints()]
    if harm:
        with torch.no_grad():
            next(networks[0].parameters()).add_(1)
    return sum(context.require_history("train_loss")) + len(networks)
'''


@pytest.mark.slow
def test_a_submission_sees_the_path_and_must_leave_it(tmp_path):
    file = tmp_path / "recorded.toml"
    file.write_text(RECORDED)
    run = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False, limit=3)
    proxy = tmp_path / "way.py"
    proxy.write_text(FILE)
    given = {"unsandboxed": bool(WALLS), "limits": Limits(seconds=20)}
    submitted = submit(proxy, run.folder, **given)
    assert not submitted.refusals
    entry = submitted.entry
    assert {value.status for value in entry.values.values()} == {"ok"}
    proxy.write_text(FILE.replace("harm: bool = False", "harm: bool = True"))
    harmed = submit(proxy, run.folder, name="harmed", **given)
    assert harmed.entry is None
    assert "checkpoint 1's" in " ".join(harmed.refusals)
