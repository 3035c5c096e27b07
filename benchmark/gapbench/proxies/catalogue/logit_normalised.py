"""Sharpness of the loss of normalised logits, which no scale of the outputs changes.

Logits become (f - mean f) / |f - mean f|_2 in every example before the cross-entropy, at the network's own
parameters and at all others. Not applicable to the squared loss, to outputs that are no rows of logits, and to two
classes, whose normalised logits are signs alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.ascents import Ascents, maximum_details
from gapbench.proxies.catalogue import adaptive, perturbed_sharpness, sharpness
from gapbench.proxies.normalised_logits import with_normalised_logits
from gapbench.proxies.options import count, norm_of, positive
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.proxies.context import Context

SOURCE = "Andriushchenko et al. 2023, section 2 (logit normalisation)"


@proxy("sharpness_logit_normalised", reference=SOURCE)
def sharpness_logit_normalised(
    context: Context, *, radius: float = 0.1, norm: str = "l2", steps: int = 20, restarts: int = 1
) -> Estimate:
    """max over |delta| <= radius of L(theta + delta) - L(theta), L the loss of normalised logits.

    `norm` is "l2" (`sharpness_full` without `quotient_start`) or "linf" (`sharpness_linf`). Larger values predict a
    larger gap. Not applicable to the squared loss, maps and sequences of logits, and two classes.

    Returns:
        The rise, with effort and convergence in the details.
    """
    if norm_of(norm) == "linf":
        return with_normalised_logits(
            perturbed_sharpness.sharpness_linf, context, radius=radius, steps=steps, restarts=restarts
        )
    options = {"radius": radius, "steps": steps, "restarts": restarts, "quotient_start": False}
    return with_normalised_logits(sharpness.sharpness_full, context, **options)


@proxy("sharpness_adaptive_logit_normalised", reference=SOURCE)
def sharpness_adaptive_logit_normalised(
    context: Context, *, radius: float = 0.1, norm: str = "l2", steps: int = 20, restarts: int = 1
) -> Estimate:
    """max over |delta / |theta|| <= radius of L(theta + delta) - L(theta), L the loss of normalised logits.

    As `sharpness_adaptive`, by its own ascents alone. Larger values predict a larger gap. Not applicable as
    `sharpness_logit_normalised`.

    Returns:
        The rise, with effort and convergence in the details.
    """
    options = {"radius": positive("radius", radius), "norm": norm_of(norm)}
    return with_normalised_logits(_relative, context, steps=steps, restarts=restarts, **options)


def _relative(context: Context, *, radius: float, norm: str, steps: int, restarts: int) -> Estimate:
    """`sharpness_adaptive` without the start from the horizontal space, whose group is another one here."""
    from gapbench.curvature.elementwise import ElementwiseLandscape
    from gapbench.curvature.sharpness import identity

    steps, restarts = count("steps", steps, 1), count("restarts", restarts, 1)
    surface = ElementwiseLandscape(context.landscape)
    ascents = Ascents(context, "relative", surface, lambda: identity, radius, steps, restarts, norm)
    best = ascents.own()
    return Estimate(best.value, details=maximum_details(best, radius, steps, restarts) | {"norm": norm})


@proxy("sharpness_average_logit_normalised", version=2, reference=SOURCE)
def sharpness_average_logit_normalised(
    context: Context, *, sigma: float = 0.01, samples: int = 20
) -> Estimate:
    """`sharpness_average_gaussian` of the loss of normalised logits, without a control variate.

    Larger values predict a larger gap; it may be negative. Not applicable as `sharpness_logit_normalised`.

    Returns:
        The mean with its standard error.
    """
    return with_normalised_logits(
        perturbed_sharpness.sharpness_average_gaussian, context, sigma=sigma, samples=samples
    )


@proxy("sharpness_average_adaptive_logit_normalised", version=2, reference=SOURCE)
def sharpness_average_adaptive_logit_normalised(
    context: Context, *, radius: float = 0.1, norm: str = "l2", samples: int = 20
) -> Estimate:
    """`sharpness_average_adaptive` of the loss of normalised logits, without a control variate.

    Larger values predict a larger gap; it may be negative. Not applicable as `sharpness_logit_normalised`.

    Returns:
        The mean with its standard error.
    """
    options = {"radius": radius, "norm": norm, "samples": samples}
    return with_normalised_logits(adaptive.sharpness_average_adaptive, context, **options)
