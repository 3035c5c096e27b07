"""Networks that somebody trained elsewhere: build, load and feed them. Their code is the user's own, trusted."""

from __future__ import annotations

import importlib
import os
import sys
import types
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gapbench_base.errors import GapbenchError


def make_network(factory: str, arguments: Mapping[str, object] | None = None) -> nn.Module:
    """Call MODULE:FACTORY or FILE.py:FACTORY. Raises `GapbenchError` if it does not give a network."""
    function = factory_of(factory)
    try:
        network = function(**dict(arguments or {}))
    except Exception as error:
        raise GapbenchError(f"{factory} failed: {type(error).__name__}: {error}") from error
    if not isinstance(network, nn.Module):
        raise GapbenchError(f"{factory} gave a {type(network).__name__}, not a torch.nn.Module.")
    return network


def factory_of(factory: str) -> Callable[..., Any]:
    """The function that MODULE:FACTORY or FILE.py:FACTORY names. Raises `GapbenchError` if there is none."""
    module_name, _, name = factory.rpartition(":")
    if not module_name or not name:
        raise GapbenchError(f"{factory!r}: give MODULE:FACTORY or FILE.py:FACTORY.")
    try:
        module = _module(module_name)
    except GapbenchError:
        raise
    except Exception as error:
        raise GapbenchError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    function: Callable[..., object] | None = getattr(module, name, None)
    if function is None or not callable(function):
        raise GapbenchError(f"{module_name} has no function {name!r}.")
    return function


def examples(path: Path) -> tuple[Tensor, Tensor]:
    """`read_examples`; raises `GapbenchError` also for inputs that are not all finite."""
    inputs, targets = read_examples(path)
    if not bool(torch.isfinite(inputs).all()):
        raise GapbenchError(f"{path}: the inputs are not all finite (NaN or infinite); mend the data file.")
    return inputs, targets


def _module(name: str) -> object:
    if not name.endswith(".py"):
        folder = os.getcwd()
        if folder not in sys.path:
            sys.path.insert(0, folder)
        return importlib.import_module(name)
    path = Path(name).resolve()
    if not path.is_file():
        raise GapbenchError(f"There is no file {name}.")
    source = path.read_bytes()
    known = f"gapbench_foreign_{path.stem}"
    loaded = sys.modules.get(known)
    if loaded is not None and (loaded.__file__, vars(loaded).get("_source")) == (str(path), source):
        return loaded
    module = types.ModuleType(known)
    module.__file__ = str(path)
    vars(module)["_source"] = source  # a file that was changed is another module
    sys.modules[known] = module
    try:
        exec(
            compile(source, str(path), "exec"), vars(module)
        )  # the bytes at hand: a cache goes by date and size
    except BaseException:
        del sys.modules[known]
        raise
    return module


def read_state(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """A state dict from safetensors or from torch.save (tensors only). Raises `GapbenchError`."""
    file = Path(path)
    if not file.is_file():
        raise GapbenchError(f"There is no weight file {file}.")
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        if zipfile.is_zipfile(file):  # torch.load does not compare checksums
            with zipfile.ZipFile(file) as parts:
                bad = parts.testzip()
            if bad is not None:
                raise ValueError(f"the checksum of {bad} does not fit")
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as e:  # a damaged file may fail in any way
        raise GapbenchError(
            f"The weight file {file} cannot be read ({type(e).__name__}: {' '.join(str(e).split())[:300]}): "
            "it is damaged or no state dict."
        ) from None
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
            break
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise GapbenchError(f"{file} holds no state dict: a table of tensors by parameter name is needed.")
    return state


def load_network(
    factory: str, weights: str | os.PathLike[str], arguments: Mapping[str, object] | None = None
) -> nn.Module:
    """A network with its weights, in eval mode. Raises `GapbenchError` if names or shapes do not fit."""
    network, state = make_network(factory, arguments), read_state(weights)
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        text = " ".join(str(error).split())[:400]
        raise GapbenchError(f"{weights} does not fit the network of {factory}: {text}") from None
    return network.eval()


def read_examples(path: str | os.PathLike[str]) -> tuple[Tensor, Tensor]:
    """Training examples from an .npz or .safetensors file with `inputs` (n, ...) and `targets` (n,).

    Returns:
        Inputs (n, ...) and targets (n,).

    Raises:
        GapbenchError: for a file without them, or whose sizes do not fit.
    """
    file = Path(path)
    if not file.is_file():
        raise GapbenchError(f"There is no data file {file}.")
    try:
        if file.suffix == ".safetensors":
            arrays: Mapping[str, object] = load_file(file)
        else:
            with np.load(file, allow_pickle=False) as content:
                arrays = {name: content[name] for name in content.files}
    except Exception as error:  # a damaged file may fail in any way
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise GapbenchError(
            f"The data file {file} cannot be read ({words}): it is damaged, or neither .npz nor .safetensors."
        ) from None
    for name in ("inputs", "targets"):
        if name not in arrays:
            found = ", ".join(arrays) or "nothing"
            raise GapbenchError(
                f"{file} has no array {name!r} (it has: {found}); inputs and targets are needed."
            )
    try:
        inputs, targets = (torch.as_tensor(np.asarray(arrays[name])) for name in ("inputs", "targets"))
    except (TypeError, ValueError, RuntimeError) as error:
        raise GapbenchError(f"{file}: inputs and targets must be arrays of numbers: {error}") from None
    if inputs.dim() == 0 or targets.dim() == 0:
        raise GapbenchError(f"{file}: inputs and targets must have one row an example.")
    if not inputs.is_floating_point():
        raise GapbenchError(f"{file}: inputs are {inputs.dtype}; give them preprocessed, as floating point.")
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise GapbenchError(f"{file}: {len(inputs)} inputs, but {len(targets)} targets.")
    return inputs, targets if targets.is_floating_point() else targets.long()


def subset(targets: Tensor, samples: int, seed: int = 0) -> Tensor:
    """Indices of the fixed examples that derivatives are taken on: stratified for classes, else drawn."""
    from gapbench_base.seeds import named_generator
    from gapbench_tasks.selection import stratified_subset

    count = len(targets)
    if samples >= count:
        return torch.arange(count)
    if targets.is_floating_point() or targets.dim() != 1:
        chosen = named_generator("measure_samples", seed).permutation(count)[:samples]
        return torch.from_numpy(np.sort(chosen))
    if samples < len(targets.unique()):
        raise GapbenchError(f"samples = {samples} is fewer than the {len(targets.unique())} classes.")
    return torch.from_numpy(stratified_subset(targets.numpy(), samples, "measure_samples", seed))
