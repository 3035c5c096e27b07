"""Modules that are found by their files, so that nothing lists them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType
from typing import TypeVar

from gapbench_base.errors import GapbenchError

T = TypeVar("T")


def modules_of(package: str) -> list[ModuleType]:
    """Import the modules of a package, in alphabetical order.

    Args:
        package: its dotted name. Modules whose name begins with `_` and packages within it are left out.

    Returns:
        The modules.

    Raises:
        GapbenchError: naming a module that cannot be imported, and why.
    """
    parent = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(parent.__path__) if not info.ispkg)
    found = []
    for name in names:
        if name.startswith("_"):
            continue
        try:
            found.append(importlib.import_module(f"{package}.{name}"))
        except GapbenchError:
            raise
        except Exception as error:
            file = f"{package.replace('.', '/')}/{name}.py"
            raise GapbenchError(f"The file {file} cannot be used: {type(error).__name__}: {error}") from error
    return found


def by_name(kind: str, named: Iterable[tuple[str, str, T]]) -> dict[str, T]:
    """Things by their names, each of which stands for one.

    Args:
        kind: what they are, in a word.
        named: (name, where it was found, thing).

    Returns:
        Name -> thing, in the order given.

    Raises:
        GapbenchError: naming both places of a name that is taken.
    """
    found: dict[str, T] = {}
    places: dict[str, str] = {}
    for name, place, thing in named:
        if name in found:
            raise GapbenchError(
                f"The name {name!r} of a {kind} is taken: {places[name]} and {place} both have it."
            )
        found[name], places[name] = thing, place
    return found
