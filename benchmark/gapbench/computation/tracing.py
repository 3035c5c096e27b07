"""The computation of a network as a list of ATen operations, recorded from one forward pass.

Recording what runs (a dispatch mode) needs no cooperation from the network: control flow, functional calls and
packages of any kind appear as the same few dozen operators, with parameters and buffers known by identity.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from gapbench_base.errors import GapbenchError

# Operators whose result has the shape and type of their argument, not its values.
FACTORIES = frozenset(
    "new_zeros new_ones new_full new_empty zeros_like ones_like full_like empty_like".split()
)


# Operators without a result that read no values.
UNREAD = frozenset(
    "sym_size sym_numel sym_stride record_stream _assert_async _assert_tensor_metadata".split()
)


@dataclass(frozen=True)
class Node:
    """One value. `kind` is `input`, `parameter`, `buffer`, `constant` or `op`.

    For an op, `op` is its ATen name without overload (`convolution`), `function` what was called, `arguments`
    and `keywords` what it was called with, tensors replaced by `Ref`; `inputs` are the indices of those
    tensors, and `output` says which of several results this value is.
    """

    index: int
    kind: str
    shape: tuple[int, ...]
    op: str = ""
    name: str = ""
    function: Any = None
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()
    inputs: tuple[int, ...] = ()
    output: int = 0


@dataclass(frozen=True)
class Ref:
    """A tensor argument: the index of the node that made it."""

    index: int


@dataclass(frozen=True)
class Trace:
    """All nodes in order of execution. `opaque` says that memory was aliased in a way that hides data flow.

    `hidden`: the same, for values that depend on the input or on parameters. `volatile`: constants that were
    written to through an alias, so that recomputing them gives something else. `constants`: the values, when they
    were first used, of tensors that are neither parameter nor buffer nor computed nor share another's memory.
    `reads`: values that depend on the input or on parameters and were read as numbers or truth values: what follows
    may branch on them.
    """

    nodes: tuple[Node, ...]
    input: int
    output: int
    opaque: bool
    hidden: bool = False
    volatile: frozenset[int] = frozenset()
    constants: dict[int, Tensor] = field(default_factory=dict)
    reads: frozenset[int] = frozenset()

    def reachable(self) -> list[Node]:
        """Nodes that the output, or a number read out of the computation, depends on, in order."""
        wanted, stack = set(), [self.output, *self.reads]
        while stack:
            index = stack.pop()
            if index not in wanted:
                wanted.add(index)
                stack.extend(self.nodes[index].inputs)
        return [self.nodes[i] for i in sorted(wanted)]

    def made_of_parameters(self, index: int) -> bool:
        """Whether a value is a parameter or computed from one."""
        seen, stack = set(), [index]
        while stack:
            i = stack.pop()
            if i not in seen:
                if self.nodes[i].kind == "parameter":
                    return True
                seen.add(i)
                stack.extend(self.nodes[i].inputs)
        return False

    def consumers(self) -> dict[int, list[int]]:
        """Node -> reachable nodes that use it (once for each use)."""
        uses: dict[int, list[int]] = {}
        for node in self.reachable():
            for index in node.inputs:
                uses.setdefault(index, []).append(node.index)
        return uses


class _Decomposed(TorchFunctionMode):
    """Operators whose second derivative is wrong (weight normalisation) or missing, by their defining formulas."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch._weight_norm:
            return _weight_norm(*args, **kwargs)
        if func in (torch.nn.functional.hardsigmoid, torch._C._nn.hardsigmoid) and not kwargs.get("inplace"):
            return torch.clamp(args[0] + 3.0, 0.0, 6.0) / 6.0
        if func in (torch.nn.functional.hardsigmoid, torch._C._nn.hardsigmoid_):
            return args[0].copy_(torch.clamp(args[0] + 3.0, 0.0, 6.0) / 6.0)
        return func(*args, **kwargs)


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    axes = tuple(a for a in range(v.dim()) if a != dim % v.dim()) if dim != -1 else tuple(range(v.dim()))
    return v * (g / v.pow(2).sum(axes, keepdim=True).sqrt())


_LOCK = threading.RLock()  # what is set here is the process's, not a thread's
LOWER = (torch.float16, torch.bfloat16, torch.float32)


class _Promoted(TorchFunctionMode):
    """A float64 network stays one: casts to lower types inside are taken for casts to float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.float, Tensor.half, Tensor.bfloat16):
            return args[0].double() if args[0].dtype != torch.float64 else args[0].clone()
        if func in (Tensor.to, Tensor.type):
            args = tuple(torch.float64 if _is_lower(a) else a for a in args)
        if _is_lower(kwargs.get("dtype")):
            kwargs = {**kwargs, "dtype": torch.float64}
        found = func(*args, **kwargs)
        if func is Tensor.to and found is args[0] and torch.float64 in args[1:]:
            return found.clone()  # as a cast would
        if isinstance(found, Tensor) and found.dtype in LOWER:  # made inside, in the default type
            return found.double()
        return found


def _is_lower(value: Any) -> bool:
    return isinstance(value, torch.dtype) and value in LOWER


@contextlib.contextmanager
def plain_kernels(dtype: torch.dtype | None = None) -> Iterator[None]:
    """Attention and weight normalisation by their formulas.

    Without kernels whose second derivatives are missing or wrong. With `dtype` float64 everything inside is
    computed in float64, whatever the network asks for.

    Yields:
        Nothing; within the block every network computes so.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(_Decomposed())
            if dtype == torch.float64:
                stack.enter_context(_Promoted())
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(before)


def own_type(network: nn.Module) -> torch.dtype | None:
    """The type of the first parameter that is a floating-point number."""
    return next((p.dtype for p in network.parameters() if p.is_floating_point()), None)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[Node] = []
        self.alive: list[Tensor] = []  # keeps identities and storages unique while recording
        self.index_of: dict[int, int] = {}
        self.storage_users: dict[int, set[int]] = {}
        self.opaque = self.hidden = False
        self.dependent: set[int] = set()
        self.storages: list[int] = []
        self.written: set[int] = set()
        self.constants: dict[int, Tensor] = {}
        self.reads: set[int] = set()

    def leaf(self, tensor: Tensor, kind: str, name: str = "") -> int:
        return self._add(tensor, kind=kind, name=name)

    def _add(self, tensor: Tensor, **fields: Any) -> int:
        index = len(self.nodes)
        self.nodes.append(Node(index=index, shape=tuple(tensor.shape), **fields))
        self.alive.append(tensor)
        self.storages.append(_storage(tensor))
        node = self.nodes[-1]
        if node.kind in ("parameter", "input") or (
            node.op not in FACTORIES and any(i in self.dependent for i in node.inputs)
        ):
            self.dependent.add(index)
        self.index_of[id(tensor)] = index
        self.storage_users.setdefault(_storage(tensor), set()).add(id(tensor))
        return index

    def lookup(self, tensor: Tensor) -> int:
        if id(tensor) not in self.index_of:
            alias = _storage(tensor) in self.storage_users  # `.data` of another value is no constant
            index = self.leaf(tensor, "constant")
            if not alias:
                self.constants[index] = tensor.detach().clone()
            return index
        return self.index_of[id(tensor)]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inputs: list[int] = []

        def replace(value: Any) -> Any:
            if isinstance(value, Tensor):
                inputs.append(self.lookup(value))
                return Ref(inputs[-1])
            if isinstance(value, list | tuple):
                return tuple(replace(v) for v in value)
            return value

        schema = func._schema
        arguments = tuple(replace(v) for v in args)
        keywords = tuple((key, replace(value)) for key, value in kwargs.items())
        result = func(*args, **kwargs)
        name = schema.name.split("::")[-1]
        if schema.is_mutable:
            name = name.removesuffix("_")
            mutated = [v for v in args if isinstance(v, Tensor)][:1]
            for tensor in mutated:
                if len(self.storage_users.get(_storage(tensor), set())) > 1:
                    self.opaque = True
                    self.written.add(_storage(tensor))
                    touched = [i for i, s in enumerate(self.storages) if s == _storage(tensor)]
                    self.hidden |= any(i in self.dependent for i in (*touched, *inputs))
        tensors = [v for v in tree_flatten(result)[0] if isinstance(v, Tensor)]
        if not tensors and name not in UNREAD:
            self.reads.update(i for i in inputs if i in self.dependent)
        for position, tensor in enumerate(tensors):
            self._add(
                tensor,
                kind="op",
                op=name,
                function=func,
                arguments=arguments,
                keywords=keywords,
                inputs=tuple(inputs),
                output=position,
            )
        return result


def _storage(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return id(tensor)


@torch.no_grad()
def trace(network: nn.Module, example: Tensor) -> Trace:
    """Record one forward pass of `network` in its current mode on `example` (n, ...).

    Returns:
        The trace. Whatever the network raises is raised here.

    Raises:
        GapbenchError: the network does not return one tensor.
    """
    recorder = _Recorder()
    for name, parameter in network.named_parameters():
        recorder.leaf(parameter, "parameter", name)
    for name, buffer in network.named_buffers():
        recorder.leaf(buffer, "buffer", name)
    # What is recorded does not depend on the order of images in memory, which conversions inside would show.
    example = example.detach().clone(memory_format=torch.contiguous_format)
    start = recorder.leaf(example, "input")
    with plain_kernels(own_type(network)), recorder:
        output = network(example)
    if not isinstance(output, Tensor):
        raise GapbenchError(
            f"The network must return one tensor, not {type(output).__name__}: wrap it in a module that picks one."
        )
    volatile = frozenset(i for i, s in enumerate(recorder.storages) if s in recorder.written)
    return Trace(
        tuple(recorder.nodes),
        start,
        recorder.lookup(output),
        recorder.opaque,
        recorder.hidden,
        volatile,
        recorder.constants,
        frozenset(recorder.reads),
    )
