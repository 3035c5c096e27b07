"""Whether a table's errors are those that its networks make, and what explains it where they are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapbench.foreign.table import ERRORS, ForeignNetwork, half_unit
from gapbench_base.errors import GapbenchError

FEWEST, SHARE = 2, 2000
"""Examples on which a recomputed error may differ by arithmetic alone: 2, or one of 2,000 where that is more."""

BATCH = 500
WHERE = {"train_error": "training", "test_error": "test"}


@dataclass(frozen=True)
class Recomputed:
    """Errors (fractions of `counts` decisions) of one network by column; without test data `train_error` alone.

    `defect` says in words why they cannot be compared, empty where they can.
    """

    errors: Mapping[str, float]
    counts: Mapping[str, int]
    defect: str = ""


def allowance(count: int) -> int:
    """How many of `count` examples may come out otherwise on another machine."""
    return max(FEWEST, count // SHARE)


def error_of(network: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[float, int, bool]:
    """Evaluate a network in eval mode on all examples.

    `inputs` (n, ...), integer `targets` (n,) or (n, *map).

    Returns:
        The share of wrong decisions, their number (examples x positions), and whether all outputs were finite.

    Raises:
        GapbenchError: where the network cannot be evaluated on the data or the targets are no classes.
    """
    from gapbench.curvature.heads import class_logits

    if targets.is_floating_point():
        raise GapbenchError("the targets are no classes (whole numbers), so there is no error to compare")
    floating = next((p.dtype for p in network.parameters() if p.is_floating_point()), None)
    wrong = count = 0
    finite = True
    network.eval()
    for start in range(0, len(inputs), BATCH):
        batch, wanted = inputs[start : start + BATCH], targets[start : start + BATCH]
        if floating is not None and batch.is_floating_point():
            batch = batch.to(floating)
        try:
            with torch.no_grad():
                outputs = network(batch)
            logits = class_logits(outputs, tuple(wanted.shape[1:]))
        except GapbenchError:
            raise
        except Exception as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise GapbenchError(
                f"it cannot be evaluated on inputs of shape {tuple(inputs.shape)}: {words}"
            ) from error
        labels = wanted.reshape(logits.shape[:2])
        if not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[2]:
            raise GapbenchError(
                f"targets run from {int(labels.min())} to {int(labels.max())}, but it has {logits.shape[2]} classes"
            )
        finite = finite and bool(torch.isfinite(logits).all())
        wrong += int((logits.argmax(2) != labels).sum())
        count += labels.numel()
    return wrong / count, count, finite


def recompute(network: nn.Module, sets: Mapping[str, tuple[Tensor, Tensor]]) -> Recomputed:
    """The errors of a network on the sets (`train_error`, `test_error`), or why there are none."""
    tensors = (t for t in network.state_dict().values() if t.is_floating_point() or t.is_complex())
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        return Recomputed({}, {}, "its weights are not all finite")
    errors, counts = {}, {}
    for column, (inputs, targets) in sets.items():
        errors[column], counts[column], finite = error_of(network, inputs, targets)
        if not finite:
            return Recomputed({}, {}, f"its outputs on the {WHERE[column]} data are not all finite")
    return Recomputed(errors, counts)


def check_errors(rows: Sequence[ForeignNetwork], found: Sequence[Recomputed], table: str) -> None:
    """Refuse a table whose errors are not those of its networks.

    A difference is allowed up to `allowance` examples and half a unit of the last digit that the column gives.

    Raises:
        GapbenchError: naming the first network, both numbers, and what would explain them: accuracies,
            percentages, or weight files in another order.
    """
    for row, result in zip(rows, found):
        if not result.errors and row.train_error > 1:
            raise GapbenchError(
                f"{table}, row {row.position}: train_error = {row.train_error:.6g} of {row.name} is no fraction "
                f"between 0 and 1, and {result.defect}."
            )
        size, count = row.axes.get("train_size"), result.counts.get("train_error")
        if size is not None and count is not None and size != count:
            raise GapbenchError(
                f"{table}, row {row.position}: train_size = {size}, but {row.data} holds {count} examples."
            )
    for column in ERRORS:
        used = [k for k, result in enumerate(found) if column in result.errors]
        rounding = half_unit([_stated(rows[k], column) for k in used]) if used else 0.0

        def fits(value: float, k: int, column: str = column, rounding: float = rounding) -> bool:
            count = found[k].counts[column]
            return abs(value - found[k].errors[column]) <= rounding + allowance(count) / count + 1e-12

        wrong = [k for k in used if not fits(_stated(rows[k], column), k)]
        if not wrong:
            continue
        k = wrong[0]
        row, count = rows[k], found[k].counts[column]
        more = f" So it is for {len(wrong)} of {len(used)} networks." if len(wrong) > 1 else ""
        raise GapbenchError(
            f"{table}, row {row.position}: {column} of {row.name} is {_stated(row, column):.6g} in the table, but "
            f"{found[k].errors[column]:.6g} on the {count} {WHERE[column]} examples given (a difference of "
            f"{allowance(count)} examples{_digits(rounding)} is allowed).{more}"
            f"{_cause(rows, column, used, wrong, fits)}"
        )


def _cause(
    rows: Sequence[ForeignNetwork],
    column: str,
    used: Sequence[int],
    wrong: Sequence[int],
    fits: Callable[[float, int], bool],
) -> str:
    """What explains the numbers of most networks, in words."""

    def stated(k: int) -> float:
        return _stated(rows[k], column)

    k = wrong[0]
    others = {j: next((i for i in used if i != j and fits(stated(j), i)), None) for j in wrong}
    explained = {
        "accuracy": [j for j in wrong if fits(1 - stated(j), j)],
        "percent": [j for j in wrong if fits(stated(j) / 100, j)],
        "percent right": [j for j in wrong if fits(1 - stated(j) / 100, j)],
        "order": [j for j in wrong if others[j] is not None],
    }
    best = max(explained, key=lambda name: len(explained[name]))
    if k not in explained[best]:
        best = next((name for name in explained if k in explained[name]), "")
    if best == "accuracy":
        return f" 1 - {stated(k):.6g} fits: these look like accuracies; give errors."
    if best == "percent":
        return f" {stated(k):.6g} / 100 fits: these look like percentages; give fractions."
    if best == "percent right":
        return f" 1 - {stated(k):.6g} / 100 fits: these look like accuracies in percent; give errors as fractions."
    if best == "order":
        other = others[k]
        assert other is not None
        return f" The number fits {rows[other].name} (row {rows[other].position}): the weight files look permuted."
    return (
        " Are these the weights, the data and the preprocessing that the table is about? Errors are taken in eval "
        "mode, without augmentation."
    )


def _digits(rounding: float) -> str:
    return f" and {rounding:.0e} for the table's rounding" if rounding >= 1e-9 else ""


def _stated(row: ForeignNetwork, column: str) -> float:
    return row.train_error if column == "train_error" else row.test_error
