"""Schatten norms of layers, and tail exponents of the spectra of their weights.

Schatten norms are those of kernels reshaped to (out, in x height x width) with batch normalisation folded in, as in
`layer_norms_reshaped`. Tail exponents are those of the eigenvalues of W W', the squares of the singular values, of
each weight of a linear layer or convolution as it is, reshaped alike and without normalisation folded in; layers
with fewer than `fewest` of them are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.catalogue.margins import margin_scale
from gapbench.proxies.layer_terms import layer_terms
from gapbench.proxies.options import count
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from torch import Tensor

    from gapbench.computation.spectra import PowerLaw
    from gapbench.proxies.context import Context


@proxy("nuclear_norm", reference="sum of |W_i|_*, the trace norm", cost="weights")
def nuclear_norm(context: Context) -> Estimate:
    """sum_i |W_i|_*, nuclear norms of the kernels as matrices: sums of singular values.

    Larger values predict a larger gap. Not applicable with attention, gates, layer or group normalisation.

    Returns:
        The sum, with the layers' norms in the details.
    """
    names = layer_terms(context).names
    norms = [float(values.sum()) for values in _kernel_spectra(context)]
    return Estimate(sum(norms), details={"layers": names, "norms": norms})


@proxy("log_prod_of_schatten", reference="sum of ln |W_i|_{S_p}^2; p = 1 is the trace norm", cost="weights")
def log_prod_of_schatten(context: Context, *, p: float = 1.0) -> Estimate:
    """sum_i ln |W_i|_{S_p}^2, |W|_{S_p} = (sum_j sigma_j^p)^(1/p) of the kernels as matrices.

    p = 1 is the nuclear norm, 2 gives `log_prod_of_fro`, infinity `log_prod_of_spec_reshaped`; p below 1 gives no
    norm. Larger values predict a larger gap. Not applicable where a layer is zero, and as `nuclear_norm`.

    Returns:
        The logarithm, with the layers' norms in the details.
    """
    value, details = _log_product(context, p)
    return Estimate(value, details=details)


@proxy("log_prod_of_schatten_over_margin", reference="sum of ln |W_i|_{S_p}^2 less ln gamma^2", cost="cheap")
def log_prod_of_schatten_over_margin(context: Context, *, p: float = 1.0) -> Estimate:
    """sum_i ln |W_i|_{S_p}^2 - ln gamma^2.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_schatten`.

    Returns:
        The logarithm, with gamma and the layers' norms in the details.
    """
    gamma = margin_scale(context)
    value, details = _log_product(context, p)
    return Estimate(value - 2.0 * math.log(gamma), details={**details, "gamma": gamma})


@proxy(
    "tail_exponent",
    reference="Martin and Mahoney 2021 (alpha); Clauset, Shalizi and Newman 2009",
    cost="weights",
    central=True,
)
def tail_exponent(context: Context, *, fewest: int = 8) -> Estimate:
    """Mean over layers of alpha, the exponent of the power law x^-alpha that fits the tail of a spectrum best.

    alpha = 1 + n / sum_i ln(x_i / x_min) by maximum likelihood over the n eigenvalues from x_min on, which is the
    one of them that gives the least distance of Kolmogorov and Smirnov; at least `fewest` / 2 are kept.
    Larger values predict a larger gap: well trained layers are said to have exponents between 2 and 4. Not
    applicable where no layer has `fewest` eigenvalues.

    Returns:
        The mean, with the layers' exponents, x_min and distances in the details.
    """
    laws = _laws(context, fewest)
    return Estimate(sum(law.alpha for law in laws.values()) / len(laws), details=_of_laws(laws))


@proxy("tail_exponent_weighted", reference="Martin and Mahoney 2020 (weighted alpha)", cost="weights")
def tail_exponent_weighted(context: Context, *, fewest: int = 8) -> Estimate:
    """Mean over layers of alpha log10(lambda_max): exponents as in `tail_exponent`, weighted by size.

    lambda_max is the largest eigenvalue of W W'. Larger values predict a larger gap. Not applicable as
    `tail_exponent`.

    Returns:
        The mean, with the layers' exponents and largest eigenvalues in the details.
    """
    laws, spectra = _laws(context, fewest), _weight_spectra(context)
    largest = {name: float(spectra[name].max()) for name in laws}
    parts = [law.alpha * math.log10(largest[name]) for name, law in laws.items()]
    return Estimate(sum(parts) / len(parts), details={**_of_laws(laws), "largest": largest})


@proxy("tail_exponent_hill", reference="Hill 1975, of the eigenvalues of W W'", cost="weights")
def tail_exponent_hill(context: Context, *, share: float = 0.25, fewest: int = 8) -> Estimate:
    """Mean over layers of Hill's exponent from the largest `share` of the eigenvalues.

    alpha = 1 + k / sum_{i <= k} ln(x_i / x_{k+1}), k the whole part of `share` times their number. Larger values
    predict a larger gap. Not applicable as `tail_exponent`, and where the largest eigenvalues of a layer are equal.

    Returns:
        The mean, with the layers' exponents in the details.

    Raises:
        NotApplicable: a layer has no such exponent, or none has enough eigenvalues.
        ValueError: `share` is not between 0 and 1.
    """
    from gapbench.computation.spectra import hill_exponent

    if isinstance(share, bool) or not 0.0 < share < 1.0:
        raise ValueError(f"share = {share!r} must be between 0 and 1")
    exponents = {name: hill_exponent(x, share) for name, x in _long_spectra(context, fewest).items()}
    for name, exponent in exponents.items():
        if not math.isfinite(exponent):
            raise NotApplicable(f"the largest eigenvalues of {name} are equal")
    value = sum(exponents.values()) / len(exponents)
    return Estimate(value, details={"exponents": exponents, "share": float(share)})


def _kernel_spectra(context: Context) -> list[Tensor]:
    """Singular values of the reshaped kernels, once for all proxies."""
    from gapbench.computation.spectra import singular_values

    layers = context.composition("zero").layers
    kernels = [layer.kernel.weight for layer in layers if layer.kernel is not None]
    return context.shared(
        "spectra of reshaped kernels",
        lambda: [singular_values(kernel.reshape(len(kernel), -1)) for kernel in kernels],
    )


def _log_product(context: Context, p: float) -> tuple[float, dict[str, object]]:
    """sum_i ln |W_i|_{S_p}^2 with the gains of factors that are no layers, and the norms."""
    import torch

    if isinstance(p, bool) or not isinstance(p, int | float) or not p > 0:
        raise ValueError(f"p = {p!r} must be a positive number")
    terms = layer_terms(context)
    norms = [float(torch.linalg.vector_norm(values, p)) for values in _kernel_spectra(context)]
    for name, norm in zip(terms.names, norms):
        if not norm > 0:
            raise NotApplicable(f"the layer {name} is zero")
    value = 2.0 * (sum(math.log(norm) for norm in norms) + terms.log_gain)
    return value, {"layers": terms.names, "norms": norms, "p": float(p), "log_gain": terms.log_gain}


def _weight_spectra(context: Context) -> dict[str, Tensor]:
    """Eigenvalues of W W' that are not zero, once for all proxies."""
    from gapbench.computation.spectra import singular_values, weight_matrices

    def compute() -> dict[str, Tensor]:
        found = {}
        for name, matrix in weight_matrices(context.model).items():
            values = singular_values(matrix)
            kept = values[values > 1e-6 * values.max()] if len(values) else values
            found[name] = kept.pow(2)
        return found

    return context.shared("spectra of weights", compute)


def _long_spectra(context: Context, fewest: int) -> dict[str, Tensor]:
    least = count("fewest", fewest, 4)
    found = {name: x for name, x in _weight_spectra(context).items() if len(x) >= least}
    if not found:
        raise NotApplicable(f"no linear layer or convolution has {least} eigenvalues that are not zero")
    return found


def _laws(context: Context, fewest: int) -> dict[str, PowerLaw]:
    from gapbench.computation.spectra import power_law

    def compute() -> dict[str, PowerLaw]:
        laws = {name: power_law(x, int(fewest) // 2) for name, x in _long_spectra(context, fewest).items()}
        return {name: law for name, law in laws.items() if law is not None}

    _long_spectra(context, fewest)
    laws = context.shared(f"power laws of weights {int(fewest)}", compute)
    if not laws:
        raise NotApplicable("all eigenvalues of every layer are equal: there is no power law")
    return laws


def _of_laws(laws: dict[str, PowerLaw]) -> dict[str, object]:
    return {
        "exponents": {name: law.alpha for name, law in laws.items()},
        "least": {name: law.least for name, law in laws.items()},
        "distances": {name: law.distance for name, law in laws.items()},
        "counts": {name: law.count for name, law in laws.items()},
    }
