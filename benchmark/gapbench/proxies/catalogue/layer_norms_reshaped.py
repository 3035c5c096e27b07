"""Products, sums and distances with the spectral norms of kernels reshaped to matrices (out, in x height x width).

The convention of much published code. It is the layer's norm for fully connected layers alone: of a convolution the
full map's may be smaller or larger, up to the root of the number of taps. All else is as in `layer_norms`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.catalogue.layer_norms import log_of_moved
from gapbench.proxies.catalogue.margins import margin_scale
from gapbench.proxies.layer_terms import layer_terms, reshaped_norms
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


@proxy(
    "log_prod_of_spec_reshaped",
    reference="Dziugaite et al. 2020 (log-prod-of-spec); Jiang et al. 2020, eq. 32",
    cost="weights",
)
def log_prod_of_spec_reshaped(context: Context) -> Estimate:
    """sum_i ln |W_i|_s^2 of the kernels as matrices.

    Larger values predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    terms = layer_terms(context, reshaped=True)
    return Estimate(terms.log_spectral_product, details=terms.details())


@proxy(
    "log_prod_of_spec_over_margin_reshaped",
    reference="Dziugaite et al. 2020 (log-prod-of-spec-over-margin); Jiang et al. 2020, eq. 31",
    cost="cheap",
)
def log_prod_of_spec_over_margin_reshaped(context: Context) -> Estimate:
    """sum_i ln |W_i|_s^2 - ln gamma^2 of the kernels as matrices.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context, reshaped=True)
    value = terms.spectral_over(gamma)
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy(
    "log_spec_orig_main_reshaped",
    reference="Dziugaite et al. 2020 (log-spec-orig-main); Jiang et al. 2020, eq. 30",
    cost="cheap",
)
def log_spec_orig_main_reshaped(context: Context) -> Estimate:
    """ln( prod_i |W_i|_s^2 sum_j |W_j|_F^2 / |W_j|_s^2 / gamma^2 ) of the kernels as matrices.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context, reshaped=True)
    value = terms.spectral_over(gamma) + math.log(terms.ratios)
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy(
    "log_spec_init_main_reshaped",
    reference="Dziugaite et al. 2020 (log-spec-init-main); Jiang et al. 2020, eq. 29",
    needs=("initial",),
    cost="cheap",
)
def log_spec_init_main_reshaped(context: Context) -> Estimate:
    """ln( prod_i |W_i|_s^2 sum_j |W_j - W_j^0|_F^2 / |W_j|_s^2 / gamma^2 ) of the kernels as matrices.

    Larger values predict a larger gap. Not applicable as `log_spec_init_main`.

    Returns:
        The logarithm; `frobenius` in the details are the distances.
    """
    gamma = margin_scale(context)
    terms = layer_terms(context, reshaped=True, reference="initial")
    value = terms.spectral_over(gamma) + log_of_moved(terms)
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy(
    "fro_over_spec_reshaped",
    reference="Dziugaite et al. 2020 (fro-over-spec); Jiang et al. 2020, eq. 33",
    cost="weights",
)
def fro_over_spec_reshaped(context: Context) -> Estimate:
    """sum_i |W_i|_F^2 / |W_i|_s^2, the sum of the stable ranks of the kernels as matrices.

    Larger values predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The sum, with the layers in the details.
    """
    terms = layer_terms(context, reshaped=True)
    return Estimate(terms.ratios, details=terms.details())


@proxy(
    "log_sum_of_spec_over_margin_reshaped",
    reference="Dziugaite et al. 2020 (log-sum-of-spec-over-margin); Jiang et al. 2020, eq. 34",
    cost="cheap",
)
def log_sum_of_spec_over_margin_reshaped(context: Context) -> Estimate:
    """ln( d (prod_i |W_i|_s^2 / gamma^2)^(1/d) ) of the kernels as matrices.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context, reshaped=True)
    value = terms.log_sum(terms.spectral_over(gamma))
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy(
    "log_sum_of_spec_reshaped",
    reference="Dziugaite et al. 2020 (log-sum-of-spec); Jiang et al. 2020, eq. 35",
    cost="weights",
)
def log_sum_of_spec_reshaped(context: Context) -> Estimate:
    """ln( d (prod_i |W_i|_s^2)^(1/d) ) of the kernels as matrices.

    Larger values predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    terms = layer_terms(context, reshaped=True)
    return Estimate(terms.log_sum(terms.log_spectral_product), details=terms.details())


@proxy(
    "dist_spec_init_reshaped",
    reference="Dziugaite et al. 2020 (dist-spec-init); Jiang et al. 2020, eq. 41",
    needs=("initial",),
    cost="weights",
)
def dist_spec_init_reshaped(context: Context) -> Estimate:
    """sum_i |W_i - W_i^0|_s^2 of the differences of kernels as matrices.

    Larger values predict a larger gap. Not applicable as `fro_dist`.

    Returns:
        The sum, with the layers' distances in the details.
    """
    names = layer_terms(context, reference="initial").names
    distances = reshaped_norms(context, "initial")
    return Estimate(sum(s**2 for s in distances), details={"layers": names, "distances": distances})
