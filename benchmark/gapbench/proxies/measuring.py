"""Measure one proxy on one network."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from gapbench.computation.copies import check_copies, copied
from gapbench.curvature.heads import check_loss, class_logits, regression_targets
from gapbench.proxies.budget import OverBudget, within
from gapbench.proxies.context import Checkpoint, Context
from gapbench.proxies.guard import guarded
from gapbench.proxies.memory import PeakMemory
from gapbench.proxies.preparing import Forward, Prepared, prepare, prepare_as_it_is
from gapbench.proxies.registry import ProxyEntry, checked_options, proxy_entry
from gapbench.proxies.results import Estimate, Measurement, MeasurementStatus
from gapbench_base.errors import GapbenchError, NotDefined
from gapbench_base.seeds import named_seed


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
    checkpoints: Sequence[tuple[int, nn.Module]] | None = None,
    sibling: nn.Module | None = None,
    unlabelled: Tensor | None = None,
    forward: Forward | None = None,
    frozen: str = "exclude",
    batch_size: int | None = None,
    **options: Any,
) -> Measurement:
    """Measure the proxy `name` on a trained network and its training data.

    Computed on the network's device and in its own type, half precision in a copy of float32 or float64
    (`details["dtype"]`); the network is left as it was. Parameters that require no gradient are left out (unless
    none does).

    Args:
        name: the registered proxy.
        network: the trained network.
        inputs: (n, ...) images, vectors or whole numbers (token ids).
        targets: (n,) integer classes for outputs (n, classes), or 0 and 1 for one logit, or (n, *map) for maps and
            sequences of logits; for `loss` "mse" targets of the outputs' shape or integer classes.
        initial: the network at initialisation, for proxies that need it.
        loss: "cross_entropy" or "mse": half the squared error, summed over outputs, mean over examples (of one
            output half of torch's mse_loss).
        seed: the same seed gives the same value.
        history: of the training, for proxies that need it.
        checkpoints: epochs with the network as it was after them, for proxies that need them.
        sibling: a network trained from another seed, for proxies that need it.
        unlabelled: inputs without targets, for proxies that need them.
        forward: (network, inputs) -> outputs, for a network that returns more than one tensor or is called
            otherwise than network(inputs).
        frozen: "include" counts in parameters that require no gradient.
        batch_size: examples that are evaluated at once; makes no difference to a value.
        options: the proxy's own; see `gapbench list proxies`.

    Returns:
        A proxy's own failure is a measurement with status `failed` and a reason, and so are weights, inputs and
        outputs that are not finite, and a network that changes when it is evaluated or gives other outputs for the
        same inputs. `GapbenchError` is raised for an unknown proxy or option, and for data that do
        not fit the network.
    """
    context = make_context(
        network,
        inputs,
        targets,
        initial=initial,
        loss=loss,
        history=history,
        checkpoints=checkpoints,
        sibling=sibling,
        unlabelled=unlabelled,
        forward=forward,
        frozen=frozen,
        batch_size=batch_size,
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
    forward: Forward | None = None,
    frozen: str = "exclude",
    batch_size: int | None = None,
    **extras: Any,
) -> Context:
    """Check a network and its data, and put them on the network's device in the type that is computed in.

    Args:
        network: the trained network, left as it is.
        inputs: (n, ...) the training examples to differentiate on.
        targets: (n,), (n, *map) or, for "mse", of the outputs' shape.
        all_inputs: (N, ...) the whole training set, where it is more than `inputs`.
        all_targets: its targets.
        loss: "cross_entropy" or "mse": half the squared error, summed over outputs, mean over examples (of one
            output half of torch's mse_loss).
        forward: (network, inputs) -> outputs, as in `measure`.
        frozen: "exclude" or "include" parameters that require no gradient.
        batch_size: how many examples are evaluated at once; None: as many as is usual.
        extras: further fields of `Context`: `initial`, `sibling`, `history`, `checkpoints`, `unlabelled`.

    Returns:
        The context that proxies are measured in. `GapbenchError` is raised for an unusable network, or data that do
        not fit it; the message says what and why.
    """
    _check_tensors(inputs, targets)
    prepared = prepare(network, forward, frozen)
    for role in ("initial", "sibling"):
        if extras.get(role) is not None:
            extras[role] = _alike(role, extras[role], network, prepared, forward, frozen)
    if extras.get("checkpoints") is not None:
        extras["checkpoints"] = tuple(
            Checkpoint(epoch, _alike(f"checkpoint {epoch}", other, network, prepared, forward, frozen))
            for epoch, other in sorted(extras["checkpoints"], key=lambda pair: pair[0])
        )
    _check_data(inputs, targets, loss, batch_size)
    device = next(prepared.network.parameters()).device

    def placed(tensor: Tensor) -> Tensor:
        return tensor.to(device=device, dtype=prepared.dtype if tensor.is_floating_point() else torch.int64)

    def placed_or_none(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else placed(tensor)

    placed_inputs, placed_targets = (
        placed(inputs).clone(),
        placed(targets),
    )  # a network may write to its inputs
    unlabelled = placed_or_none(extras.pop("unlabelled", None))
    outputs = _outputs(prepared.network, placed_inputs)
    if "precision" in prepared.notes:
        _check_precise_copy(network, forward, placed_inputs, outputs)
    return Context(
        model=prepared.network,
        inputs=placed_inputs,
        targets=placed_targets,
        num_classes=_classes(outputs, placed_targets, loss),
        generator=torch.Generator(),
        loss=loss,
        all_inputs=placed_or_none(all_inputs),
        all_targets=placed_or_none(all_targets),
        unlabelled=unlabelled,
        batch_size=batch_size,
        notes={"dtype": str(prepared.dtype).removeprefix("torch."), **prepared.notes},
        **extras,
    )


def _check_tensors(inputs: Tensor, targets: Tensor) -> None:
    """Raise `GapbenchError` where the data are no real tensors, or nothing can be differentiated."""
    for role, data in (("inputs", inputs), ("targets", targets)):
        if not isinstance(data, Tensor):
            raise GapbenchError(f"The {role} must be a torch.Tensor, not {type(data).__name__}.")
        if data.is_complex():
            raise GapbenchError(f"The {role} are complex; expected real or whole numbers.")
    if torch.is_inference_mode_enabled():
        raise GapbenchError(
            "Derivatives cannot be taken within torch.inference_mode(): leave it before measuring."
        )


def _check_data(inputs: Tensor, targets: Tensor, loss: str, batch_size: int | None) -> None:
    """Raise `GapbenchError` for data and options that do not fit each other."""
    check_loss(loss)
    whole = isinstance(batch_size, int) and not isinstance(batch_size, bool)
    if batch_size is not None and not (whole and batch_size >= 1):
        raise GapbenchError(f"batch_size = {batch_size!r} must be a whole number of at least 1.")
    if inputs.dim() == 0 or targets.dim() == 0:
        raise GapbenchError("Inputs and targets need an axis of examples, the first.")
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise GapbenchError(f"{len(inputs)} inputs and {len(targets)} targets: give one target an input.")
    if loss == "cross_entropy" and targets.is_floating_point():
        raise GapbenchError("Cross-entropy needs integer classes as targets.")


def _alike(
    role: str, other: nn.Module, network: nn.Module, prepared: Prepared, forward: Forward | None, frozen: str
) -> nn.Module:
    """Another network of the same parameters, prepared as `network` was, in its type."""
    alike = prepare(other, forward, frozen, like=network)
    same_type = alike.dtype == prepared.dtype
    result = alike.network if same_type else copied(alike.network).to(prepared.dtype)
    if _shapes(result) != _shapes(prepared.network):
        raise GapbenchError(
            f"The {role} network does not have the same parameters (names and shapes) as the trained one."
        )
    return result


def _classes(outputs: Tensor, targets: Tensor, loss: str) -> int:
    """The number of classes, or of outputs for regression; the targets are checked to fit."""
    if loss != "mse":
        classes = class_logits(outputs, tuple(targets.shape[1:])).shape[2]
        _check_classes(targets, classes)
        return classes
    regression_targets(outputs, targets[: len(outputs)])
    if not targets.is_floating_point() and outputs.dim() == 2 and outputs.shape[1] > 1:
        _check_classes(targets, outputs.shape[1])
    return outputs.shape[-1] if outputs.dim() > 1 else 1


def _check_precise_copy(network: nn.Module, forward: Forward | None, inputs: Tensor, outputs: Tensor) -> None:
    """Raise `GapbenchError` where the copy of higher precision computes something else than the network."""
    original = prepare_as_it_is(network, forward)
    kind = next(p.dtype for p in original.parameters() if p.is_floating_point())
    with guarded(original, 0), torch.no_grad():
        try:
            own = original(inputs[:2].to(kind) if inputs.is_floating_point() else inputs[:2]).double()
        except Exception:  # mixed types need not fit each other as they are
            return
    scale = max(float(outputs.abs().max()), 1e-3)
    if own.shape != outputs.shape or float((own - outputs.double()).abs().max()) > 0.1 * scale:
        raise GapbenchError(
            "A copy of the network in higher precision computes something else: it changes tensors in place that "
            "a cast copies only in lower precision. Mend that, or measure network.float()."
        )


def _check_classes(targets: Tensor, classes: int) -> None:
    if not 0 <= int(targets.min()) <= int(targets.max()) < classes:
        raise GapbenchError(
            f"Targets run from {int(targets.min())} to {int(targets.max())}, but there are {classes} classes."
        )


def _outputs(network: nn.Module, inputs: Tensor) -> Tensor:
    """Outputs on the first examples; raises `GapbenchError` where there are none."""
    with guarded(network, 0), torch.no_grad():
        try:
            outputs = network(inputs[:2])
        except Exception as error:
            raise GapbenchError(
                f"The network cannot be evaluated on inputs of shape {tuple(inputs.shape)} and type "
                f"{str(inputs.dtype).removeprefix('torch.')}: {type(error).__name__}: {error}. Where it is called "
                "otherwise than network(inputs), say how: forward=lambda network, inputs: network(inputs, ...)."
            ) from error
        if isinstance(outputs, Tensor):
            check_copies(network, inputs[:2])
    if not isinstance(outputs, Tensor):
        raise GapbenchError(
            f"The network must return one tensor, not {type(outputs).__name__}: pick it with "
            "forward=lambda network, inputs: network(inputs)[...]."
        )
    if outputs.dim() == 0 or len(outputs) != min(2, len(inputs)):
        raise GapbenchError(
            f"The network gives outputs of shape {tuple(outputs.shape)} for {min(2, len(inputs))} inputs: expected "
            "one row an input."
        )
    if outputs.is_complex():
        raise GapbenchError("The network's outputs are complex: losses are defined for real ones.")
    return outputs


def _shapes(network: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(p.shape)) for name, p in network.named_parameters()]


def measure_in(
    context: Context,
    entry: ProxyEntry,
    options: Mapping[str, Any],
    seed: int,
    budget: float | None = None,
) -> Measurement:
    """Measure a proxy in a context that others may have used; stopped after `budget` seconds (`budget.within`)."""
    context.generator.manual_seed(named_seed("measure", entry.name, seed))
    context._cache["seed"] = seed  # for what several proxies share
    fault = context.unsteady  # first, so that what the network does is not taken for the proxy's doing
    context.begin()
    memory = PeakMemory(context.inputs.device)
    started = time.perf_counter()
    result: object = None
    failure = not_applicable = ""
    with guarded(context.model, named_seed("guard", seed)) as report:
        try:
            defect = fault or context.defect
            if defect:
                raise FloatingPointError(defect)
            with within(budget):
                result = entry.function(context, **options)
            if context.inputs.device.type == "cuda":
                torch.cuda.synchronize(context.inputs.device)
        except OverBudget as reason:
            context._cache["overdrawn"], not_applicable = True, str(reason)
        except NotDefined as reason:
            not_applicable = str(reason) or "not defined here"
        except FloatingPointError as error:
            failure = str(error)
        except Exception as error:  # a proxy may fail in any way; that is a result, not a crash
            failure = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started + context._cache["charged"] + context.reused()

    def measurement(
        status: MeasurementStatus, reason: str = "", estimate: Estimate | None = None
    ) -> Measurement:
        return Measurement(
            proxy=entry.name,
            value=None if estimate is None else estimate.value,
            standard_error=None if estimate is None else estimate.standard_error,
            seconds=seconds,
            status=status,
            reason=_one_line(reason),
            details={} if estimate is None else {**estimate.details, **context.notes},
            peak_memory=memory.rise(),
        )

    if fault:
        return measurement("failed", fault)
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


def _estimate(result: object) -> Estimate:
    """Check what a proxy returned; raises `ValueError` saying what was wrong."""
    if not isinstance(result, Estimate):
        return Estimate(_number(result, "value"))
    value = _number(result.value, "value")
    error = None if result.standard_error is None else _number(result.standard_error, "standard error")
    if error is not None and error < 0:
        raise ValueError(f"the standard error {error} is negative")
    if not isinstance(result.details, Mapping):
        raise ValueError("details must be a mapping")
    return Estimate(value, error, result.details)


def _number(value: object, what: str) -> float:
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
