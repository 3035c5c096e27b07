"""Whether symmetries can be sought at all: checks of a network and its example inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.computation.tracing import plain_kernels
from gapbench.symmetry.orbit import TRACED
from gapbench_base.errors import GapbenchError


def usable_inputs(network: nn.Module, inputs: Tensor) -> Tensor:
    """Inputs in the network's type; raises `GapbenchError` where it cannot be evaluated on them."""
    if not isinstance(inputs, Tensor) or inputs.dim() == 0 or not len(inputs):
        raise GapbenchError("Example inputs must be a tensor with at least one example along the first axis.")
    kind = next(p.dtype for p in network.parameters() if p.is_floating_point())
    first = next(network.parameters())
    inputs = inputs.to(first.device, kind) if inputs.is_floating_point() else inputs.to(first.device)
    try:
        with torch.no_grad(), plain_kernels(kind):
            network.eval()(inputs[:TRACED])
    except Exception as error:
        raise GapbenchError(
            f"The network cannot be evaluated on inputs of shape {tuple(inputs.shape)}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return inputs


def check_network(network: nn.Module) -> None:
    """Raise `GapbenchError` for a network without parameters, or with some that are not finite or complex."""
    if not isinstance(network, nn.Module):
        raise GapbenchError(f"The network must be a torch.nn.Module, not {type(network).__name__}.")
    if not any(p.is_floating_point() for p in network.parameters()):
        raise GapbenchError("The network has no parameters.")
    kinds = {str(p.dtype).removeprefix("torch.") for p in network.parameters() if p.is_floating_point()}
    if len(kinds) > 1:
        raise GapbenchError(
            f"The network has parameters of several types ({', '.join(sorted(kinds))}): convert it to one, as by "
            "network.double()."
        )
    if any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()):
        raise GapbenchError("The network is scripted (torch.jit): give the nn.Module that it was made from.")
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if torch.nn.parameter.is_lazy(tensor):
            raise GapbenchError("The network has uninitialised (lazy) parameters: evaluate it once first.")
        if isinstance(tensor, nn.Parameter) and not tensor.numel():
            raise GapbenchError(
                f"The parameter {name} is empty, of shape {tuple(tensor.shape)}: leave it out."
            )
        if tensor.is_complex():
            raise GapbenchError(f"The tensor {name} is complex: symmetries are found for real networks only.")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise GapbenchError(f"The tensor {name} of the network holds NaN or infinite numbers.")
