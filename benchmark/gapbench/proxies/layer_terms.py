"""Norms of a network's layers, as the norm-based proxies take them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapbench.proxies.results import NotApplicable

if TYPE_CHECKING:
    from gapbench.computation.linear_maps import LinearMap
    from gapbench.proxies.context import Context


@dataclass(frozen=True)
class LayerTerms:
    """The layers with a kernel, in order of execution, and the factors of single units between them.

    `spectral` and `frobenius` are the layers' norms, batch normalisation folded in; a layer that is used twice is
    there twice. `log_gain` is the logarithm of the product of the gains of batch normalisations and other factors
    that follow no linear layer and could not be folded: they scale the function, but are no layers.
    """

    names: list[str]
    spectral: list[float]
    frobenius: list[float]
    log_gain: float

    @property
    def depth(self) -> int:
        """How many layers."""
        return len(self.names)

    @property
    def log_spectral_product(self) -> float:
        """ln of the product of the squared spectral norms, with the gains squared."""
        return 2.0 * (_sum_of_logs(self.names, self.spectral) + self.log_gain)

    @property
    def log_frobenius_product(self) -> float:
        """ln of the product of the squared Frobenius norms, with the gains squared."""
        return 2.0 * (_sum_of_logs(self.names, self.frobenius) + self.log_gain)

    def spectral_over(self, gamma: float) -> float:
        """`log_spectral_product` - ln gamma^2."""
        return self.log_spectral_product - 2.0 * math.log(gamma)

    def frobenius_over(self, gamma: float) -> float:
        """`log_frobenius_product` - ln gamma^2."""
        return self.log_frobenius_product - 2.0 * math.log(gamma)

    def details(self, **more: Any) -> dict[str, Any]:
        """What a proxy tells of the layers beside its value."""
        norms = {"layers": self.names, "spectral": self.spectral, "frobenius": self.frobenius}
        return {**norms, "log_gain": self.log_gain, **more}

    def log_sum(self, log_product: float) -> float:
        """ln of d times the d-th root of a product over the d layers."""
        return math.log(self.depth) + log_product / self.depth

    @property
    def ratios(self) -> float:
        """The sum over layers of Frobenius^2 / spectral^2; with the reference "initial" of squared distances."""
        _require_positive(self.names, self.spectral)
        return sum((f / s) ** 2 for f, s in zip(self.frobenius, self.spectral))


def layer_terms(context: Context, *, reshaped: bool = False, reference: str = "zero") -> LayerTerms:
    """The network's layers; spectral norms of the full maps, or with `reshaped` of kernels as matrices.

    With the `reference` "initial" Frobenius norms are those of the difference from the initial layers.

    Returns:
        The terms.

    Raises:
        NotApplicable: attention, gates, layer normalisation and whatever else has no linear layers in a graph with
            a Lipschitz constant; no layer at all; with "initial", no initial network.
    """
    found = context.composition(reference).layers
    layers = [layer for layer in found if layer.kernel is not None]
    if not layers:
        raise NotApplicable("the network has no linear layer")
    gains = [layer for layer in found if layer.kernel is None]
    names = [layer.name for layer in layers]
    return LayerTerms(
        names,
        reshaped_norms(context) if reshaped else [layer.sigma for layer in layers],
        [layer.kernel.frobenius for layer in layers if layer.kernel is not None],
        _sum_of_logs([layer.name for layer in gains], [layer.sigma for layer in gains]),
    )


def reshaped_norms(context: Context, reference: str = "zero") -> list[float]:
    """Largest singular values of the kernels, less those of `reference`, as matrices; once for all proxies.

    Returns:
        One for each layer with a kernel.
    """
    layers = context.composition(reference).layers
    return context.shared(
        f"norms of reshaped kernels, {reference}",
        lambda: [layer.kernel.reshaped_norm() for layer in layers if layer.kernel is not None],
    )


def spectral_distances(context: Context) -> list[float]:
    """Largest singular values of the full maps less the initial ones, once for all proxies.

    Returns:
        One for each layer with a kernel.
    """
    layers = context.composition("initial").layers
    return context.shared(
        "spectral distances",
        lambda: [layer.kernel.operator() for layer in layers if layer.kernel is not None],
    )


def full_maps(context: Context) -> list[LinearMap]:
    """The layers' full maps, those that are only factors of single units left out.

    Returns:
        The maps.

    Raises:
        NotApplicable: as in `layer_terms`, and where a map is zero.
    """
    layers = [layer for layer in context.composition("zero").layers if layer.kernel is not None]
    if not layers:
        raise NotApplicable("the network has no linear layer")
    _require_positive([layer.name for layer in layers], [layer.sigma for layer in layers])
    return layers


def _require_positive(names: list[str], norms: list[float]) -> None:
    for name, norm in zip(names, norms):
        if not norm > 0:
            raise NotApplicable(f"the layer {name} is zero")


def _sum_of_logs(names: list[str], norms: list[float]) -> float:
    _require_positive(names, norms)
    return sum(math.log(norm) for norm in norms)
