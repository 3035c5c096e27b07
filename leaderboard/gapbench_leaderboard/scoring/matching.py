"""Partial tau of a study: over pairs of one problem and family that are matched on the columns held fixed."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.replicates import ReplicatedEstimate, Replicates
from gapbench_leaderboard.statistics.matched import MatchedFamilies
from gapbench_leaderboard.statistics.partial import is_quantity


def partial(part: Replicates, proxy: str) -> ReplicatedEstimate | None:
    """tau-b over the pairs matched on the columns held fixed; None without such columns."""
    study = part.study
    if not study.given:
        return None
    mask = part.measured(proxy)
    for column in study.given:
        if is_quantity(study.networks[column]):
            mask = mask & np.isfinite(study.networks[column].to_numpy(dtype=np.float64, na_value=np.nan))
    key, index = mask.tobytes(), np.flatnonzero(mask)
    if key not in part.matched:
        codes, own = np.unique(study.configuration[index], return_inverse=True)
        part.matched[key] = MatchedFamilies.of(
            study.networks.iloc[index],
            study.given,
            part.codes("problem")[index],
            study.family[index],
            own.reshape(-1),
            part.of_configurations.select(codes),
        )
    matched, x, y = part.matched[key], study.proxies[proxy][index], study.target[index]
    return ReplicatedEstimate(matched.tau_b(x, y), matched.standard_error(x, y), signs=matched.signs(y))
