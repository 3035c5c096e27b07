"""Modules that are found by their files, so that nothing lists them."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules_of(package: str) -> list[ModuleType]:
    """Import the modules of a package, in alphabetical order.

    Args:
        package: its dotted name. Modules whose name begins with `_` and packages within it are left out.

    Returns:
        The modules. What one of them raises when it is imported is raised here.
    """
    parent = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(parent.__path__) if not info.ispkg)
    return [importlib.import_module(f"{package}.{name}") for name in names if not name.startswith("_")]
