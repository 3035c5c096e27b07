"""Tables as strangers bring them: outcomes among the measures, diverged rows, widths, columns held fixed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from gapbench.cli import cli
from gapbench_leaderboard.board.scores_file import read_scores
from gapbench_leaderboard.intake.measures import default_measures
from gapbench_leaderboard.intake.outcomes import is_outcome, is_seed
from gapbench_leaderboard.scores import score_table
from gapbench_leaderboard.statistics import TableError, partial_tau

QUICK = {"replicates": 40, "pair_replicates": 10, "prediction_replicates": 3, "workers": 1}


@pytest.fixture
def table() -> pd.DataFrame:
    random = np.random.default_rng(8)
    frame = pd.DataFrame(
        {"width": np.repeat([16, 32, 64, 128, 256], 24), "lr": np.tile([0.1, 0.01, 0.001], 40)}
    )
    frame["aug"] = np.tile(np.repeat(["none", "flip"], 3), 20)
    frame["train_error"] = random.random(120).round(4) * 0.02
    frame["gap"] = (0.4 - 0.03 * np.log2(frame["width"]) + 0.05 * random.standard_normal(120)).round(4)
    frame["test_error"] = frame["gap"] + frame["train_error"]
    frame["m"] = np.log2(frame["width"]) + 0.5 * random.standard_normal(120)
    return frame


def matched(frame: pd.DataFrame, measure: str, same: np.ndarray) -> float:
    """tau-b over the pairs of `same`, shape (rows, rows), by the definition."""
    first, second = np.triu_indices(len(frame), 1)
    chosen = same[first, second]
    x, y = frame[measure].to_numpy(), frame["gap"].to_numpy()
    dx, dy = (np.sign(v[first] - v[second])[chosen] for v in (x, y))
    return float((dx * dy).sum() / np.sqrt((dx != 0).sum() * (dy != 0).sum()))


def value(scores: pd.DataFrame, proxy: str, estimator: str) -> float:
    chosen = scores[(scores["proxy"] == proxy) & (scores["estimator"] == estimator)]
    assert len(chosen) == 1, (proxy, estimator)
    return float(chosen["value"].iloc[0])


def spoken(scores: pd.DataFrame, start: str) -> str:
    return next(note for note in scores.attrs["notes"] if note.startswith(start))


# columns held fixed


@pytest.mark.parametrize("as_axis", [True, False])
def test_levels_that_recur_are_held_fixed_exactly(table: pd.DataFrame, as_axis: bool) -> None:
    """16 and 32 differ by less than 0.2 standard deviations of these widths, and are not the same width."""
    axes = ["width", "lr", "aug"] if as_axis else ["lr", "aug"]
    scores = score_table(table, ["m"], "gap", axes, given=["width"], **QUICK)
    widths = table["width"].to_numpy()
    assert 0.2 * widths.std() > 16
    expected = matched(table, "m", widths[:, None] == widths)
    assert value(scores, "m", "tau_partial") == pytest.approx(expected, abs=1e-12)
    assert spoken(scores, "given width") == "given width: pairs match where it is equal"


@pytest.mark.parametrize("kind", [float, str, object, "category", "Int64"])
def test_how_a_level_held_fixed_is_written_changes_nothing(table: pd.DataFrame, kind: object) -> None:
    one = score_table(table, ["m"], "gap", ["lr", "aug"], given=["width"], **QUICK)
    other = score_table(table.astype({"width": kind}), ["m"], "gap", ["lr", "aug"], given=["width"], **QUICK)
    assert value(other, "m", "tau_partial") == value(one, "m", "tau_partial")


@pytest.mark.parametrize(("positive", "scale"), [(True, np.log), (False, np.asarray)])
def test_sizes_that_do_not_recur_are_held_fixed_on_the_scale_of_the_logarithm(
    table: pd.DataFrame, positive: bool, scale
) -> None:
    size = np.exp(3 * np.random.default_rng(1).standard_normal(120))
    table = table.assign(size=size if positive else size - 1.0)
    scores = score_table(table, ["m"], "gap", ["lr", "aug", "width"], given=["size"], **QUICK)
    own = scale(table["size"].to_numpy())
    expected = matched(table, "m", np.abs(own[:, None] - own) <= 0.2 * own.std() * (1 + 1e-12))
    assert value(scores, "m", "tau_partial") == pytest.approx(expected, abs=1e-12)
    assert ("logarithm" in spoken(scores, "given size")) == positive


def test_an_axis_of_many_levels_is_held_fixed_exactly(table: pd.DataFrame) -> None:
    """Twenty levels in equal steps: neighbours are nearer than 0.2 standard deviations."""
    table = table.assign(level=np.arange(120) % 20, one=1)
    level = table["level"].to_numpy()
    assert 0.2 * level.std() > 1
    expected = matched(table, "m", level[:, None] == level)
    for axes in (["level"], ["level", "width"]):
        scores = score_table(table, ["m"], "gap", axes, given=["level"], **QUICK)
        assert value(scores, "m", "tau_partial") == pytest.approx(expected, abs=1e-12)


def test_a_number_that_is_missing_matches_nothing_and_an_empty_level_of_an_axis_itself(
    table: pd.DataFrame,
) -> None:
    depth = np.where(np.arange(120) % 5 == 0, np.nan, np.arange(120) % 3)
    table = table.assign(depth=depth)
    scores = score_table(table, ["m"], "gap", ["lr", "aug"], given=["depth"], **QUICK)
    assert value(scores, "m", "tau_partial") == pytest.approx(
        matched(table, "m", depth[:, None] == depth), abs=1e-12
    )
    scores = score_table(table, ["m"], "gap", ["lr", "aug", "depth"], given=["depth"], **QUICK)
    filled = np.where(np.isnan(depth), -1, depth)
    assert value(scores, "m", "tau_partial") == pytest.approx(
        matched(table, "m", filled[:, None] == filled), abs=1e-12
    )


def test_the_public_coefficient_still_says_its_tolerance(table: pd.DataFrame) -> None:
    exact = partial_tau(table, "m", "gap", ["width"], tolerance=0.0)
    assert exact == pytest.approx(
        matched(table, "m", table["width"].to_numpy()[:, None] == table["width"].to_numpy()), abs=1e-12
    )


# outcomes among the measures


@pytest.mark.parametrize(
    "name",
    [
        "test_error", "test acc", "testAcc", "test-accuracy (%)", "TestLoss", "val_acc", "valacc", "val/top1",
        "validation_loss", "eval.loss", "accuracy", "acc", "Accuracy %", "top1", "top-1 acc", "error_rate",
        "gen_gap", "generalization gap", "loss_gap", "gap_noisy", "final_test_error", "heldout_nll", "test_size",
        "ood_accuracy", "gap_pct", "top5_err", "acc_top1",
        "acc@5", "prec1", "best_acc", "balanced_accuracy", "te_acc",
        "acc_te", "test_acc1", "testing_error", "testset_accuracy",
        "test_losses", "val_errs", "test_xent", "test_r2",
        "cross_entropy_test", "out_of_sample_error", "excess_risk",
        "accuracy_gap", "cifar10-valid", "x-test", "ori-test",
    ],
)  # fmt: skip
def test_names_of_outcomes(name: str) -> None:
    assert is_outcome(name)


@pytest.mark.parametrize(
    "name",
    [
        "train_loss", "training_accuracy", "train_acc", "smoothness_gap", "sharpness", "margin", "latest_norm",
        "evaluation_time", "developer", "path_norm", "contest", "value", "spectral_gap", "accumulated_norm",
        "VPM_1", "vc_dim", "generation", "val_loss_sharpness", "test_loss_flatness", "sharpness_of_test_error",
        "gen_score", "ood_score", "val_fisher_score", "batch_size_test",
        "test_input_size", "test_time", "alpha", "loss",
    ],
)  # fmt: skip
def test_names_of_measures(name: str) -> None:
    assert not is_outcome(name)
    assert not is_seed(name)


def test_seeds_are_no_measures() -> None:
    assert all(map(is_seed, ["seed", "random_seed", "trial", "Run", "replicate", "run_id"]))


def test_the_target_in_other_units_is_no_measure(table: pd.DataFrame) -> None:
    """Whatever it is called: it would lead every ranking."""
    target = table["gap"].to_numpy()
    odd = table.assign(
        column_a=100 * table["gap"], column_b=(1 - table["gap"]).round(4), column_c=table["gap"] ** 2
    )
    names, notes = default_measures(odd, ["gap", "width", "lr", "aug"], target=target)
    assert names == ["train_error", "m", "column_c"]
    assert any(note.startswith("not scored: column_a, column_b (the target in every row") for note in notes)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_columns_whose_difference_is_the_target_are_outcomes(table: pd.DataFrame, scale: float) -> None:
    odd = table.assign(
        train_a=(scale * (1 - table["train_error"])).round(3), b=(scale * (1 - table["test_error"])).round(3)
    ).drop(columns=["train_error", "test_error"])
    names, notes = default_measures(odd, ["gap", "width", "lr", "aug"], target=table["gap"].to_numpy())
    assert names == ["m", "train_a"]
    assert any("train_a - b is" in note and "the target in every row" in note for note in notes)


def test_a_network_that_diverged_makes_no_outcome_of_a_measure() -> None:
    """One row of large numbers decides every least-squares fit; the others say that nothing is the same."""
    random = np.random.default_rng(4)
    target = 0.5 + 0.1 * random.random(60)
    target[7] = 5e4
    frame = pd.DataFrame(
        {"gap": target, "norm": random.lognormal(size=60), "sharp": random.lognormal(size=60)}
    )
    frame.loc[7, ["norm", "sharp"]] = 3e6, 1e9
    assert default_measures(frame, ["gap"], target=target) == (["norm", "sharp"], [])
    clusters = np.repeat([0.1, 0.9], 30) + 1e-3 * random.standard_normal(60)
    frame = pd.DataFrame(
        {"gap": clusters, "m": np.repeat([1.0, 2.0], 30) + 1e-3 * random.standard_normal(60)}
    )
    assert default_measures(frame, ["gap"], target=clusters)[0] == ["m"]
    same = pd.DataFrame({"gap": target, "m": (100 * target).round(2)})
    assert default_measures(same, ["gap"], target=target)[0] == []


def test_an_outcome_is_found_beside_columns_that_have_another_part(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    odd = table.assign(train_a=1 - table["train_error"], b=1 - table["test_error"])
    odd = odd.drop(columns=["train_error", "test_error"])
    target = table["gap"].to_numpy()
    assert default_measures(odd, ["gap", "width", "lr", "aug", "train_a"], target=target)[0] == ["m"]
    odd.assign(copy=100 * odd["b"]).to_csv(tmp_path / "t.csv", index=False)
    found = run(tmp_path / "t.csv", "--axes", "width,lr,aug", "--target", "train_a - b", "--json")
    scored = {row["proxy"] for row in json.loads(found.stdout)["scores"]}
    assert "m" in scored
    assert "copy" not in scored


def run(file: Path, *options: str):
    return CliRunner().invoke(cli, ["score", str(file), "--replicates", "20", *options])


def test_a_repeated_row_does_not_make_a_measure_of_the_numbers_of_rows(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    numbered = table.reset_index()
    twice = pd.concat([numbered, numbered.iloc[[4, 7]]])
    renumbered = pd.concat([twice, twice.iloc[[9]].assign(index=500)])
    renumbered.to_csv(tmp_path / "t.csv", index=False)
    found = run(tmp_path / "t.csv", "--axes", "width,lr,aug", "--json")
    document = json.loads(found.stdout)
    assert "index" not in {row["proxy"] for row in document["scores"]}
    assert any(
        "3 rows equal another in every column (data rows 121, 122, 123)" in n for n in document["notes"]
    )


# the target


def test_a_gap_can_be_the_difference_of_two_columns(table: pd.DataFrame, tmp_path: Path) -> None:
    bare = table.drop(columns="gap").assign(
        train_acc=1 - table["train_error"], test_acc=1 - table["test_error"]
    )
    bare.to_csv(tmp_path / "t.csv", index=False)
    options = ("--axes", "width,lr,aug", "--json", "--test-size", "2000")
    of_errors = json.loads(run(tmp_path / "t.csv", *options, "--target", "test_error - train_error").stdout)
    of_accuracies = json.loads(run(tmp_path / "t.csv", *options, "--target", "train_acc - test_acc").stdout)
    given = table.assign(gap=table["test_error"] - table["train_error"])
    expected = score_table(
        given, ["m"], "gap", ["width", "lr", "aug"], test_size=2000, test_error="test_error", replicates=20
    )
    for estimator in ("tau", "tau_true_gap"):
        for found in (of_errors, of_accuracies):
            rows = [r for r in found["scores"] if r["proxy"] == "m" and r["estimator"] == estimator]
            assert rows[0]["value"] == pytest.approx(value(expected, "m", estimator), abs=5e-3)
    rows = [r for r in of_errors["scores"] if r["proxy"] == "m" and r["estimator"] == "tau"]
    assert rows[0]["value"] == value(expected, "m", "tau")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["test_error", "train_error"], "--target 'test_error - train_error'"),
        (["test_acc", "train_acc"], "--target 'train_acc - test_acc'"),
        (["m"], "--target names the one to be predicted"),
    ],
)
def test_a_missing_gap_is_explained(
    table: pd.DataFrame, tmp_path: Path, columns: list[str], said: str
) -> None:
    table = table.assign(train_acc=1 - table["train_error"], test_acc=1 - table["test_error"])
    table[["width", *columns]].to_csv(tmp_path / "t.csv", index=False)
    found = run(tmp_path / "t.csv", "--axes", "width")
    assert isinstance(found.exception, TableError)
    assert said in str(found.exception)
    found = run(tmp_path / "t.csv", "--axes", "width", "--target", "test_err - train_err")
    assert "no column 'test_err'" in str(found.exception)


def test_a_target_that_sounds_turned_is_pointed_out(table: pd.DataFrame) -> None:
    table = table.assign(test_acc=1 - table["test_error"])
    scores = score_table(table, ["m"], "test_acc", ["lr"], **QUICK)
    assert "taken as larger is worse" in spoken(scores, "target test_acc")
    turned = score_table(
        table.assign(**{"test_acc - train_acc": -table["gap"]}), ["m"], "test_acc - train_acc", ["lr"]
    )
    assert "taken as larger is worse" in spoken(turned, "target test_acc - train_acc")
    for target in ("gap", "test_error", "train_acc - test_acc"):
        frame = table.assign(**{target: table["gap"]}) if target != "test_error" else table
        notes = score_table(frame, ["m"], target, ["lr"], **QUICK).attrs["notes"]
        assert not any(note.startswith("target") for note in notes)


# the test noise


def test_the_column_of_test_errors_is_taken_for_the_test_noise(table: pd.DataFrame) -> None:
    axes = ["width", "lr", "aug"]
    table = table.assign(test_error=table["test_error"] + 0.3)
    own = score_table(table, ["m"], "gap", axes, test_size=500, **QUICK)
    named = score_table(table, ["m"], "gap", axes, test_size=500, test_error="test_error", **QUICK)
    without = score_table(table.drop(columns="test_error"), ["m"], "gap", axes, test_size=500, **QUICK)
    pd.testing.assert_frame_equal(own, named)
    assert value(own, "m", "tau_true_gap") != value(without, "m", "tau_true_gap")
    assert (
        spoken(own, "the size of the test noise")
        == "the size of the test noise is that of the column test_error"
    )
    assert "as if the training error were 0" in spoken(without, "the size of the test noise")


def test_test_errors_in_percent_are_refused(table: pd.DataFrame) -> None:
    table = table.assign(error=100 * table["test_error"])
    with pytest.raises(TableError, match=r"between 0 and 1, but 'error' is .* divide percentages by 100"):
        score_table(table, ["m"], "gap", ["lr"], test_size=500, test_error="error", **QUICK)
    own = score_table(table.assign(test_error=table["error"]), ["m"], "gap", ["lr"], test_size=500, **QUICK)
    assert "as if the training error were 0" in spoken(own, "the size of the test noise")


# rows


def test_diverged_rows_can_be_left_out_and_are_pointed_out(table: pd.DataFrame, tmp_path: Path) -> None:
    state = np.where(np.arange(120) % 6 == 0, "diverged", "ok")
    table = table.assign(status=state)
    table.loc[5, "m"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--axes", "width,lr,aug", "--json")
    document = json.loads(run(tmp_path / "t.csv", *options).stdout)
    said = next(note for note in document["notes"] if note.startswith("column status"))
    assert "diverged 20, ok 100" in said
    assert "--only status=ok" in said
    folder = tmp_path / "board"
    only = run(tmp_path / "t.csv", *options, "--only", "status=ok", "--board", str(folder))
    document = json.loads(only.stdout)
    kept = table[table["status"] == "ok"]
    expected = score_table(kept.reset_index(drop=True), ["m"], "gap", ["width", "lr", "aug"], replicates=20)
    rows = [r for r in document["scores"] if r["proxy"] == "m" and r["estimator"] == "tau"]
    assert rows[0]["value"] == value(expected, "m", "tau")
    assert "20 rows with status=diverged are left out, as --only asks" in document["notes"]
    page = json.loads((folder / "data.json").read_text())
    assert sorted(page["population"]["status"]["names"]) == ["converged", "status=diverged"]
    assert value(read_scores(folder), "m", "left_out:status=diverged") == 20


@pytest.mark.parametrize("cells", [[True, False], [1, 0], ["True", "False"], [1.0, 0.0]])
def test_values_of_rows_are_written_as_one_says_them(table: pd.DataFrame, cells: list[object]) -> None:
    table = table.assign(converged=pd.Series([cells[int(k % 6 == 0)] for k in range(120)], dtype=object))
    wanted = "1" if cells[0] == 1 and cells[0] is not True else "true"
    scores = score_table(table, ["m"], "gap", ["lr"], only={"converged": [wanted]}, **QUICK)
    assert value(scores, "m", "coverage") == 1
    tau = scores[(scores["proxy"] == "m") & (scores["estimator"] == "tau")]
    assert tau["models"].iloc[0] == 100


def test_numbers_of_rows_are_those_of_the_whole_table(table: pd.DataFrame, tmp_path: Path) -> None:
    """With rows left out they are not consecutive, and still no measure; rows given twice are still copies."""
    table = table.assign(status=np.where(np.arange(120) % 4 == 0, "diverged", "ok"))
    doubled = pd.concat([table, table.iloc[:30]], ignore_index=True)
    doubled.insert(0, "id", np.arange(1, 151))
    doubled.to_csv(tmp_path / "t.csv", index=False)
    found = run(tmp_path / "t.csv", "--axes", "width,lr,aug", "--only", "status=ok", "--json")
    document = json.loads(found.stdout)
    assert "id" not in {row["proxy"] for row in document["scores"]}
    kept = table[table["status"] == "ok"].reset_index(drop=True)
    expected = score_table(kept, ["m"], "gap", ["width", "lr", "aug"], replicates=20)
    for estimator in ("tau", "granulated", "K"):
        rows = [r for r in document["scores"] if r["proxy"] == "m" and r["estimator"] == estimator]
        assert rows[0]["value"] == value(expected, "m", estimator)
    copied = int((doubled["status"][120:] == "ok").sum())
    assert any(note.startswith(f"{copied} rows equal another") for note in document["notes"])
    assert not any(note.startswith("column status") for note in document["notes"])


@pytest.mark.parametrize(
    ("name", "cells", "said"),
    [
        ("converged", [True, False], "converged=true"),
        ("diverged", [True, False], "diverged=false"),
        ("failed", [1, 0], "failed=0"),
        ("state", ["killed", "done"], "state=done"),
    ],
)
def test_the_networks_that_came_to_their_end_are_suggested(
    table: pd.DataFrame, name: str, cells: list[object], said: str
) -> None:
    """Though they are the fewer here."""
    good = cells.index(True) if name == "converged" else 1
    column = [cells[good if k % 6 == 0 else 1 - good] for k in range(120)]
    scores = score_table(table.assign(**{name: column}), ["m"], "gap", ["lr"], **QUICK)
    assert f"--only {said} ranks those alone" in spoken(scores, f"column {name}")


def test_rows_are_chosen_by_exact_values(table: pd.DataFrame) -> None:
    large = np.where(np.arange(120) % 3 == 0, 12345678901234567, 12345678901234568)
    codes = np.array(["01", "1", "1.0"], dtype=object)[np.arange(120) % 3]
    for column, wanted in ((large, "12345678901234567"), (codes, "01"), (codes, "1")):
        frame = table.assign(group=pd.Series(column, dtype=object if column is codes else np.int64))
        scores = score_table(frame, ["m"], "gap", ["lr"], only={"group": [wanted]}, **QUICK)
        tau = scores[(scores["proxy"] == "m") & (scores["estimator"] == "tau")]
        assert tau["models"].iloc[0] == 40


def test_large_whole_numbers_are_held_fixed_exactly(table: pd.DataFrame) -> None:
    group = np.arange(120) % 4
    table = table.assign(group=2**60 + group)
    scores = score_table(table, ["m"], "gap", ["lr", "aug"], given=["group"], **QUICK)
    expected = matched(table, "m", group[:, None] == group)
    assert value(scores, "m", "tau_partial") == pytest.approx(expected, abs=1e-12)


def test_losses_are_no_test_errors(table: pd.DataFrame, tmp_path: Path) -> None:
    losses = table.rename(columns={"test_error": "test_loss", "train_error": "train_loss"}).drop(
        columns="gap"
    )
    losses.to_csv(tmp_path / "t.csv", index=False)
    options = ("--axes", "width,lr,aug", "--test-size", "1000", "--json")
    found = run(tmp_path / "t.csv", *options, "--target", "test_loss - train_loss")
    assert any("as if the training error were 0" in note for note in json.loads(found.stdout)["notes"])
    errors = table.drop(columns="gap")
    errors.to_csv(tmp_path / "e.csv", index=False)
    found = run(tmp_path / "e.csv", *options, "--target", "test_error - train_error")
    assert (
        "the size of the test noise is that of the test error test_error" in json.loads(found.stdout)["notes"]
    )


def test_rows_that_nobody_has_are_refused(table: pd.DataFrame) -> None:
    with pytest.raises(TableError, match=r"no row has aug = crop; there are none \(60\), flip \(60\)"):
        score_table(table, ["m"], "gap", ["lr"], only={"aug": ["crop"]}, **QUICK)
    with pytest.raises(TableError, match=r"no column 'augm'.*Did you mean 'aug'"):
        score_table(table, ["m"], "gap", ["lr"], only={"augm": ["crop"]}, **QUICK)


def test_messages_count_rows_in_the_whole_table(table: pd.DataFrame) -> None:
    words = table.assign(m=table["m"].astype(object), ok=np.arange(120) >= 10)
    words.loc[15, "m"] = "NA"
    scores = score_table(words, ["m"], "gap", ["lr"], only={"ok": ["true"]}, **QUICK)
    assert "data row 16" in spoken(scores, "m: 1 read 'NA'")
    words.loc[15, "m"] = "many"
    with pytest.raises(TableError, match="'many' in data row 16"):
        score_table(words, ["m"], "gap", ["lr"], only={"ok": ["true"]}, **QUICK)


# the width


def test_a_width_is_a_baseline_and_what_follows_it_is_marked(table: pd.DataFrame, tmp_path: Path) -> None:
    axes = ["width", "lr", "aug"]
    scores = score_table(table, ["m"], "gap", axes, width="width", **QUICK)
    assert value(scores, "m", "tau_with_width") == pytest.approx(
        pd.Series(table["m"]).corr(table["width"], method="kendall"), abs=1e-12
    )
    expected = pd.Series(table["gap"]).corr(table["width"], method="kendall")
    assert value(scores, "width", "tau") == pytest.approx(-abs(expected), abs=1e-12)
    plain = score_table(table, ["m"], "gap", axes, **QUICK)
    assert "--width width" in spoken(plain, "axis width")
    assert value(scores, "m", "tau") == value(plain, "m", "tau")
    table.to_csv(tmp_path / "t.csv", index=False)
    found = run(tmp_path / "t.csv", "--axes", "width,lr,aug", "--width", "width", "--measures", "m")
    assert any(line.split()[1:2] == ["width"] and "baseline" in line for line in found.stdout.splitlines())


def test_the_overview_says_whether_the_first_two_differ_and_shows_partial_tau(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    random = np.random.default_rng(2)
    near, far = (table["gap"] + size * random.standard_normal(120) for size in (0.02, 0.3))
    table = table.assign(near=near, nearly=near + 1e-4 * random.standard_normal(120), far=far)
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--axes", "width,lr,aug", "--given", "width")
    apart = run(tmp_path / "t.csv", *options, "--measures", "near,far").stdout
    found = score_table(table, ["near", "far"], axes=["width", "lr", "aug"], replicates=20)
    assert f"first and second: near is {-value(found, 'far', 'tau_minus:near'):.3f} [" in apart
    assert "they differ" in apart
    same = run(tmp_path / "t.csv", *options, "--measures", "near,nearly").stdout
    assert "they cannot be told apart" in same
    assert "partial" in apart.splitlines()[0].split()
    assert "partial: among rows that match on the columns given" in apart


def test_strata_of_the_command_are_those_of_the_table(table: pd.DataFrame, tmp_path: Path) -> None:
    """The width, where it is named, or the only axis."""
    table.to_csv(tmp_path / "t.csv", index=False)
    for options, fixed in (
        (("--axes", "width,lr,aug", "--width", "width"), "width"),
        (("--axes", "lr"), "lr"),
    ):
        rows = json.loads(run(tmp_path / "t.csv", *options, "--json").stdout)["scores"]
        found = {r["estimator"]: r["value"] for r in rows if r["proxy"] == "m"}
        assert found["tau_within"] == found[f"tau_within:{fixed}"]


def test_widths_that_are_none_are_refused(table: pd.DataFrame) -> None:
    hidden = table.rename(columns={"width": "hidden"}).assign(width=1.0)
    with pytest.raises(TableError, match="cannot be called 'width' where --width names one"):
        score_table(hidden, ["m", "width"], "gap", ["hidden", "lr"], width="hidden", **QUICK)
    with pytest.raises(TableError, match="'width' must be one of the axes"):
        score_table(table, ["m"], "gap", ["lr"], width="width", **QUICK)
    with pytest.raises(TableError, match="'aug' must be a number in every row"):
        score_table(table, ["m"], "gap", ["lr", "aug"], width="aug", **QUICK)
