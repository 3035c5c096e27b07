"""Networks of one problem and family are compared: closed forms, brute force, and what must change nothing."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pytest

from gapbench_leaderboard.board.agreement import agreement
from gapbench_leaderboard.scores import TableError, score_population, score_table
from gapbench_leaderboard.scoring.estimators.across_problems import across
from gapbench_leaderboard.scoring.replicates import Replicates
from gapbench_leaderboard.scoring.study import measured, studies
from leaderboard.test_scores_population import measurements, value_of

AXES = ["label_noise", "train_size", "learning_rate"]
PROBLEM = ["label_noise", "train_size"]
FAST = {"replicates": 30, "pair_replicates": 5, "prediction_replicates": 2, "workers": 1}


def hand_made(rows: list[tuple[str, float, float, float]]) -> pd.DataFrame:
    """Rows of (family, label noise, gap, proxy), one task, a configuration each."""
    table = pd.DataFrame(rows, columns=["family", "label_noise", "gap", "x"])
    return table.assign(
        cell=[f"c{k}" for k in range(len(table))], task="a", width=1.0, seed=0, status="converged",
        learning_rate=np.arange(len(table)) / 10,
    )  # fmt: skip


def scores_of(table: pd.DataFrame, problem: list[str] | None = None, **options: object) -> pd.DataFrame:
    return score_population(
        table,
        measurements(table, x=table["x"].to_numpy()),
        axes=["label_noise", "learning_rate"],
        problem=["label_noise"] if problem is None else problem,
        **{**FAST, **options},
    )


def test_families_of_very_different_size_weigh_equally() -> None:
    """Six networks in perfect order (15 pairs), two in the reverse order (1 pair): 0, and not 14 / 16."""
    big = [("big", 0.0, k / 10, float(k)) for k in range(6)]
    small = [("small", 0.0, k / 10, -float(k)) for k in range(2)]
    scores = scores_of(hand_made(big + small))
    assert value_of(scores, "x", "tau", family="big") == 1.0
    assert value_of(scores, "x", "tau", family="small") == -1.0
    assert value_of(scores, "x", "tau", task="a") == 0.0
    assert value_of(scores, "x", "tau_within") == 0.0


def test_problems_of_a_family_weigh_by_their_pairs() -> None:
    """Four networks in order (6 pairs) and two reversed (1 pair) of one family: 5 / 7."""
    rows = [("mlp", 0.0, k / 10, float(k)) for k in range(4)] + [
        ("mlp", 0.2, k / 10, -float(k)) for k in range(2)
    ]
    assert value_of(scores_of(hand_made(rows)), "x", "tau") == pytest.approx(5 / 7, abs=1e-15)


def test_a_detector_of_wrong_labels_earns_nothing() -> None:
    """It knows the label noise and nothing else: best of all when problems are mixed, 0 where they are not.

    Pooled: 9 of 15 pairs differ in the proxy, all rightly: 9 / sqrt(9 * 15). Across: 9 of 9.
    """
    rows = [("mlp", noise, noise + k / 20, noise) for noise in (0.0, 0.4) for k in range(3)]
    scores = scores_of(hand_made(rows))
    assert value_of(scores, "x", "tau") == 0.0
    assert value_of(scores, "x", "tau_across_problems") == 1.0
    assert value_of(scores, "x", "tau_b") == pytest.approx(9 / np.sqrt(9 * 15), abs=1e-15)
    before = scores_of(hand_made(rows), problem=[])
    assert value_of(before, "x", "tau") == pytest.approx(9 / np.sqrt(9 * 15), abs=1e-15)
    assert not (before["estimator"] == "tau_across_problems").any()


def test_a_proxy_wrong_within_and_right_across_problems() -> None:
    """3 + 3 pairs within, all wrong, and 9 across, all right: -1, 1, and (9 - 6) / 15 pooled."""
    rows = [("mlp", noise, noise + k / 20, 10 * noise - k) for noise in (0.0, 0.4) for k in range(3)]
    scores = scores_of(hand_made(rows))
    found = {
        name: value_of(scores, "x", name) for name in ("tau", "tau_across_problems", "tau_b", "tau_within")
    }
    assert found == {
        "tau": -1.0,
        "tau_across_problems": 1.0,
        "tau_b": pytest.approx(0.2, abs=1e-15),
        "tau_within": -1.0,
    }
    pairs = {name: value_of(scores, "x", f"pairs:{name}") for name in ("tau", "tau_across_problems")}
    assert pairs == {"tau": 6, "tau_across_problems": 9}


def test_constant_proxies_count_nothing_and_families_without_an_order_drop_out() -> None:
    """Families: one in order (1), one of a constant proxy (0), one of a constant target, one of single networks."""
    rows = [("order", 0.0, k / 10, float(k)) for k in range(3)]
    rows += [("flat proxy", 0.0, k / 10, 1.0) for k in range(3)]
    rows += [("flat target", 0.0, 0.5, float(k)) for k in range(3)]
    rows += [("lonely", noise, noise, noise) for noise in (0.0, 0.2, 0.4)]
    scores = scores_of(hand_made(rows))
    assert value_of(scores, "x", "tau", task="a") == 0.5
    assert value_of(scores, "x", "tau", family="flat proxy") == 0.0
    assert np.isnan(value_of(scores, "x", "tau", family="flat target"))
    assert np.isnan(value_of(scores, "x", "tau", family="lonely"))
    assert value_of(scores, "x", "tau_across_problems", task="a") == 1.0  # of the lonely family alone
    assert not ((scores["estimator"] == "tau_across_problems") & (scores["family"] == "order")).any()


# Brute force: every pair of networks one by one.


def random_population(seed: int) -> pd.DataFrame:
    """Two tasks, families of different size, problems of different size, ties in everything, two seeds."""
    random = np.random.default_rng(seed)
    rows = []
    for task, family in itertools.product(("a", "b"), ("mlp", "cnn", "vit")):
        for noise, size, rate, width, run in itertools.product(
            (0.0, 0.2), (100, 200), (0.1, 0.2), (0.5, 1.0), (0, 1)
        ):
            if family == "cnn" and (noise or size == 200):
                continue  # one problem
            if random.random() < {"mlp": 0.1, "cnn": 0.2, "vit": 0.6}[family]:
                continue
            gap = round(0.1 + noise / 2 - 0.05 * width + 0.06 * random.standard_normal(), 2)
            rows.append((task, family, noise, size, rate, width, run, gap))
    columns = ["task", "family", "label_noise", "train_size", "learning_rate", "width", "seed", "gap"]
    table = pd.DataFrame(rows, columns=columns)
    table["x"] = (table["gap"] + 0.1 * random.standard_normal(len(table))).round(1)
    table.loc[table["family"] == "cnn", "x"] = table["x"].round(0)
    table["parameters"] = np.round(1000 * table["width"] ** 2) + random.integers(0, 300, len(table))
    table.loc[random.random(len(table)) < 0.1, "x"] = np.nan
    return table.assign(cell=[f"c{k}" for k in range(len(table))], status="converged")


def brute(
    table: pd.DataFrame, columns: list[str], weight=None, pair=None, x: str = "x", y: str = "gap"
) -> float:
    """tau-b within groups of equal `columns`, by pairs in a family, families equally; one task."""
    weight = np.ones(len(table)) if weight is None else weight
    families = []
    for _, family in table.assign(weight=weight).groupby("family"):
        numerator, denominator = 0.0, 0.0
        for _, group in family.groupby(columns) if columns else [("", family)]:
            d = ux = uy = n = 0.0
            for i, j in itertools.combinations(range(len(group)), 2):
                one, other = group.iloc[i], group.iloc[j]
                if pair is not None and not pair(one, other):
                    continue
                w = one["weight"] * other["weight"]
                dx, dy = np.sign(one[x] - other[x]), np.sign(one[y] - other[y])
                d, ux, uy, n = d + w * dx * dy, ux + w * dx**2, uy + w * dy**2, n + w
            if uy > 0:
                denominator += n
                numerator += n * d / np.sqrt(ux * uy) if ux > 0 else 0.0
        if denominator:
            families.append(numerator / denominator)
    return float(np.mean(families)) if families else float("nan")


@pytest.mark.parametrize("seed", range(3))
def test_every_estimator_within_families_is_that_of_brute_force(seed: int) -> None:
    table = random_population(seed)
    second = table["x"].to_numpy() + np.random.default_rng(seed).integers(0, 2, len(table)) / 10
    first = measurements(table, x=table["x"].to_numpy()).assign(repeat=0)
    first["status"] = np.where(table["x"].isna(), "failed", "ok")
    again = first.assign(repeat=1, value=second)
    scores = score_population(table, pd.concat([first, again]), axes=AXES, problem=PROBLEM, **FAST)
    own = table.assign(second=second)
    log = np.log(own["parameters"])
    usable = own[own["x"].notna()]
    near = {
        task: 0.2 * log[(own["task"] == task) & own["x"].notna()].std(ddof=0) * (1 + 1e-12)
        for task in ("a", "b")
    }

    def matched(one: pd.Series, other: pd.Series) -> bool:
        return abs(np.log(one["parameters"]) - np.log(other["parameters"])) <= near[one["task"]]

    def apart(one: pd.Series, other: pd.Series) -> bool:
        return any(one[column] != other[column] for column in PROBLEM)

    expected = {
        "tau": lambda t: brute(t, PROBLEM),
        "tau_within": lambda t: brute(t, [*PROBLEM, "width"]),
        "tau_with_width": lambda t: brute(t, PROBLEM, y="width"),
        "tau_partial": lambda t: brute(t, PROBLEM, pair=matched),
        "repeatability": lambda t: brute(t, PROBLEM, y="second"),
        "tau_across_problems": lambda t: brute(t, [], pair=apart),
        "tau_within:learning_rate": lambda t: brute(t, [*PROBLEM, "learning_rate"]),
        "tau_within:label_noise": lambda t: brute(t, PROBLEM),
    }
    for name, compute in expected.items():
        by_task = {task: compute(usable[usable["task"] == task]) for task in ("a", "b")}
        for task, value in by_task.items():
            assert value_of(scores, "x", name, task=task) == pytest.approx(value, abs=1e-12), (name, task)
        if ":" not in name:
            assert value_of(scores, "x", name) == pytest.approx(np.mean(list(by_task.values())), abs=1e-12), (
                name
            )


def test_bootstrap_and_jackknife_follow_the_same_pairs() -> None:
    """Entry by entry: pairs weigh m_i m_j over different networks, families equally, however they were drawn."""
    table = random_population(7)
    table = table[table["task"] == "a"]
    values = measured(table, measurements(table, x=table["x"].to_numpy()), ["x"], None)
    (study,) = studies(table, values, values.iloc[:, :0], "gap", AXES, ("converged",), problem=PROBLEM)
    part = Replicates(study, 12, 0, deleted=study.configurations)
    mask = part.measured("x")
    drawn = part.multiplicities.matrix()
    rows = study.networks.assign(x=study.proxies["x"])[mask]
    headline, between = part.headline("x", mask), across(part, "x")
    deleted = range(13, part.entries, 5)
    for entry in (0, 1, 2, 7, 12, *deleted):
        weight = drawn[entry, mask].astype(float)
        for number, family in enumerate(study.family_names):
            own = (rows["family"] == family).to_numpy()
            args = (rows[own], PROBLEM, weight[own])
            assert headline[number, entry] == pytest.approx(brute(*args), abs=1e-12, nan_ok=True)

            def apart(one: pd.Series, other: pd.Series) -> bool:
                return any(one[column] != other[column] for column in PROBLEM)

            value = brute(rows[own], [], weight[own], pair=apart)
            assert between[number, entry] == pytest.approx(value, abs=1e-12, nan_ok=True)


def test_what_happens_between_problems_changes_nothing_within_them() -> None:
    """Another level of gaps and of a proxy in every problem: the columns and their intervals stay."""
    table = random_population(3)
    table["gap"] = (table["gap"] * 64).round() / 64
    table["x"] = np.random.default_rng(0).permutation(len(table)) / 64
    table = table.assign(test_error=table["gap"].clip(0, 1), test_size=1000)
    level = table.groupby(PROBLEM).ngroup().to_numpy() * 4.0
    moved = table.assign(gap=table["gap"] + level, x=table["x"] - 16 * level)
    options = {"axes": AXES, "problem": PROBLEM, **FAST}
    frames = [
        score_population(t, measurements(t, x=t["x"].to_numpy()).assign(status="ok"), **options)
        for t in (table, moved)
    ]
    names = ["tau", "tau_true_gap", "tau_within", "tau_within:width", "tau_partial", "tau_with_width"]
    names += ["tau_standard_error", "tau_standard_error_infinitesimal", "p_random", "ceiling_network"]
    kept = [f[f["proxy"].isin(["x", ""]) & f["estimator"].isin(names)].reset_index(drop=True) for f in frames]
    simulated = kept[0]["estimator"].isin(
        ["tau_true_gap", "ceiling_network"]
    )  # where ties are a matter of rounding
    pd.testing.assert_frame_equal(kept[0][~simulated], kept[1][~simulated], rtol=1e-12)
    pd.testing.assert_frame_equal(kept[0][simulated], kept[1][simulated], rtol=1e-3)
    assert set(names) == set(kept[0]["estimator"])
    changed = [value_of(f, "x", "tau_across_problems") for f in frames]
    assert changed[1] < -0.9 < changed[0]


def test_proxies_agree_within_problems_and_families_equally() -> None:
    """One proxy is the other but for the level of each problem; a small family says the contrary of a large one."""
    big = [("big", noise, 0.1, float(k)) for noise in (0.0, 0.4) for k in range(5)]
    table = hand_made(big + [("small", 0.0, 0.1, float(k)) for k in range(2)])
    level = np.where(table["label_noise"] > 0, -100.0, 0.0)
    other = np.where(table["family"] == "big", table["x"] + level, -table["x"])
    both = measurements(table, x=table["x"].to_numpy(), y=other)
    entries = [{"label": name, "proxy": name} for name in ("x", "y")]
    found = agreement(table, both, entries, ["label_noise"])  # type: ignore[arg-type]
    assert found["tau"][0][1] == pytest.approx(0.0, abs=1e-12)
    mixed = agreement(table, both, entries)["tau"][0][1]  # type: ignore[arg-type]
    assert mixed is not None
    assert mixed < -0.2


# Tables of others.


def own_table() -> pd.DataFrame:
    rows = [(noise, rate, noise + rate, noise) for noise in (0.0, 0.5) for rate in (0.1, 0.2, 0.3)]
    return pd.DataFrame(rows, columns=["label_noise", "rate", "gap", "detector"])


def test_a_table_may_name_its_problem_and_is_told_that_it_can() -> None:
    options = {"axes": ["label_noise", "rate"], "replicates": 20, "workers": 1}
    plain = score_table(own_table(), ["detector"], **options)
    assert value_of(plain, "detector", "tau") == pytest.approx(9 / np.sqrt(9 * 15))
    assert any("label_noise" in note and "--problem" in note for note in plain.attrs["notes"])
    named = score_table(own_table(), ["detector"], problem=["label_noise"], **options)
    assert value_of(named, "detector", "tau") == 0.0
    assert value_of(named, "detector", "tau_across_problems") == 1.0
    assert not any("--problem" in note for note in named.attrs["notes"])
    renamed = own_table().rename(columns={"label_noise": "noise"})
    quiet = score_table(renamed, ["detector"], axes=["noise", "rate"], replicates=20, workers=1)
    assert not any("--problem" in note for note in quiet.attrs["notes"])


@pytest.mark.parametrize("problem", [["rates"], ["gap"], "label_noise"])
def test_a_problem_that_is_no_axis_is_refused(problem: list[str]) -> None:
    with pytest.raises(TableError, match="problem"):
        score_table(own_table(), ["detector"], axes=["label_noise", "rate"], problem=problem)
    table = hand_made([("mlp", 0.0, 0.1, 1.0), ("mlp", 0.0, 0.2, 2.0)])
    with pytest.raises(TableError, match="problem"):
        scores_of(table, problem=problem if isinstance(problem, str) else ["width"])


@pytest.mark.parametrize(
    "name",
    ["train_size", "test_size", "value", "models", "problem", "proxy", "index", "repeat", "group", "target", "low",
     "rank", "tau", "stratum", "estimator", "log_parameters", "weight", "label_noise", "0"],
)  # fmt: skip
@pytest.mark.parametrize("of_problem", [False, True])
def test_an_axis_may_be_called_what_it_likes(name: str, of_problem: bool) -> None:
    """Of the same table with the axis under a plain name, all scores are the same."""
    table = random_population(1).drop(columns=["train_size"]).rename(columns={"label_noise": "plain"})
    found = {}
    for axis in ("plain", name):
        own = table.rename(columns={"plain": axis})
        own["seed"] = np.arange(len(own))
        given = {"axes": [axis, "learning_rate"], "problem": [axis] if of_problem else []}
        frame = score_population(own, measurements(own, x=own["x"].to_numpy()), **given, **FAST)
        by_axis = rf"^((?:pairs:)?(?:granulated|tau_within|tau_pooled_minus_within|simpson)):{axis}$"
        frame["estimator"] = [
            re.sub(by_axis, lambda found: f"{found[1]}:axis", e) for e in frame["estimator"]
        ]
        found[axis] = frame
    if name != "test_size":  # which says how large the test set was
        pd.testing.assert_frame_equal(found["plain"], found[name])
    assert "granulated:axis" in set(found[name]["estimator"])
