"""A table of foreign networks is believed only as far as its networks bear it out, and nothing stale is kept."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from gapbench import GapbenchError
from gapbench.cli import cli
from gapbench.foreign.importing import import_population
from gapbench.foreign.table import half_unit
from gapbench.foreign.train_errors import allowance
from gapbench.population.stored import open_population
from gapbench.runs.merging import merge
from gapbench.runs.packing import pack
from gapbench.runs.pulling import pull_pack
from gapbench.runs.run import open_run
from gapbench_leaderboard.scores import TableError

NETS = """
from torch import nn

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
"""
COUNT = 400


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture
def place(tmp_path):
    """Six networks that err on 5, 15, ..., 55 % of the training data and on 10 points more of the test data."""
    (tmp_path / "nets.py").write_text(NETS)
    inputs = torch.from_numpy(np.random.default_rng(0).standard_normal((COUNT, 1, 4, 4)).astype(np.float32))
    rows = []
    for seed in range(6):
        net = network(seed)
        save_file(net.state_dict(), tmp_path / f"net{seed}.safetensors")
        with torch.no_grad():
            answers = net(inputs).argmax(1)
        for kind, share in (("train", 0.05 + 0.1 * seed), ("test", 0.15 + 0.1 * seed)):
            targets = answers.clone()
            targets[: round(share * COUNT)] = (targets[: round(share * COUNT)] + 1) % 3
            np.savez(tmp_path / f"{kind}{seed}.npz", inputs=inputs.numpy(), targets=targets.numpy())
        rows.append(
            {
                "weights": f"net{seed}.safetensors",
                "data": f"train{seed}.npz",
                "test_data": f"test{seed}.npz",
                "train_error": 0.05 + 0.1 * seed,
                "test_error": 0.15 + 0.1 * seed,
                "learning_rate": [0.1, 0.2, 0.3][seed // 2],
                "seed": seed,
            }
        )
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def change(place, **columns):
    frame = pd.read_csv(place / "table.csv")
    for name, values in columns.items():
        frame[name] = values(frame[name]) if callable(values) else values
    frame.to_csv(place / "table.csv", index=False)


def bring(place, **changes):
    given = {
        "table": place / "table.csv",
        "weights": place,
        "out": place / "run",
        "axes": ["learning_rate"],
        "factory": f"{place}/nets.py:make",
        "proxies": ["param_norm", "train_loss"],
        "samples": 30,
    }
    return import_population(**{**given, **changes})


def attempts(place):
    with sqlite3.connect(place / "run" / "run.sqlite") as db:
        return db.execute("SELECT measurement, attempt FROM measurements ORDER BY 1, 2").fetchall()


def test_true_errors_are_taken_and_the_test_set_gives_its_size(place):
    found = bring(place)
    assert found.population["train_error"].tolist() == pytest.approx([0.05 + 0.1 * k for k in range(6)])
    assert found.population["gap"].tolist() == pytest.approx([0.1] * 6)
    assert found.population["test_size"].tolist() == [COUNT] * 6
    assert not found.failures


@pytest.mark.parametrize(
    ("column", "change_of", "words"),
    [
        (
            "train_error",
            lambda c: 1 - c,
            r"train_error of net0.*0\.95 in the table, but 0\.05.*look like accuracies",
        ),
        ("train_error", lambda c: 100 * c, r"train_error of net0.*is 5 in the table, but 0\.05.*percentages"),
        (
            "train_error",
            lambda c: 100 - 100 * c,
            r"net0.*is 95 in the table, but 0\.05.*accuracies in percent",
        ),
        (
            "train_error",
            lambda c: c[::-1].tolist(),
            r"is 0\.55 in .*but 0\.05.*fits net5\.safetensors .row 6.*permuted",
        ),
        (
            "train_error",
            lambda c: c + 0.03,
            r"0\.08 in the table, but 0\.05.*6 of 6 networks.*Are these the weights",
        ),
        (
            "train_error",
            lambda c: c.where(c.index != 3, 0.30),
            r"row 4: train_error of net3.*0\.3 in the table, but 0\.35",
        ),
        (
            "test_error",
            lambda c: 1 - c,
            r"test_error of net0.*0\.85 in the table, but 0\.15 on the 400 test.*accuracies",
        ),
        (
            "test_error",
            lambda c: c.where(c.index != 5, 0.1),
            r"row 6: test_error of net5.*0\.1 in the table, but 0\.65",
        ),
    ],
)
def test_errors_that_the_networks_do_not_make_are_refused_with_the_cause(place, column, change_of, words):
    change(place, **{column: change_of})
    with pytest.raises(GapbenchError, match=words):
        bring(place)


def test_reversed_weight_files_are_refused(place):
    change(place, weights=lambda c: c[::-1].tolist(), data="train0.npz", test_data="test0.npz")
    with pytest.raises(GapbenchError, match=r"permuted|Are these the weights"):
        bring(place)


def test_rounding_and_a_few_examples_are_allowed_and_no_more(place):
    change(place, train_error=lambda c: c + 2 / COUNT)
    assert len(bring(place).population) == 6
    change(place, train_error=lambda c: c + 1.01 / COUNT)  # three examples and a bit, given in full
    with pytest.raises(GapbenchError, match="2 examples"):
        bring(place, out=place / "other")
    values = [0.06, 0.16, 0.26, 0.36, 0.46, 0.56]  # off by 4 examples; rounding explains 2, and 2 are allowed
    change(place, train_error=values)
    assert len(bring(place, out=place / "rounded").population) == 6


def test_the_allowance_and_the_digits():
    assert [allowance(n) for n in (10, 60, 5_000, 50_000)] == [2, 2, 2, 25]
    assert half_unit([0.1, 0.12, 0.5]) == pytest.approx(0.005)
    assert half_unit([0.0, 1.0]) == 0.0
    assert half_unit([1 - 0.93, 1 - 0.9]) == pytest.approx(0.005)
    assert half_unit([float(np.float32(0.07)), 0.5]) == pytest.approx(0.005)
    assert half_unit([0.123456789]) < 1e-7


def test_wrong_labels_are_those_trained_on(place):
    """Against the clean labels the first network errs nowhere; the table says 5 %."""
    with np.load(place / "train0.npz") as content:
        inputs = content["inputs"]
    clean = network(0)(torch.from_numpy(inputs)).argmax(1).numpy()
    np.savez(place / "train0.npz", inputs=inputs, targets=clean)
    with pytest.raises(GapbenchError, match=r"net0.*0\.05 in the table, but 0 on the 400 training"):
        bring(place)


def test_a_raised_version_other_options_and_failures_are_measured_again(place, monkeypatch):
    from dataclasses import replace

    from gapbench.proxies import registry

    bring(place)
    first = attempts(place)
    bring(place)
    assert attempts(place) == first
    entry = registry.proxy_entry("param_norm")
    monkeypatch.setitem(registry._ENTRIES, "param_norm", replace(entry, version=entry.version + 1))
    bring(place)
    assert len(attempts(place)) == len(first) + 6

    def fails(context):
        raise RuntimeError("for now")

    broken = replace(entry, version=99, function=fails)
    monkeypatch.setitem(registry._ENTRIES, "param_norm", broken)
    assert set(bring(place).measurements.query("proxy == 'param_norm'")["status"]) == {"failed"}
    monkeypatch.setitem(registry._ENTRIES, "param_norm", replace(broken, function=entry.function))
    found = bring(place).measurements.query("proxy == 'param_norm'")
    assert set(found["status"]) == {"ok"}
    assert len(found) == 6


def test_nothing_stale_is_kept_where_a_file_changed(place):
    def values():
        return bring(place, proxies=["train_loss", "distance_from_initialization"]).measurements

    change(place, initial="net0.safetensors")
    first = values()
    change(place, initial="net1.safetensors")
    second = values()
    assert first.loc[first["proxy"] == "train_loss", "value"].tolist() == (
        second.loc[second["proxy"] == "train_loss", "value"].tolist()
    )
    distance = [table.loc[table["proxy"] != "train_loss", "value"].tolist() for table in (first, second)]
    assert all(a != b for a, b in zip(*distance))
    (place / "nets.py").write_text(NETS.replace("nn.ReLU", "nn.Tanh"))
    with pytest.raises(GapbenchError, match="in the table"):  # another function of the same weights
        values()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_fail_with_the_reason(place, value):
    state = load_file(place / "net2.safetensors")
    state["1.weight"][0, 0] = value
    save_file(state, place / "net2.safetensors")
    found = bring(place)
    row = found.population.iloc[2]
    assert (row["status"], row["reason"]) == ("failed", "its weights are not all finite")
    own = found.measurements[found.measurements["cell"] == row["cell"]]
    assert set(own["status"]) == {"failed"}
    assert own["value"].isna().all()
    assert (found.population["status"] == "converged").sum() == 5
    before = attempts(place)
    bring(place)
    assert attempts(place) == before
    more = bring(place, proxies=["param_norm", "train_loss", "random"]).measurements
    assert set(more.loc[(more["cell"] == row["cell"]) & (more["proxy"] == "random"), "status"]) == {"failed"}
    change(place, status=["converged", "converged", "diverged", "converged", "converged", "converged"])
    assert bring(place, out=place / "diverged").failures == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("net1.safetensors", b""),
        ("net1.safetensors", b"\x08\0\0\0\0\0\0\0{}"),
        ("train1.npz", b""),
        ("train1.npz", b"PK\x03\x04 no archive"),
        ("test1.npz", b"\x93NUMPY"),
    ],
)
def test_damaged_files_are_named_with_their_row(place, name, content):
    (place / name).write_bytes(content)
    with pytest.raises(GapbenchError, match=f"row 2.*{name}|row 2.*net1"):
        bring(place)


def test_a_data_file_with_flipped_bytes_is_named(place):
    content = bytearray((place / "train1.npz").read_bytes())
    content[200:260] = bytes(60)
    (place / "train1.npz").write_bytes(bytes(content))
    with pytest.raises(GapbenchError, match="row 2"):
        bring(place)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"weights": "net0.safetensors"}, "twice: rows 1 and 2 name the weight file net0"),
        ({"status": "convergd"}, "row 1: status 'convergd'.*Did you mean 'converged'"),
        (
            {"seed": 0},
            "rows 1 and 2 .net0.safetensors, net1.safetensors. have the same task, family, width, axes",
        ),
        ({"seed": 1.5}, "row 1: seed = 1.5"),
        ({"weights": [None, *(f"net{k}.safetensors" for k in range(1, 6))]}, "row 1: weights is empty"),
        ({"learning_rate": [0.1, None, 0.2, 0.2, 0.3, 0.3]}, "row 2: the axis learning_rate has no value"),
        ({"train_error": ["a", 0.15, 0.25, 0.35, 0.45, 0.55]}, "row 1: train_error = 'a' is no number"),
        ({"test_size": 7}, r"row 1 .*test_size is 7, but .*test0.npz holds 400"),
    ],
)
def test_rows_that_do_not_fit_are_named(place, columns, words):
    change(place, **columns)
    with pytest.raises(GapbenchError, match=words):
        bring(place)


def test_axes_are_columns_of_the_table_alone_and_count_once(place):
    with pytest.raises(
        GapbenchError, match=r"'seed' is a column of population\.csv that tells networks apart"
    ):
        bring(place, axes=["learning_rate", "seed"])
    found = bring(place, axes=["learning_rate", "learning_rate"])
    assert found.population.columns.is_unique


def test_no_rows_no_columns_and_equal_files_are_told(place):
    (place / "copy.safetensors").write_bytes((place / "net0.safetensors").read_bytes())
    frame = pd.read_csv(place / "table.csv")
    twice = pd.concat([frame, frame.iloc[:1].assign(weights="copy.safetensors", seed=9)])
    twice.to_csv(place / "table.csv", index=False)
    with pytest.raises(
        GapbenchError, match=r"net0.safetensors .row 1. and copy.safetensors .row 7. hold the same"
    ):
        bring(place)
    frame.drop(columns=["train_error"]).to_csv(place / "table.csv", index=False)
    with pytest.raises(GapbenchError, match="no column 'train_error'"):
        bring(place)
    frame.iloc[:0].to_csv(place / "table.csv", index=False)
    with pytest.raises(TableError, match="no rows"):
        bring(place)


def test_measure_answers_weights_that_are_not_finite(place):
    from click.testing import CliRunner

    state = load_file(place / "net0.safetensors")
    state["3.bias"][0] = float("nan")
    save_file(state, place / "net0.safetensors")
    done = CliRunner().invoke(
        cli,
        [
            *("measure", f"{place}/nets.py:make", "--weights", f"{place}/net0.safetensors"),
            *("--data", f"{place}/train0.npz", "--json"),
        ],
    )
    rows = json.loads(done.stdout)
    assert {row["status"] for row in rows if row["proxy"] != "parameter_count"} <= {
        "failed",
        "not_applicable",
    }
    assert any("finite" in row["reason"] for row in rows)
    assert done.exit_code == 1


def test_coverage_and_convergence_reach_tables_and_the_command(place, monkeypatch):
    from dataclasses import replace

    from click.testing import CliRunner

    from gapbench import Estimate
    from gapbench.proxies import registry

    def partly(context):
        return Estimate(1.0, None, {"coverage": "partly covered: 2 operations", "converged": False})

    entry = replace(registry.proxy_entry("param_norm"), version=77, function=partly)
    monkeypatch.setitem(registry._ENTRIES, "param_norm", entry)
    own = bring(place).measurements.query("proxy == 'param_norm'")
    assert set(own["coverage"]) == {"partly covered: 2 operations"}
    assert own["converged"].tolist() == [False] * 6
    arguments = [
        *("measure", f"{place}/nets.py:make", "--weights", f"{place}/net0.safetensors"),
        *("--data", f"{place}/train0.npz", "--proxies", "param_norm,train_loss"),
    ]
    shown = CliRunner().invoke(cli, arguments).output
    assert "Note: param_norm: symmetry partly covered: 2 operations" in shown
    assert "Note: param_norm: ascent not converged" in shown
    assert "Note: train_loss" not in shown
    rows = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    assert [row["coverage"] for row in rows] == ["partly covered: 2 operations", None]
    assert [row["converged"] for row in rows] == [False, None]


def test_an_imported_population_is_merged_and_packed_without_weights_and_takes_no_submissions(place):
    found = bring(place)
    merge([place / "run"], place / "merged")
    pull_pack(pack(place / "merged", place / "pack.zip").path, place / "pulled")
    for name in ("merged", "pulled"):
        again = open_run(place / name)
        assert again.identity == found.identity
        assert again.measurements.equals(found.measurements)
        with pytest.raises(GapbenchError, match=r"is an imported population: .* takes no submissions"):
            open_population(place / name)
