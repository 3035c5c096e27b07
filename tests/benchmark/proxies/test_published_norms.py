"""Identities between columns of a published table of norms, by the code that the proxies run."""

import numpy as np
import pandas as pd
import pytest

from gapbench.proxies.layer_terms import LayerTerms
from oracles import oracle


@pytest.fixture(scope="module")
def table():
    """The table of June 2020 of Dziugaite et al.: half the logarithm of a squared measure divided by m."""
    return pd.read_csv(oracle("published", "nin_models.csv.gz"))


def column(table, name):
    return table[f"complexity.{name}_adjusted1"].to_numpy()


def layers(depth):
    """Only how many they are is used; that table counts the scales of batch normalisation as layers."""
    count = 6 * depth + 2
    return LayerTerms([""] * count, [1.0] * count, [1.0] * count, 0.0)


@pytest.mark.parametrize("kind", ["spec", "fro"])
def test_sums_follow_from_products(kind, table):
    """Jiang et al. 2020, eq. 34 and 38 from 30 and 33: of 4,892 models, to the digits that the table has."""
    m = np.log(table["hp.train_dataset_size"].to_numpy())
    ratios = 2 * np.log(column(table, "fro_over_spec")) + m
    over_margin = 2 * column(table, "log_spec_orig_main") + m - ratios
    if kind == "fro":
        over_margin += 2 * (column(table, "log_prod_of_fro") - column(table, "log_prod_of_spec"))
    expected = 2 * column(table, f"log_sum_of_{kind}_over_margin") + m
    found = [layers(d).log_sum(x) for d, x in zip(table["hp.model_depth"], over_margin, strict=True)]
    with np.errstate(invalid="ignore"):
        difference = np.abs(np.array(found) - expected)
    known = np.isfinite(difference)  # models that do not fit have no margin
    assert known.sum() == 4892
    assert difference[known].max() < 0.004  # four digits are given of each column
