"""Proxies of the outputs on the training set: errors, probabilities, the distribution of margins, midpoints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.options import count
from gapbench.proxies.pairs import pairs_within_classes
from gapbench.proxies.predictions import (
    classified,
    evaluated,
    training_logits,
    training_probabilities,
)
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


@proxy("train_error", reference="control", cost="cheap")
def train_error(context: Context) -> float:
    """Share of the whole training set whose largest logit is not the label's; the labels trained on, eval mode.

    Of maps and sequences the share of positions. Larger values predict a larger gap. Not applicable to regression.

    Returns:
        The share.
    """
    logits, targets = training_logits(context)
    return float((logits.argmax(dim=1) != targets).double().mean())


@proxy(
    "output_entropy", higher_means="better", reference="Jiang et al. 2020, eq. 23", cost="cheap", central=True
)
def output_entropy(context: Context) -> float:
    """Mean over the training set of the entropy - sum_c p_c ln p_c of the predicted probabilities, in nats.

    Larger values predict a smaller gap. Not applicable to regression and to networks trained with the squared loss.

    Returns:
        The mean.
    """
    import torch

    logs, _ = training_probabilities(context)
    p = logs.exp()
    return float(-torch.where(p > 0, p * logs, 0.0).sum(dim=1).mean())


@proxy("mean_confidence", reference="mean over the training set of max_c p_c", cost="cheap")
def mean_confidence(context: Context) -> float:
    """Mean over the training set of the largest predicted probability.

    Larger values predict a larger gap. Not applicable to regression and to networks trained with the squared loss.

    Returns:
        The mean.
    """
    logs, _ = training_probabilities(context)
    return float(logs.max(dim=1).values.exp().mean())


@proxy("negative_mean_margin", reference="mean of the margins of Jiang et al. 2020, eq. 22", cost="cheap")
def negative_mean_margin(context: Context) -> Estimate:
    """- mean of f(x)_y - max_{j != y} f(x)_j over the training set.

    Larger values predict a larger gap. Not applicable to regression, maps and sequences of logits.

    Returns:
        The negative mean, with the quartiles of the margins in the details.
    """
    import torch

    margins = context.margins
    at = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=margins.dtype, device=margins.device)
    return Estimate(-float(margins.mean()), details={"quartiles": torch.quantile(margins, at).tolist()})


@proxy(
    "margin_quantile",
    higher_means="better",
    reference="quantile of the margins of Jiang et al. 2020, eq. 22",
    cost="cheap",
)
def margin_quantile(context: Context, *, quantile: float = 0.5) -> Estimate:
    """A quantile of the training margins f(x)_y - max_{j != y} f(x)_j, with linear interpolation.

    Larger values predict a smaller gap. Not applicable to regression, maps and sequences of logits.

    Returns:
        The quantile, which may be negative.

    Raises:
        ValueError: `quantile` is not between 0 and 1.
    """
    import torch

    if isinstance(quantile, bool) or not 0.0 <= quantile <= 1.0:
        raise ValueError(f"quantile = {quantile!r} must be between 0 and 1")
    value = torch.quantile(context.margins, float(quantile))
    return Estimate(float(value), details={"quantile": float(quantile)})


@proxy(
    "margin_moment", reference="Natekar and Sharma 2020 (moments of the margin distribution)", cost="cheap"
)
def margin_moment(context: Context, *, order: int = 2) -> Estimate:
    """sign(m) |m|^(1 / order) of the central moment m = mean (margin - mean margin)^order of the training margins.

    With order 2 their standard deviation; in the units of logits. Larger values predict a larger gap. Not
    applicable to regression, maps and sequences of logits.

    Returns:
        The root of the moment.
    """
    order = count("order", order, 2)
    margins = context.margins
    moment = float((margins - margins.mean()).pow(order).mean())
    return Estimate(math.copysign(abs(moment) ** (1.0 / order), moment), details={"order": order})


@proxy("calibration_error", reference="Guo et al. 2017, eq. 3", cost="cheap")
def calibration_error(context: Context, *, bins: int = 15) -> Estimate:
    """sum_b |B_b| / m |accuracy(B_b) - confidence(B_b)|, expected calibration error on the training set.

    The bins ((b - 1) / bins, b / bins] of the largest probability are equally wide. Larger values predict a larger
    gap. Not applicable to regression and to networks trained with the squared loss.

    Returns:
        The error, with the sizes of the bins in the details.
    """
    import torch

    bins = count("bins", bins, 1)
    logs, targets = training_probabilities(context)
    confidence = logs.max(dim=1).values.exp()
    right = (logs.argmax(dim=1) == targets).double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    sizes = torch.bincount(place, minlength=bins)
    difference = torch.zeros(bins, dtype=torch.float64, device=logs.device)
    difference.index_add_(0, place, right - confidence)
    return Estimate(float(difference.abs().sum()) / len(targets), details={"sizes": sizes.tolist()})


@proxy("brier_score", reference="Brier score: squared error of the predicted probabilities", cost="cheap")
def brier_score(context: Context) -> float:
    """Mean over the training set of sum_c (p_c - [c = y])^2, between 0 and 2.

    One logit counts as two classes. Larger values predict a larger gap. Not applicable to regression and to
    networks trained with the squared loss.

    Returns:
        The mean.
    """
    import torch

    logs, targets = training_probabilities(context)
    wanted = torch.nn.functional.one_hot(targets, logs.shape[1]).double()
    return float((logs.exp() - wanted).pow(2).sum(dim=1).mean())


@proxy("label_wise_mixup_accuracy", higher_means="better", reference="Natekar and Sharma 2020", cost="cheap")
def label_wise_mixup_accuracy(context: Context, *, rounds: int = 4) -> Estimate:
    """Share of midpoints of two training examples of one class that are classified as that class.

    In each round the examples of a class are drawn in a random order, and each is paired with the next, the last
    with the first; classes of a single example are left out. Larger values predict a smaller gap. Not applicable to
    regression, to maps and sequences of logits, to inputs that are whole numbers, and where examples meet.

    Returns:
        The share over all rounds; the standard error is that of the rounds' mean.

    Raises:
        NotApplicable: there are no such midpoints.
    """
    rounds = count("rounds", rounds, 2)
    inputs = context.inputs if context.all_inputs is None else context.all_inputs
    targets = context.targets if context.all_targets is None else context.all_targets
    if not inputs.is_floating_point():
        raise NotApplicable("inputs that are whole numbers (token ids) have no midpoints")
    classes = training_logits(context)[1]
    if len(classes) != len(inputs):
        raise NotApplicable("midpoints of maps and sequences have no single class")
    shares = []
    for _ in range(rounds):
        first, second = pairs_within_classes(classes, context.generator)
        if not len(first):
            raise NotApplicable("no class has two training examples")
        outputs = evaluated(context, 0.5 * (inputs[first] + inputs[second]))
        found, wanted = classified(context, outputs, targets[first])
        shares.append(float((found.argmax(dim=1) == wanted).double().mean()))
    mean = sum(shares) / rounds
    error = math.sqrt(sum((share - mean) ** 2 for share in shares) / (rounds - 1) / rounds)
    return Estimate(mean, error, {"rounds": rounds, "midpoints": rounds * len(first)})
