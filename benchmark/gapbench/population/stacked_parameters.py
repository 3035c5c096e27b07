"""The parameters of several networks of one architecture as rows of one matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gapbench_base.errors import GapbenchError

LINE = 16
"""Numbers between whose multiples slices begin: 64 bytes in single precision, so that every slice lies in memory as
a tensor of its own would. Kernels of linear algebra give other last bits where it does not."""


class Unsuitable(GapbenchError):
    """Networks that an engine cannot train together, with the reason."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory did not suffice, on whatever device."""
    text = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
    )


def aligned(size: int) -> int:
    """The least multiple of `LINE` that is not below `size`."""
    return -(-size // LINE) * LINE


def padded(values: Tensor) -> Tensor:
    """A copy of (count, b, n) whose slices begin at multiples of `LINE`."""
    size = values[0].numel()
    buffer = values.new_zeros(len(values), aligned(size))
    view: Tensor = buffer[:, :size].unflatten(1, values.shape[1:])
    return view.copy_(values)


class StackedParameters:
    """Parameters of `count` networks: row k of `flat` (count, size) has those of network k, each at its place.

    Places begin at multiples of `LINE`; what lies between them is zero and stays zero.

    Attributes:
        flat: the values.
        spans: name -> where in a row the parameter lies, and its shape, in the order of `named_parameters`.
    """

    def __init__(self, models: Sequence[nn.Module]):
        first = dict(models[0].named_parameters())
        if len(first) != len(list(models[0].named_parameters(remove_duplicate=False))):
            raise Unsuitable("parameters are shared within the network")
        if not all(p.requires_grad for p in first.values()):
            raise Unsuitable("some parameters are not trained")
        if len({(p.dtype, p.device) for p in first.values()}) != 1:
            raise Unsuitable("parameters have several types")
        self.spans: dict[str, tuple[int, int, torch.Size]] = {}
        end = 0
        for name, parameter in first.items():
            self.spans[name] = (end, end + parameter.numel(), parameter.shape)
            end = aligned(end + parameter.numel())
        example = next(iter(first.values()))
        self.flat = torch.zeros(len(models), end, dtype=example.dtype, device=example.device)
        for row, model in zip(self.flat, models):
            found = dict(model.named_parameters())
            if {name: p.shape for name, p in found.items()} != {name: p.shape for name, p in first.items()}:
                raise Unsuitable("the networks have different parameters")
            for name, (start, stop, _) in self.spans.items():
                row[start:stop] = found[name].detach().flatten()

    def views(self, matrix: Tensor) -> dict[str, Tensor]:
        """The columns of each parameter in a matrix like `flat`, as (count, *shape), by name."""
        return {
            name: matrix[:, start:stop].unflatten(1, shape) if len(shape) else matrix[:, start]
            for name, (start, stop, shape) in self.spans.items()
        }

    def write(self, index: int, model: nn.Module) -> None:
        """Give a network the values of row `index`."""
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                start, stop, shape = self.spans[name]
                parameter.copy_(self.flat[index, start:stop].view(shape))

    def values(self, index: int) -> dict[str, Tensor]:
        """Copies of the parameters of row `index`, by name."""
        row = self.flat[index].clone()
        return {name: row[start:stop].view(shape) for name, (start, stop, shape) in self.spans.items()}

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these (indices, in order)."""
        self.flat = self.flat[rows].contiguous()
