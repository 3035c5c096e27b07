"""What a proxy returns and what measuring it gives. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gapbench_base.errors import NotDefined

MeasurementStatus = Literal["ok", "not_applicable", "failed"]


class NotApplicable(NotDefined):
    """Raised by a proxy that is not defined for this network or data; the message is the reason."""


@dataclass(frozen=True)
class Estimate:
    """A proxy's value with its standard error (None: deterministic) and further findings."""

    value: float
    standard_error: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """One proxy on one network.

    `status` is `ok`, `not_applicable` or `failed`; `value` is None unless ok, and `reason` is empty only then.
    `standard_error` covers the proxy's own sampling, as its documentation says. `peak_memory` (bytes) is the
    rise of the process's, or the CUDA device's, peak over its level before; None where it cannot be read.
    """

    proxy: str
    value: float | None
    standard_error: float | None
    seconds: float
    status: MeasurementStatus
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    peak_memory: float | None = None

    def __repr__(self) -> str:
        """Value and cost in one line; `details` and `peak_memory` are not shown."""
        if self.value is None:
            return f"Measurement({self.proxy}: {self.status}, {self.reason!r})"
        error = "" if self.standard_error is None else f" ± {self.standard_error:.2g}"
        return f"Measurement({self.proxy} = {self.value:.6g}{error}, {self.seconds:.2g} s)"
