"""What a proxy may see: a trained network, its initialisation and its training data. Nothing else."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gapbench.computation.batches import why_mixed
from gapbench.computation.lipschitz import Composition, NoLipschitzConstant, compose
from gapbench.computation.memory_format import channels_last, channels_last_pays
from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.heads import class_logits, per_example_loss
from gapbench.curvature.loss import CHUNK, Landscape
from gapbench.proxies.results import NotApplicable
from gapbench.proxies.steadiness import unsteady

if TYPE_CHECKING:
    from gapbench.symmetry import Symmetry

BATCH = 500
Result = TypeVar("Result")


class Checkpoint(NamedTuple):
    """A network as it was after an epoch of its training, in eval mode."""

    epoch: int
    network: nn.Module


TRUSTED = "tested before"
"""What testing the derivatives of another network of the same operations showed, where there was one."""


@dataclass(eq=False, repr=False)
class Context:
    """The information a proxy may use. Cached quantities are computed once and shared between proxies.

    `model` is the trained network in eval mode, `initial` the same at initialisation (or None), `inputs`
    (n, c, h, w) and `targets` (n,) the training examples to differentiate on (a fixed stratified subset in a
    suite), without augmentation. `logits`, `margins`, `train_loss` and `input_norm` use the whole training
    set (N examples). `generator` (CPU) is the only source of randomness. `history` has the course of
    training where it is known, in a suite always: `loss`, the mean mini-batch loss (nats) of every epoch; where a
    suite records more, at the epochs `epoch`: `train_loss` (nats), `train_error`, `gradient_noise` and
    `gradient_norm` (`gapbench.population.recording`). `checkpoints` are the network after some epochs between
    `initial` and `model`, where a suite keeps them (in a run for proxies that name them in `needs`). `sibling`
    is a network of the same configuration and another seed, where a suite has one (in a run for proxies that name
    it in `needs`); `unlabelled` (m, c, h, w) are further inputs of the task without targets, neither of the
    training nor of the test set. All are None where there are none. `batch_size` examples are evaluated at once
    (None: as many as is usual). `loss` is "cross_entropy" or "mse", half the squared error summed over outputs.
    `notes` say in which type it is computed and what was left out.
    """

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    num_classes: int
    generator: torch.Generator
    initial: nn.Module | None = None
    loss: str = "cross_entropy"
    all_inputs: Tensor | None = None
    all_targets: Tensor | None = None
    history: dict[str, Any] | None = None
    checkpoints: Sequence[Checkpoint] | None = None
    sibling: nn.Module | None = None
    unlabelled: Tensor | None = None
    batch_size: int | None = None
    notes: dict[str, str] = field(default_factory=dict)
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """What it holds, in one line, without the numbers."""
        size = sum(p.numel() for p in self.model.parameters())
        extras = [
            name
            for name in ("initial", "history", "checkpoints", "sibling", "unlabelled")
            if getattr(self, name) is not None
        ]
        return (
            f"Context({type(self.model).__name__} of {size:,} parameters; {len(self.inputs)} of {self.train_size} "
            f"training examples {tuple(self.inputs.shape[1:])}, {self.num_classes} classes, {self.loss}"
            f"{'; with ' + ', '.join(extras) if extras else ''})"
        )

    @property
    def parameters(self) -> Sequence[Tensor]:
        """The trained network's parameters, detached, in `model.parameters()` order."""
        return [p.detach() for p in self.model.parameters()]

    @property
    def train_size(self) -> int:
        """N, the size of the whole training set."""
        return len(self.inputs if self.all_inputs is None else self.all_inputs)

    def require_initial(self) -> nn.Module:
        """The initial network; raises `NotApplicable` where it is not known."""
        if self.initial is None:
            raise NotApplicable("the initial weights are not known")
        return self.initial

    def require_history(self, name: str = "loss") -> list[float]:
        """A column of the course of training; raises `NotApplicable` where it was not recorded."""
        if self.history is None or name not in self.history:
            raise NotApplicable(f"the course of training has no {name} (`record` of a suite)")
        return list(self.history[name])

    def require_checkpoints(self) -> Sequence[Checkpoint]:
        """The network after some epochs, ascending; raises `NotApplicable` where none were kept."""
        if not self.checkpoints:
            raise NotApplicable('no checkpoints were kept (`record = "path"` of a suite)')
        return self.checkpoints

    def require_sibling(self) -> nn.Module:
        """The network of another seed; raises `NotApplicable` where there is none."""
        if self.sibling is None:
            raise NotApplicable(
                "no network of the same configuration and another seed is at hand (`seeds` or `core` of a suite)"
            )
        return self.sibling

    def require_unlabelled(self) -> Tensor:
        """Inputs without targets (m, ...); raises `NotApplicable` where there are none."""
        if self.unlabelled is None:
            raise NotApplicable("there are no unlabelled inputs")
        return self.unlabelled

    @functools.cached_property
    def landscape(self) -> Landscape:
        """The loss on `inputs` as a function of the flat parameters, with derivatives."""
        inputs, size = self.inputs, self.batch_size or CHUNK
        if inputs.device.type == "cpu" and channels_last_pays(self.model, inputs, min(size, len(inputs))):
            inputs = channels_last(inputs)
        found = Landscape(self.model, inputs, self.targets, self.loss, size)
        if found.mixed is not None:
            self.notes["batch"] = f"all examples at once, since {found.mixed}"
        if TRUSTED in self._cache:
            found.trust(self._cache[TRUSTED])
        return found

    @functools.cached_property
    def gradient(self) -> Tensor:
        """Gradient (d,) of the loss on `inputs`."""
        return self.landscape.value_and_gradient()[1]

    @functools.cached_property
    def logits(self) -> Tensor:
        """Outputs (N, classes) on the whole training set."""
        inputs = self.inputs if self.all_inputs is None else self.all_inputs
        with torch.no_grad(), plain_kernels():
            size = self.batch_size or BATCH
            mixed = why_mixed(self.model, inputs)
            if mixed is not None:
                self.notes["batch"] = f"all examples at once, since {mixed}"
                size = len(inputs)
            return torch.cat([self.model(part) for part in torch.split(inputs, size)])

    @functools.cached_property
    def unsteady(self) -> str:
        """What of the network changes when it is evaluated, in words; empty where nothing does."""
        return unsteady(self.model, self.inputs[:2])

    @functools.cached_property
    def defect(self) -> str:
        """What of the network or its data is not finite, in words; empty where all is."""
        for name, tensor in [*self.model.named_parameters(), *self.model.named_buffers()]:
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                return f"the tensor {name} of the network holds NaN or infinite numbers"
        data = {
            "inputs": self.inputs,
            "targets": self.targets,
            "inputs of the whole training set": self.all_inputs,
        }
        for role, values in data.items():
            if values is not None and values.is_floating_point() and not bool(values.isfinite().all()):
                return f"the {role} hold NaN or infinite numbers"
        size = self.batch_size or BATCH
        with torch.no_grad(), plain_kernels():
            for start in range(0, len(self.inputs), size):
                outputs = self.model(self.inputs[start : start + size])
                wrong = ~outputs.isfinite().reshape(len(outputs), -1).all(dim=1)
                if bool(wrong.any()):
                    return f"the outputs for example {start + int(wrong.nonzero()[0])} are not finite"
        return ""

    @functools.cached_property
    def train_loss(self) -> float:
        """Mean loss on the whole training set (nats for cross-entropy)."""
        targets = self.targets if self.all_targets is None else self.all_targets
        return float(per_example_loss(self.logits, targets, self.loss).mean())

    @functools.cached_property
    def margins(self) -> Tensor:
        """Margins (N,) float64: f(x)_y - max_{j != y} f(x)_j. Raises `NotApplicable` without classes."""
        targets = self.targets if self.all_targets is None else self.all_targets
        narrow = self.loss == "mse" and (self.logits.dim() != 2 or self.logits.shape[1] < 2)
        if targets.is_floating_point() or narrow:
            raise NotApplicable("margins need class targets and at least two logits")
        logits = class_logits(self.logits, tuple(targets.shape[1:])).double()
        if logits.shape[1] != 1:
            raise NotApplicable("margins of maps and sequences of logits are not defined")
        logits, targets = logits[:, 0], targets.reshape(-1, 1)
        own = logits.gather(1, targets)[:, 0]
        others = logits.scatter(1, targets, -torch.inf).max(dim=1).values
        return own - others

    @functools.cached_property
    def input_norm(self) -> float:
        """Frobenius norm of the whole matrix of training inputs."""
        inputs = self.inputs if self.all_inputs is None else self.all_inputs
        if not inputs.is_floating_point():
            raise NotApplicable("inputs that are whole numbers (token ids) have no norm")
        return float(torch.linalg.vector_norm(inputs.double()))

    def shared(self, key: str, compute: Callable[[], Result]) -> Result:
        """Compute once for all proxies; each that asks is charged the time it took, once, and what that rests on.

        So a proxy's cost does not depend on which others were measured before it.

        Returns:
            What `compute` returned.
        """
        name, cache = f"shared: {key}", self._cache
        frames = cache.setdefault(
            "frames", []
        )  # of what is being computed: what was asked for, and its seconds
        paid, own = cache.setdefault("paid", set()), cache.setdefault("seconds", {})
        parts: dict[str, frozenset[str]] = cache.setdefault("parts", {})
        if name not in cache:
            frames.append([set(), 0.0])
            extra, started = cache.get("extra", 0.0) + self._reused, time.perf_counter()
            try:
                cache[name] = compute()
            finally:
                inside, within = frames.pop()
                elapsed = time.perf_counter() - started
                if frames:
                    frames[-1][1] += elapsed
            own[name] = elapsed - within + cache.get("extra", 0.0) + self._reused - extra
            parts[name] = frozenset(inside | {name})
            paid.add(name)
        for frame in frames:
            frame[0].update(parts[name])
        cache["charged"] = cache.get("charged", 0.0) + sum(own[part] for part in parts[name] - paid)
        paid |= parts[name]
        shared: Result = cache[name]
        return shared

    def charge(self, seconds: float) -> None:
        """Count in what was computed for another proxy before."""
        for counter in ("charged", "extra"):
            self._cache[counter] = self._cache.get(counter, 0.0) + seconds

    def reused(self) -> float:
        """Seconds that it took to compute what was used again of the landscape since this was last asked."""
        seconds = self._reused
        if seconds:
            self.landscape.reused = 0.0
        return seconds

    @property
    def _reused(self) -> float:
        return self.landscape.reused if "landscape" in self.__dict__ else 0.0

    def begin(self) -> None:
        """Begin a measurement: nothing is charged yet."""
        self._cache["charged"], self._cache["paid"] = 0.0, set()
        self.reused()

    @property
    def symmetry(self) -> Symmetry:
        """The network's continuous symmetries in eval mode."""
        from gapbench.symmetry import find

        return self.shared("symmetry", lambda: find(self.model, self.inputs))

    @property
    def balanced(self) -> Context:
        """The same network at the balanced representative of its orbit. Raises `NotApplicable`."""
        return self.shared("balanced", self._balance)

    def _balance(self) -> Context:
        from gapbench.symmetry.canonical import CannotBalance

        try:
            model = self.symmetry.balanced()
        except CannotBalance as reason:
            raise NotApplicable(f"the network cannot be balanced: {reason}") from reason
        for p in model.parameters():
            p.requires_grad_(True)
        found = dataclasses.replace(self, model=model, initial=None, notes=self.notes, _cache={})
        # The same operations at other parameters: less is tested where they were tested before.
        found.landscape.trust(self.landscape)
        return found

    @property
    def balanced_norm(self) -> float:
        """Euclidean norm of the parameters at the balanced representative: an invariant of the orbit."""
        squared = float(sum(float(p.double().pow(2).sum()) for p in self.balanced.parameters))
        norm: float = squared**0.5
        return norm

    @functools.cached_property
    def normalised_initial(self) -> tuple[nn.Module, bool]:
        """The initial network with batch statistics of the whole training set, and whether it has any.

        The statistics of a network at its initialisation, 0 and 1, are not of its activations. Where there are
        any to estimate this is a copy in eval mode.

        Raises:
            NotApplicable: the initial network is not known, or its statistics cannot be estimated.
        """
        from gapbench.computation.batch_norm import reestimate_batch_norm

        initial = self.require_initial()
        layers = [m for m in initial.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
        if not layers:
            return initial, False
        inputs = self.inputs if self.all_inputs is None else self.all_inputs
        initial = copy.deepcopy(initial).eval()
        try:
            reestimate_batch_norm(initial, inputs)
        except ValueError as error:  # a single value per channel has no variance
            raise NotApplicable(
                f"the initial network's batch statistics cannot be estimated: {error}"
            ) from error
        return initial, True

    def composition(self, reference: str) -> Composition:
        """Linear layers and Lipschitz constant, distances to `zero` or to the `initial` network's layers.

        The initial network's batch normalisation is that of the training inputs, as in the trained network.

        Returns:
            The composition. `NotApplicable` is raised where the network has no useful Lipschitz constant.
        """

        def composed() -> Composition | NotApplicable:
            initial = self.normalised_initial[0] if reference == "initial" else None
            example = self.inputs[:2] if len(self.inputs) > 1 else self.inputs.repeat_interleave(2, dim=0)
            try:
                return compose(self.model, example, initial)
            except NoLipschitzConstant as error:
                return NotApplicable(str(error))

        found = self.shared(f"composition, {reference}", composed)
        if isinstance(found, NotApplicable):
            raise found
        return found
