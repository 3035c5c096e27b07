"""Steps of several networks at once: those of `gapbench.population.optimizers`, operation by operation.

Every operation works on each number by itself, or on one network's numbers at a time, in the order of torch's own
optimizers, so a network's numbers do not depend on which others it is trained with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from gapbench.population.moments import OptimizerState
from gapbench.population.stacked_parameters import StackedParameters
from gapbench.suites.hyperparameters import Hyperparameters

Gradient = Callable[[], tuple[Tensor, Tensor]]
"""Losses (count,) and gradients (count, size) at the present parameters; both may be overwritten later."""
BETAS = (0.9, 0.999)
EPSILON = 1e-8
CLIP_EPSILON = 1e-6
"""torch adds it to a norm before it divides by it."""


def runs_of(values: Sequence[object]) -> list[tuple[slice, int]]:
    """Stretches of equal neighbours, each with the index of its first."""
    found = []
    start = 0
    for _, group in groupby(values):
        length = len(list(group))
        found.append((slice(start, start + length), start))
        start += length
    return found


class StackedRule:
    """The optimizer of a stack of networks that share the name of their optimizer and nothing else.

    Networks whose numbers are equal take a step together, so neighbours should have equal ones.
    """

    def __init__(self, parameters: StackedParameters, values: Sequence[Hyperparameters]):
        self.parameters = parameters
        self.values = list(values)
        self.name = self.values[0].optimizer
        self.first: Tensor | None = None  # momentum, or Adam's average of gradients
        self.second: Tensor | None = None  # Adam's average of squares
        self.steps = 0

    def keep(self, rows: Tensor) -> None:
        """Drop all networks but these."""
        self.values = [self.values[int(row)] for row in rows]
        self.first, self.second = (
            None if state is None else state[rows].contiguous() for state in (self.first, self.second)
        )

    def state(self, index: int) -> OptimizerState:
        """What torch's optimizer would keep of the parameters of one network; copies."""
        if self.first is None or (self.second is None and not self.values[index].momentum):
            return {}
        names = ("momentum_buffer",) if self.second is None else ("exp_avg", "exp_avg_sq")
        kept = [state[index].clone() for state in (self.first, self.second) if state is not None]
        found: OptimizerState = {}
        for name, (start, stop, shape) in self.parameters.spans.items():
            found[name] = {key: row[start:stop].view(shape) for key, row in zip(names, kept)}
            if self.second is not None:
                found[name]["step"] = torch.tensor(float(self.steps))
        return found

    def step(self, gradient_of: Gradient, rates: Sequence[float]) -> Tensor:
        """One step of each network, at its own rate.

        Returns:
            The losses (count,) where the step began.
        """
        losses, gradient = gradient_of()
        if self.name == "sam":
            losses = losses.clone()
            gradient = self._at_moved_point(gradient, gradient_of)
        self._clip(gradient)
        if self.name == "adamw":
            self._shrink(rates)
        else:
            self._decay(gradient)
        self.steps += 1
        if self.name in ("adam", "adamw"):
            self._adam(gradient, rates)
        else:
            self._descend(gradient, rates)
        return losses

    def _clip(self, gradient: Tensor) -> None:
        """What `torch.nn.utils.clip_grad_norm_` does to each network whose gradient is clipped."""
        for row, value in zip(gradient, self.values):
            if value.gradient_clip:
                scale = value.gradient_clip / (self._norm(row) + CLIP_EPSILON)
                row.mul_(scale.clamp(max=1.0))

    def _norm(self, row: Tensor) -> Tensor:
        """Norm of one network's gradient, in torch's order: of the norms of its tensors."""
        norms = [
            torch.linalg.vector_norm(row[start:stop]) for start, stop, _ in self.parameters.spans.values()
        ]
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return norm

    def _shrink(self, rates: Sequence[float]) -> None:
        decays = [v.weight_decay for v in self.values]
        for rows, one in runs_of(list(zip(rates, decays))):
            if decays[one] != 0:
                self.parameters.flat[rows].mul_(1 - rates[one] * decays[one])

    def _decay(self, gradient: Tensor) -> None:
        decays = [v.weight_decay for v in self.values]
        for rows, one in runs_of(decays):
            if decays[one] != 0:
                gradient[rows].add_(self.parameters.flat[rows], alpha=decays[one])

    def _descend(self, gradient: Tensor, rates: Sequence[float]) -> None:
        momenta = [v.momentum for v in self.values]
        if any(momenta):
            if self.first is None:
                self.first = gradient.clone()
            else:
                for rows, one in runs_of(momenta):
                    if momenta[one] != 0:
                        self.first[rows].mul_(momenta[one]).add_(gradient[rows])
                    else:
                        self.first[rows].copy_(gradient[rows])
            gradient = self.first
        for rows, one in runs_of(rates):
            self.parameters.flat[rows].add_(gradient[rows], alpha=-rates[one])

    def _adam(self, gradient: Tensor, rates: Sequence[float]) -> None:
        if self.first is None or self.second is None:
            self.first, self.second = torch.zeros_like(gradient), torch.zeros_like(gradient)
        self.first.lerp_(gradient, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        corrections = [1 - beta ** float(self.steps) for beta in BETAS]
        scale = (self.second.sqrt() / corrections[1] ** 0.5).add_(EPSILON)
        for rows, one in runs_of(rates):
            size = rates[one] / corrections[0]
            self.parameters.flat[rows].addcdiv_(self.first[rows], scale[rows], value=-size)

    def _at_moved_point(self, gradient: Tensor, gradient_of: Gradient) -> Tensor:
        flat, before = self.parameters.flat, self.parameters.flat.clone()
        scales = [value.sam_rho / (self._norm(row) + 1e-12) for row, value in zip(gradient, self.values)]
        flat.add_(gradient * torch.stack(scales).unsqueeze(1))
        _, moved = gradient_of()
        flat.copy_(before)
        return moved
