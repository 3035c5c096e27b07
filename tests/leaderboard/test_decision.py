"""What a population can decide: closed forms, and tables that lack almost everything."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gapbench_leaderboard.scores import (
    decide,
    decision_text,
    planned_to_rank,
    score_population,
    score_table,
)
from gapbench_leaderboard.scoring.decision.gates import (
    axis_gate,
    gates_of,
    groups_gate,
    half_width_gate,
    kept_gate,
    planted_gate,
    seeds_gate,
    spread_gate,
)
from gapbench_leaderboard.scoring.decision.resolution import overall, resolution_of, survivorship_of
from gapbench_leaderboard.scoring.decision.tree import Kept, Resolution, Stratum
from gapbench_leaderboard.statistics.noise import (
    BinomialNoise,
    JointNoise,
    ScaledNoise,
    SeveralTestSets,
)
from gapbench_leaderboard.statistics.noise import TestNoise as Noise
from leaderboard.board_cases import AWKWARD, STATES, board, scored
from leaderboard.chromium import CHROMIUM, browser, needs_browser

NAN = float("nan")
COLUMNS = ["task", "family", "target", "proxy", "estimator", "value", "low", "high", "models"]


def grid(seeds: int = 2) -> pd.DataFrame:
    """One task, two families, three widths, two rates; the gap is 0.1 width + 0.05 rate in one family."""
    rows = []
    for family in ("a", "b"):
        for width in (1.0, 2.0, 3.0):
            for rate in (0.0, 1.0):
                for seed in range(seeds):
                    gap = 0.1 * width + 0.05 * rate if family == "a" else 0.2 + 0.02 * seed
                    rows.append((family, width, rate, seed, gap))
    table = pd.DataFrame(rows, columns=["family", "width", "rate", "seed", "gap"])
    return table.assign(
        cell=[f"{k:03d}" for k in range(len(table))],
        task="t",
        status="converged",
        test_error=0.2,
        test_size=400,
    )


def nothing() -> pd.DataFrame:
    return pd.DataFrame(columns=COLUMNS).astype({"value": float, "low": float, "high": float})


def test_spread_noise_seeds_and_shares_of_a_grid_have_their_closed_forms() -> None:
    found = decide(grid(), nothing(), ["width", "rate"])
    first, second = found.strata
    assert (first.family, first.networks, first.configurations) == ("a", 12, 6)
    values = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35]
    assert first.spread == pytest.approx(np.std(values, ddof=1))
    assert first.noise == pytest.approx(math.sqrt(0.2 * 0.8 / 400))  # 0.02, of a single network
    assert first.ratio == pytest.approx(np.std(values, ddof=1) / 0.02)
    assert first.between_seeds == pytest.approx(0, abs=1e-12)
    assert first.seeds == pytest.approx(0, abs=1e-12)
    wide, rate = 0.01 * 2 / 3, 0.0025 / 4  # variances of both effects over the levels
    assert first.shares["width"] == pytest.approx(wide / (wide + rate))
    assert first.shares["rate"] == pytest.approx(rate / (wide + rate))
    assert second.between_seeds == pytest.approx(0.02 / math.sqrt(2))
    assert second.spread == pytest.approx(0, abs=1e-12)


def noises() -> dict[str, Noise]:
    random = np.random.default_rng(0)
    wrong = random.random((3, 120)) < np.array([[0.1], [0.3], [0.6]])
    binomial = BinomialNoise(np.array([0.1, 0.5, 0.0]), np.array([50, 100, 70]))
    some, other = JointNoise(wrong[:2]), JointNoise(wrong[2:, :40])
    return {
        "binomial": binomial,
        "joint": JointNoise(wrong),
        "images": JointNoise(wrong, groups=np.repeat(np.arange(30), 4)),
        "scaled": ScaledNoise(binomial, np.array([1.0, -0.5, 2.0])),
        "several": SeveralTestSets((some, other), (np.array([0, 2]), np.array([1]))),
    }


@pytest.mark.parametrize("kind", list(noises()))
def test_the_deviation_is_that_of_draws(kind: str) -> None:
    noise = noises()[kind]
    drawn = noise.draw(np.random.default_rng(1), 20_000)
    np.testing.assert_allclose(noise.deviation(), drawn.std(axis=0), rtol=0.03)


def test_examples_that_show_one_image_are_no_independent_noise() -> None:
    table = grid()
    wrong = np.zeros(400, dtype=bool)
    wrong[:80] = True  # a fifth, in whole images of four
    bits = dict.fromkeys(table["cell"], ~wrong)
    groups = dict.fromkeys(table["cell"], np.arange(400) // 4)
    single = decide(table, nothing(), ["width"], correctness=bits)
    fours = decide(table, nothing(), ["width"], correctness=bits, test_groups=groups)
    assert single.strata[0].noise == pytest.approx(0.02)
    assert fours.strata[0].noise == pytest.approx(0.04)


def test_problems_are_strata_of_their_own() -> None:
    one, other = grid().assign(noise=0.0), grid().assign(noise=0.5)
    other["cell"] = "x" + other["cell"]
    other["gap"] += 1  # what differs between problems is no spread
    both = decide(
        pd.concat([one, other], ignore_index=True), nothing(), ["width", "rate", "noise"], ["noise"]
    )
    alone = decide(grid(), nothing(), ["width", "rate"])
    assert [own.problem for own in both.strata] == ["noise 0", "noise 0", "noise 0.5", "noise 0.5"]
    for own in (both.strata[0], both.strata[2]):
        assert own.spread == pytest.approx(alone.strata[0].spread)
        assert set(own.shares) == {"width", "rate"}


def test_networks_are_counted_by_every_level() -> None:
    table = grid()
    table.loc[(table["family"] == "b") & (table["width"] == 1.0), "status"] = "not_converged"
    table.loc[0, "gap"] = np.nan
    found = decide(table, nothing(), ["width", "rate"])
    counts = {(own.by, own.level): (own.kept, own.networks) for own in found.levels}
    assert counts["task", "t"] == (19, 24)
    assert counts["family", "a"] == (11, 12)
    assert counts["family", "b"] == (8, 12)
    assert counts["width", "1"] == (3, 8)
    assert counts["rate", "0"] == (9, 12)
    assert counts["family, width", "width 1 of b"] == (0, 4)
    assert (found.kept, found.networks) == (19, 24)
    gate = found.gates[0]
    assert gate.passed is False
    assert "19 of 24" in gate.words
    assert "task t" not in gate.words  # that is all of them
    assert "width 1 of b: 0 of 4 kept" in gate.words


def test_many_numbers_are_counted_in_quarters() -> None:
    table = grid().assign(decay=np.arange(24) / 24)
    table.loc[18:, "status"] = "diverged"
    found = decide(table, nothing(), ["decay"])
    assert [(own.kept, own.networks) for own in found.levels if own.by == "decay"] == [
        (6, 6),
        (6, 6),
        (6, 6),
        (0, 6),
    ]


@pytest.mark.parametrize(
    ("kept", "levels", "passed"),
    [
        (95, [], True), (94, [], False), (0, [], False), (95, [Kept("width", "1", 9, 10)], True),
        (95, [Kept("width", "1", 8, 9)], False),
    ],
)  # fmt: skip
def test_the_gate_of_kept_networks(kept: int, levels: list[Kept], passed: bool) -> None:
    assert kept_gate(kept, 100, levels).passed is passed


def stratum(**changes: Any) -> Stratum:
    values: dict[str, Any] = {
        "task": "t", "problem": "", "family": "f", "networks": 40, "configurations": 30, "spread": 0.06,
        "noise": 0.02, "between_seeds": 0.01, "seeds": 0.1, "shares": {"width": 0.5},
    } | changes  # fmt: skip
    return Stratum(**values)


def test_gates_of_strata_pass_at_their_bounds_and_name_what_is_beyond() -> None:
    assert axis_gate([stratum()]).passed
    assert spread_gate([stratum()]).passed
    assert seeds_gate([stratum()]).passed
    high = axis_gate([stratum(), stratum(family="g", shares={"width": 0.2, "depth": 0.51})])
    assert high.passed is False
    assert "depth 0.51 (t, g)" in high.words
    assert seeds_gate([stratum(seeds=0.15)]).passed is False
    assert "2.9 (t, f)" in spread_gate([stratum(spread=0.058)]).words
    assert spread_gate([stratum(noise=0.0)]).passed
    for gate, beyond in ((seeds_gate, {"seeds": 1.0}), (spread_gate, {"spread": 0.02})):
        few = stratum(configurations=9, family="few", **beyond)  # what nine configurations say is chance
        assert gate([few]).passed is None
        assert "10 configurations to tell" in gate([few]).words
        assert gate([few, stratum()]).passed is True
        assert gate([stratum(configurations=10, **beyond)]).passed is False
    for gate in (axis_gate, spread_gate, seeds_gate):
        assert gate([]).passed is None
        assert gate([stratum(noise=NAN, spread=NAN, seeds=NAN, shares={})]).passed is None
    for strata, why in (
        ([], "there are no networks"),
        ([stratum(noise=NAN)], "the size of the test set is not known"),
        ([stratum(configurations=1, spread=NAN, noise=NAN)], "no problem and family has two configurations"),
        ([stratum(configurations=1, spread=NAN)], "no problem and family has two configurations"),
        (
            [stratum(noise=0.0, spread=0.0)],
            "where the size of the test set is known, all values are the same",
        ),
    ):
        assert spread_gate(strata).words == why


def resolution(**changes: Any) -> Resolution:
    values: dict[str, Any] = {
        "competing": 5, "half_width": 0.09, "smallest_difference": 0.1, "rank_groups": 2,
        "planted_alone": 0.8, "planted_among": 0.5,
    } | changes  # fmt: skip
    return Resolution(**values)


def test_gates_of_the_resolution_pass_at_their_bounds() -> None:
    assert half_width_gate(resolution()).passed
    assert half_width_gate(resolution(half_width=0.091)).passed is False
    assert half_width_gate(resolution(half_width=NAN)).passed is None
    hopeless = half_width_gate(
        resolution(half_width=0.57, smallest_difference=2.3)
    )  # two taus differ by 2 at most
    assert hopeless.words.endswith("; no difference of two can be significant")
    assert planted_gate(resolution()).passed
    assert planted_gate(resolution(planted_alone=0.75)).passed is False
    assert planted_gate(resolution(planted_alone=NAN)).passed is None
    assert groups_gate(resolution()).passed
    assert groups_gate(resolution(rank_groups=1)).passed is False
    assert groups_gate(resolution(competing=1)).passed is None
    assert len(gates_of(1, 1, [], [stratum()], resolution())) == 7


def score_rows(found: dict[tuple[str, str], tuple[float, float, float]]) -> pd.DataFrame:
    rows = [("", "", "gap", p, e, v, low, high, 10) for (p, e), (v, low, high) in found.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_resolution_and_survivorship_read_the_scores() -> None:
    rows = {
        ("a", "tau"): (0.5, 0.4, 0.7), ("b", "tau"): (0.3, 0.2, 0.4), ("c", "tau"): (0.1, -0.1, 0.2),
        ("width", "tau"): (0.9, 0.0, 1.0), ("a", "rank"): (1, 1, 1), ("b", "rank"): (2, 2, 3),
        ("c", "rank"): (3, 2, 3), ("", "smallest_significant_difference"): (0.2, NAN, NAN),
        ("", "planted_told_apart"): (0.85, NAN, NAN), ("a", "tau_with_not_converged"): (0.55, NAN, NAN),
        ("b", "tau_with_not_converged"): (0.1, NAN, NAN), ("width", "tau_with_not_converged"): (-0.9, NAN, NAN),
    }  # fmt: skip
    chosen = overall(score_rows(rows), "gap")
    found = resolution_of(chosen, 50, 200)
    assert found.half_width == pytest.approx(0.15)  # the median of 0.15, 0.1 and 0.15; no baseline
    assert (found.competing, found.rank_groups) == (3, 2)
    assert found.planned_half_width == pytest.approx(0.075)  # four times as many networks
    assert found.planned_smallest_difference == pytest.approx(0.1)
    assert (found.planted_alone, math.isnan(found.planted_among)) == (0.85, True)
    assert resolution_of(chosen, 100, 100).planned is None
    few = resolution_of(chosen, 47, 200)
    assert (few.planned, few.half_width) == (200, found.half_width)
    assert math.isnan(few.planned_half_width)
    assert half_width_gate(few).words.endswith("too few to say what it will be with the 200 networks planned")
    assert half_width_gate(found).words.endswith("with the 200 networks planned about ± 0.075 and 0.100")
    said = survivorship_of(chosen, 4)
    assert said.best is not None
    assert said.most is not None
    assert (said.best.proxy, said.best.tau_all) == ("a", 0.55)
    assert (said.most.proxy, said.most.tau_all) == ("b", 0.1)


@pytest.mark.parametrize("size", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "columns", [["family"], ["width", "family", "seed"], ["test_size", "test_error"], []]
)
def test_whatever_is_missing_is_said_to_be_not_known(size: int, columns: list[str]) -> None:
    table = grid().iloc[:size].drop(columns=columns)
    found = decide(table, nothing(), ["width", "rate", "no such axis"], ["no such axis"])
    assert found.networks == size
    text = decision_text(found)
    assert all(len(line) <= 100 for line in text.splitlines())
    assert text.count("not known") >= 3
    assert "nan" not in text


def test_a_population_without_any_ranked_network_says_so() -> None:
    found = decide(grid().assign(status="failed", gap=np.nan), nothing(), ["width"])
    assert found.strata == ()
    assert found.gates[0].passed is False
    assert "0 of 24" in found.gates[0].words


def test_every_file_of_a_board_says_the_same(tmp_path: Path) -> None:
    names = [*STATES, "a|b", "<img src=x onerror=alert(1)>"]
    given = board(tmp_path, ("one", "two"), 16, 2, names)
    said = json.loads((tmp_path / "data.json").read_text())["decision"]
    found = decide(given["population"], given["scores"], given["axes"], planned=70)  # none was given
    assert [gate["words"] for gate in said["gates"]] == [gate.words for gate in found.gates]
    assert said["resolution"]["half_width"] == found.resolution.half_width
    markdown = (tmp_path / "board.md").read_text()
    section = markdown.partition("## What this population can decide")[2].partition("\n## ")[0]
    for gate in found.gates:
        assert f"- **{gate.name}**, {gate.outcome}: " in section
    assert "| width | 0.25 |" in section
    assert "What this population can decide" in (tmp_path / "index.html").read_text()


def test_networks_under_distribution_shift_have_no_part_in_it(tmp_path: Path) -> None:
    networks, _, _ = scored(("one", "two"), 16, 2, tuple(STATES))
    shifted = networks.assign(shift=(networks["task"] == "two").astype(float))
    board(tmp_path, ("one", "two"), 16, 2, STATES, population=shifted)
    said = json.loads((tmp_path / "data.json").read_text())["decision"]
    assert said["networks"] == int((networks["task"] == "one").sum())


def test_a_strangers_table_is_called_by_its_own_columns() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"lr": np.repeat([0.1, 0.2, 0.4], 16), "status": np.tile(list("abcdefgh"), 6)})
    table["error"] = table["lr"] + 0.01 * random.standard_normal(48)
    table["m"] = table["error"] + 0.1 * random.standard_normal(48)
    scores = score_table(
        table, ["m"], "error", ["lr", "status"], test_size=1000, replicates=50, pair_replicates=5,
        prediction_replicates=2, workers=1,
    )  # fmt: skip
    found = scores.attrs["decision"]
    assert found.target == "error"
    assert {own.by for own in found.levels} == {"lr", "status"}
    assert set(found.strata[0].shares) == {"lr", "status"}
    assert "lr 1.00" in next(gate.words for gate in found.gates if gate.name == "axes")
    assert "column" not in decision_text(found)


def test_the_scores_tell_of_the_resolution() -> None:
    networks, values, _ = scored(("one",), 16, 2, tuple(STATES))
    scores = score_population(
        networks, values, axes=("width", "learning_rate"), replicates=100, pair_replicates=5,
        prediction_replicates=2, workers=1,
    )  # fmt: skip
    found = decide(networks, scores, ("width", "learning_rate")).resolution
    ranked = scores[(scores["estimator"] == "rank") & (scores["task"] == "") & (scores["family"] == "")]
    assert found.competing == len(ranked)
    assert 0 <= found.planted_among <= 1
    assert 0 <= found.planted_alone <= 1
    assert found.half_width > 0.05


@needs_browser
def test_the_page_shows_every_verdict_and_the_numbers_behind_it(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    networks, _, _ = scored(("one", "two"), 16, 2, tuple(STATES))
    awkward = networks.assign(
        **{AWKWARD[0]: np.arange(len(networks)) % 2, "__proto__": np.arange(len(networks)) % 3}
    )
    axes = ("width", "learning_rate", AWKWARD[0], "__proto__")
    board(tmp_path, ("one", "two"), 16, 2, STATES, population=awkward, axes=axes)
    said = json.loads((tmp_path / "data.json").read_text())["decision"]
    with browser(CHROMIUM) as page:
        page.open((tmp_path / "index.html").as_uri())
        rows = "[...document.querySelectorAll('#decision tbody tr')]"
        shown = page.value(f"{rows}.map((row) => [...row.cells].map((cell) => cell.textContent))")
        expected = [[gate["name"], gate["outcome"], gate["words"]] for gate in said["gates"]]
        assert shown[: len(expected)] == expected
        count = page.value("document.querySelectorAll('#decision-levels tbody tr').length")
        assert count == len(said["levels"])
        cells = "[...document.querySelectorAll('#decision-strata tbody tr')].map((row) => row.cells.length)"
        assert set(page.value(cells)) == {8 + len(axes)}
        assert page.complaints == []


def test_a_share_of_few_configurations_is_no_evidence() -> None:
    few = stratum(configurations=23, shares={"width": 0.9})
    assert axis_gate([few]).passed is None
    assert axis_gate([few, stratum(configurations=24, shares={"width": 0.9})]).passed is False


@pytest.mark.parametrize(
    ("planned", "trained", "rankable", "found"),
    [(31, 31, 29, 29), (100, 20, 10, 50), (7, 0, 0, 7), (40, 10, 10, 40)],
)
def test_networks_of_shifted_tasks_are_not_planned_to_be_ranked(planned, trained, rankable, found) -> None:
    assert planned_to_rank(planned, trained, rankable) == found


def test_levels_of_a_researchers_table_have_the_researchers_names() -> None:
    random = np.random.default_rng(0)
    rows = 60
    table = pd.DataFrame(
        {
            "optimizer": np.array(["sgd", "adam", "sam"])[np.arange(rows) % 3],
            "lr": np.repeat([0.1, 0.2], rows // 2),
            "gap": random.normal(size=rows),
            "m": random.normal(size=rows),
        }
    )
    table.loc[(table["optimizer"] == "sam") & (table.index < 24), "gap"] = np.nan
    decision = score_table(table, measures=["m"], target="gap", axes=["optimizer", "lr"]).attrs["decision"]
    named = {level.level for level in decision.levels if level.by == "optimizer"}
    assert named == {"sgd", "adam", "sam"}
    assert "level 0" not in decision_text(decision)
