"""The training loss as a function of one flat parameter vector, with first and second derivatives.

Derivatives are tested before they are used (`derivatives.examine`): a gradient that is not the derivative of the
loss is refused, Hessian products that are not the derivative of the gradient are replaced by its differences.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gapbench.computation.batches import why_mixed
from gapbench.computation.copies import copied
from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.backward import gradient_of, with_parameters_of
from gapbench.curvature.derivatives import LARGE, DerivativeDefects, Functional, examine
from gapbench.curvature.heads import check_loss, gauss_newton_scalars, per_example_loss
from gapbench.curvature.memory import Memory
from gapbench.curvature.precision import agree, refuse_half
from gapbench_base.errors import GapbenchError, NotDefined

CHUNK = 128
KEPT_EXAMPLES = 512  # graphs of the gradient are kept between Hessian products up to this many examples
EXAMINED = 32  # examples on which gradients are tested; of networks with many parameters a quarter
FEW = 8  # of them those on which single tensors are
STEPS = (1e-5, 1e-6, 1e-7, 1e-8)  # of differences of gradients, relative to the size of the parameters
AGREEMENT = 1e-4  # of differences over two steps


class Landscape(Memory):
    """L(theta) = mean per-example loss of a network in eval mode on fixed data; theta (d,) is flat.

    The order of theta is that of `network.parameters()`, each row-major. The network itself is never changed.
    `chunk` examples are evaluated at once and make no difference to any value: a network in which examples
    meet (batch statistics, say) always gets all of them, and `mixed` says why.
    """

    def __init__(self, network: nn.Module, inputs: Tensor, targets: Tensor, loss: str, chunk: int = CHUNK):
        super().__init__()
        check_loss(loss)
        self.model, self.loss = network, loss
        self.inputs, self.targets = inputs, targets
        self.names = [name for name, _ in network.named_parameters()]
        self.shapes = [p.shape for p in network.parameters()]
        self.sizes = [p.numel() for p in network.parameters()]
        self.dimension = sum(self.sizes)
        if self.dimension == 0:
            raise GapbenchError("The network has no parameters.")
        first = next(network.parameters())
        self.dtype, self.device = first.dtype, first.device
        self.mixed = why_mixed(network, inputs)
        self.chunk = len(inputs) if self.mixed is not None else max(1, chunk)
        self._kept: list[tuple[list[Tensor], list[Tensor]]] | None = None
        self._findings: DerivativeDefects | None = None
        self.trusted: Landscape | DerivativeDefects | None = None
        self._fine: Landscape | None = None
        self._precise_inside = False

    def theta(self) -> Tensor:
        """The network's parameters as a new flat vector (d,)."""
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])

    def unflatten(self, theta: Tensor) -> dict[str, Tensor]:
        """Views of a flat vector under the names of the parameters."""
        parts = torch.split(theta, self.sizes)
        return {name: part.reshape(shape) for name, part, shape in zip(self.names, parts, self.shapes)}

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and targets, `chunk` examples at a time."""
        return zip(torch.split(self.inputs, self.chunk), torch.split(self.targets, self.chunk))

    def part_loss(self, network: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """What these examples contribute to the mean loss."""
        outputs = self._precise(network(inputs))
        if len(outputs) != len(inputs):
            raise NotDefined(f"the network gives {len(outputs)} rows of outputs for {len(inputs)} examples")
        return per_example_loss(outputs, targets, self.loss).sum() / len(self.inputs)

    @torch.no_grad()
    def value(self, theta: Tensor | None = None) -> float:
        """L(theta), at the network's own parameters by default. Raises `NotDefined` for lower precision inside."""
        self.require_precision()
        parameters = self.unflatten(self.theta() if theta is None else theta)

        def total(network: nn.Module) -> float:
            return sum(float(self.part_loss(network, x, y)) for x, y in self.chunks())

        with plain_kernels(self.dtype):
            value: float = with_parameters_of(self.model, parameters, total)
        return value

    def value_and_gradient(self, theta: Tensor | None = None) -> tuple[float, Tensor]:
        """L(theta) and its gradient (d,). Raises `NotDefined` where that is not the derivative of the loss."""
        self.findings.require_gradient()
        return self.raw_gradient(theta)

    def raw_gradient(self, theta: Tensor | None = None) -> tuple[float, Tensor]:
        """L(theta) and what automatic differentiation says is its gradient."""
        theta = (self.theta() if theta is None else theta).detach().clone().requires_grad_()
        value, gradient = 0.0, torch.zeros_like(theta)
        for x, y in self.chunks():

            def differentiated(network: nn.Module, x: Tensor = x, y: Tensor = y) -> tuple[float, Tensor]:
                loss = self.part_loss(network, x, y)
                return float(loss.detach()), gradient_of(loss, theta, lambda: self.part_loss(network, x, y))

            with torch.enable_grad(), plain_kernels(self.dtype):
                now, part = with_parameters_of(self.model, self.unflatten(theta), differentiated)
            value, gradient = value + now, gradient + part
        return value, gradient.detach()

    @property
    def findings(self) -> DerivativeDefects:
        """What testing the derivatives showed; tested once. Raises `NotDefined` for lower precision inside.

        The same computation is tested at parameters a little off as well: units may sit exactly at a kink, and
        behind a zero nothing is seen. Where another landscape of the same computation is `trusted`, less is done.
        """
        if self._findings is None:
            self.require_precision()
            before = self.trusted.findings if isinstance(self.trusted, Landscape) else self.trusted
            if before is not None and before.gradient is not None:
                self._findings = before
                return before
            tested = self._for_testing()
            here = tested.examined(tensors=before is None, second_on_all=before is None)
            if here.gradient is None and (before is None or here.kink):
                here = tested.examined_aside(here, tensors=before is None)
            if before is not None and here.gradient is None:
                here = DerivativeDefects(None, here.hessian or before.hessian, here.kink)
            self._findings = here
        return self._findings

    def examined_aside(self, here: DerivativeDefects, tensors: bool = True) -> DerivativeDefects:
        """Derivatives tested at parameters a little off as well, where none is zero by chance (heads, biases).

        Returns:
            What is wrong there; of Hessian products also what was wrong `here`.

        Raises:
            NotDefined: kinks lie so close everywhere that nothing can be tested.
        """
        generator = torch.Generator().manual_seed(1)
        for size in (1e-2, 1e-3, 1e-1):
            moved = copied(self.model)
            with torch.no_grad():
                for p in moved.parameters():
                    scale = size * float(p.double().pow(2).mean().sqrt()) + 1e-2 * size
                    noise = scale * torch.randn(p.shape, generator=generator, dtype=torch.float64)
                    p.add_(noise.to(device=p.device, dtype=p.dtype))
            there = Landscape(moved, self.inputs, self.targets, self.loss, self.chunk)
            aside = there.examined(tensors, second_on_all=here.kink)
            if not aside.kink:
                return DerivativeDefects(aside.gradient, here.hessian or aside.hessian, here.kink)
            if not here.kink:
                return here
        raise NotDefined("kinks lie so close to each other that derivatives cannot be tested")

    def examined(self, tensors: bool, second_on_all: bool) -> DerivativeDefects:
        """Derivatives tested at the network's own parameters; see `derivatives.examine`."""
        functional = _OutputFunctional(self.model, self.inputs, self.targets, self.loss, self.chunk)
        described = near = functional.described()
        if len(self.inputs) > FEW and self.mixed is None:
            few = torch.linspace(0, len(self.inputs) - 1, FEW).long().to(self.inputs.device)
            near = _OutputFunctional(
                self.model, self.inputs[few], self.targets[few], self.loss, self.chunk
            ).described()
        return examine(described, near, functional.theta(), functional.sizes, tensors, second_on_all)

    def trust(self, other: Landscape | DerivativeDefects) -> None:
        """Test less: the same computation at other parameters is tested in `other`, or showed `other`."""
        self.trusted = other

    def _for_testing(self, count: int = EXAMINED) -> Landscape:
        """A float64 copy on a few examples; the network itself where it cannot be evaluated in float64."""
        n = len(self.inputs)
        few = self._few(count)
        if self.dtype == torch.float64 and len(few) == n:
            return self
        inputs, targets = self.inputs[few], self.targets[few]
        try:
            tested = Landscape(*self._doubled(inputs, targets), self.loss, self.chunk)
            tested.value()
        except torch.OutOfMemoryError:
            raise
        except Exception:  # a network that only runs in its own type is tested there
            return Landscape(self.model, inputs, targets, self.loss, self.chunk)
        return tested

    def _few(self, count: int = EXAMINED) -> Tensor:
        """Positions of examples for tests, from the first to the last; all where they belong together."""
        n = len(self.inputs)
        count = count if self.dimension <= LARGE else min(count, EXAMINED // 4)
        whole = self.mixed is not None or n <= count
        few = torch.arange(n) if whole else torch.linspace(0, n - 1, count).long()
        return few.to(self.inputs.device)

    @torch.no_grad()
    def require_precision(self) -> None:
        """Raise `NotDefined` where outputs are rounded by more than the network's own type does."""
        if not self._precise_inside:
            self._test_precision()
            self._precise_inside = True

    def _test_precision(self) -> None:
        few = self._few()
        inputs = self.inputs[few]
        with plain_kernels():
            found = self._precise(self.model(inputs)).double()
        try:
            copy, exact_inputs, _ = self._doubled(inputs, self.targets[few])
            with plain_kernels(torch.float64):
                true = copy(exact_inputs)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # nothing to compare with
            return
        if not agree(found, true):
            raise NotDefined(
                "the network computes in lower precision inside, whose rounding is larger than what is measured"
            )

    def _doubled(self, inputs: Tensor, targets: Tensor) -> tuple[nn.Module, Tensor, Tensor]:
        return (
            copied(self.model).double(),
            inputs.double() if inputs.is_floating_point() else inputs,
            targets.double() if targets.is_floating_point() else targets,
        )

    def hessian_product(self, vector: Tensor) -> Tensor:
        """H v (d,) at the network's parameters, by double backward.

        The graph of the gradient is built once and reused while it fits (`KEPT_EXAMPLES`). Where products are
        not the derivative of the gradient they come from its central differences in float64.

        Returns:
            (d,) in the vector's type. `NotDefined` is raised where the gradient is not right itself.
        """
        self.findings.require_gradient()
        if self.findings.hessian is not None:
            return self.difference_product(vector)
        return self.raw_hessian_product(vector)

    def difference_product(self, vector: Tensor) -> Tensor:
        """H v from central differences of gradients of a float64 copy, over two steps that agree.

        Returns:
            (d,) in the vector's type.

        Raises:
            NotDefined: no two steps agree: kinks lie closer than that.
        """
        if self._fine is None:
            self._fine = self if self.dtype == torch.float64 else self.double()
        fine = self._fine
        theta, direction = fine.theta(), vector.to(torch.float64)
        size = float(direction.norm())
        if size == 0.0:
            return torch.zeros_like(vector)
        before: Tensor | None = None
        for h in STEPS:
            step = h * max(float(theta.norm()), 1e-3) / size
            up, down = (fine.raw_gradient(theta + s * step * direction)[1] for s in (1.0, -1.0))
            found = (up - down) / (2.0 * step)
            rounding = 1e3 * torch.finfo(torch.float64).eps * float(up.norm()) / step
            if before is not None:
                gap = float((found - before).norm())
                if gap <= AGREEMENT * float(found.norm()) + rounding:
                    return before.to(vector.dtype)
            before = found
        raise NotDefined(
            "second derivatives exist only as differences of gradients here, and kinks disturb those"
        )

    def double(self, examples: int | None = None) -> Landscape:
        """The same for a float64 copy of the network, on the first `examples` of the data."""
        parts = self._doubled(self.inputs[:examples], self.targets[:examples])
        return Landscape(*parts, self.loss, self.chunk)

    def raw_hessian_product(self, vector: Tensor) -> Tensor:
        """What double backward says is H v.

        Returns:
            (d,) in the vector's type.

        Raises:
            NotDefined: it is not finite.
        """
        result = torch.zeros_like(vector)
        parts = torch.split(vector, self.sizes)
        vectors = [p.reshape(s) for p, s in zip(parts, self.shapes)]
        for parameters, gradients in self.gradient_graphs():
            result += self.vector_product(parameters, gradients, vectors)
        if not bool(result.isfinite().all()):
            raise NotDefined("a Hessian product is not finite")
        return result.detach()

    def vector_product(
        self, parameters: list[Tensor], gradients: list[Tensor], vectors: list[Tensor]
    ) -> Tensor:
        """Derivative (d,) of gradients . vectors, by tensor, in the parameters that their graph hangs on."""
        pairs = [(g, v) for g, v in zip(gradients, vectors) if g.requires_grad]
        if not pairs:
            return torch.zeros(self.dimension, dtype=vectors[0].dtype, device=self.device)

        def product(_: nn.Module) -> list[Tensor]:
            return list(
                torch.autograd.grad(
                    [g for g, _ in pairs],
                    parameters,
                    grad_outputs=[v for _, v in pairs],
                    retain_graph=True,
                    allow_unused=True,
                    materialize_grads=True,
                )
            )

        with plain_kernels(self.dtype):
            products = with_parameters_of(self.model, dict(zip(self.names, parameters)), product)
        return torch.cat([p.reshape(-1) for p in products])

    def gradient_graphs(self) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        """Copies of the parameters and the gradient with its graph, chunk by chunk; kept while they fit."""
        if self._kept is not None:
            yield from self._kept
            return
        keep = len(self.inputs) <= KEPT_EXAMPLES
        kept = []
        for x, y in self.chunks():
            graph = self._gradient_graph(x, y)
            kept += [graph] if keep else []
            yield graph
        if keep:
            self._kept = kept

    def _gradient_graph(self, x: Tensor, y: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        # Copies, so that neither a frozen parameter nor a later change of the network matters.
        parameters = [p.detach().clone().requires_grad_() for p in self.model.parameters()]

        def gradients(network: nn.Module) -> list[Tensor]:
            loss = self.part_loss(network, x, y)
            return list(
                torch.autograd.grad(
                    loss, parameters, create_graph=True, allow_unused=True, materialize_grads=True
                )
            )

        with torch.enable_grad(), plain_kernels(self.dtype):
            found: list[Tensor] = with_parameters_of(self.model, dict(zip(self.names, parameters)), gradients)
        return parameters, found

    def scalars(self, outputs: Tensor) -> Tensor:
        """Outputs -> the scalars whose squared gradients sum to the Gauss-Newton matrix's diagonal."""
        return gauss_newton_scalars(self._precise(outputs), tuple(self.targets.shape[1:]), self.loss)

    def _precise(self, outputs: Tensor) -> Tensor:
        refuse_half(outputs, self.dtype)
        return outputs


class _OutputFunctional(Landscape):
    """A random combination of all outputs in place of the loss."""

    def __init__(self, network: nn.Module, inputs: Tensor, targets: Tensor, loss: str, chunk: int):
        super().__init__(network, inputs, targets, loss, chunk)
        with torch.no_grad(), plain_kernels(self.dtype):
            first = torch.cat([network(x).detach() for x, _ in self.chunks()])
        self.shape = first.shape[1:]
        generator = torch.Generator().manual_seed(7)
        signs = torch.randint(0, 2, tuple(first.shape), generator=generator, dtype=torch.float64) * 2 - 1
        # Of different sizes: signs of few examples may cancel exactly, and then nothing is seen of a bias.
        signs *= 0.5 + torch.rand(tuple(first.shape), generator=generator, dtype=torch.float64)
        # Each output counts alike, whatever its unit.
        columns = first.double().reshape(len(first), -1).abs().amax(0).reshape(first.shape[1:])
        columns = torch.where(columns > 0, columns, torch.ones_like(columns))
        self.targets = signs.to(self.device) / columns / max(1, first.numel()) ** 0.5

    def part_loss(self, network: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return (self._precise(network(inputs)).double() * targets).sum()

    @torch.no_grad()
    def outputs(self, theta: Tensor) -> Tensor:
        """All outputs in a row."""

        def evaluated(network: nn.Module) -> Tensor:
            return torch.cat([network(x).reshape(-1) for x, _ in self.chunks()])

        with plain_kernels(self.dtype):
            found: Tensor = with_parameters_of(self.model, self.unflatten(theta), evaluated)
        return found

    def described(self) -> Functional:
        return Functional(
            self.outputs,
            self.targets.reshape(-1),
            lambda theta: self.raw_gradient(theta)[1],
            self.raw_hessian_product,
        )
