"""The proxies by name. Imports no torch, so that they can be listed at once."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gapbench_base import plugins
from gapbench_base.errors import GapbenchError
from gapbench_base.scanning import modules_of
from gapbench_base.suggestions import did_you_mean, near_and_others

DIRECTIONS = ("worse", "better")
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""What a proxy may be called."""
NEEDS = ("initial", "history", "checkpoints", "sibling", "unlabelled")
"""What a proxy may say that it needs, beside the network and its data: fields of `Context`."""
COSTS = {
    "weights": "no pass over the training data",
    "cheap": "up to twenty gradients",
    "moderate": "twenty to a hundred gradients",
    "dear": "up to some hundred gradients, by network",
}
"""Cost classes with what they mean; a gradient is that of the loss on the examples that a proxy is given."""
GROUPS = {
    "all": "every proxy",
    "central": "one or two of each kind, those that the literature compares",
    "cheap": "the cost classes weights and cheap",
}
"""Words that stand for several proxies where names are asked for."""
CATALOGUE = "gapbench.proxies.catalogue"
"""The package whose modules register the built-in proxies."""


@dataclass(frozen=True)
class ProxyEntry:
    """A registered proxy. `options` are its keyword-only parameters with their defaults.

    `higher_means` = "worse": a larger value predicts a larger gap. `source` is the sha256 of the file that
    defines it, `origin` that file and line. `needs` are those of `NEEDS` without which it is not applicable.
    `cost` is one of `COSTS`; `central` says whether it is of that group.
    """

    name: str
    function: Callable[..., object]
    version: int
    higher_means: str
    reference: str | None
    options: dict[str, Any]
    summary: str
    source: str
    origin: str
    needs: tuple[str, ...] = ()
    cost: str = "moderate"
    central: bool = False


_ENTRIES: dict[str, ProxyEntry] = {}
_broken: list[tuple[str, str]] = []
_loaded = False
Function = TypeVar("Function", bound=Callable[..., object])


def proxy(
    name: str,
    *,
    version: int = 1,
    higher_means: str = "worse",
    reference: str | None = None,
    needs: Sequence[str] = (),
    cost: str = "moderate",
    central: bool = False,
) -> Callable[[Function], Function]:
    """Register a function of a `Context` as a proxy.

    The function returns a float or an `Estimate`, or raises `NotApplicable` with a reason. Keyword-only
    parameters with defaults are its options. Raise `version` with every change that moves values. Registering
    the same name from the same place again replaces the entry; from another place it is an error.

    Args:
        name: lower-case letters, digits and `_`.
        version: of what the proxy computes.
        higher_means: "worse" where a larger value predicts a larger gap, or "better".
        reference: where it is defined.
        needs: what of `NEEDS` it cannot do without. In a suite only a proxy that names "sibling" gets one, since
            it is then measured after that network is trained.
        cost: one of `COSTS`.
        central: whether it is one of the few that stand for their kind.

    Returns:
        A decorator that leaves the function as it is.

    Raises:
        GapbenchError: an argument that cannot be, or a name that is taken.
    """
    if not NAME.fullmatch(name):
        raise GapbenchError(
            f"{name!r} is no name for a proxy: use lower-case letters, digits and '_', a letter first, at most "
            "64."
        )
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise GapbenchError(f"The proxy {name}: version = {version!r} must be a whole number of at least 1.")
    if higher_means not in DIRECTIONS:
        raise GapbenchError(
            f"The proxy {name}: higher_means = {higher_means!r} must be 'worse' (a larger value predicts a "
            "larger gap) or 'better'."
        )
    if cost not in COSTS:
        raise GapbenchError(f"The proxy {name}: cost = {cost!r} must be one of {', '.join(COSTS)}.")
    if name in GROUPS:
        raise GapbenchError(f"{name!r} is no name for a proxy: it stands for several ({GROUPS[name]}).")
    for need in [needs] if isinstance(needs, str) else needs:
        if need not in NEEDS or isinstance(needs, str):
            raise GapbenchError(
                f"The proxy {name}: needs = {needs!r} must be a tuple of some of {', '.join(NEEDS)}."
            )

    def register(function: Function) -> Function:
        entry = replace(
            _entry(name, function, version, higher_means, reference, tuple(needs)), cost=cost, central=central
        )
        known = _ENTRIES.get(name)
        if known is not None and known.origin.rpartition(":")[0] != entry.origin.rpartition(":")[0]:
            raise GapbenchError(f"There is already a proxy {name!r}, defined in {known.origin}.")
        _ENTRIES[name] = entry
        return function

    return register


def _entry(
    name: str,
    function: Callable[..., object],
    version: int,
    higher_means: str,
    reference: str | None,
    needs: tuple[str, ...],
) -> ProxyEntry:
    options = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
            raise GapbenchError(
                f"The proxy {name}: its parameter {parameter.name!r} must be keyword-only and have a default."
            )
        options[parameter.name] = parameter.default
    file = inspect.getsourcefile(function) or "<unknown>"
    try:
        with open(file, "rb") as stream:
            source = hashlib.sha256(stream.read()).hexdigest()
    except OSError:  # defined in an interactive session
        source = hashlib.sha256(function.__code__.co_code).hexdigest()
    line = function.__code__.co_firstlineno
    summary = (inspect.getdoc(function) or "").strip().split("\n\n")[0].replace("\n", " ")
    return ProxyEntry(
        name, function, version, higher_means, reference, options, summary, source, f"{file}:{line}", needs
    )


def _load_built_in() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        modules = modules_of(CATALOGUE)
        files = {entry.origin.rpartition(":")[0] for entry in _ENTRIES.values()}
        for module in modules:
            if module.__file__ not in files:
                raise GapbenchError(
                    f"{module.__name__} has no proxy: put @proxy(NAME) before a function in it."
                )
        _broken.extend(plugins.load("gapbench.proxies")[1])


def broken_plugins() -> list[tuple[str, str]]:
    """(name, reason) of installed plug-ins for proxies that cannot be imported."""
    _load_built_in()
    return list(_broken)


def list_proxies() -> list[str]:
    """Names of all registered proxies."""
    _load_built_in()
    return sorted(_ENTRIES)


def built_in() -> list[str]:
    """Names of the proxies that come with gapbench, sorted; those of plug-ins and of one's own are left out."""
    folder = CATALOGUE.replace(".", "/")
    return [name for name in list_proxies() if folder in Path(proxy_entry(name).origin).as_posix()]


def expanded(names: Sequence[str]) -> list[str]:
    """Names with words of `GROUPS` replaced by the proxies that they stand for, each once; others as they are."""
    found: dict[str, None] = {}
    for name in names:
        if name in GROUPS:
            found.update(
                (entry.name, None) for entry in map(proxy_entry, list_proxies()) if _is_in(entry, name)
            )
        else:
            found[name] = None
    return list(found)


def _is_in(entry: ProxyEntry, group: str) -> bool:
    cheap = entry.cost in ("weights", "cheap")
    return {"all": True, "central": entry.central, "cheap": cheap}[group]


def proxy_entry(name: str) -> ProxyEntry:
    """The entry of a proxy; raises `GapbenchError` with near misses for an unknown name."""
    _load_built_in()
    if name not in _ENTRIES:
        group = did_you_mean(name, () if name in GROUPS else GROUPS)
        raise GapbenchError(f"There is no proxy {name!r}.{group or near_and_others(name, sorted(_ENTRIES))}")
    return _ENTRIES[name]


def checked_options(entry: ProxyEntry, options: dict[str, Any]) -> dict[str, Any]:
    """Defaults and the given options together; raises `GapbenchError` for one that does not exist."""
    for option in options:
        if option not in entry.options:
            hint = near_and_others(option, entry.options)
            raise GapbenchError(f"{entry.name} has no option {option!r}.{hint}")
    return {**entry.options, **options}
