"""The proxy of a file, as the file's process describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapbench.proxies.registry import DIRECTIONS, NAME
from gapbench.sandbox.protocol import clean
from gapbench.sandbox.sandbox import Loaded
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others


def choose(loaded: Loaded, proxy: str | None) -> dict[str, Any]:
    """The one proxy that is meant, checked. Raises `GapbenchError`."""
    names = [str(entry.get("name")) for entry in loaded.proxies]
    if not names:
        raise GapbenchError("The file registers no proxy: put @gapbench.proxy(NAME) before a function.")
    if proxy is None and len(names) > 1:
        raise GapbenchError(f"The file registers {', '.join(names)}. Choose one with --proxy NAME.")
    chosen = [entry for entry in loaded.proxies if proxy in (None, entry.get("name"))]
    if not chosen:
        hint = near_and_others(proxy, names)
        raise GapbenchError(f"The file registers no proxy {proxy!r}.{hint}")
    found = chosen[0]
    fits = (
        isinstance(found.get("name"), str)
        and NAME.fullmatch(found["name"]) is not None
        and isinstance(found.get("version"), int)
        and found.get("higher_means") in DIRECTIONS
        and isinstance(found.get("options"), dict)
        and all(v is None or isinstance(v, bool | int | float | str) for v in found["options"].values())
    )
    if not fits:
        raise GapbenchError("The file's process sent a garbled description of the proxy.")
    text = {key: clean(found.get(key) or "") for key in ("summary", "reference")}
    return {**found, **text}


def options_with(description: Mapping[str, Any], options: Mapping[str, object]) -> dict[str, object]:
    """Defaults and given options together. Raises `GapbenchError` for an unknown one or one of another type."""
    defaults: dict[str, object] = description["options"]
    for option, value in options.items():
        if option not in defaults:
            hint = near_and_others(option, defaults)
            raise GapbenchError(f"{description['name']} has no option {option!r}.{hint}")
        default = defaults[option]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(default, bool) != isinstance(value, bool) or (
            isinstance(default, int | float) and not isinstance(default, bool) and not number
        ):
            raise GapbenchError(f"{option} = {value!r} is not of the kind of its default {default!r}.")
    return {**defaults, **options}
