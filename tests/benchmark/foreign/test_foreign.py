"""Networks trained elsewhere: their proxies are what `gapbench.measure` gives, and their table a population."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import gapbench
from gapbench import GapbenchError
from gapbench.cli import cli
from gapbench.foreign.importing import import_population
from gapbench.foreign.networks import load_network, make_network, read_examples, read_state

FACTORY = """
from torch import nn

def make(hidden: int = 8):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, hidden), nn.ReLU(), nn.Linear(hidden, 3))

def wrong():
    return "a network"

def broken():
    raise RuntimeError("no")
"""


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def wrong(net, inputs):
    """The error on the fixture's training examples."""
    with torch.no_grad():
        return float((net(torch.from_numpy(inputs)).argmax(1) != torch.arange(60) % 3).double().mean())


@pytest.fixture
def place(tmp_path):
    (tmp_path / "nets.py").write_text(FACTORY)
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((60, 1, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "train.npz", inputs=inputs, targets=np.arange(60) % 3)
    for seed in range(6):
        save_file(network(seed).state_dict(), tmp_path / f"net{seed}.safetensors")
    torch.save({"state_dict": network(0).state_dict()}, tmp_path / "net0.pt")
    with (tmp_path / "table.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["weights", "train_error", "test_error", "learning_rate", "seed", "test_size"])
        for seed in range(6):
            writer.writerow(
                [
                    f"net{seed}.safetensors",
                    wrong(network(seed), inputs),
                    wrong(network(seed), inputs) + 0.02 + 0.02 * seed,
                    [0.1, 0.2, 0.3][seed // 2],
                    seed,
                    500,
                ]
            )
    return tmp_path


def run(*arguments):
    from click.testing import CliRunner

    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.mark.parametrize("weights", ["net0.safetensors", "net0.pt"])
def test_measure_gives_what_the_library_gives(place, weights):
    done = run(
        "measure",
        f"{place}/nets.py:make",
        "--weights",
        place / weights,
        "--data",
        place / "train.npz",
        "--json",
    )
    assert done.exit_code == 0, done.output
    rows = {row["proxy"]: row for row in json.loads(done.stdout)}
    assert set(rows) == set(gapbench.list_proxies())
    assert rows["param_norm"]["value"] == sum(float(p.double().pow(2).sum()) for p in network(0).parameters())
    assert rows["parameter_count"]["value"] == 16 * 8 + 8 + 8 * 3 + 3
    assert rows["distance_from_initialization"]["status"] == "not_applicable"
    inputs, targets = read_examples(place / "train.npz")
    expected = gapbench.measure("hessian_trace", network(0).eval(), inputs, targets).value
    assert rows["hessian_trace"]["value"] == pytest.approx(expected, rel=1e-6)


def test_each_value_is_told_before_the_next_is_measured(place, monkeypatch):
    import sys

    from gapbench.foreign import measuring

    told, plain = [], measuring.measure_in

    def watched(context, entry, options, seed):
        sys.stdout.flush()
        told.append([line.split()[0] for line in sys.stdout.buffer.getvalue().decode().splitlines()])
        return plain(context, entry, options, seed)

    monkeypatch.setattr(measuring, "measure_in", watched)
    given = ["measure", f"{place}/nets.py:make", "--weights", place / "net0.safetensors"]
    given += ["--data", place / "train.npz", "--proxies", "parameter_count,train_loss,param_norm"]
    assert run(*given).exit_code == 0
    assert told == [[], ["proxy", "parameter_count"], ["proxy", "parameter_count", "train_loss"]]


def test_initial_weights_and_arguments_are_used(place):
    done = run(
        *(
            "measure",
            f"{place}/nets.py:make",
            "--weights",
            place / "net0.safetensors",
            "--data",
            place / "train.npz",
        ),
        *("--initial", place / "net1.safetensors", "--proxies", "distance_from_initialization", "--json"),
        *("--argument", "hidden=8"),
    )
    (row,) = json.loads(done.stdout)
    pairs = zip(network(0).parameters(), network(1).parameters())
    squares = sum(float((p.double() - q.double()).pow(2).sum()) for p, q in pairs)
    assert row["value"] == pytest.approx(squares**0.5, rel=1e-12)


def test_a_task_of_gapbench_may_stand_for_the_data(tmp_path, place):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    (tmp_path / "big.py").write_text(
        FACTORY.replace("16, hidden", "64, hidden").replace("hidden, 3", "hidden, 10")
    )
    save_file(net.state_dict(), tmp_path / "big.safetensors")
    done = run(
        *(
            "measure",
            f"{tmp_path}/big.py:make",
            "--weights",
            tmp_path / "big.safetensors",
            "--data",
            tmp_path,
        ),
        *(
            "--task",
            "digits_rotations",
            "--task-option",
            "train_size=50",
            "--proxies",
            "train_loss",
            "--json",
        ),
    )
    task = gapbench.load_task("digits_rotations", train_size=50)
    loss = nn.functional.cross_entropy(net(task.train.inputs).double(), task.train.targets)
    assert json.loads(done.stdout)[0]["value"] == pytest.approx(float(loss), rel=1e-6)


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("nets.py", "MODULE:FACTORY"),
        ("none.py:make", "no file"),
        ("nets.py:nothing", "no function 'nothing'"),
        ("nets.py:wrong", "gave a str"),
        ("nets.py:broken", "RuntimeError: no"),
        ("no_such_module:make", "cannot be imported"),
    ],
)
def test_a_factory_that_makes_no_network_is_told(place, monkeypatch, factory, words):
    monkeypatch.chdir(place)
    with pytest.raises(GapbenchError, match=words):
        make_network(factory)


def test_weights_and_data_that_do_not_fit_are_told(place):
    (place / "broken.safetensors").write_bytes(b"no")
    (place / "broken.pt").write_bytes(b"no")
    torch.save(print, place / "code.pt")
    for name in ("broken.safetensors", "broken.pt", "code.pt"):
        with pytest.raises(GapbenchError, match=name):
            read_state(place / name)
    save_file({"x": torch.zeros(2)}, place / "other.safetensors")
    with pytest.raises(GapbenchError, match="does not fit"):
        load_network(f"{place}/nets.py:make", place / "other.safetensors")
    np.savez(place / "bad.npz", inputs=np.zeros((2, 4)), targets=np.zeros(3))
    with pytest.raises(GapbenchError, match="2 inputs, but 3 targets"):
        read_examples(place / "bad.npz")
    np.savez(place / "bytes.npz", inputs=np.zeros((2, 4), dtype=np.uint8), targets=np.zeros(2))
    with pytest.raises(GapbenchError, match="floating point"):
        read_examples(place / "bytes.npz")
    np.savez(place / "none.npz", x=np.zeros(2))
    with pytest.raises(GapbenchError, match="no array 'inputs'"):
        read_examples(place / "none.npz")


def arguments(place):
    return {
        "table": place / "table.csv",
        "weights": place,
        "out": place / "run",
        "axes": ["learning_rate"],
        "factory": f"{place}/nets.py:make",
        "data": place / "train.npz",
        "proxies": ["param_norm", "random", "train_loss"],
        "samples": 30,
    }


def test_a_table_becomes_a_population_with_a_board(place):
    found = import_population(**arguments(place))
    assert len(found.population) == 6
    assert found.population["gap"].tolist() == pytest.approx([0.02 + 0.02 * seed for seed in range(6)])
    assert found.population["learning_rate"].tolist() == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3]
    assert len(found.measurements) == 18
    wide = found.measurements.pivot(index="cell", columns="proxy", values="value")
    norms = [sum(float(p.double().pow(2).sum()) for p in network(seed).parameters()) for seed in range(6)]
    assert wide.loc[found.population["cell"], "param_norm"].tolist() == norms
    assert wide["random"].nunique() == 6
    from scipy.stats import kendalltau

    scores = found.scores(targets=("gap",), replicates=20)
    tau = scores[(scores["proxy"] == "param_norm") & (scores["estimator"] == "tau") & (scores["task"] == "")]
    expected = kendalltau(norms, found.population["gap"]).statistic
    assert float(tau["value"].iloc[0]) == pytest.approx(expected, abs=1e-12)
    assert found.build_board(scores).is_file()


def test_importing_again_adds_what_is_new_and_keeps_the_rest(place):
    first = import_population(**arguments(place))
    again = import_population(**arguments(place))
    assert first.measurements.equals(again.measurements)
    more = import_population(**{**arguments(place), "proxies": ["param_norm", "inverse_margin"]})
    assert set(more.measurements["proxy"]) == {"param_norm", "inverse_margin"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axes": ["learning_rat"]}, "Did you mean 'learning_rate'"),
        ({"factory": None}, "no column 'factory'"),
        ({"proxies": ["param_nrm"]}, "Did you mean 'param_norm'"),
    ],
)
def test_a_table_that_does_not_fit_is_told(place, change, words):
    with pytest.raises(GapbenchError, match=words):
        import_population(**{**arguments(place), **change})


@pytest.mark.parametrize(
    "name", ["gap", "status", "seed", "family", "task", "parameters", "cell", "train_loss"]
)
def test_an_axis_called_like_a_column_is_refused_before_anything_is_measured(place, name):
    with pytest.raises(GapbenchError, match=f"--axes: '{name}' is a column of population.csv"):
        import_population(**{**arguments(place), "axes": ["learning_rate", name]})
    assert not (arguments(place)["out"] / "run.sqlite").exists()


def test_sizes_as_axes_and_words_as_levels_have_one_column_with_right_values(place):
    lines = (place / "table.csv").read_text().splitlines()
    rows = [f"{line},{level},60" for line, level in zip(lines[1:], ["NA", "None", "x", "NA", "None", "x"])]
    (place / "table.csv").write_text("\n".join([lines[0] + ",kind,train_size", *rows]) + "\n")
    given = {
        **arguments(place),
        "axes": ["kind", "train_size", "test_size"],
        "proxies": ["param_norm"],
    }
    found = import_population(**given).population
    assert not found.columns.duplicated().any()
    assert found["kind"].tolist() == ["NA", "None", "x", "NA", "None", "x"]
    assert set(found["train_size"]) == {60}
    assert set(found["test_size"]) == {500}
    wrong = [row[:-2] + "50" for row in rows]
    (place / "table.csv").write_text("\n".join([lines[0] + ",kind,train_size", *wrong]) + "\n")
    with pytest.raises(GapbenchError, match=r"row 1: train_size = 50, but .* holds 60 examples"):
        import_population(**{**given, "out": place / "other"})


def test_files_named_by_numbers_and_losses_that_are_missing(place):
    for seed in range(6):
        torch.save(network(seed).state_dict(), place / f"00{seed}")
    text = (place / "table.csv").read_text().replace("net", "00").replace(".safetensors", "")
    lines = text.splitlines()
    losses = ["train_loss,test_loss,initial", *["0.1,0.5,NA", "0.1,NA,", ",,", "1e-2,0.25,None", ",,", ",,"]]
    (place / "table.csv").write_text("\n".join(f"{a},{b}" for a, b in zip(lines, losses)) + "\n")
    found = import_population(**{**arguments(place), "proxies": ["param_norm"]}).population
    assert found["loss_gap"].tolist()[:1] == [pytest.approx(0.4)]
    assert found["loss_gap"].notna().tolist() == [True, False, False, True, False, False]
    (place / "table.csv").write_text((place / "table.csv").read_text().replace("0.1,0.5", "0.1,high"))
    with pytest.raises(GapbenchError, match="row 1: test_loss = 'high' is no number"):
        import_population(**{**arguments(place), "out": place / "other"})


def test_a_bad_row_is_named(place):
    text = (place / "table.csv").read_text()
    (place / "table.csv").write_text(text.replace("net2.safetensors", "net9.safetensors"))
    with pytest.raises(GapbenchError, match=r"row 3: There is no file .*net9"):
        import_population(**arguments(place))
    frame = pd.read_csv(place / "table.csv").astype({"test_error": float})
    frame.loc[1, "test_error"] = 15.0
    frame.to_csv(place / "table.csv", index=False)
    with pytest.raises(GapbenchError, match=r"row 2: test_error = 15.*net1.*percentage: give 0.15"):
        import_population(**{**arguments(place), "out": place / "other"})


def test_the_command_ends_with_the_ranking(place):
    given = arguments(place)
    done = run(
        *(
            "import-population",
            given["table"],
            "--weights",
            place,
            "--out",
            place / "run",
            "--axes",
            "learning_rate",
        ),
        *(
            "--factory",
            given["factory"],
            "--data",
            given["data"],
            "--proxies",
            "param_norm,random",
            "--samples",
            30,
        ),
    )
    assert done.exit_code == 0, done.output
    assert "6 converged" in done.output
    assert "param_norm" in done.output
    assert "index.html" in done.output
    refused = run("submit", place / "nets.py", "--run", place / "run", "--unsandboxed")
    assert isinstance(refused.exception, GapbenchError)
    assert "imported population" in str(refused.exception)


def test_measure_picks_outputs_and_counts_frozen_parameters(place):
    (place / "several.py").write_text(
        FACTORY
        + """
class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = make()
        for p in self.inner[1].parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return {"logits": self.inner(x)}

def several():
    return Several()

def pick(network, inputs):
    return network(inputs)["logits"]
"""
    )
    state = {f"inner.{name}": value for name, value in network(0).state_dict().items()}
    save_file(state, place / "several.safetensors")
    given = ["measure", f"{place / 'several.py'}:several", "--weights", place / "several.safetensors"]
    given += ["--data", place / "train.npz", "--proxies", "parameter_count,train_loss", "--json"]
    refused = run(*given)
    assert "pick it with --forward MODULE:FUNCTION of (network, inputs)" in str(refused.exception)
    given += ["--forward", f"{place / 'several.py'}:pick"]
    plain = run("measure", f"{place / 'nets.py'}:make", "--weights", place / "net0.safetensors", *given[4:9])
    expected = json.loads(plain.stdout)
    left_out, counted = json.loads(run(*given).stdout), json.loads(run(*given, "--include-frozen").stdout)
    assert [row["value"] for row in counted] == [row["value"] for row in expected]
    assert left_out[0]["value"] == 8 * 3 + 3
    assert "136 parameters" in left_out[0]["frozen"]
    assert left_out[1]["value"] == expected[1]["value"]
    assert expected[0]["dtype"] == "float32"


def test_a_flipped_bit_in_a_saved_state_is_noticed(place):
    data = bytearray((place / "net0.pt").read_bytes())
    start = data.find(network(0)[1].weight.detach().numpy().tobytes()[:16])
    assert start > 0
    data[start + 3] ^= 0x40
    (place / "flipped.pt").write_bytes(bytes(data))
    with pytest.raises(GapbenchError, match="checksum"):
        read_state(place / "flipped.pt")
