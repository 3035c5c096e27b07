"""Rank statistics of proxies: every estimator by name, plain functions of arrays and tables."""

from .calibration import Calibration, cross_fitted_calibration
from .ceiling import Ceilings, ceilings
from .configurations import TableError
from .disattenuation import disattenuated
from .granulated import Granulated, granulated_kendall
from .incremental import incremental_information
from .infinitesimal import LinearPart
from .intervals import Sampling, interval
from .mutual_information import ConditionalMutualInformation, conditional_mutual_information
from .partial import partial_tau
from .rank import kendall_tau, spearman
from .resampling import draw_configurations, draw_multiplicities, holm
from .selection import precision_at_k, regret_at_1
from .sign_error import RobustSignError, robust_sign_error
from .strata import WithinStrata, simpson_flag, within_stratum_tau
from .transport import Domain, Transport, transport

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
