"""The same network with logits of mean 0 and norm 1 in every example, as a context of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gapbench.proxies.ascents import ascent_seed
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


def with_normalised_logits(base: Callable[..., Estimate], context: Context, **options: Any) -> Estimate:
    """A proxy of the loss, measured with normalised logits; what is computed for it is shared.

    Returns:
        Its estimate.

    Raises:
        NotApplicable: the squared loss, outputs that are no rows of at least three logits, or logits that are
            all equal.
    """
    normalised = context.shared("normalised logits", lambda: _normalised(context))
    if isinstance(normalised, NotApplicable):
        raise normalised
    normalised._cache["seed"] = context._cache.get("seed", 0)
    normalised._cache["ascent_seed"] = ascent_seed(context)
    normalised.begin()
    found = base(normalised, **options)
    context.charge(normalised._cache["charged"] + normalised.reused())
    return found


def _normalised(context: Context) -> Context | NotApplicable:
    if context.loss != "cross_entropy" or context.logits.dim() != 2:
        return NotApplicable("it needs one row of logits an example and cross-entropy")
    if context.logits.shape[1] < 3:
        return NotApplicable("of two logits normalisation leaves the sign alone, and the loss is flat")
    if bool((context.logits == context.logits[:, :1]).all(dim=1).any()):
        return NotApplicable("an example's logits are all equal and cannot be normalised")
    from gapbench.computation.normalised_logits import NormalisedLogits

    model = NormalisedLogits(context.model).eval()
    found = dataclasses.replace(
        context, model=model, initial=None, notes=context.notes, _cache={}, generator=context.generator
    )
    # The same network at the same parameters, and a smooth function of its outputs: less is tested.
    found.landscape.trust(context.landscape)
    return found
