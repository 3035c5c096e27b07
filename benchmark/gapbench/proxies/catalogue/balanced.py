"""Every Euclidean sharpness and trace at the balanced representative of the network's orbit.

There they are invariants of the orbit: no function-preserving transformation changes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gapbench.proxies.ascents import ascent_seed
from gapbench.proxies.catalogue import hessian, sharpness
from gapbench.proxies.options import coverage, group_of
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.proxies.context import Context

BASES: dict[str, Callable[..., Estimate]] = {
    "sharpness_full": sharpness.sharpness_full,
    "sharpness_quotient": sharpness.sharpness_quotient,
    "sharpness_average_full": sharpness.sharpness_average_full,
    "sharpness_average_quotient": sharpness.sharpness_average_quotient,
    "hessian_trace": hessian.hessian_trace,
    "hessian_trace_quotient": hessian.hessian_trace_quotient,
    "hessian_trace_per_dimension": hessian.hessian_trace_per_dimension,
    "hessian_trace_quotient_per_dimension": hessian.hessian_trace_quotient_per_dimension,
    "hessian_top_eigenvalue": hessian.hessian_top_eigenvalue,
}


def _balanced(name: str, base: Callable[..., Estimate]) -> Callable[..., Estimate]:
    @functools.wraps(base)
    def measured(context: Context, **options: Any) -> Estimate:
        covered = coverage(group_of(context))
        at_balance = context.balanced
        at_balance._cache["seed"] = context._cache.get("seed", 0)
        at_balance._cache["ascent_seed"] = ascent_seed(context)
        at_balance.begin()
        found = base(at_balance, **options)
        context.charge(at_balance._cache["charged"] + at_balance.reused())
        return Estimate(
            found.value,
            found.standard_error,
            {**found.details, "balanced_norm": context.balanced_norm, "coverage": covered},
        )

    measured.__doc__ = f"`{name}` at the balanced representative of the orbit.\n\n{base.__doc__}"
    return measured


for _name, _base in BASES.items():
    # 2: folding at layers with several readers. 3: the part of the trace along the orbit from probes of its own.
    # 4: ascents that end early, averages with a control variate, probes of one seed for all traces.
    # 5, of averages: a control variate of fewer products.
    _version = 5 if "average" in _name else 4
    _reference = "Kempf and Ness 1979; balanced representative"
    proxy(f"{_name}_balanced", version=_version, reference=_reference, cost="dear")(_balanced(_name, _base))
