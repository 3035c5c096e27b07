"""Rank statistics of proxies: every estimator by name, plain functions of arrays and tables."""

from .configurations import TableError
from .granulated import Granulated, granulated_kendall
from .mutual_information import ConditionalMutualInformation, conditional_mutual_information
from .rank import kendall_tau, spearman
from .sign_error import RobustSignError, robust_sign_error

__all__ = [
    "ConditionalMutualInformation",
    "Granulated",
    "RobustSignError",
    "TableError",
    "conditional_mutual_information",
    "granulated_kendall",
    "kendall_tau",
    "robust_sign_error",
    "spearman",
]
