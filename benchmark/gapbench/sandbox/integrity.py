"""Whether a proxy changed the libraries that it was measured with, or their settings."""

from __future__ import annotations

import _thread
import gc
import signal
import sys
from collections.abc import Mapping
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
BELOW = ("gapbench", "gapbench_base", "gapbench_models", "torch.nn.modules")
_missing = object()


class Snapshot:
    """The functions and classes of the watched modules, and torch's settings, as they are now."""

    def __init__(self) -> None:
        self._names: list[tuple[str, object, str, object, object]] = []
        self._classes: list[tuple[str, type, frozenset[str]]] = []
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

    def _keep(self, name: str, holder: object, content: Any) -> None:
        if isinstance(holder, type):
            self._classes.append((name, holder, frozenset(content)))
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
        for name, holder, keys in self._classes:
            if len(vars(holder)) > len(keys):
                above = [vars(base) for base in holder.__mro__[1:]]
                hidden = [key for key in vars(holder) if key not in keys and any(key in c for c in above)]
                found += [f"it replaced {name}.{key}" for key in hidden if key not in _BOOKKEEPING]
        now_settings = settings()
        found += [
            f"it changed the setting {name} from {old} to {now_settings[name]}"
            for name, old in self._settings.items()
            if now_settings[name] != old
        ]
        return found


_BOOKKEEPING = (
    "__annotations__",
    "__annotate__",
    "__annotations_cache__",
    "__abstractmethods__",
    "_abc_impl",
)
_OWNERS = ("torch", "gapbench", "gapbench_base", "gapbench_models")


def _below(name: str) -> bool:
    return any(name.startswith(package + ".") for package in BELOW)


def settings() -> dict[str, object]:
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
        "torch.get_deterministic_debug_mode": torch.get_deterministic_debug_mode(),
        "torch.get_float32_matmul_precision": torch.get_float32_matmul_precision(),
        "sys.getrecursionlimit": sys.getrecursionlimit(),
        "gc.isenabled": gc.isenabled(),
        "torch.is_anomaly_enabled": torch.is_anomaly_enabled(),
        "torch.backends.mkldnn.enabled": torch.backends.mkldnn.enabled,
        "numpy.geterr": str(sorted(np.geterr().items())),
    }


INITIAL, SIBLING = "initial network's ", "sibling network's "
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
)
_PLAIN = (bool, int, float, str, tuple, type(None))


class Surroundings:
    """What a measurement must leave as it was, beside weights and buffers.

    The networks' modules with their hooks and attributes, threads, signal handlers and timers.
    """

    def __init__(self, networks: Mapping[str, Any]):
        self._networks = {prefix: network for prefix, network in networks.items() if network is not None}
        self._modules = self._describe()
        self._before = self._flags()
        self._threads, self._handlers = _thread._count(), _handlers()

    def _describe(self) -> dict[str, Any]:
        found: dict[str, object] = {}
        for prefix, network in self._networks.items():
            for name, module in network.named_modules():
                held = vars(module)
                hooks = {key: list(held.get(key) or ()) for key in _HOOKS}
                hooks |= {
                    key: list(getattr(p, "_backward_hooks", None) or ())
                    for key, p in module.named_parameters(recurse=False)
                }
                plain = {
                    key: value if isinstance(value, _PLAIN) else id(value)
                    for key, value in held.items()
                    if key != "training"
                }
                found[f"{prefix}module {name}".rstrip()] = (id(module), type(module), hooks, plain)
        return found

    def _flags(self) -> dict[str, tuple[list[bool], list[bool], list[bool]]]:
        """Of the networks beside the trained one, which `gapbench.proxies.guard` looks after."""
        found = {}
        for prefix, network in self._networks.items():
            if prefix:
                parameters = list(network.parameters())
                found[prefix] = (
                    [module.training for module in network.modules()],
                    [p.requires_grad for p in parameters],
                    [p.grad is None for p in parameters],
                )
        return found

    def changes(self) -> list[str]:
        """What is no longer as it was, in words."""
        found = []
        for prefix, flags in self._flags().items():
            which = prefix.removesuffix("'s ")
            modes, required, gradients = (a == b for a, b in zip(self._before[prefix], flags))
            if not modes:
                found.append(f"it left the {which} in training mode")
            if not required:
                found.append(f"it changed requires_grad of the {which}")
            if not gradients:
                found.append(f"it left gradients in the {which}")
        now = self._describe()
        for name in [*self._modules, *(name for name in now if name not in self._modules)]:
            old, new = self._modules.get(name), now.get(name)
            if old is None or new is None or old[:2] != new[:2]:
                found.append(f"it replaced the {name}")
            elif old[2] != new[2]:
                found.append(f"it left a hook in the {name}")
            elif old[3] != new[3]:
                keys = sorted(k for k in old[3].keys() | new[3].keys() if old[3].get(k) != new[3].get(k))
                found.append(f"it changed the {name}: {', '.join(keys)[:100]}")
        if _thread._count() > self._threads:
            found.append("it left a thread running")
        if _handlers() != self._handlers:
            found.append("it left a signal handler or a timer")
        return found[:5]


def _handlers() -> list[object]:
    handlers: list[object] = [(number, signal.getsignal(number)) for number in sorted(signal.valid_signals())]
    return handlers + [signal.getitimer(t)[1] > 0 or signal.getitimer(t)[0] > 0 for t in _TIMERS]


_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
