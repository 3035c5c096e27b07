"""Proxies before and after transformations that leave the network's function as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from gapbench.invariance.results import AuditResult, compared, not_applicable, unmeasured
from gapbench.invariance.transformations import KINDS, NotPossible, Transformer
from gapbench.proxies.results import Measurement

Measure = Callable[[nn.Module], Measurement]


def audit_measure(
    measure: Measure,
    network: nn.Module,
    inputs: Tensor,
    *,
    seed: int,
    kinds: Sequence[str] | None = None,
    strengths: Sequence[float] = (0.5,),
) -> list[AuditResult]:
    """Measure a float64 copy of `network` before and after each kind of transformation.

    A value counts as unchanged within a relative 1e-4, or within four standard errors of the difference where the
    proxy states one.

    Args:
        measure: network -> `Measurement`, of the same data and with the same seed each time.
        network: left as it is.
        inputs: (n, ...), two of which are used to find the symmetries.
        seed: of the transformations.
        kinds: see `KINDS`; all by default.
        strengths: each kind is tried with each; see `Symmetry.transform`.

    Returns:
        A verdict for each kind and strength.
    """
    return audit_measures({"": measure}, network, inputs, seed=seed, kinds=kinds, strengths=strengths)[""]


def audit_measures(
    measures: Mapping[str, Measure],
    network: nn.Module,
    inputs: Tensor,
    *,
    seed: int,
    kinds: Sequence[str] | None = None,
    strengths: Sequence[float] = (0.5,),
    told: Callable[[], None] = lambda: None,
) -> dict[str, list[AuditResult]]:
    """`audit_measure` for several measures at once: symmetries are found, and networks transformed, once.

    `told` is called after each value, and for each that there is none of.

    Returns:
        The results of each measure, by its label.
    """
    transformer = Transformer.of(network, inputs)
    before: dict[str, Measurement] = {}
    for label, measure in measures.items():
        before[label] = measure(transformer.network)
        told()
    results: dict[str, list[AuditResult]] = {label: [] for label in measures}
    for kind in KINDS if kinds is None else kinds:
        for strength in strengths:
            changed, impossible = None, ""
            try:
                changed = transformer.apply(kind, strength, seed)
            except NotPossible as reason:
                impossible = str(reason)
            for label, measure in measures.items():
                reason_why = unmeasured(before[label]) or impossible
                if changed is None or reason_why:
                    results[label].append(not_applicable(kind, strength, reason_why))
                else:
                    results[label].append(compared(kind, strength, before[label], measure(changed)))
                told()
    return results
