"""Weight files: initial and final parameters and buffers of one network, and those of checkpoints between them.

Safetensors, written atomically; names begin with `initial.`, `final.`, or `checkpoint.<epoch>.`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor, nn

from gapbench.runs.weight_files import WeightFile, told
from gapbench_base.errors import DiskFull, GapbenchError

CHECKPOINT = "checkpoint"


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers as contiguous CPU copies."""
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in model.state_dict().items()
    }


def save_weights(
    path: WeightFile,
    initial: dict[str, Tensor],
    final: dict[str, Tensor],
    expected: str | None = None,
    checkpoints: Mapping[int, dict[str, Tensor]] | None = None,
) -> tuple[str, int]:
    """Write both states, and those of checkpoints by their epoch.

    On this machine atomically, the file is absent or whole; elsewhere as the file system there does it.

    Returns:
        The file's sha256 and size in bytes.

    Raises:
        DiskFull: without leaving a part.
        GapbenchError: writing nothing, if the content does not have the `expected` sha256.
        OSError: if the file cannot be written for another reason.
    """
    states = {"initial": initial, "final": final}
    states |= {f"{CHECKPOINT}.{epoch}": state for epoch, state in (checkpoints or {}).items()}
    content = save_bytes({f"{kind}.{name}": t for kind, state in states.items() for name, t in state.items()})
    sha256 = hashlib.sha256(content).hexdigest()
    if expected is not None and sha256 != expected:
        raise GapbenchError(
            f"Training again did not give the recorded weights of {path} (sha256 {sha256[:12]}... instead of "
            f"{expected[:12]}...): other software or hardware. The finished results stand; put the original "
            "file back to measure more on this network."
        )
    if not isinstance(path, Path):
        path.write_bytes(content)
        return sha256, len(content)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.stem}-", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"No space left for the weights {path}. Every finished result is kept; free some space and "
                "give the same command again to go on."
            ) from error
        raise
    return sha256, len(content)


def load_weights(path: WeightFile, sha256: str | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Initial and final state. Raises `GapbenchError` if the file is missing, damaged or another one."""
    states, _ = _load(path, sha256)
    return states["initial"], states["final"]


def load_checkpoints(path: WeightFile, sha256: str | None) -> dict[int, dict[str, Tensor]]:
    """States of checkpoints by epoch, ascending; none where none were kept. Raises as `load_weights` does."""
    return _load(path, sha256)[1]


def _load(
    path: WeightFile, sha256: str | None
) -> tuple[dict[str, dict[str, Tensor]], dict[int, dict[str, Tensor]]]:
    """The initial and final states by these names, and those of checkpoints by epoch."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise GapbenchError(f"The weight file {path} is missing.") from None
    except OSError as error:
        # Only what is called a weight file is trained again, which helps nothing where an address does not answer.
        what = "The weight file" if isinstance(path, Path) else "The file"
        raise GapbenchError(f"{what} {path} cannot be read: {told(error)}.") from None
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise GapbenchError(
            f"The weight file {path} is damaged ({len(content)} bytes, sha256 {found[:12]}..., recorded "
            f"{sha256[:12]}...)."
        )
    try:
        tensors = load_bytes(content)
    except SafetensorError as error:
        raise GapbenchError(f"The weight file {path} is no safetensors file: {error}") from None
    states: dict[str, dict[str, Tensor]] = {"initial": {}, "final": {}}
    checkpoints: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.float16:  # rounded by `gapbench pack --half`
            tensor = tensor.float()
        kind, _, rest = name.partition(".")
        epoch, _, own = rest.partition(".")
        if kind in states:
            states[kind][rest] = tensor
        elif kind == CHECKPOINT and epoch.isdecimal():
            checkpoints.setdefault(int(epoch), {})[own] = tensor
        else:
            raise GapbenchError(f"The weight file {path} has an unexpected entry {name!r}.")
    return states, dict(sorted(checkpoints.items()))


def finite(state: dict[str, Tensor]) -> bool:
    """Whether every entry of a state is finite."""
    return all(bool(torch.isfinite(tensor).all()) for tensor in state.values())
