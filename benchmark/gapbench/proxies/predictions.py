"""What a network says of the classes of training examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.results import NotApplicable

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from gapbench.proxies.context import Context


def classified(context: Context, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (m, C) in float64 and classes (m,), positions of maps and sequences in a row.

    One logit z stands for the logits (0, z).

    Returns:
        Both.

    Raises:
        NotApplicable: regression.
    """
    from gapbench.curvature.heads import class_logits

    narrow = context.loss == "mse" and (outputs.dim() != 2 or outputs.shape[1] < 2)
    if targets.is_floating_point() or narrow:
        raise NotApplicable(
            "there are no classes: it needs class targets and at least two outputs, or one logit"
        )
    logits = class_logits(outputs, tuple(targets.shape[1:])).double()
    return logits.flatten(0, 1), targets.reshape(-1)


def training_logits(context: Context) -> tuple[Tensor, Tensor]:
    """`classified` of the whole training set."""
    targets = context.targets if context.all_targets is None else context.all_targets
    return classified(context, context.logits, targets)


def training_probabilities(context: Context) -> tuple[Tensor, Tensor]:
    """ln of the probabilities (m, C) of the classes on the whole training set, in float64, and the targets (m,).

    Returns:
        Both.

    Raises:
        NotApplicable: the network was not trained to give probabilities.
    """
    import torch

    if context.loss != "cross_entropy":
        raise NotApplicable("outputs of a network trained with the squared loss are no log-probabilities")
    logits, targets = training_logits(context)
    return torch.log_softmax(logits, dim=1), targets


def margins_of(context: Context) -> Callable[[Tensor, Tensor], Tensor]:
    """Outputs and targets -> (n, 1) f_y - max_{j != y} f_j, differentiable; raises `NotApplicable` for maps."""
    import torch

    def margins(outputs: Tensor, targets: Tensor) -> Tensor:
        logits, classes = classified(context, outputs, targets)
        if len(logits) != len(outputs):
            raise NotApplicable("margins of maps and sequences of logits are not defined")
        own = logits.gather(1, classes[:, None])
        others = logits.scatter(1, classes[:, None], -torch.inf)
        return own - others.max(dim=1, keepdim=True).values

    return margins


def evaluated(context: Context, inputs: Tensor) -> Tensor:
    """Outputs on other inputs than the training examples, in batches of the usual size.

    Returns:
        Outputs (m, ...).

    Raises:
        NotApplicable: examples meet in the network, so that these have no outputs of their own.
    """
    import torch

    from gapbench.computation.tracing import plain_kernels
    from gapbench.proxies.context import BATCH

    if context.landscape.mixed is not None:
        raise NotApplicable(f"other inputs have no outputs of their own: {context.landscape.mixed}")
    with torch.no_grad(), plain_kernels():
        size = context.batch_size or BATCH
        return torch.cat([context.model(part.clone()) for part in torch.split(inputs, size)])
