"""Whether a proxy changed the libraries that it was measured with, or their settings."""

from __future__ import annotations

import sys
from typing import Any

WATCHED = (
    "builtins",
    "json",
    "math",
    "numpy",
    "os",
    "pickle",
    "random",
    "torch",
    "torch.autograd",
    "torch.autograd.functional",
    "torch.func",
    "torch.linalg",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.random",
    "torch.utils.data",
)
BELOW = ("gapbench", "gapbench_models", "torch.nn.modules")
_missing = object()


class Snapshot:
    """The functions and classes of the watched modules, and torch's settings, as they are now."""

    def __init__(self) -> None:
        self._names: list[tuple[str, Any, str, Any, Any]] = []
        seen: set[int] = set()
        for name, module in list(sys.modules.items()):
            if module is None or not (name in WATCHED or name.split(".")[0] in BELOW or _below(name)):
                continue
            self._keep(name, module, vars(module))
            for value in list(vars(module).values()):
                owner = getattr(value, "__module__", None) or ""
                if isinstance(value, type) and id(value) not in seen and owner.split(".")[0] in _OWNERS:
                    seen.add(id(value))
                    self._keep(f"{owner}.{value.__name__}", value, vars(value))
        self._settings = settings()

    def _keep(self, name: str, holder: Any, content: Any) -> None:
        for key, value in list(content.items()):
            if callable(value) or isinstance(value, (staticmethod, classmethod, property)):
                self._names.append((name, holder, key, value, getattr(value, "__code__", None)))

    def changes(self) -> list[str]:
        """What is no longer as it was, in words."""
        found = []
        for name, holder, key, value, code in self._names:
            now = vars(holder).get(key, _missing)
            if now is not value or getattr(now, "__code__", None) is not code:
                found.append(f"it replaced {name}.{key}")
        now_settings = settings()
        found += [
            f"it changed the setting {name} from {old} to {now_settings[name]}"
            for name, old in self._settings.items()
            if now_settings[name] != old
        ]
        return found


_OWNERS = ("torch", "gapbench", "gapbench_models")


def _below(name: str) -> bool:
    return any(name.startswith(package + ".") for package in BELOW)


def settings() -> dict[str, Any]:
    """torch's and numpy's settings that change what other code computes."""
    import numpy as np
    import torch

    return {
        "torch.is_grad_enabled": torch.is_grad_enabled(),
        "torch.is_inference_mode_enabled": torch.is_inference_mode_enabled(),
        "torch.get_default_dtype": str(torch.get_default_dtype()),
        "torch.get_default_device": str(torch.get_default_device()),
        "torch.get_num_threads": torch.get_num_threads(),
        "torch.are_deterministic_algorithms_enabled": torch.are_deterministic_algorithms_enabled(),
        "torch.is_anomaly_enabled": torch.is_anomaly_enabled(),
        "torch.backends.mkldnn.enabled": torch.backends.mkldnn.enabled,
        "numpy.geterr": str(sorted(np.geterr().items())),
    }
