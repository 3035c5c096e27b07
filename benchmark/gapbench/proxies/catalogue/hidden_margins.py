"""Margins by their distance to the decision boundary, at hidden layers and at points between and beside examples.

The distance of first order at an activation z is (f_y - f_j) / |grad_z (f_y - f_j)|_2, j the largest other class,
negative on the wrong side; divided by the root of the total variance of z over the examples it has no unit.
`input_margin_distance` is the same at the inputs without that factor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.options import count
from gapbench.proxies.predictions import classified, margins_of
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable
from gapbench_base.errors import NotDefined

if TYPE_CHECKING:
    from torch import Tensor

    from gapbench.curvature.hidden_margins import HiddenMargins
    from gapbench.proxies.context import Context


@proxy(
    "hidden_margin",
    higher_means="better",
    reference="Jiang et al. 2019, eq. 3 (margin distributions)",
    cost="moderate",
    central=True,
)
def hidden_margin(context: Context, *, layer: int = -1, quantile: float = 0.5) -> Estimate:
    """A quantile over examples of the normalised distance at the activation that a layer takes.

    `layer` counts linear layers and convolutions in the order in which they are called, from 0, the input of the
    network, or from the end: -1 are the features of the last one. Larger values predict a smaller gap. Not
    applicable to regression, maps and sequences of logits, inputs that are whole numbers, where examples meet,
    where there is no such layer, an activation that does not vary, or one that is changed in place after it was
    read, and where the quantile is infinite.

    Returns:
        The quantile, with linear interpolation; the quartiles and the layer's name in the details.

    Raises:
        NotApplicable: there is no such distance.
        ValueError: an option that cannot be.
    """
    if isinstance(layer, bool) or int(layer) != layer:
        raise ValueError(f"layer = {layer!r} must be a whole number")
    found = _margins(context)
    if not -len(found.names) <= layer < len(found.names):
        raise NotApplicable(f"the network has {len(found.names)} layers, and no layer {layer}")
    place = int(layer) % len(found.names)
    distances = _distances(found, place)
    quartiles = [_quantile(distances, q) for q in (0.0, 0.25, 0.5, 0.75, 1.0)]
    value = _finite(_quantile(distances, _share(quantile)))
    return Estimate(
        value, details={"layer": found.names[place], "quantile": float(quantile), "quartiles": quartiles}
    )


@proxy("hidden_margin_mean", higher_means="better", reference="Jiang et al. 2019; mean over all layers")
def hidden_margin_mean(context: Context, *, quantile: float = 0.5) -> Estimate:
    """Mean over layers of `hidden_margin`, the input of the network included.

    Layers are linear layers and convolutions, one at each call. Larger values predict a smaller gap. Not applicable
    as `hidden_margin`.

    Returns:
        The mean, with the layers' quantiles in the details.
    """
    found, share = _margins(context), _share(quantile)
    parts = [_finite(_quantile(_distances(found, place), share)) for place in range(len(found.names))]
    details = {"layers": found.names, "quantiles": parts, "quantile": share}
    return Estimate(sum(parts) / len(parts), details=details)


@proxy(
    "mixup_margin",
    higher_means="better",
    reference="Natekar and Sharma 2020 (margins of mixed examples)",
    cost="cheap",
)
def mixup_margin(context: Context, *, quantile: float = 0.5, rounds: int = 4) -> Estimate:
    """A quantile of the normalised distance at midpoints of two examples of one class, margins for that class.

    Midpoints are drawn in `rounds` from `context.inputs` as for `label_wise_mixup_accuracy`; the variance is that
    of the examples. Larger values predict a smaller gap. Not applicable as `hidden_margin`, and where no class has
    two examples.

    Returns:
        The mean of the rounds' quantiles with its standard error.

    Raises:
        NotApplicable: there are no midpoints, or no distances.
    """
    from gapbench.proxies.pairs import pairs_within_classes

    share, rounds = _share(quantile), count("rounds", rounds, 2)
    inputs, classes = context.inputs, _classes(context)
    found = []
    for _ in range(rounds):
        first, second = pairs_within_classes(classes, context.generator)
        if not len(first):
            raise NotApplicable("no class has two examples")
        found.append(_beside(context, 0.5 * (inputs[first] + inputs[second]), context.targets[first], share))
    return _mean(found, quantile=share, midpoints=rounds * len(first))


@proxy(
    "shift_margin",
    higher_means="better",
    reference="Natekar and Sharma 2020 (margins of augmented examples)",
    cost="cheap",
)
def shift_margin(context: Context, *, quantile: float = 0.5, rounds: int = 4, pixels: int = 1) -> Estimate:
    """A quantile of the normalised distance at images that are shifted by up to `pixels` in each direction.

    Every image by whole pixels of its own, uniform but for no shift at all, its edge repeated; the variance is that
    of the examples as they are. Larger values predict a smaller gap. Not applicable as `hidden_margin`, and to
    inputs that are no images (n, c, h, w).

    Returns:
        The mean of the rounds' quantiles with its standard error.

    Raises:
        NotApplicable: inputs that are no images.
    """
    share, rounds = _share(quantile), count("rounds", rounds, 2)
    pixels = count("pixels", pixels, 1)
    if context.inputs.dim() != 4 or not context.inputs.is_floating_point():
        raise NotApplicable("inputs that are no images (n, c, h, w) cannot be shifted")
    _classes(context)
    found = [
        _beside(context, _shifted(context.inputs, pixels, context), context.targets, share)
        for _ in range(rounds)
    ]
    return _mean(found, quantile=share, pixels=pixels)


def _shifted(images: Tensor, pixels: int, context: Context) -> Tensor:
    """Each image (n, c, h, w) moved by whole pixels, not by none, with its edge repeated."""
    import torch

    side = 2 * pixels + 1
    draw = torch.randint(0, side**2 - 1, (len(images),), generator=context.generator)
    draw = draw + (draw >= (side**2 - 1) // 2).long()  # without the middle, which moves nothing
    down, right = (draw // side - pixels).to(images.device), (draw % side - pixels).to(images.device)
    h, w = images.shape[2:]
    rows = (torch.arange(h, device=images.device) - down[:, None]).clamp(0, h - 1)
    columns = (torch.arange(w, device=images.device) - right[:, None]).clamp(0, w - 1)
    place = torch.arange(len(images), device=images.device)[:, None, None]
    moved: Tensor = images.movedim(1, -1)[place, rows[:, :, None], columns[:, None, :]]
    return moved.movedim(-1, 1).contiguous()


def _beside(context: Context, inputs: Tensor, targets: Tensor, share: float) -> float:
    """The quantile of the normalised distances at other inputs."""
    from gapbench.curvature.input_gradients import squared_input_gradients
    from gapbench.curvature.parts import Part

    part = Part(context.landscape, inputs, targets)
    values, squares = squared_input_gradients(part, margins_of(context))
    spread = _input_variance(context)
    if not spread > 0:
        raise NotApplicable("the inputs do not vary")
    return _finite(_quantile(values[:, 0] / squares[:, 0].sqrt() / spread**0.5, share))


def _input_variance(context: Context) -> float:
    flat = context.inputs.double().reshape(len(context.inputs), -1)
    return float(flat.var(dim=0, correction=0).sum())


def _classes(context: Context) -> Tensor:
    """Classes (n,) of the examples; raises `NotApplicable` where they are not one each, or examples meet."""
    if context.landscape.mixed is not None:
        raise NotApplicable(f"other inputs have no outputs of their own: {context.landscape.mixed}")
    if not context.inputs.is_floating_point():
        raise NotApplicable("inputs that are whole numbers (token ids) have no gradient")
    classes = classified(context, context.logits[:1], context.targets[:1])[1]
    if len(classes) != 1:
        raise NotApplicable("margins of maps and sequences of logits are not defined")
    return context.targets.reshape(-1)


def _margins(context: Context) -> HiddenMargins:
    """Margins and their gradients at all layers, once for all proxies."""
    from gapbench.curvature.hidden_margins import hidden_margins

    def compute() -> HiddenMargins | NotDefined:
        try:
            return hidden_margins(context.landscape, margins_of(context))
        except NotDefined as reason:
            return reason

    found = context.shared("hidden margins", compute)
    if isinstance(found, NotDefined):
        raise NotApplicable(str(found)) from found
    return found


def _distances(found: HiddenMargins, place: int) -> Tensor:
    if not found.variances[place] > 0:
        raise NotApplicable(f"what {found.names[place]} takes does not vary")
    return found.distances(place)


def _share(quantile: float) -> float:
    if isinstance(quantile, bool) or not 0.0 <= quantile <= 1.0:
        raise ValueError(f"quantile = {quantile!r} must be between 0 and 1")
    return float(quantile)


def _quantile(values: Tensor, share: float) -> float:
    """With linear interpolation, also between infinite values."""
    ordered = values.sort().values
    place = share * (len(ordered) - 1)
    low, high = float(ordered[math.floor(place)]), float(ordered[math.ceil(place)])
    return low if low == high else low + (place - math.floor(place)) * (high - low)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise NotApplicable("the gradient of the margin vanishes at too many examples")
    return value


def _mean(values: list[float], **details: object) -> Estimate:
    n = len(values)
    mean = sum(values) / n
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    return Estimate(mean, error, {"rounds": n, **details})
