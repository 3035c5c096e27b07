"""How outputs and targets meet in a loss: classes, one logit, sequences and maps of logits, regression.

Everything that needs logits by class sees them as (n, P, C): P positions of an example (1 for a classifier),
C classes. One logit z stands for the logits (0, z) of two classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench_base.errors import GapbenchError

LOSSES = ("cross_entropy", "mse")


def check_loss(loss: str) -> None:
    """Raise `GapbenchError` for an unknown loss."""
    if loss not in LOSSES:
        raise GapbenchError(f"There is no loss {loss!r}: choose {' or '.join(LOSSES)}.")


def class_logits(outputs: Tensor, target_shape: tuple[int, ...]) -> Tensor:
    """Logits of outputs (n, ...) for integer targets of shape (n, *target_shape).

    Understood: (n, C), (n,) and (n, 1) for one target an example; for targets (n, *map) logits (n, C, *map) as
    torch has them or (n, *map, C).

    Returns:
        (n, P, C) for P positions.

    Raises:
        GapbenchError: anything else, and where both readings fit.
    """
    n, places = len(outputs), tuple(target_shape)
    if places == (1,) and outputs.dim() <= 2:
        places = ()
    shape = tuple(outputs.shape[1:])
    if not places and len(shape) <= 1:
        logits = outputs.reshape(n, 1, -1)
    else:
        second, last = shape[1:] == places, shape[:-1] == places
        if places and second and last:
            raise GapbenchError(
                f"Outputs of shape {tuple(outputs.shape)} fit targets {(n, *places)} with the classes second "
                "and with the classes last: give a forward= that puts them second and changes one length."
            )
        if places and second:
            logits = outputs.movedim(1, -1)
        elif places and last:
            logits = outputs
        else:
            raise GapbenchError(
                f"Outputs of shape {tuple(outputs.shape)} are no logits for targets of shape {(n, *places)}: "
                "expected (n, classes), or (n, classes, ...) for targets (n, ...)."
            )
        logits = logits.reshape(n, -1, logits.shape[-1])
    if logits.shape[2] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=2)
    return logits


def regression_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    """Targets in the shape and type of the outputs, for the squared loss.

    Integer classes (n,) of outputs (n, C), C > 1, become one-hot; axes of length one may be missing on either
    side.

    Returns:
        Targets of the outputs' shape.

    Raises:
        GapbenchError: the shapes differ otherwise: nothing is broadcast.
    """
    if not targets.is_floating_point() and targets.dim() == 1 and outputs.dim() == 2 and outputs.shape[1] > 1:
        classes = targets.long()
        if classes.numel() and not 0 <= int(classes.min()) <= int(classes.max()) < outputs.shape[1]:
            raise GapbenchError(
                f"Targets run from {int(classes.min())} to {int(classes.max())}, but there are "
                f"{outputs.shape[1]} classes."
            )
        return nn.functional.one_hot(classes, outputs.shape[1]).to(outputs.dtype)

    def essential(tensor: Tensor) -> list[int]:
        return [len(tensor), *(m for m in tensor.shape[1:] if m != 1)]

    if essential(outputs) != essential(targets):
        raise GapbenchError(
            f"Targets of shape {tuple(targets.shape)} do not fit outputs {tuple(outputs.shape)}."
        )
    return targets.reshape(outputs.shape).to(outputs.dtype)


def per_example_loss(outputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """`cross_entropy` in nats; `mse` = 0.5 |f - y|^2 summed over outputs.

    Cross-entropy of several positions is their mean, as torch's is. Computed in float64 whatever the network's
    type, since sharpness is a difference of nearly equal losses. Shapes as in `class_logits` and
    `regression_targets`.

    Returns:
        (n,) float64 losses.

    Raises:
        GapbenchError: targets that do not fit the outputs.
    """
    check_loss(loss)
    outputs = outputs.double()
    if loss == "mse":
        difference = outputs - regression_targets(outputs, targets)
        return 0.5 * difference.pow(2).reshape(len(outputs), -1).sum(dim=1)
    if targets.is_floating_point():
        raise GapbenchError("Cross-entropy needs integer class targets.")
    logits = class_logits(outputs, tuple(targets.shape[1:]))
    classes = targets.long().reshape(len(targets), -1)
    if classes.numel() and not 0 <= int(classes.min()) <= int(classes.max()) < logits.shape[2]:
        raise GapbenchError(
            f"Targets run from {int(classes.min())} to {int(classes.max())}, but there are "
            f"{logits.shape[2]} classes."
        )
    each = nn.functional.cross_entropy(logits.transpose(1, 2), classes, reduction="none")
    return each.mean(dim=1)


def gauss_newton_scalars(outputs: Tensor, target_shape: tuple[int, ...], loss: str) -> Tensor:
    """Scalars s of the outputs with sum_k |grad s_k|^2 the Gauss-Newton matrix's trace.

    Squared loss: the outputs. Cross-entropy with probabilities p (held fixed) at each of P positions:
    diag(p) - p p' is the variance of a class drawn from p, which splits into C - 1 parts, each class against
    all later ones: sqrt(p_c r_c / (p_c + r_c) / P) (f_c - m_c), r_c the probability of the later classes, m_c
    their mean of f.

    Returns:
        (n, K) float64.
    """
    outputs = outputs.double()
    if loss == "mse":
        return outputs.reshape(len(outputs), -1)
    logits = class_logits(outputs, target_shape)
    p = torch.softmax(logits.detach(), dim=2)

    def later(values: Tensor) -> Tensor:
        """Sums over the classes after each but the last, from the last on: small ones keep their digits."""
        return values.flip(2).cumsum(2).flip(2)[:, :, 1:]

    own, rest = p[:, :, :-1], later(p)
    whole = own + rest
    some = rest > 0
    mean = later(p * logits) / torch.where(some, rest, torch.ones_like(rest))
    variance = torch.where(some, own * rest / torch.where(some, whole, torch.ones_like(whole)), 0.0)
    return ((variance / logits.shape[1]).sqrt() * (logits[:, :, :-1] - mean)).reshape(len(outputs), -1)
