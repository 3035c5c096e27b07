"""The statistics reproduce the numbers of published tables."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from gapbench_leaderboard.statistics import (
    conditional_mutual_information,
    granulated_kendall,
    kendall_tau,
    robust_sign_error,
    spearman,
)

ORACLES = Path(os.environ.get("GAPBENCH_ORACLES", Path(__file__).parents[2].parent / "shared"))
PUBLISHED = ORACLES / "published"

pytestmark = [
    pytest.mark.oracles,
    pytest.mark.skipif(
        not PUBLISHED.is_dir(), reason=f"no published tables at {PUBLISHED} (GAPBENCH_ORACLES)"
    ),
]

PGDL_AXES = [
    "convwidth",
    "dropout_p",
    "num_conv_blocks",
    "num_dense_layers",
    "weight_decay",
    "bs",
    "dense_width",
]
NIN_AXES = ["hp.dataset", "hp.lr", "hp.model_depth", "hp.model_width", "hp.train_dataset_size"]


def test_the_thirteen_scores_of_the_pgdl_competition() -> None:
    models = pd.read_csv(PUBLISHED / "pgdl_task1_v4_models.csv")
    scores = pd.read_csv(PUBLISHED / "pgdl_task1_v4_scores.csv")
    assert len(scores) == 13
    for measure, official in zip(scores["measure"], scores["official_cmi_score"]):
        found = conditional_mutual_information(models, measure, "gen_gap", PGDL_AXES, variant="pgdl")
        assert found.value == pytest.approx(official, abs=1e-9), measure


def test_the_rank_correlations_of_nas_bench_suite_zero() -> None:
    vectors = pd.read_csv(PUBLISHED / "naslib_vectors.csv").groupby(["search_space", "dataset", "proxy"])
    published = pd.read_csv(PUBLISHED / "naslib_published.csv")
    assert len(published) == 65
    for row in published.itertuples():
        pairs = vectors.get_group((row.search_space, row.dataset, row.proxy))
        assert len(pairs) == row.n
        assert kendall_tau(pairs["x"], pairs["y"], "b") == pytest.approx(row.kendalltau, abs=1e-12)
        assert spearman(pairs["x"], pairs["y"]) == pytest.approx(row.spearman, abs=1e-12)


@pytest.fixture(scope="module")
def nin() -> pd.DataFrame:
    models = pd.read_csv(PUBLISHED / "nin_models.csv.gz")
    return models[models["counted"]].reset_index(drop=True)


@pytest.fixture(scope="module")
def nin_published() -> list[dict[str, float]]:
    rows = pd.read_csv(PUBLISHED / "nin_statistics.csv").to_dict("records")
    assert len(rows) == 13
    return rows


def test_tau_of_the_nin_table_is_taken_on_means_over_seeds(nin, nin_published) -> None:
    means = nin.groupby(NIN_AXES)[[row["measure"] for row in nin_published] + ["gen.gap"]].mean()
    for row in nin_published:
        for variant in ("a", "b"):
            value = kendall_tau(means[row["measure"]], means["gen.gap"], variant)
            assert value == pytest.approx(row[f"tau_{variant}"], abs=1e-9), row["measure"]


def test_granulated_coefficient_of_the_nin_table(nin, nin_published) -> None:
    for row in nin_published:
        found = granulated_kendall(nin, row["measure"], "gen.gap", NIN_AXES)
        assert found.overall == pytest.approx(row["psi_a"], abs=1e-9), row["measure"]
        for axis in NIN_AXES:
            assert found.per_axis[axis] == pytest.approx(row[f"psi_{axis}"], abs=1e-9), (row["measure"], axis)


def test_mutual_information_of_the_nin_table(nin, nin_published) -> None:
    for row in nin_published[::2]:
        jiang = conditional_mutual_information(nin, row["measure"], "gen.gap", NIN_AXES)
        assert jiang.value == pytest.approx(row["K_weighted"], abs=1e-9), row["measure"]
        assert "+".join(jiang.conditioning) == row["K_argmin"]
        uniform = conditional_mutual_information(nin, row["measure"], "gen.gap", NIN_AXES, variant="pgdl")
        assert uniform.value == pytest.approx(row["K_pgdl_uniform_size2"], abs=1e-9), row["measure"]
        assert "+".join(uniform.conditioning) == row["pgdl_argmin"]


def test_the_published_mutual_information_on_means_excludes_self_pairs(nin, nin_published) -> None:
    means = (
        nin.groupby(NIN_AXES)[[row["measure"] for row in nin_published] + ["gen.gap"]].mean().reset_index()
    )
    for row in nin_published[1:2]:
        found = conditional_mutual_information(
            means, row["measure"], "gen.gap", NIN_AXES, variant="pgdl", self_pairs=False
        )
        assert found.value == pytest.approx(row["K_pgdl_uniform_size2"], abs=1e-9), row["measure"]


def test_robust_sign_error_of_the_nin_table(nin, nin_published) -> None:
    for row in nin_published:
        found = robust_sign_error(nin, row["measure"], "gen.gap", NIN_AXES, "seed", 10_000)
        assert found.environments == 3829
        assert found.mean == pytest.approx(row["sign_error_mean"], abs=1e-9), row["measure"]
        assert found.p90 == pytest.approx(row["sign_error_p90"], abs=1e-9), row["measure"]
        assert found.maximum == pytest.approx(row["sign_error_max"], abs=1e-9), row["measure"]
