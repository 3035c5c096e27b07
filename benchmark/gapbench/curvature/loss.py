"""The training loss as a function of one flat parameter vector, with exact first and second derivatives."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gapbench.curvature.tracing import plain_kernels
from gapbench.errors import GapbenchError

LOSSES = ("cross_entropy", "mse")
CHUNK = 128
KEPT_EXAMPLES = 512  # graphs of the gradient are kept between Hessian products up to this many examples


def per_example_loss(outputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """(n,) float64 losses. `cross_entropy` in nats; `mse` = 0.5 |f - y|^2 summed over outputs.

    Integer targets become one-hot for `mse`. Computed in float64 whatever the network's type, since
    sharpness is a difference of nearly equal losses.
    """
    outputs = outputs.double()
    if loss == "cross_entropy":
        if targets.is_floating_point():
            raise GapbenchError("Cross-entropy needs integer class targets.")
        return nn.functional.cross_entropy(outputs, targets, reduction="none")
    if loss == "mse":
        if not targets.is_floating_point():
            targets = nn.functional.one_hot(targets, outputs.shape[-1])
        if targets.shape != outputs.shape:
            raise GapbenchError(
                f"Targets of shape {tuple(targets.shape)} do not fit outputs {tuple(outputs.shape)}."
            )
        return 0.5 * (outputs - targets.double()).pow(2).flatten(1).sum(dim=1)
    raise GapbenchError(f"There is no loss {loss!r}: choose {' or '.join(LOSSES)}.")


class Landscape:
    """L(theta) = mean per-example loss of a network in eval mode on fixed data; theta (d,) is flat.

    The order of theta is that of `model.parameters()`, each row-major. The network itself is never changed.
    """

    def __init__(self, model: nn.Module, inputs: Tensor, targets: Tensor, loss: str, chunk: int = CHUNK):
        self.model, self.loss, self.chunk = model, loss, chunk
        self.inputs, self.targets = inputs, targets
        self.names = [name for name, _ in model.named_parameters()]
        self.shapes = [p.shape for p in model.parameters()]
        self.sizes = [p.numel() for p in model.parameters()]
        self.dimension = sum(self.sizes)
        if self.dimension == 0:
            raise GapbenchError("The network has no parameters.")
        first = next(model.parameters())
        self.dtype, self.device = first.dtype, first.device
        self._kept: list[tuple[list[Tensor], list[Tensor]]] | None = None

    def theta(self) -> Tensor:
        """The network's parameters as a new flat vector (d,)."""
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])

    def unflatten(self, theta: Tensor) -> dict[str, Tensor]:
        """Views of a flat vector under the names of the parameters."""
        parts = theta.split(self.sizes)
        return {name: part.reshape(shape) for name, part, shape in zip(self.names, parts, self.shapes)}

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self.inputs.split(self.chunk), self.targets.split(self.chunk))

    def _chunk_loss(self, parameters: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        outputs = functional_call(self.model, parameters, (inputs,))
        return per_example_loss(outputs, targets, self.loss).sum() / len(self.inputs)

    @torch.no_grad()
    def value(self, theta: Tensor | None = None) -> float:
        """L(theta), at the network's own parameters by default."""
        parameters = self.unflatten(self.theta() if theta is None else theta)
        with plain_kernels():
            return sum(float(self._chunk_loss(parameters, x, y)) for x, y in self._chunks())

    def value_and_gradient(self, theta: Tensor | None = None) -> tuple[float, Tensor]:
        """L(theta) and its gradient (d,)."""
        theta = (self.theta() if theta is None else theta).detach().requires_grad_()
        value, gradient = 0.0, torch.zeros_like(theta)
        with torch.enable_grad(), plain_kernels():
            for x, y in self._chunks():
                loss = self._chunk_loss(self.unflatten(theta), x, y)
                (part,) = torch.autograd.grad(loss, theta, allow_unused=True, materialize_grads=True)
                gradient += part
                value += float(loss.detach())
        return value, gradient.detach()

    def hessian_product(self, vector: Tensor) -> Tensor:
        """H v (d,) at the network's parameters, by double backward.

        The graph of the gradient is built once and reused while it fits (`KEPT_EXAMPLES`).
        """
        result = torch.zeros_like(vector)
        parts = vector.split(self.sizes)
        vectors = [p.reshape(s) for p, s in zip(parts, self.shapes)]
        with plain_kernels():
            for parameters, gradients in self._gradient_graphs():
                pairs = [(g, v) for g, v in zip(gradients, vectors) if g.requires_grad]
                if not pairs:
                    continue
                products = torch.autograd.grad(
                    [g for g, _ in pairs],
                    parameters,
                    grad_outputs=[v for _, v in pairs],
                    retain_graph=True,
                    allow_unused=True,
                    materialize_grads=True,
                )
                result += torch.cat([p.reshape(-1) for p in products])
        return result.detach()

    def _gradient_graphs(self) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        if self._kept is not None:
            yield from self._kept
            return
        keep = len(self.inputs) <= KEPT_EXAMPLES
        kept = []
        for x, y in self._chunks():
            graph = self._gradient_graph(x, y)
            if keep:
                kept.append(graph)
            yield graph
        if keep:
            self._kept = kept

    def _gradient_graph(self, x: Tensor, y: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        # Copies, so that neither a frozen parameter nor a later change of the network matters.
        parameters = [p.detach().clone().requires_grad_() for p in self.model.parameters()]
        with torch.enable_grad():
            loss = self._chunk_loss(dict(zip(self.names, parameters)), x, y)
            gradients = torch.autograd.grad(
                loss, parameters, create_graph=True, allow_unused=True, materialize_grads=True
            )
        return parameters, list(gradients)
