"""Networks that a score leaves out, counted by reason: nothing is imputed, nothing vanishes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from gapbench_leaderboard.statistics.configurations import numeric

COLUMNS = ["task", "family", "proxy", "reason", "models"]


def left_out(
    population: pd.DataFrame, measurements: pd.DataFrame, target: str, ranked_status: Collection[str]
) -> pd.DataFrame:
    """Networks left out of each proxy's score by `target`, one row per task, family, proxy and reason.

    Reasons, the first that holds: the population's status (`not_converged`, `diverged`, `failed`),
    `<target> not finite`, `not measured` (no row at all), the measurement's status (`not_applicable`,
    `failed`), `value not finite`.

    Returns:
        The columns `COLUMNS`; `models` counts the networks.
    """
    cells = population[["cell"]].copy()
    cells["task"] = population["task"].astype(str)
    cells["family"] = population["family"].astype(str) if "family" in population.columns else ""
    status = population["status"].astype(str)
    cells["own"] = np.where(
        status.isin(list(ranked_status)),
        np.where(np.isfinite(numeric(population, target)), "", f"{target} not finite"),
        status,
    )
    rows = []
    keyed = measurements.assign(finite=np.isfinite(numeric(measurements, "value"))).set_index("cell")
    for proxy, group in keyed.groupby(keyed["proxy"].astype(str), sort=True):
        state = group["status"].reindex(cells["cell"]).to_numpy(dtype=object)
        finite = group["finite"].reindex(cells["cell"]).to_numpy(dtype=object)
        reason = [
            own
            or ("not measured" if pd.isna(s) else str(s) if s != "ok" else "" if f else "value not finite")
            for own, s, f in zip(cells["own"], state, finite)
        ]
        counted = cells.assign(proxy=proxy, reason=reason)
        counted = counted[counted["reason"] != ""]
        sizes = counted.groupby(["task", "family", "proxy", "reason"], sort=True).size()
        rows.append(sizes.rename("models").reset_index())
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=COLUMNS)
