"""One Krylov space of the Hessian on a context, for its top eigenvalue and for averages over perturbations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.ascents import ascent_seed

if TYPE_CHECKING:
    from gapbench.computation.eigenvalue import Lanczos
    from gapbench.curvature.averages import Control
    from gapbench.proxies.context import Context

PRODUCTS = 8  # Hessian products from which the control variate of averages is made


def lanczos_of(context: Context) -> Lanczos:
    """The Lanczos basis of the loss Hessian that all proxies share, from a random start."""
    import torch

    from gapbench.computation.eigenvalue import Lanczos
    from gapbench_base.seeds import named_seed

    def begin() -> Lanczos:
        landscape = context.landscape
        generator = torch.Generator().manual_seed(named_seed("lanczos", ascent_seed(context)))
        draw = torch.randn(landscape.dimension, generator=generator, dtype=torch.float64)
        start = draw.to(device=landscape.device, dtype=landscape.dtype)
        return Lanczos(landscape.hessian_product, start)

    return context.shared("lanczos", begin)


def control_of(context: Context, samples: int, horizontal: bool) -> Control | None:
    """The control variate of an average over directions, of the horizontal space or of all.

    None where it does not help: too few samples, or derivatives that are wrong or to be had as differences only.
    """
    import torch

    from gapbench.curvature.averages import FEWEST, control
    from gapbench.curvature.sharpness import identity
    from gapbench_base.errors import NotDefined

    landscape = context.landscape
    if samples < FEWEST:
        return None

    def compute() -> Control | None:
        try:
            findings = landscape.findings
            if findings.gradient is not None or findings.hessian is not None:
                return None
            return known()
        except torch.OutOfMemoryError:
            raise
        except (NotDefined, RuntimeError):  # an average needs no derivatives
            return None

    def known() -> Control:
        found = lanczos_of(context)
        used = found.products
        basis, form = found.form(PRODUCTS)
        context.charge(sum(found.seconds[: min(used, len(basis))]))
        left = landscape.dimension
        if not horizontal:
            return control(basis, form, identity, left, landscape.dtype)
        symmetry = context.symmetry
        return control(basis, form, symmetry.project, left - symmetry.dimension, landscape.dtype)

    return context.shared(f"control variate, {'horizontal' if horizontal else 'all'}", compute)
