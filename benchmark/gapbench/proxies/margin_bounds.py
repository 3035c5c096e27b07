"""What bounds on the test error by margins have in common: losses, confidence, and whether theorems apply."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapbench.proxies.catalogue.margins import margin_scale
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.computation.linear_maps import Kernel, LinearMap
    from gapbench.computation.lipschitz import Composition
    from gapbench.proxies.context import Context

LARGEST_LOG = 700.0


@dataclass(frozen=True)
class MarginBound:
    """The parts of a bound: P(error) <= margin loss + what the class costs + what confidence costs.

    `n` training examples, the margin `gamma`, failure probability `delta`. `log_input_norm` is ln |X|_F of the
    whole training set. `layers` have kernels and are not zero; `log_gain` is the logarithm of the gains of factors
    that are no layers. `obstacles`: why the theorem does not cover the network.
    """

    context: Context
    composition: Composition
    layers: list[LinearMap]
    kernels: list[Kernel]
    log_gain: float
    gamma: float
    delta: float
    obstacles: list[str]

    @property
    def n(self) -> int:
        """How many training examples."""
        return self.context.train_size

    @property
    def log_input_norm(self) -> float:
        """ln |X|_F."""
        return _log(self.context.input_norm)

    @property
    def depth(self) -> int:
        """How many layers."""
        return len(self.layers)

    @property
    def log_spectral(self) -> float:
        """ln of the product of the layers' spectral norms and gains."""
        return sum(math.log(layer.sigma) for layer in self.layers) + self.log_gain

    @property
    def log_frobenius(self) -> float:
        """ln of the product of the full maps' Frobenius norms, and of gains."""
        return sum(_log(layer.frobenius) for layer in self.layers) + self.log_gain

    @property
    def outputs(self) -> int:
        """How many logits."""
        logits = self.context.logits
        return math.prod(logits.shape[1:])

    def rademacher(self, logs: list[float], more: list[str], **details: Any) -> Estimate:
        """Ramp loss + 2 R + 3 sqrt(ln(2 / delta) / (2 n)), R the sum of the exponentials of `logs`.

        R bounds the empirical Rademacher complexity of the ramp loss over the class.

        Returns:
            The bound on the test error.
        """
        ramp = float((1.0 - self.context.margins / self.gamma).clamp(0.0, 1.0).mean())
        cost = 3.0 * math.sqrt(math.log(2.0 / self.delta) / (2.0 * self.n))
        return self.finished(ramp, [math.log(2.0) + log for log in logs], cost, more, **details)

    def finished(
        self, loss: float, logs: list[float], cost: float, more: list[str], **details: Any
    ) -> Estimate:
        """The sum, with its parts.

        Args:
            loss: on the training set, of margins.
            logs: logarithms of the summands that the class costs.
            cost: of confidence.
            more: further reasons why the theorem does not cover the network.
            details: further ones.

        Returns:
            The bound. `vacuous` in the details says that it is at least 1.

        Raises:
            NotApplicable: it is beyond the floating point numbers.
        """
        top = max(logs)
        if top > LARGEST_LOG:
            raise NotApplicable(
                f"the bound is about exp({top:.4g}): beyond the range of floating point numbers"
            )
        complexity = sum(math.exp(log) for log in logs)
        value = loss + complexity + cost
        obstacles = [*self.obstacles, *more]
        return Estimate(
            value,
            details={
                "vacuous": value >= 1.0,
                "margin_loss": loss,
                "complexity": complexity,
                "confidence": cost,
                "gamma": self.gamma,
                "delta": self.delta,
                "n": self.n,
                "depth": self.depth,
                "is_bound": not obstacles,
                "why_not_bound": obstacles,
                **details,
            },
        )


def margin_bound(context: Context, gamma: float | None, delta: float, reference: str = "zero") -> MarginBound:
    """The parts of a bound with distances of kernels from `reference`, "zero" or the "initial" network.

    Returns:
        The parts.

    Raises:
        NotApplicable: no useful Lipschitz constant, no layer, a layer that is zero, margins that are not positive.
        ValueError: an option that cannot be.
    """
    if reference not in ("zero", "initial"):
        raise ValueError(f"reference = {reference!r} must be 'zero' or 'initial'")
    if gamma is not None and (isinstance(gamma, bool) or not gamma > 0):
        raise ValueError(f"gamma = {gamma!r} must be positive")
    if isinstance(delta, bool) or not 0.0 < delta < 1.0:
        raise ValueError(f"delta = {delta!r} must be between 0 and 1")
    composition = context.composition(reference)
    found = [(layer, layer.kernel) for layer in composition.layers if layer.kernel is not None]
    if not found:
        raise NotApplicable("the network has no linear layer")
    for layer in composition.layers:
        if not layer.sigma > 0:
            raise NotApplicable(f"the layer {layer.name} is zero")
    gains = sum(math.log(layer.sigma) for layer in composition.layers if layer.kernel is None)
    obstacles = list(composition.obstacles)
    if reference == "initial" and context.normalised_initial[1]:
        obstacles.append("the reference's batch statistics depend on the training inputs")
    scale = margin_scale(context) if gamma is None else float(gamma)
    return MarginBound(
        context, composition, [a for a, _ in found], [b for _, b in found], gains, scale, delta, obstacles
    )


def peeling_obstacles(context: Context) -> list[str]:
    """Why bounds that peel off layer after layer do not cover a chain: they need one ReLU after each.

    Returns:
        Reasons in words; empty where there is none.
    """
    import torch

    from gapbench.computation.tracing import plain_kernels, trace
    from gapbench.computation.windows import MAX_POOLS

    x = context.inputs[:2]
    found = []
    pools = [node.op for node in trace(context.model, x).reachable() if node.op in MAX_POOLS]
    if pools:
        found.append(f"{pools[0]} takes maxima between layers")
    with torch.no_grad(), plain_kernels(context.landscape.dtype):
        once, twice = context.model(x.clone()).double(), context.model(2.0 * x).double()
    tolerance = 1e-9 if context.landscape.dtype == torch.float64 else 1e-4
    if float((twice - 2.0 * once).abs().max()) > tolerance * float(twice.abs().max()):
        found.append(
            "the network is not positively homogeneous in its input: biases, or other activations than ReLU"
        )
    return found


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
