"""Measuring every proxy twice: what the second measurements are, and what becomes of them."""

import csv
import itertools
import math
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pytest
import torch

import gapbench
from benchmark.tiny_suite import LABELS, TINY
from gapbench import GapbenchError
from gapbench.runs.joining import join
from gapbench_base.seeds import named_seed
from gapbench_tasks.selection import stratified_subset

SHARP = "sharpness_full[radius=0.1]"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run measured once, and the same folder after a second call with repeats = 2."""
    place = tmp_path_factory.mktemp("repeats")
    suite = place / "tiny.toml"
    suite.write_text(TINY)
    once = gapbench.run(suite, place / "run", device="cpu", workers=0, board=False)
    shutil.copytree(place / "run", place / "once")
    return suite, once, gapbench.run(suite, place / "run", device="cpu", workers=0, repeats=2)


def measurements(folder):
    with sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True) as db:
        return db.execute("SELECT * FROM measurements ORDER BY 1").fetchall()


def test_the_first_measurements_stay_and_each_has_a_second(runs):
    _, once, twice = runs
    assert "repeat" not in once.measurements.columns
    assert len(twice.measurements) == 2 * len(once.measurements)
    assert not twice.measurements.duplicated(["cell", "proxy", "repeat"]).any()
    first = twice.measurements[twice.measurements["repeat"] == 0].drop(columns=["repeat"])
    pd.testing.assert_frame_equal(first.reset_index(drop=True), once.measurements, check_exact=True)
    assert set(twice.measurements["repeat"]) == {0, 1}


def test_second_measurements_are_independent(runs):
    _, _, twice = runs
    wide = twice.measurements.pivot(index=["proxy", "cell"], columns="repeat", values="value")
    for label in ("param_norm", "parameter_count"):
        assert (wide.loc[label, 0] == wide.loc[label, 1]).all()
    for label in ("random", SHARP):
        assert (wide.loc[label, 0] != wide.loc[label, 1]).all()


def test_a_second_measurement_sees_other_examples(runs):
    """Recomputed from the weight file on the subset that the second seed draws."""
    from gapbench.runs.weight_location import weights_of
    from gapbench.runs.weights import load_weights

    _, _, twice = runs
    row = twice.population.iloc[0]
    _, final = load_weights(weights_of(twice.folder, row["cell"]), None)
    task = gapbench.load_task("separable", shape=(1, 4, 4), train_size=60, test_size=200)
    network = gapbench.build_model("plain/mlp", row["width"], (1, 4, 4), 2, seed=99)
    network.load_state_dict(final)
    network.eval()
    found = twice.measurements.set_index(["cell", "proxy", "repeat"])["value"]
    labels = task.train.targets.numpy()
    drawn = [stratified_subset(labels, 40, "measure_samples", s) for s in (0, named_seed("repeat", 1, 0))]
    assert set(drawn[0]) != set(drawn[1])
    for repeat, chosen in enumerate(drawn):
        chosen = torch.from_numpy(chosen)
        again = gapbench.measure(
            "sharpness_full",
            network,
            task.train.inputs[chosen],
            task.train.targets[chosen],
            radius=0.1,
            steps=3,
        )
        assert found[row["cell"], SHARP, repeat] == pytest.approx(again.value, rel=1e-6)


def test_a_further_call_changes_nothing(runs):
    suite, _, twice = runs
    before = measurements(twice.folder)
    again = gapbench.run(suite, twice.folder, device="cpu", workers=0, board=False)
    assert measurements(twice.folder) == before
    pd.testing.assert_frame_equal(again.measurements, twice.measurements, check_exact=True)


def test_repeatability_is_tau_b_between_the_two(runs):
    _, once, twice = runs
    scores = twice.scores(targets=("gap",), replicates=20)
    rows = scores[(scores["estimator"] == "repeatability") & (scores["task"] == "")].set_index("proxy")
    converged = twice.population[twice.population["status"] == "converged"]["cell"]
    wide = twice.measurements.pivot(index="cell", columns=["proxy", "repeat"], values="value").loc[converged]
    for label in LABELS:
        first, second = wide[label, 0].to_numpy(), wide[label, 1].to_numpy()
        signs = np.array(
            [
                (np.sign(first[i] - first[j]), np.sign(second[i] - second[j]))
                for i, j in itertools.combinations(range(len(first)), 2)
            ]
        )
        norm = math.sqrt(np.count_nonzero(signs[:, 0]) * np.count_nonzero(signs[:, 1]))
        assert rows.loc[label, "value"] == pytest.approx((signs[:, 0] * signs[:, 1]).sum() / norm, abs=1e-12)
    assert rows.loc["param_norm", "value"] == 1
    # everything else is scored from the first measurements alone
    others = scores[~scores["estimator"].isin(["repeatability", "repeatable"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, once.scores(targets=("gap",), replicates=20))


def test_the_board_has_the_first_values_and_repeatability(runs):
    _, once, twice = runs
    with (twice.folder / "board" / "measurements.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["repeat"] for row in rows].count("1") == len(once.measurements)
    text = (twice.folder / "board" / "board.md").read_text()
    assert "| param\\_norm | 12 | 0 | 0 |" in text  # networks, not measurements


def test_joined_runs_keep_both(runs, tmp_path):
    *_, twice = runs
    for order in ([twice.folder, twice.folder.parent / "once"], [twice.folder.parent / "once", twice.folder]):
        joined = join(order, [], tmp_path)
        columns = ["cell", "proxy", "repeat", "value", "status"]
        pd.testing.assert_frame_equal(
            joined.measurements[columns].sort_values(columns[:3]).reset_index(drop=True),
            twice.measurements[columns].sort_values(columns[:3]).reset_index(drop=True),
            check_dtype=False,
        )


@pytest.mark.parametrize("repeats", [0, 3])
def test_other_numbers_are_refused(runs, tmp_path, repeats):
    with pytest.raises(GapbenchError, match="repeats = "):
        gapbench.run(runs[0], tmp_path / "run", repeats=repeats)
    assert not (tmp_path / "run").exists()
