"""Rank statistics for a table of your own: one row per network, its measures and what was varied.

python examples/score_a_table.py
"""

import numpy as np
import pandas as pd

import gapbench

# Forty networks of a study: two learning rates, five depths, four seeds. `sharpness` follows the gap, `norm`
# follows the depth alone.
generator = np.random.default_rng(0)
table = pd.DataFrame(
    [(lr, depth, seed) for lr in (0.01, 0.1) for depth in (1, 2, 3, 4, 5) for seed in (0, 1, 2, 3)],
    columns=["learning_rate", "depth", "seed"],
)
table["gap"] = (
    0.3 - 0.02 * table["depth"] - 0.4 * table["learning_rate"] + generator.normal(0, 0.01, len(table))
)
table["sharpness"] = table["gap"] + generator.normal(0, 0.02, len(table))
table["norm"] = table["depth"] + generator.normal(0, 0.1, len(table))

scores = gapbench.score_table(
    table, measures=["sharpness", "norm"], target="gap", axes=["learning_rate", "depth"], seed_column="seed",
    test_size=10_000,
)  # fmt: skip
for proxy in ("sharpness", "norm"):
    rows = scores[scores["proxy"] == proxy].set_index("estimator")
    tau, granulated = rows.loc["tau"], rows.loc["granulated"]
    print(
        f"{proxy:10} tau {tau['value']:6.3f} [{tau['low']:6.3f}, {tau['high']:6.3f}]   one axis at a time "
        f"{granulated['value']:6.3f}"
    )
