"""Scores of a population: the headline by brute force, what is left out, invariants."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gapbench_leaderboard.scores import COLUMNS, ranking, score_population
from gapbench_leaderboard.statistics import TableError

AXES = ["learning_rate", "batch_size"]


def population(seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    rows = []
    grid = itertools.product(("a", "b"), ("mlp", "cnn"), (0.5, 1.0), (0.1, 0.01), (32, 64), (0, 1))
    for task, family, width, rate, batch, run in grid:
        if family == "cnn" and batch == 64 and task == "a":
            continue  # families of different size, so that their weights matter
        gap = 0.2 - 0.05 * width + 0.05 * np.log10(rate) + 0.05 * random.standard_normal()
        rows.append(
            {
                "cell": f"c{len(rows)}", "task": task, "family": family, "width": width, "seed": run,
                "status": "converged", "gap": round(gap, 2), "learning_rate": rate, "batch_size": batch,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def measurements(table: pd.DataFrame, **proxies: np.ndarray) -> pd.DataFrame:
    frames = [
        pd.DataFrame({"cell": table["cell"], "proxy": name, "value": values, "status": "ok"})
        for name, values in proxies.items()
    ]
    return pd.concat(frames, ignore_index=True)


def value_of(scores: pd.DataFrame, proxy: str, estimator: str, task: str = "", family: str = "") -> float:
    chosen = scores[
        (scores["proxy"] == proxy)
        & (scores["estimator"] == estimator)
        & (scores["task"] == task)
        & (scores["family"] == family)
    ]
    assert len(chosen) == 1, (proxy, estimator, task, family, len(chosen))
    return float(chosen["value"].iloc[0])


@pytest.fixture(scope="module")
def scored() -> tuple[pd.DataFrame, pd.DataFrame]:
    table = population()
    random = np.random.default_rng(1)
    noisy = (table["gap"] + 0.05 * random.standard_normal(len(table))).round(2).to_numpy()
    measured = measurements(table, noisy=noisy, perfect=table["gap"].to_numpy(), constant=np.ones(len(table)))
    return table.assign(noisy=noisy), score_population(table, measured, axes=AXES, replicates=100)


def test_the_long_form_has_the_documented_columns(scored) -> None:
    assert list(scored[1].columns) == COLUMNS
    assert not scored[1].duplicated(["task", "family", "target", "proxy", "estimator"]).any()


def test_the_headline_is_tau_b_within_families_averaged_over_families_and_tasks(scored) -> None:
    table, scores = scored
    per_task = []
    for _, task in table.groupby("task"):
        families = [family for _, family in task.groupby("family")]
        tau = [stats.kendalltau(family["noisy"], family["gap"]).statistic for family in families]
        per_task.append(np.mean(tau))
    assert value_of(scores, "noisy", "tau") == pytest.approx(np.mean(per_task), abs=1e-12)
    assert value_of(scores, "noisy", "tau", task="a") == pytest.approx(per_task[0], abs=1e-12)


def test_a_perfect_proxy_scores_one_and_its_interval_says_on_how_many_networks(scored) -> None:
    row = ranking(scored[1]).set_index("proxy").loc["perfect"]
    assert (row["value"], row["high"], row["rank"]) == (1.0, 1.0, 1.0)
    assert 0 < row["low"] < 1
    assert row["p_random"] < 0.05


def test_a_constant_proxy_scores_zero_and_is_never_the_best(scored) -> None:
    table = ranking(scored[1]).set_index("proxy")
    assert table.loc["constant", "value"] == 0.0
    assert table.loc["constant", "rank"] > table.loc["perfect", "rank"]


def test_the_baselines_that_need_the_configuration_are_made_and_not_ranked(scored) -> None:
    table = ranking(scored[1]).set_index("proxy")
    for name in ("width", "hyperparameter_oracle", "noisy_oracle"):
        assert table.loc[name, "baseline"]
        assert np.isnan(table.loc[name, "rank"])
    assert table.loc["width", "value"] < 0


def test_a_measured_baseline_has_no_rank_and_is_not_counted_among_the_better() -> None:
    table = population()
    random = np.random.default_rng(5)
    blurred = table["gap"].to_numpy() + 0.2 * random.standard_normal(len(table))
    gap = table["gap"].to_numpy()
    measured = measurements(table, parameter_count=gap, blurred=blurred, noise=random.random(len(table)))
    options = {"axes": AXES, "replicates": 50, "pair_replicates": 2, "prediction_replicates": 2}
    apart = ranking(score_population(table, measured, **options)).set_index("proxy")
    assert np.isnan(apart.loc["parameter_count", "rank"])
    assert apart.loc["parameter_count", "value"] == 1.0
    assert apart.loc["blurred", "rank"] == 1
    counted = ranking(score_population(table, measured, baselines=(), **options)).set_index("proxy")
    assert counted.loc["parameter_count", "rank"] == 1
    assert counted.loc["blurred", "rank"] == 2


def test_better_negates_the_proxy(scored) -> None:
    table = scored[0]
    measured = measurements(table, noisy=-table["noisy"].to_numpy())
    scores = score_population(table, measured, axes=AXES, replicates=20, higher_means={"noisy": "better"})
    assert value_of(scores, "noisy", "tau") == value_of(scored[1], "noisy", "tau")


def test_what_is_left_out_is_counted_with_its_reason_and_never_ranked() -> None:
    table = population()
    table.loc[0, "status"] = "diverged"
    table.loc[1, "gap"] = np.nan
    measured = measurements(table, full=table["gap"].to_numpy(), part=table["gap"].to_numpy())
    part = measured.index[measured["proxy"] == "part"]
    measured.loc[part[2], "status"] = "not_applicable"
    measured.loc[part[2], "value"] = 1e9
    measured.loc[part[3], "value"] = np.inf
    measured = measured.drop(index=part[4])
    scores = score_population(table, measured, axes=AXES, replicates=20)
    for reason in ("diverged", "gap not finite", "not_applicable", "value not finite", "not measured"):
        assert value_of(scores, "part", f"left_out:{reason}") == 1
    used = scores[(scores["estimator"] == "tau") & (scores["task"] == "") & (scores["family"] == "")]
    models = used.set_index("proxy")["models"]
    assert models["full"] == len(table) - 2
    assert models["part"] == len(table) - 5
    assert value_of(scores, "part", "tau") == 1.0


def test_a_proxy_below_ninety_per_cent_is_unranked_overall_and_ranked_where_it_covers() -> None:
    table = population()
    measured = measurements(table, full=table["gap"].to_numpy(), only_mlp=table["gap"].to_numpy())
    cells = table["cell"][table["family"] == "cnn"]
    measured = measured[~((measured["proxy"] == "only_mlp") & measured["cell"].isin(cells))]
    scores = score_population(table, measured, axes=AXES, replicates=20)
    assert np.isnan(ranking(scores).set_index("proxy").loc["only_mlp", "rank"])
    assert ranking(scores, family="mlp").set_index("proxy").loc["only_mlp", "rank"] == 1


def test_paired_differences_are_taken_on_the_networks_that_both_measured() -> None:
    table = population()
    random = np.random.default_rng(2)
    one = table["gap"] + 0.03 * random.standard_normal(len(table))
    other = table["gap"] + 0.06 * random.standard_normal(len(table))
    measured = measurements(table, one=one, other=other)
    lost = table["cell"].iloc[:3]
    measured = measured[~((measured["proxy"] == "other") & measured["cell"].isin(lost))]
    options = {"axes": AXES, "replicates": 200, "pair_replicates": 2, "prediction_replicates": 2}
    scores = score_population(table, measured, **options)
    both = score_population(table.iloc[3:], measured[~measured["cell"].isin(lost)], **options)
    expected = value_of(both, "one", "tau") - value_of(both, "other", "tau")
    row = scores[(scores["proxy"] == "one") & (scores["estimator"] == "tau_minus:other")].iloc[0]
    assert row["value"] == pytest.approx(expected, abs=1e-12)
    assert row["low"] <= row["value"] <= row["high"]
    assert row["models"] == len(table) - 3


def test_the_order_of_rows_and_other_proxies_change_nothing(scored) -> None:
    table, scores = scored
    shuffled = table.sample(frac=1, random_state=3)
    alone = measurements(shuffled, noisy=shuffled["noisy"].to_numpy()).sample(frac=1, random_state=4)
    again = score_population(table, alone, axes=AXES, replicates=100)
    keys = ["task", "family", "estimator"]
    own = (again["proxy"] == "noisy") & ~again["estimator"].isin(["rank", "rank_low", "rank_high"])
    ours = again[own & ~again["estimator"].str.startswith("tau_minus:")].set_index(keys)
    theirs = scores[scores["proxy"] == "noisy"].set_index(keys).loc[ours.index]
    pd.testing.assert_frame_equal(ours, theirs)


@pytest.mark.parametrize("examples", ["none", "binomial", "correctness"])
def test_the_order_of_rows_changes_not_the_last_digit(examples: str) -> None:
    """Noise is drawn network by network, of ceilings, the true gap, the noisy oracle: the same for each network."""
    random = np.random.default_rng(11)
    table = population().assign(train_error=0.0)
    size = 40
    table["gap"] = (table["gap"].clip(0, 1) * size).round() / size  # many ties
    table["test_error"] = table["gap"]
    bits = {c: np.arange(size) >= round(g * size) for c, g in zip(table["cell"], table["gap"])}
    if examples != "none":
        table["test_size"] = size
    values = table["gap"] + 0.05 * random.standard_normal(len(table))
    measured = measurements(table, noisy=values.to_numpy(), other=random.standard_normal(len(table)))
    given = {"correctness": bits} if examples == "correctness" else {}
    first = score_population(table, measured, axes=AXES, replicates=50, **given)
    for seed in (3, 4):
        shuffled = table.sample(frac=1, random_state=seed)
        again = score_population(
            shuffled, measured.sample(frac=1, random_state=seed), axes=AXES, replicates=50, **given
        )
        pd.testing.assert_frame_equal(first, again, check_exact=True)
    if examples != "none":
        assert {"tau_true_gap", "ceiling_network"} <= set(first["estimator"])


def test_correctness_of_the_test_examples_replaces_independent_noise() -> None:
    random = np.random.default_rng(5)
    table = population().assign(test_size=200)
    wrong = (
        np.arange(200) < np.round(200 * (0.3 + table["gap"].to_numpy()))[:, None]
    )  # nested: one order of examples
    table["test_error"] = wrong.mean(axis=1)
    table["gap"] = table["test_error"]
    measured = measurements(table, x=table["gap"] + 0.02 * random.standard_normal(len(table)))
    bits = {cell: (b"", np.packbits(~row).tobytes()) for cell, row in zip(table["cell"], wrong)}
    plain = {cell: ~row for cell, row in zip(table["cell"], wrong)}
    options = {"axes": AXES, "replicates": 40, "pair_replicates": 5, "prediction_replicates": 2}
    joint = score_population(table, measured, correctness=bits, **options)
    pd.testing.assert_frame_equal(joint, score_population(table, measured, correctness=plain, **options))
    independent = score_population(table, measured, **options)
    # networks that fail on nested sets of examples are ordered rightly by any test set
    assert value_of(joint, "", "ceiling_network") > value_of(independent, "", "ceiling_network") + 0.01
    assert value_of(joint, "x", "tau") == value_of(independent, "x", "tau")
    with pytest.raises(TableError, match="no per-example correctness"):
        score_population(table, measured, correctness=dict(list(bits.items())[1:]), **options)


def test_copies_of_test_images_count_as_images() -> None:
    """Ceilings are those of a test set of the images, each once, and so are sizes; the headline stays."""
    random = np.random.default_rng(5)
    table = population().assign(test_size=60)
    once = random.random((len(table), 60)) < (0.3 + table["gap"].to_numpy())[:, None]
    table["test_error"] = once.mean(axis=1)
    table["gap"] = table["test_error"]
    measured = measurements(table, x=table["gap"] + 0.02 * random.standard_normal(len(table)))
    options = {"axes": AXES, "replicates": 40, "pair_replicates": 30, "prediction_replicates": 2}
    copied = table.assign(test_size=300)
    bits = {cell: np.tile(~row, 5) for cell, row in zip(table["cell"], once)}
    groups = {cell: np.tile(np.arange(60), 5) for cell in table["cell"]}
    expected = score_population(
        table, measured, correctness={c: ~row for c, row in zip(table["cell"], once)}, **options
    )
    found = score_population(copied, measured, correctness=bits, test_groups=groups, **options)
    kept = ~expected["estimator"].isin(["unlikely"])
    pd.testing.assert_frame_equal(found[kept], expected[kept], rtol=1e-5)
    naive = score_population(copied, measured, correctness=bits, **options)
    assert value_of(naive, "", "ceiling_network") > value_of(found, "", "ceiling_network") + 0.05
    assert value_of(naive, "x", "tau") == value_of(found, "x", "tau")


def test_repeated_measurements_give_repeatability_and_nothing_else(scored) -> None:
    table, scores = scored
    first = measurements(table, noisy=table["noisy"].to_numpy()).assign(repeat=0)
    second = first.assign(repeat=1, value=first["value"] ** 3)
    found = score_population(table, pd.concat([first, second]), axes=AXES, replicates=20)
    assert value_of(found, "noisy", "repeatability") == 1.0
    assert value_of(found, "noisy", "tau") == value_of(scores, "noisy", "tau")


def test_networks_that_did_not_converge_are_kept_for_comparison_only() -> None:
    table = population()
    table.loc[:3, "status"] = "not_converged"
    values = table["gap"].to_numpy().copy()
    values[:4] = -values[:4]
    found = score_population(table, measurements(table, x=values), axes=AXES, replicates=20)
    assert value_of(found, "x", "tau") == 1.0
    assert value_of(found, "x", "tau_with_not_converged") < 1.0
    assert value_of(found, "x", "left_out:not_converged") == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, m: (p.drop(columns="gap"), m), "gap"),
        (lambda p, m: (pd.concat([p, p.iloc[:1]]), m), "more than once"),
        (lambda p, m: (p, pd.concat([m, m.iloc[:1]])), "repeat a proxy"),
        (lambda p, m: (p, m.assign(cell="nowhere" + m["cell"])), "lacks"),
        (lambda p, m: (p, m.assign(value="many")), "many"),
    ],
)
def test_wrong_tables_are_refused_with_what_is_wrong(change, message: str) -> None:
    table = population()
    with pytest.raises(TableError, match=message):
        score_population(*change(table, measurements(table, x=table["gap"].to_numpy())), axes=AXES)


def test_few_networks_in_perfect_order_are_no_proof() -> None:
    """Six configurations: a perfect proxy cannot be told from a constant one; with eighty it can."""

    def rank_of(levels: int) -> tuple[dict[str, float], float]:
        rates = [0.1 * k for k in range(levels)]
        table = pd.DataFrame(
            {"cell": [f"c{k}" for k in range(levels)], "task": "a", "family": "mlp", "width": 1.0, "seed": 0}
            | {"status": "converged", "gap": np.linspace(0.1, 0.5, levels), "learning_rate": rates}
        )
        measured = measurements(table, perfect=table["gap"].to_numpy(), constant=np.ones(levels))
        scores = score_population(table, measured, axes=["learning_rate"], replicates=50)
        own = scores[(scores["task"] == "") & (scores["family"] == "")]
        ranks = own[own["estimator"] == "rank_low"].set_index("proxy")["value"].to_dict()
        return ranks, value_of(scores, "perfect", "p_random")

    ranks, p = rank_of(6)
    assert ranks == {"perfect": 1, "constant": 1}
    assert p == pytest.approx(2 * 0.5**3)
    ranks, p = rank_of(80)
    assert ranks == {"perfect": 1, "constant": 2}
    assert p == pytest.approx(2 * 0.5**40)


def test_granulated_counts_the_networks_that_it_rests_on() -> None:
    """An axis that varies in one family only; of that family one configuration has no partner."""
    rows = [("mlp", r, b) for r in (0.1, 0.2, 0.3) for b in (8, 16)] + [("cnn", 0.1, b) for b in (8, 16)]
    rows.append(("mlp", 0.1, 32))
    table = pd.DataFrame(
        [
            {"family": f, "learning_rate": r, "batch_size": b, "seed": s, "task": "a", "width": 1.0}
            for f, r, b in rows
            for s in (0, 1)
        ]
    ).assign(status="converged")
    random = np.random.default_rng(0)
    table["cell"] = [f"c{k}" for k in range(len(table))]
    table["gap"] = random.random(len(table))
    measured = measurements(table, noisy=random.random(len(table)))
    scores = score_population(table, measured, axes=["learning_rate", "batch_size"], replicates=20)
    own = scores[(scores["proxy"] == "noisy") & (scores["task"] == "a")].set_index(["family", "estimator"])
    models = own["models"]
    assert models["", "granulated:learning_rate"] == 12
    assert models["", "granulated:batch_size"] == 18
    assert models["", "granulated"] == 18
    assert models["cnn", "granulated:batch_size"] == 4
    assert models["", "tau"] == 18
