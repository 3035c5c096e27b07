"""Measure one proxy on one network."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from gapbench.errors import GapbenchError
from gapbench.proxies.context import Context
from gapbench.proxies.guard import guarded
from gapbench.proxies.memory import PeakMemory
from gapbench.proxies.registry import ProxyEntry, checked_options, proxy_entry
from gapbench.proxies.results import Estimate, Measurement, NotApplicable
from gapbench_tasks.seeds import named_seed


def measure(
    name: str,
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    initial: nn.Module | None = None,
    loss: str = "cross_entropy",
    seed: int = 0,
    history: dict[str, Any] | None = None,
    sibling: nn.Module | None = None,
    unlabelled: Tensor | None = None,
    **options: Any,
) -> Measurement:
    """Measure the proxy `name` on a trained `network` and its training data.

    `inputs` (n, c, h, w) and `targets` (n,) integer classes, or (n, ...) floating point for `loss` "mse".
    Computed in the network's own type and on its device; the network is left as it was. `initial` is the
    network at initialisation, for proxies that need it. `options` are the proxy's own; see
    `gapbench list proxies`. The same `seed` gives the same value.

    A proxy's own failure is a measurement with status `failed` and a reason. Raises `GapbenchError` for an
    unknown proxy or option, and for data that do not fit the network.
    """
    context = make_context(
        network,
        inputs,
        targets,
        initial=initial,
        loss=loss,
        history=history,
        sibling=sibling,
        unlabelled=unlabelled,
    )
    entry = proxy_entry(name)
    return measure_in(context, entry, checked_options(entry, options), seed)


def make_context(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    all_inputs: Tensor | None = None,
    all_targets: Tensor | None = None,
    loss: str = "cross_entropy",
    **extras: Any,
) -> Context:
    """A `Context` on the network's device and in its type. Raises `GapbenchError` for unusable data."""
    for role, data in (("inputs", inputs), ("targets", targets)):
        if not isinstance(data, Tensor):
            raise GapbenchError(f"The {role} must be a torch.Tensor, not {type(data).__name__}.")
    if not isinstance(network, nn.Module):
        raise GapbenchError(f"The network must be a torch.nn.Module, not {type(network).__name__}.")
    first = next(network.parameters(), None)
    if first is None:
        raise GapbenchError("The network has no parameters.")
    tensors = [*network.parameters(), *network.buffers()]
    if any(torch.nn.parameter.is_lazy(tensor) for tensor in tensors):
        raise GapbenchError("The network has uninitialised (lazy) parameters: evaluate it once first.")
    for role in ("initial", "sibling"):
        other = extras.get(role)
        if other is not None and _shapes(other) != _shapes(network):
            raise GapbenchError(
                f"The {role} network does not have the same parameters (names and shapes) as the trained one."
            )
    if loss not in ("cross_entropy", "mse"):
        raise GapbenchError(f"loss = {loss!r} must be 'cross_entropy' or 'mse'.")
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise GapbenchError(f"{len(inputs)} inputs and {len(targets)} targets: give one target an input.")
    if loss == "cross_entropy" and (targets.is_floating_point() or targets.dim() != 1):
        raise GapbenchError("Cross-entropy needs one integer class for each input.")

    def placed(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        kind = first.dtype if tensor.is_floating_point() else torch.int64
        return tensor.to(device=first.device, dtype=kind)

    placed_inputs, placed_targets = placed(inputs), placed(targets)
    assert placed_inputs is not None
    assert placed_targets is not None
    with guarded(network, 0), torch.no_grad():
        try:
            outputs = network(placed_inputs[:2])
        except Exception as error:
            raise GapbenchError(
                f"The network cannot be evaluated on inputs of shape {tuple(inputs.shape)}: "
                f"{type(error).__name__}: {error}"
            ) from error
    if not isinstance(outputs, Tensor):
        raise GapbenchError(f"The network must return one tensor, not {type(outputs).__name__}.")
    classes = outputs.shape[-1]
    if not targets.is_floating_point() and not 0 <= int(targets.min()) <= int(targets.max()) < classes:
        raise GapbenchError(
            f"Targets run from {int(targets.min())} to {int(targets.max())}, but there are {classes} classes."
        )
    unlabelled = placed(extras.pop("unlabelled", None))
    return Context(
        model=network,
        inputs=placed_inputs,
        targets=placed_targets,
        num_classes=classes,
        generator=torch.Generator(),
        loss=loss,
        all_inputs=placed(all_inputs),
        all_targets=placed(all_targets),
        unlabelled=unlabelled,
        **extras,
    )


def _shapes(network: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(p.shape)) for name, p in network.named_parameters()]


def measure_in(context: Context, entry: ProxyEntry, options: Mapping[str, Any], seed: int) -> Measurement:
    """Measure a registered proxy in a context that other proxies may have used before."""
    context.generator.manual_seed(named_seed("measure", entry.name, seed))
    context._cache["seed"] = seed  # for what several proxies share
    context._cache["charged"] = 0.0
    memory = PeakMemory(context.inputs.device)
    started = time.perf_counter()
    result: Any = None
    failure = not_applicable = ""
    with guarded(context.model, named_seed("guard", seed)) as report:
        try:
            result = entry.function(context, **options)
            if context.inputs.device.type == "cuda":
                torch.cuda.synchronize(context.inputs.device)
        except NotApplicable as reason:
            not_applicable = str(reason) or "not defined here"
        except Exception as error:  # a proxy may fail in any way; that is a result, not a crash
            failure = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started + context._cache["charged"]

    def measurement(status: str, reason: str = "", estimate: Estimate | None = None) -> Measurement:
        return Measurement(
            proxy=entry.name,
            value=None if estimate is None else estimate.value,
            standard_error=None if estimate is None else estimate.standard_error,
            seconds=seconds,
            status=status,
            reason=_one_line(reason),
            details={} if estimate is None else dict(estimate.details),
            peak_memory=memory.rise(),
        )

    if report.changes:
        return measurement("failed", "; ".join(report.changes))
    if failure:
        return measurement("failed", failure)
    if not_applicable:
        return measurement("not_applicable", not_applicable)
    try:
        return measurement("ok", estimate=_estimate(result))
    except ValueError as error:
        return measurement("failed", str(error))


def _estimate(result: Any) -> Estimate:
    """Check what a proxy returned; raises `ValueError` saying what was wrong."""
    if not isinstance(result, Estimate):
        result = Estimate(result)
    value = _number(result.value, "value")
    error = None if result.standard_error is None else _number(result.standard_error, "standard error")
    if error is not None and error < 0:
        raise ValueError(f"the standard error {error} is negative")
    if not isinstance(result.details, Mapping):
        raise ValueError("details must be a mapping")
    return Estimate(value, error, result.details)


def _number(value: Any, what: str) -> float:
    if isinstance(value, Tensor):
        if value.numel() != 1 or value.dim() > 0:
            raise ValueError(f"the {what} is a tensor of shape {tuple(value.shape)}, not a number")
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"the {what} is of type {type(value).__name__}, not a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the {what} is {number}, not a finite number")
    return number


def _one_line(text: str, limit: int = 500) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
