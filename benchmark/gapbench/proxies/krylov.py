"""One Krylov space of the Hessian on a context, for its top eigenvalue and for averages over perturbations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.ascents import ascent_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from gapbench.computation.eigenvalue import Lanczos
    from gapbench.curvature.averages import Control
    from gapbench.proxies.context import Context

PRODUCTS = 5  # Hessian products from which the control variate of averages is made; more hardly help
RELATIVE_PRODUCTS = 4  # the same for relative averages, which nothing else uses


def lanczos_of(context: Context) -> Lanczos:
    """The Lanczos basis of the loss Hessian that all proxies share, from a random start."""
    return context.shared("lanczos", lambda: _begun(context, "lanczos", context.landscape.hessian_product))


def _relative_lanczos(context: Context) -> Lanczos:
    """The same in coordinates relative to each parameter, which makes it an invariant of rescalings."""
    sizes = context.landscape.theta().abs()

    def product(vector: Tensor) -> Tensor:
        return sizes * context.landscape.hessian_product(sizes * vector)

    return context.shared("relative lanczos", lambda: _begun(context, "relative lanczos", product))


def _begun(context: Context, name: str, product: Callable[[Tensor], Tensor]) -> Lanczos:
    import torch

    from gapbench.computation.eigenvalue import Lanczos
    from gapbench_base.seeds import named_seed

    landscape = context.landscape
    generator = torch.Generator().manual_seed(named_seed(name, ascent_seed(context)))
    draw = torch.randn(landscape.dimension, generator=generator, dtype=torch.float64)
    return Lanczos(product, draw.to(device=landscape.device, dtype=landscape.dtype))


def sphere_control(context: Context, samples: int, horizontal: bool) -> Control | None:
    """The control variate of an average over the sphere, of the horizontal space or of all; None without help."""
    from gapbench.curvature.averages import on_spheres
    from gapbench.curvature.sharpness import identity

    def make(basis: Tensor, form: Tensor) -> Control:
        left, dtype = context.landscape.dimension, context.landscape.dtype
        if not horizontal:
            return on_spheres(basis, form, identity, left, dtype)
        symmetry = context.symmetry
        return on_spheres(basis, form, symmetry.project, left - symmetry.dimension, dtype)

    return _control(context, samples, "horizontal" if horizontal else "all", make, lanczos_of, PRODUCTS)


def coordinate_control(context: Context, samples: int) -> Control | None:
    """The control variate of an average over independent perturbations of unit variance; None without help."""
    from gapbench.curvature.averages import independent

    def make(basis: Tensor, form: Tensor) -> Control:
        return independent(basis, form, 1.0)

    return _control(context, samples, "coordinates", make, lanczos_of, PRODUCTS)


def relative_control(context: Context, samples: int, variance: float) -> Control | None:
    """The control variate of an average over perturbations relative to each parameter; None without help."""
    from gapbench.curvature.averages import independent

    def make(basis: Tensor, form: Tensor) -> Control:
        return independent(basis, form, variance)

    return _control(context, samples, f"relative {variance!r}", make, _relative_lanczos, RELATIVE_PRODUCTS)


def _control(
    context: Context,
    samples: int,
    kind: str,
    make: Callable[[Tensor, Tensor], Control],
    lanczos: Callable[[Context], Lanczos],
    products: int,
) -> Control | None:
    """A control variate from at most so many products, made once for a kind.

    Returns:
        None where there are too few samples or no second derivatives, and for normalised logits: their loss bends
        on the scale of perturbations in use, and further samples lessen the standard error at less cost.
    """
    from gapbench.computation.normalised_logits import NormalisedLogits
    from gapbench.curvature.averages import FEWEST

    landscape = context.landscape
    if samples < FEWEST or isinstance(landscape.model, NormalisedLogits):
        return None

    def compute() -> Control | None:
        try:
            if landscape.findings.gradient is not None:
                return None
            found = lanczos(context)
            used = found.products
            basis, form = found.form(products)
            context.charge(sum(found.seconds[: min(used, len(basis))]))
            return make(basis, form)
        except Exception:  # whatever derivatives fail with: an average needs none
            return None

    return context.shared(f"control variate, {kind}", compute)
