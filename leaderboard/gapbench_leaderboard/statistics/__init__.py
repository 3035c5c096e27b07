"""Rank statistics of proxies: every estimator by name, plain functions of arrays and tables."""

from gapbench_leaderboard.statistics.calibration import Calibration, cross_fitted_calibration
from gapbench_leaderboard.statistics.ceiling import Ceilings, ceilings
from gapbench_leaderboard.statistics.configurations import TableError
from gapbench_leaderboard.statistics.disattenuation import disattenuated
from gapbench_leaderboard.statistics.granulated import Granulated, granulated_kendall
from gapbench_leaderboard.statistics.incremental import incremental_information
from gapbench_leaderboard.statistics.infinitesimal import LinearPart
from gapbench_leaderboard.statistics.intervals import Sampling, interval
from gapbench_leaderboard.statistics.mutual_information import (
    ConditionalMutualInformation,
    conditional_mutual_information,
)
from gapbench_leaderboard.statistics.partial import partial_tau
from gapbench_leaderboard.statistics.rank import kendall_tau, spearman
from gapbench_leaderboard.statistics.resampling import draw_configurations, draw_multiplicities, holm
from gapbench_leaderboard.statistics.selection import precision_at_k, regret_at_1
from gapbench_leaderboard.statistics.sign_error import RobustSignError, robust_sign_error
from gapbench_leaderboard.statistics.strata import WithinStrata, simpson_flag, within_stratum_tau
from gapbench_leaderboard.statistics.transport import Domain, Transport, transport

__all__ = [
    "Calibration",
    "Ceilings",
    "ConditionalMutualInformation",
    "Domain",
    "Granulated",
    "LinearPart",
    "RobustSignError",
    "Sampling",
    "TableError",
    "Transport",
    "WithinStrata",
    "ceilings",
    "conditional_mutual_information",
    "cross_fitted_calibration",
    "disattenuated",
    "draw_configurations",
    "draw_multiplicities",
    "granulated_kendall",
    "holm",
    "incremental_information",
    "interval",
    "kendall_tau",
    "partial_tau",
    "precision_at_k",
    "regret_at_1",
    "robust_sign_error",
    "simpson_flag",
    "spearman",
    "transport",
    "within_stratum_tau",
]
