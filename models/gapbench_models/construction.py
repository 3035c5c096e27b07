"""Build a network from a checked request, a seed and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from gapbench_models.differentiable import make_twice_differentiable
from gapbench_models.registry import describe
from gapbench_models.request import BuildRequest, checked_request, checked_scale, checked_seed
from gapbench_models.resolution import MAPS_MATTER


def build(
    name: str,
    width: float,
    input_shape: tuple[int, int, int],
    num_classes: int,
    seed: int,
    depth: int | None,
    dropout: float,
    init_scale: float,
    activation: str = "default",
) -> nn.Module:
    """See `gapbench_models.build_model`."""
    request = checked_request(name, width, input_shape, num_classes, depth, dropout, activation)
    scale = checked_scale(init_scale)
    with _isolated(checked_seed(seed), "cpu"):
        net = _construct(request)
        if scale != 1.0:
            scale_initial_weights(net, scale)
    return net


def count_parameters(
    name: str, width: float, input_shape: tuple[int, int, int], num_classes: int, depth: int | None
) -> int:
    """See `gapbench_models.parameter_count`."""
    request = checked_request(name, width, input_shape, num_classes, depth, 0.0)
    with _isolated(0, "meta"), _SkipInitialisation():
        net = _construct(request)
    return sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)


def count_activations(
    name: str, width: float, input_shape: tuple[int, int, int], num_classes: int, depth: int | None
) -> int:
    """See `gapbench_models.activation_count`."""
    request = checked_request(name, width, input_shape, num_classes, depth, 0.0)
    made = _Made()
    with _without_values(request) as (net, example), torch.no_grad(), made:
        net(example)
    return made.count([example, *net.parameters(), *net.buffers()])


def count_work(
    name: str, width: float, input_shape: tuple[int, int, int], num_classes: int, depth: int | None
) -> tuple[int, int]:
    """See `gapbench_models.work_count`."""
    from torch.utils.flop_counter import FlopCounterMode

    request = checked_request(name, width, input_shape, num_classes, depth, 0.0)
    made, counter = _Made(), FlopCounterMode(display=False)
    with _without_values(request) as (net, example), torch.no_grad(), counter, made:
        net(example)
    return made.operations, counter.get_total_flops() // 2


@contextmanager
def _without_values(request: BuildRequest) -> Iterator[tuple[nn.Module, torch.Tensor]]:
    """The network on the meta device, and an input."""
    with _isolated(0, "meta"):
        wanted = MAPS_MATTER.set(True)
        try:
            with _SkipInitialisation():
                net = _construct(request).eval()
        finally:
            MAPS_MATTER.reset(wanted)
        yield net, torch.empty(1, *request.input_shape)


class _Made(TorchDispatchMode):
    """Keeps every tensor that is computed; on the meta device they take no memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found: list[torch.Tensor] = []
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        found = result if isinstance(result, tuple | list) else (result,)
        self._found += [tensor for tensor in found if isinstance(tensor, torch.Tensor)]
        return result

    def count(self, given: Sequence[torch.Tensor]) -> int:
        """Numbers in what was computed; of what only shows another tensor, or one that was `given`, nothing."""
        sizes = {
            tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() // tensor.element_size()
            for tensor in self._found
        }
        for tensor in given:
            sizes.pop(tensor.untyped_storage()._cdata, None)
        return sum(sizes.values())


class _SkipInitialisation(TorchFunctionMode):
    """Leave tensors as they are: on the meta device they have no values, and filling them is slow.

    Linear sequences are made on the CPU: timm's networks read the rates of stochastic depth from them.
    """

    _FILLING = frozenset(
        getattr(torch.Tensor, name)
        for name in ("normal_", "uniform_", "fill_", "zero_", "erfinv_", "mul_", "add_", "clamp_")
    )

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in self._FILLING and args[0].is_meta:
            return args[0]
        if func is torch.linspace:
            return func(*args, **{"device": "cpu", **(kwargs or {})})
        return func(*args, **(kwargs or {}))


def scale_initial_weights(net: nn.Module, scale: float) -> None:
    """Multiply, in place, all weights of linear, convolutional and attention layers by `scale`.

    Biases, normalisation layers, layer scales, class tokens and position embeddings stay.
    """
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
                module.weight.mul_(scale)
            elif isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
                module.in_proj_weight.mul_(scale)  # out_proj is a linear layer of its own


def _construct(request: BuildRequest) -> nn.Module:
    module_name, _, function_name = describe(request.name).builder.partition(":")
    builder: Callable[[BuildRequest], nn.Module] = getattr(import_module(module_name), function_name)
    net = builder(request)
    make_twice_differentiable(net)
    return net.train()


@contextmanager
def _isolated(seed: int, device: str) -> Iterator[None]:
    """Draw from a generator seeded for this call, in float32 on `device`, whatever the caller's settings.

    Only the CPU generator is used, and put back: `torch.manual_seed` would also reseed the accelerators.
    """
    generator = torch.default_generator
    state, dtype = generator.get_state(), torch.get_default_dtype()
    try:
        generator.manual_seed(seed)
        torch.set_default_dtype(torch.float32)
        with torch.inference_mode(False), torch.enable_grad(), torch.device(device):
            yield
    finally:
        torch.set_default_dtype(dtype)
        generator.set_state(state)
