"""Scores of a researcher's own table, and reading it from files."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from gapbench.cli import cli
from gapbench_leaderboard.board.scores_file import read_scores
from gapbench_leaderboard.intake.reading import read_table
from gapbench_leaderboard.scores import score_table
from gapbench_leaderboard.statistics import (
    TableError,
    conditional_mutual_information,
    granulated_kendall,
    kendall_tau,
    robust_sign_error,
)

ORACLES = Path(os.environ.get("GAPBENCH_ORACLES", Path(__file__).parents[2].parent / "shared"))
QUICK = {"replicates": 60, "pair_replicates": 10, "prediction_replicates": 3, "workers": 1}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    grid = itertools.product((0.1, 0.01, 0.001), (16, 64), ("adam", "sgd"), range(5))
    frame = pd.DataFrame(
        list(grid), columns=["lr", "status", "family", "seed"]
    )  # names with a meaning of ours
    frame["gap"] = (0.2 + 0.05 * np.log10(frame["lr"]) / 3 + 0.04 * random.standard_normal(len(frame))).round(
        3
    )
    frame["good"] = frame["gap"] + 0.01 * random.standard_normal(len(frame))
    frame["bad"] = -frame["gap"] + 0.05 * random.standard_normal(len(frame))
    return frame


AXES = ["lr", "status", "family"]


def value(scores: pd.DataFrame, proxy: str, estimator: str) -> float:
    chosen = scores[(scores["proxy"] == proxy) & (scores["estimator"] == estimator)]
    assert len(chosen) == 1, (proxy, estimator)
    return float(chosen["value"].iloc[0])


def test_the_scores_are_those_of_the_plain_functions(table: pd.DataFrame) -> None:
    scores = score_table(table, ["good", "bad"], "gap", AXES, "seed", 10_000, strata=["lr"], **QUICK)
    assert (scores[["task", "family"]] == "").all(axis=None)
    assert not scores.duplicated(["proxy", "estimator"]).any()
    for name in ("good", "bad"):
        assert value(scores, name, "tau") == pytest.approx(kendall_tau(table[name], table["gap"], "b"))
        assert value(scores, name, "tau_a") == pytest.approx(kendall_tau(table[name], table["gap"], "a"))
        granulated = granulated_kendall(table, name, "gap", AXES)
        assert value(scores, name, "granulated") == pytest.approx(granulated.overall)
        for axis in AXES:
            assert value(scores, name, f"granulated:{axis}") == pytest.approx(granulated.per_axis[axis])
        k = conditional_mutual_information(table, name, "gap", AXES)
        assert value(scores, name, "K") == pytest.approx(k.value)
        error = robust_sign_error(table, name, "gap", AXES, "seed", 10_000)
        assert value(scores, name, "sign_error") == pytest.approx(error.mean)
        assert value(scores, name, "sign_error_p90") == pytest.approx(error.p90)
        assert value(scores, name, "sign_error_environments") == error.environments
        groups = [kendall_tau(rows[name], rows["gap"], "b") for _, rows in table.groupby("lr")]
        assert value(scores, name, "tau_within") == pytest.approx(np.mean(groups))
    assert value(scores, "good", "rank") == 1


def test_the_direction_is_declared_not_guessed(table: pd.DataFrame) -> None:
    plain = score_table(table, ["bad"], "gap", AXES, "seed", **QUICK)
    turned = score_table(table, ["bad"], "gap", AXES, "seed", higher_means={"bad": "better"}, **QUICK)
    assert value(plain, "bad", "tau") == -value(turned, "bad", "tau") < 0


def test_the_same_seed_gives_the_same_scores_with_any_number_of_threads(table: pd.DataFrame) -> None:
    one = score_table(table, ["good", "bad"], "gap", AXES, "seed", 10_000, **QUICK)
    two = score_table(table, ["good", "bad"], "gap", AXES, "seed", 10_000, **{**QUICK, "workers": 3})
    pd.testing.assert_frame_equal(one, two)


def test_missing_values_are_left_out_counted_and_said(table: pd.DataFrame) -> None:
    holes = table.copy()
    holes.loc[[0, 1], "good"] = [np.nan, np.inf]
    holes.loc[2, "gap"] = np.nan
    scores = score_table(holes, ["good"], "gap", AXES, "seed", **QUICK)
    assert value(scores, "good", "left_out:value not finite") == 2
    assert value(scores, "good", "left_out:gap not finite") == 1
    kept = holes[np.isfinite(holes["good"]) & np.isfinite(holes["gap"])]
    assert value(scores, "good", "tau") == pytest.approx(kendall_tau(kept["good"], kept["gap"], "b"))
    assert any("good: 2 of 59" in note for note in scores.attrs["notes"])


def test_an_incomplete_grid_and_a_continuous_axis_are_said_not_refused(table: pd.DataFrame) -> None:
    random = np.random.default_rng(1)
    odd = table.drop(index=range(5)).assign(momentum=random.random(55))
    scores = score_table(odd, ["good"], "gap", [*AXES, "momentum"], **QUICK)
    notes = " ".join(scores.attrs["notes"])
    assert "grid is incomplete" in notes
    assert "momentum is continuous" in notes
    assert np.isfinite(value(scores, "good", "tau"))


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda t: t, {"measures": ["goood"]}, "did you mean 'good'"),
        (lambda t: t, {"measures": "good"}, "list"),
        (lambda t: t, {"measures": []}, "at least one measure"),
        (lambda t: t, {"measures": ["gap"]}, "target"),
        (lambda t: t, {"axes": []}, "axis"),
        (lambda t: t, {"axes": ["lr", "lr"]}, "twice"),
        (lambda t: t, {"target": "loss"}, "loss"),
        (lambda t: t, {"test_size": 0}, "test_size"),
        (lambda t: t, {"seed_column": "run"}, "run"),
        (lambda t: t, {"strata": ["depth"]}, "depth"),
        (lambda t: pd.concat([t, t.iloc[:1]]), {}, "share their configuration and seed"),
        (lambda t: t.assign(good="high"), {}, "'high' in data row 1"),
        (lambda t: t.assign(gap=10.0), {"test_size": 100}, "fraction"),
    ],
)
def test_wrong_tables_are_refused(table: pd.DataFrame, change, arguments: dict, message: str) -> None:
    options = {"measures": ["good"], "target": "gap", "axes": AXES, "seed_column": "seed"} | arguments
    with pytest.raises(TableError, match=message):
        score_table(change(table), **options, **QUICK)


def test_small_tables_do_not_fail() -> None:
    two = pd.DataFrame({"a": [0, 1], "gap": [0.1, 0.2], "m": [1.0, 2.0]})
    for frame in (two, two.iloc[:1], two.assign(gap=0.1), two.assign(m=0.0), two.assign(m=np.nan)):
        scores = score_table(frame, ["m"], "gap", ["a"], test_size=100, **QUICK)
        assert (scores["models"] >= 0).all()
    assert value(score_table(two, ["m"], "gap", ["a"], **QUICK), "m", "tau") == 1.0


@pytest.mark.parametrize(
    "name", ["t.csv", "t.tsv", "t.jsonl", "t.csv.gz", "t.tsv.gz", "t.jsonl.gz", "t.parquet"]
)
def test_every_kind_of_file_gives_the_same_table(table: pd.DataFrame, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
        table.to_parquet(file)
    elif ".jsonl" in name:
        table.to_json(file, orient="records", lines=True, double_precision=15)
    else:
        table.to_csv(file, sep="\t" if ".tsv" in name else ",", index=False)
    pd.testing.assert_frame_equal(read_table(file), table, check_exact=False, rtol=1e-12)


def test_numbers_are_read_to_the_last_digit_and_names_are_only_names(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    numbers = random.random(300) * 10.0 ** random.integers(-12, 12, 300)
    written = pd.DataFrame(
        {
            "gap": numbers,
            "date": 1e9 + numbers,
            "train_time": np.arange(300) + 4e8,
            "kind": ["None", "1"] * 150,
        }
    )
    written.to_csv(tmp_path / "t.csv", index=False, float_format=lambda number: repr(float(number)))
    lines = [json.dumps(row) for row in written.to_dict("records")]
    (tmp_path / "t.jsonl").write_text("\n\n".join(lines) + "\n", encoding="utf-8-sig")
    for name in ("t.csv", "t.jsonl"):
        back = read_table(tmp_path / name)
        for column in ("gap", "date", "train_time"):
            assert back[column].tolist() == written[column].tolist(), (name, column)


def test_space_around_names_and_a_byte_order_mark_are_not_part_of_them(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('lr, "gap" , opt\n0.1, 0.25, sgd\n0.1, 0.5,sgd\n', encoding="utf-8-sig")
    back = read_table(file)
    assert list(back.columns) == ["lr", "gap", "opt"]
    assert back["gap"].tolist() == [0.25, 0.5]
    assert set(back["opt"]) == {"sgd"}


def test_the_order_of_rows_changes_no_value_and_no_interval(table: pd.DataFrame) -> None:
    shuffled = table.sample(frac=1, random_state=5)[list(table.columns[::-1])]
    first, second = (score_table(t, ["good", "bad"], "gap", AXES, "seed", **QUICK) for t in (table, shuffled))
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert value(first, "hyperparameter_oracle", "distinct_values") == 12  # one for each configuration


def test_a_target_that_is_the_same_everywhere_is_said(table: pd.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    table.assign(gap=0.25).to_csv(file, index=False)
    found = run(str(file), "--axes", "lr", "--measures", "good", "--replicates", "20")
    assert found.exit_code == 0, found.output
    assert "gap has the same value in every row" in found.output
    assert "nan" not in found.output


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["score", *arguments])


def test_the_command_prints_an_overview_and_notes(table: pd.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "models.csv"
    table.to_csv(file, index=False)
    options = ["--axes", "lr,status", "--axes", "family", "--measures", "good,bad", "--replicates", "50"]
    found = run(str(file), *options, "--seed-column", "seed", "--test-size", "1000", "--better", "bad")
    assert found.exit_code == 0, found.output
    assert "hyperparameter_oracle" in found.output
    assert found.output.index("good") < found.output.index("bad")


def test_the_overview_says_of_how_many_rows_and_why_columns_and_measures_have_no_part(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    file = tmp_path / "models.csv"
    half = table["good"].where(table.index % 2 == 0)
    given = table.assign(half=half, flat=1.0, name="net", test_error=table["gap"])
    pd.concat([given, given.iloc[:3]]).to_csv(file, index=False)  # three rows twice
    found = run(str(file), "--axes", "lr,status,family", "--replicates", "20")
    assert found.exit_code == 0, found.output
    line = {
        name: text
        for text in found.stdout.splitlines()
        for name in ("good", "half")
        if f" {name} " in text and "of 63" in text
    }
    assert "60 of 63" in line["good"]
    assert "30 of 63" in line["half"]
    assert "no rank: measured on less than 90 % of the networks" in line["half"]
    assert (
        "R2: share of the target's variance predicted for configurations left out; below 0: " in found.stdout
    )
    assert (
        "Columns that are not scored\n  seed, test_error (outcomes and seeds are no measures" in found.stdout
    )
    assert "\n  name (text)\n" in found.stdout
    assert "not scored" not in found.stderr
    assert "3 rows equal another in every column" in found.stderr


def test_a_table_of_ones_own_has_a_board(table: pd.DataFrame, tmp_path: Path) -> None:
    """Its columns may have the names of ours: here `status` and `family`."""
    file, folder = tmp_path / "models.csv", tmp_path / "board"
    given = table.assign(train_loss=table["good"].where(table.index > 1))
    pd.concat([given, given.iloc[:3]]).to_csv(file, index=False)
    options = ["--axes", "lr,status,family", "--better", "bad", "--replicates", "20", "--board", str(folder)]
    found = run(str(file), *options)
    assert found.exit_code == 0, found.output
    assert str(folder / "index.html") in found.stdout
    content = json.loads((folder / "data.json").read_text())
    assert content["axes"] == ["lr", "status (axis)", "family (axis)"]
    assert content["population"]["status"] == {"names": ["converged", "copy"], "codes": [0] * 60 + [1] * 3}
    told = {entry["label"]: entry for entry in content["proxies"]}
    assert told["bad"]["higher_means"] == "better"
    assert not told["train_loss"]["baseline"]  # a baseline of ours has that name
    scored = read_scores(folder)
    assert value(scored, "good", "tau_within:family (axis)") == value(
        score_table(read_table(file), ["good"], "gap", AXES, replicates=20), "good", "tau_within:family"
    )
    markdown = (folder / "board.md").read_text()
    assert "| 60 of 63 |" in markdown
    assert "| 58 of 63 |" in markdown
    (tmp_path / "file").write_text("")
    refused = run(str(file), *options[:-1], str(tmp_path / "file" / "board"))
    assert refused.exit_code != 0
    assert str(tmp_path / "file" / "board") in str(refused.exception)


def test_outcomes_are_scored_only_where_they_are_named(table: pd.DataFrame, tmp_path: Path) -> None:
    """A test error as a measure would predict the gap from what is to be predicted."""
    file = tmp_path / "models.csv"
    table.assign(test_error=table["gap"], loss_gap=1.0).to_csv(file, index=False)
    options = [str(file), "--axes", "lr,status,family", "--replicates", "20", "--json"]
    found = run(*options)
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    scored = {row["proxy"] for row in document["scores"]}
    assert {"good", "bad"} <= scored
    assert not {"seed", "test_error", "loss_gap"} & scored
    assert document["notes"][0].startswith("not scored: ")
    assert {"seed", "test_error", "loss_gap"} <= set(
        document["notes"][0].split(": ")[1].split(" (")[0].split(", ")
    )
    document = json.loads(run(*options, "--measures", "test_error").stdout)
    assert "test_error" in {row["proxy"] for row in document["scores"]}


def test_the_command_prints_json_that_a_program_can_read(table: pd.DataFrame, tmp_path: Path) -> None:
    file, output = tmp_path / "models.csv", tmp_path / "scores.csv"
    table.to_csv(file, index=False)
    options = ["--axes", "lr,status,family", "--measures", "good", "--replicates", "50", "--json"]
    found = run(str(file), *options, "--output", str(output))
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    tau = [row for row in document["scores"] if row["proxy"] == "good" and row["estimator"] == "tau"]
    assert tau[0]["value"] == pytest.approx(kendall_tau(table["good"], table["gap"], "b"))
    assert len(pd.read_csv(output)) == len(document["scores"])


@pytest.mark.parametrize(
    ("content", "name", "options", "message"),
    [
        ("a,gap,m\n0,0.1,1\n1,0.2,2\n", "t.csv", ["--axes", "b", "--measures", "m"], "no column 'b'"),
        ("a,gap,m\n0,0.1,x\n1,0.2,2\n", "t.csv", ["--axes", "a", "--measures", "m"], "'x' in data row 1"),
        ("a,gap,m\n", "t.csv", ["--axes", "a", "--measures", "m"], "no rows"),
        ("", "t.csv", ["--axes", "a", "--measures", "m"], "cannot be read as csv"),
        ("a,gap\n0,0.1,3,4\n1,2\n", "t.csv.gz", ["--axes", "a"], "cannot be read as csv"),
        ("not a table", "t.parquet", ["--axes", "a"], "cannot be read as parquet"),
        ("{broken", "t.jsonl", ["--axes", "a"], "cannot be read as jsonl: line 1"),
        ('{"a": 1}\n[1, 2]\n', "t.jsonl", ["--axes", "a"], "line 2 is no object"),
        ('{"a": 1, "m": [1, 2]}\n', "t.jsonl", ["--axes", "a"], "'m' holds a list"),
        ("", "t.jsonl", ["--axes", "a"], "no rows"),
        ("a;gap;m\n0;0.1;1\n", "t.csv", ["--axes", "a"], "separated by semicolons"),
        ("a\tgap\tm\n0\t0.1\t1\n", "t.csv", ["--axes", "a"], "separated by tabs"),
        ("a,gap,m\n0,0.1,1\n", "t.tsv", ["--axes", "a"], "separated by commas"),
        ("a,gap,m\n0,0,1,1,5\n1,0,2,2,5\n", "t.csv", ["--axes", "a"], "more values than the first line"),
        ("a,gap, gap\n0,0.1,1\n", "t.csv", ["--axes", "a"], "is named 'gap'"),
        ('{"a": 1, "gap": 0.1, "m": 2, "m": 3}\n', "t.jsonl", ["--axes", "a"], "is named 'm'"),
        ("a,gap,m\n0,0.1,1\n", "t.xlsx", ["--axes", "a"], "cannot be read as xlsx"),
        ("a,gap,m\n0,0.1,1\n", "t.csv", ["--axes", "a", "--better", "z"], "z"),
        ("a,gap\n0,0.1\n", "t.csv", ["--axes", "a"], "at least one measure"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_two(
    tmp_path: Path,
    content: str,
    name: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from gapbench.cli import main

    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(SystemExit) as stop:
        main(["score", str(file), *options])
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gapbench.cli import main

    with pytest.raises(SystemExit) as stop:
        main(["score", str(tmp_path / "nothing.csv"), "--axes", "a"])
    assert stop.value.code == 2
    assert "nothing.csv" in capsys.readouterr().err


@pytest.mark.oracles
@pytest.mark.skipif(not (ORACLES / "published").is_dir(), reason="no published tables (GAPBENCH_ORACLES)")
@pytest.mark.parametrize(
    ("model", "pooled", "within", "flag"), [("LeNet", 0.68, 0.03, 1), ("MLP", 0.86, 0.48, 0)]
)
def test_the_simpson_flag_of_minimum_sharpness(model: str, pooled: float, within: float, flag: int) -> None:
    frame = pd.read_csv(ORACLES / "published" / "minimum_sharpness_models.csv")
    frame = frame[frame["model"] == model].assign(gap=frame["train_acc"] - frame["test_acc"])
    scores = score_table(
        frame, ["minimum_sharpness"], "gap", ["shuffled_label_ratio"], "trial", 10_000,
        replicates=500, pair_replicates=5, prediction_replicates=2,
    )  # fmt: skip
    assert value(scores, "minimum_sharpness", "tau_a") == pytest.approx(pooled, abs=0.005)
    assert value(scores, "minimum_sharpness", "tau_within") == pytest.approx(within, abs=0.005)
    assert value(scores, "minimum_sharpness", "simpson") == flag
    assert value(scores, "minimum_sharpness", "unreliable") == 1


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, suffix: str, separator: str) -> None:
    path = tmp_path / f"table{suffix}"
    rows = [["gap", "width", "norm", "norm"], ["0.1", "1", "2", "3"], ["0.2", "2", "3", "4"]]
    path.write_text("\n".join(separator.join(row) for row in rows) + "\n")
    result = CliRunner().invoke(cli, ["score", str(path), "--axes", "width"])
    assert result.exit_code != 0
    with pytest.raises(TableError, match=rf"^table\{suffix}: more than one column is named 'norm'"):
        read_table(path)
