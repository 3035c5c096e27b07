"""Every proxy as a plain function of a network and data, for those who want the number and not the benchmark.

    from gapbench.measures import path_norm, sharpness_full

    value = sharpness_full(network, inputs, targets, radius=0.5)

A function takes what `gapbench.measure` takes, and the proxy's options by name. It returns a `ProxyValue`, a float,
and raises `NotApplicable` where the proxy is not defined. `of_outputs` takes logits in the place of a network, for
what depends on nothing else. `dir(gapbench.measures)` names all functions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gapbench.proxies.registry import ProxyEntry, list_proxies, proxy_entry
from gapbench.proxies.results import NotApplicable as NotApplicable
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others

if TYPE_CHECKING:
    from torch import Tensor, nn

OF_OUTPUTS = (
    "brier_score",
    "calibration_error",
    "inverse_margin",
    "margin_moment",
    "margin_quantile",
    "mean_confidence",
    "negative_mean_margin",
    "output_entropy",
    "train_error",
    "train_loss",
)
"""Proxies that depend on the outputs on the training set and the targets alone."""


class ProxyValue(float):
    """A proxy's value.

    Attributes:
        standard_error: of its own sampling; None where there is none.
        details: what the proxy found beside its value.
    """

    standard_error: float | None
    details: Mapping[str, Any]

    def __new__(
        cls, value: float, standard_error: float | None = None, details: Mapping[str, Any] | None = None
    ) -> ProxyValue:
        """The number, with what belongs to it."""
        made = super().__new__(cls, value)
        made.standard_error = standard_error
        made.details = MappingProxyType(dict(details or {}))
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """For `copy` and `pickle`."""
        return ProxyValue, (float(self), self.standard_error, dict(self.details))


def of_outputs(name: str, outputs: Tensor, targets: Tensor, **options: Any) -> ProxyValue:
    """A proxy of `OF_OUTPUTS`, of the outputs that a network gives on its training set.

    Args:
        name: the proxy.
        outputs: (n, classes) logits, or what else a network may give.
        targets: as for `gapbench.measure`.
        options: the proxy's, and `loss`.

    Returns:
        The value.

    Raises:
        GapbenchError: for a proxy that depends on more than the outputs, or data that do not fit.
        NotApplicable: where it is not defined for these.
    """
    if name not in OF_OUTPUTS:
        raise GapbenchError(
            f"{name!r} is no proxy of outputs alone.{near_and_others(name, OF_OUTPUTS)} Others take the network: "
            "gapbench.measures.NAME(network, inputs, targets)."
        )
    import torch

    class Outputs(torch.nn.Module):
        """Gives its input; a network needs a parameter."""

        def __init__(self) -> None:
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros((), dtype=outputs.dtype, device=outputs.device))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.shift

    return _function(name)(Outputs(), outputs.detach(), targets, **options)


@functools.cache
def _function(name: str) -> Callable[..., ProxyValue]:
    entry = proxy_entry(name)

    def measured(network: nn.Module, inputs: Tensor, targets: Tensor, **options: Any) -> ProxyValue:
        from gapbench.proxies.measuring import measure

        found = measure(name, network, inputs, targets, **options)
        if found.status == "not_applicable":
            raise NotApplicable(found.reason)
        if found.value is None:
            raise GapbenchError(f"{name}: {found.reason}")
        return ProxyValue(found.value, found.standard_error, found.details)

    measured.__name__ = measured.__qualname__ = name
    measured.__doc__ = inspect.getdoc(entry.function)
    measured.__module__ = __name__
    measured.__signature__ = _signature(entry)  # type: ignore[attr-defined]
    return measured


def _signature(entry: ProxyEntry) -> inspect.Signature:
    """That of `gapbench.measure` without the name, with the proxy's options."""
    from gapbench.proxies.measuring import measure

    common = [
        parameter
        for parameter in list(inspect.signature(measure).parameters.values())[1:]
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name not in entry.options
    ]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in entry.options.items()
    ]
    return inspect.Signature([*common, *options], return_annotation=ProxyValue)


def __getattr__(name: str) -> Callable[..., ProxyValue]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _function(name)
    except GapbenchError as error:
        raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    return sorted({"NotApplicable", "OF_OUTPUTS", "ProxyValue", "of_outputs", *list_proxies()})
