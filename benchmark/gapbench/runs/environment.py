"""What a run was made with: versions, machine, devices."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from typing import Any

PACKAGES = ("gapbench", "torch", "torchvision", "timm", "numpy", "pandas", "scipy", "scikit-learn", "numba")


def versions() -> dict[str, str]:
    """Installed versions by package; `not installed` where there is none (as in a bare checkout)."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def devices() -> dict[str, Any]:
    """The processor and the CUDA devices that torch sees. Imports torch."""
    import torch

    cuda = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            cuda.append({"name": properties.name, "memory": properties.total_memory})
    return {"cpu": platform.processor() or platform.machine(), "cores": usable_cores(), "cuda": cuda}


def usable_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def environment(device: str) -> dict[str, object]:
    """All of it, for the run database."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": versions(),
        "devices": devices(),
        "device": device,
    }


def arithmetic(device: str) -> str:
    """What the last bits of numbers depend on, in words: the version of torch and the processor. Imports torch."""
    import torch

    if device == "cuda":
        processor = torch.cuda.get_device_name()
    else:
        capability = torch.backends.cpu.get_cpu_capability()
        processor = f"{platform.processor() or platform.machine()} with {capability}"
    return f"torch {torch.__version__}, {processor}"


def environment_text(record: Mapping[str, Any]) -> str:
    """A record of `environment` in words: the versions and the device that decide about numbers."""
    versions = record.get("versions", {})
    known = ((name, versions[name]) for name in ("gapbench", "torch", "timm") if name in versions)
    named = [f"{name} from a checkout" if v == "not installed" else f"{name} {v}" for name, v in known]
    named.append(f"Python {record.get('python')}")
    devices = record.get("devices", {})
    if record.get("device") == "cuda":
        device = ", ".join(dict.fromkeys(card["name"] for card in devices.get("cuda", []))) or "CUDA"
    else:
        device = f"CPU ({devices.get('cpu')})"
    return f"{', '.join(named)} on {device}"


def choose_device(device: str) -> str:
    """`auto` -> `cuda` where there is one, else `cpu`. Raises `GapbenchError` for one that is not there."""
    import torch

    from gapbench_base.errors import GapbenchError

    if device not in ("auto", "cpu", "cuda"):
        raise GapbenchError(f"device = {device!r} is none of auto, cpu, cuda.")
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise GapbenchError("device = 'cuda', but torch sees no CUDA device here. Use --device cpu.")
    return "cuda" if available and device != "cpu" else "cpu"
