"""Products, sums and distances of layers' norms, with the spectral norms of the layers' full linear maps.

W_i is the kernel or matrix of layer i of d, with the batch normalisation after it folded in, |W_i|_F the Euclidean
norm of its entries, |A_i|_s the largest singular value of the map between whole activations that it makes at the
real input size, stride and padding, and gamma the 10th percentile of the training margins. Factors of single units
that follow no linear layer (batch normalisation before an activation) scale products by their gain and are no
layers. Products run over all layers, whatever the graph: where branches meet they are not the network's Lipschitz
constant. Logarithms throughout, so that nothing overflows. None is defined with attention, gates, layer or group
normalisation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.catalogue.margins import margin_scale
from gapbench.proxies.layer_terms import LayerTerms, full_maps, layer_terms, spectral_distances
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


@proxy("log_prod_of_spec", reference="Jiang et al. 2020, eq. 32", cost="weights")
def log_prod_of_spec(context: Context) -> Estimate:
    """sum_i ln |A_i|_s^2, the logarithm of the product of squared spectral norms of the full maps.

    Larger values predict a larger gap. Not applicable where a layer is zero, and with attention, gates, layer or
    group normalisation.

    Returns:
        The logarithm, with the layers in the details.
    """
    terms = layer_terms(context)
    return Estimate(terms.log_spectral_product, details=terms.details())


@proxy("log_prod_of_spec_over_margin", reference="Jiang et al. 2020, eq. 31", cost="cheap")
def log_prod_of_spec_over_margin(context: Context) -> Estimate:
    """sum_i ln |A_i|_s^2 - ln gamma^2.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context)
    value = terms.spectral_over(gamma)
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy("log_spec_orig_main", reference="Jiang et al. 2020, eq. 30", cost="cheap", central=True)
def log_spec_orig_main(context: Context) -> Estimate:
    """ln( prod_i |A_i|_s^2 sum_j |W_j|_F^2 / |A_j|_s^2 / gamma^2 ).

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context)
    value = terms.spectral_over(gamma) + math.log(terms.ratios)
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy("log_spec_init_main", reference="Jiang et al. 2020, eq. 29", needs=("initial",), cost="cheap")
def log_spec_init_main(context: Context) -> Estimate:
    """ln( prod_i |A_i|_s^2 sum_j |W_j - W_j^0|_F^2 / |A_j|_s^2 / gamma^2 ), W^0 the initial layers.

    The initial batch normalisations have the statistics of the training inputs. Larger values predict a larger
    gap. Not applicable unless gamma > 0, where no layer has moved, and as `log_prod_of_spec`.

    Returns:
        The logarithm; `frobenius` in the details are the distances.
    """
    gamma, terms = margin_scale(context), layer_terms(context, reference="initial")
    value = terms.spectral_over(gamma) + log_of_moved(terms)
    return Estimate(value, details=terms.details(gamma=gamma))


def log_of_moved(distances: LayerTerms) -> float:
    """ln of the sum of squared distances over squared spectral norms.

    Returns:
        The logarithm.

    Raises:
        NotApplicable: all distances are 0.
    """
    ratios = distances.ratios
    if not ratios > 0:
        raise NotApplicable("the layers are as they were at initialisation")
    return math.log(ratios)


@proxy("fro_over_spec", reference="Jiang et al. 2020, eq. 33", cost="weights")
def fro_over_spec(context: Context) -> Estimate:
    """sum_i |W_i|_F^2 / |A_i|_s^2, norms of the kernels over those of the full maps.

    Both are of one matrix in fully connected networks alone; of full maps it is `stable_rank`. Larger values
    predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The sum, with the layers in the details.
    """
    terms = layer_terms(context)
    return Estimate(terms.ratios, details=terms.details())


@proxy("log_sum_of_spec_over_margin", reference="Jiang et al. 2020, eq. 34", cost="cheap")
def log_sum_of_spec_over_margin(context: Context) -> Estimate:
    """ln( d (prod_i |A_i|_s^2 / gamma^2)^(1/d) ).

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context)
    value = terms.log_sum(terms.spectral_over(gamma))
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy("log_sum_of_spec", reference="Jiang et al. 2020, eq. 35", cost="weights")
def log_sum_of_spec(context: Context) -> Estimate:
    """ln( d (prod_i |A_i|_s^2)^(1/d) ).

    Larger values predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    terms = layer_terms(context)
    return Estimate(terms.log_sum(terms.log_spectral_product), details=terms.details())


@proxy("log_prod_of_fro_over_margin", reference="Jiang et al. 2020, eq. 36", cost="cheap")
def log_prod_of_fro_over_margin(context: Context) -> Estimate:
    """sum_i ln |W_i|_F^2 - ln gamma^2.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context)
    value = terms.frobenius_over(gamma)
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy("log_prod_of_fro", reference="Jiang et al. 2020, eq. 37", cost="weights")
def log_prod_of_fro(context: Context) -> Estimate:
    """sum_i ln |W_i|_F^2, the logarithm of the product of squared norms of the kernels.

    Larger values predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    terms = layer_terms(context)
    return Estimate(terms.log_frobenius_product, details=terms.details())


@proxy("log_sum_of_fro_over_margin", reference="Jiang et al. 2020, eq. 38", cost="cheap")
def log_sum_of_fro_over_margin(context: Context) -> Estimate:
    """ln( d (prod_i |W_i|_F^2 / gamma^2)^(1/d) ).

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    gamma, terms = margin_scale(context), layer_terms(context)
    value = terms.log_sum(terms.frobenius_over(gamma))
    return Estimate(value, details=terms.details(gamma=gamma))


@proxy("log_sum_of_fro", reference="Jiang et al. 2020, eq. 39", cost="weights")
def log_sum_of_fro(context: Context) -> Estimate:
    """ln( d (prod_i |W_i|_F^2)^(1/d) ).

    Larger values predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The logarithm, with the layers in the details.
    """
    terms = layer_terms(context)
    return Estimate(terms.log_sum(terms.log_frobenius_product), details=terms.details())


@proxy("fro_dist", reference="Jiang et al. 2020, eq. 40", needs=("initial",), cost="weights")
def fro_dist(context: Context) -> Estimate:
    """sum_i |W_i - W_i^0|_F^2 over the layers, biases and unfolded factors left out.

    Larger values predict a larger gap. Not applicable without the initial network, whose batch normalisations get
    the statistics of the training inputs, and with attention, gates, layer or group normalisation.

    Returns:
        The sum; `frobenius` in the details are the distances.
    """
    terms = layer_terms(context, reference="initial")
    return Estimate(sum(f**2 for f in terms.frobenius), details=terms.details())


@proxy("dist_spec_init", reference="Jiang et al. 2020, eq. 41", needs=("initial",), cost="weights")
def dist_spec_init(context: Context) -> Estimate:
    """sum_i |A_i - A_i^0|_s^2, squared spectral norms of the differences of full maps.

    Larger values predict a larger gap. Not applicable as `fro_dist`.

    Returns:
        The sum, with the layers' distances in the details.
    """
    terms, distances = layer_terms(context, reference="initial"), spectral_distances(context)
    return Estimate(sum(s**2 for s in distances), details={"layers": terms.names, "distances": distances})


@proxy(
    "param_norm_folded", reference="Jiang et al. 2020, eq. 42, batch normalisation folded in", cost="weights"
)
def param_norm_folded(context: Context) -> Estimate:
    """sum_i |W_i|_F^2 over the layers; `param_norm` is of all parameters as they are.

    Larger values predict a larger gap. Not applicable with attention, gates, layer or group normalisation.

    Returns:
        The sum, with the layers in the details.
    """
    terms = layer_terms(context)
    return Estimate(sum(f**2 for f in terms.frobenius), details=terms.details())


@proxy("stable_rank", reference="mean of |A_i|_F^2 / |A_i|_s^2; Jiang et al. 2020, eq. 33", cost="weights")
def stable_rank(context: Context) -> Estimate:
    """Mean over layers of |A_i|_F^2 / |A_i|_s^2, both of the full map: between 1 and its rank.

    Larger values predict a larger gap. Not applicable as `log_prod_of_spec`.

    Returns:
        The mean, with the layers' stable ranks in the details.
    """
    layers = full_maps(context)
    ranks = [(layer.frobenius / layer.sigma) ** 2 for layer in layers]
    names = [layer.name for layer in layers]
    return Estimate(sum(ranks) / len(ranks), details={"layers": names, "stable_ranks": ranks})


@proxy("log_lipschitz", reference="Bartlett, Foster and Telgarsky 2017, section 1", cost="weights")
def log_lipschitz(context: Context) -> Estimate:
    """ln of the Lipschitz constant from input to output, composed over the graph: sums add, chains multiply.

    An upper bound in Euclidean norms. Larger values predict a larger gap. Not applicable with attention, gates,
    layer or group normalisation, and where the constant is 0.

    Returns:
        The logarithm.

    Raises:
        NotApplicable: there is no useful constant.
    """
    value = context.composition("zero").log_lipschitz
    if value == -math.inf:
        raise NotApplicable("the network's output does not change with its input")
    return Estimate(value)


@proxy("log_lipschitz_over_margin", reference="Bartlett, Foster and Telgarsky 2017, section 1", cost="cheap")
def log_lipschitz_over_margin(context: Context) -> Estimate:
    """`log_lipschitz` - ln gamma.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `log_lipschitz`.

    Returns:
        The logarithm, with gamma in the details.
    """
    gamma = margin_scale(context)
    return Estimate(log_lipschitz(context).value - math.log(gamma), details={"gamma": gamma})
