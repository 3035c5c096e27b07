"""What is submitted: which proxy of a file, under which name, version, options and seed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gapbench.errors import GapbenchError, did_you_mean
from gapbench.submission.entry import NAME
from gapbench.submission.population import Population
from gapbench.submission.protocol import clean
from gapbench.submission.sandbox import Loaded
from gapbench.submission.source import Source

PROTOCOL = 1


@dataclass(frozen=True)
class Request:
    """A submission after the file was loaded."""

    identity: str
    name: str
    label: str
    version: int
    seed: str
    description: dict[str, Any] = field(repr=False)
    options: dict[str, Any] = field(default_factory=dict)


def choose(loaded: Loaded, proxy: str | None) -> dict[str, Any]:
    """The one proxy that is meant, checked. Raises `GapbenchError`."""
    from gapbench.proxies.registry import DIRECTIONS

    names = [str(entry.get("name")) for entry in loaded.proxies]
    if not names:
        raise GapbenchError("The file registers no proxy: put @gapbench.proxy(NAME) before a function.")
    if proxy is None and len(names) > 1:
        raise GapbenchError(f"The file registers {', '.join(names)}. Choose one with --proxy NAME.")
    chosen = [entry for entry in loaded.proxies if proxy in (None, entry.get("name"))]
    if not chosen:
        hint = did_you_mean(proxy, names)
        raise GapbenchError(f"The file registers no proxy {proxy!r}.{hint} It has: {', '.join(names)}.")
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


def request_for(
    population: Population,
    source: Source,
    description: dict[str, Any],
    name: str | None,
    options: dict[str, Any],
) -> Request:
    """Name, version and seed of a submission; new ones are drawn and kept in the run's database."""
    from gapbench.population.plan import content_key
    from gapbench.population.store import Store
    from gapbench.proxies.registry import list_proxies
    from gapbench_leaderboard.scores import BASELINES

    chosen = checked_options(description, options)
    label = name or description["name"]
    if not 1 <= len(label) <= 64 or not label.isprintable() or label != label.strip():
        raise GapbenchError(f"The name {label!r} must be 1 to 64 printable characters.")
    taken = {*list_proxies(), *BASELINES, *(request.label for request in population.suite.proxies)}
    if label in taken:
        raise GapbenchError(f"The board already has a row {label!r}. Choose another name with --name.")
    identity = content_key(
        {
            "protocol": PROTOCOL,
            "name": label,
            "proxy": description["name"],
            "source": source.sha256,
            "options": chosen,
            "suite": population.suite.text,
        }
    )
    with Store(population.folder) as store:
        kept: dict[str, Any] = store.meta("submissions") or {}
        if identity not in kept:
            version = 1 + max((s["version"] for s in kept.values() if s["name"] == label), default=0)
            shown = label if version == 1 else f"{label} v{version}"
            # Drawn now: seeds that could be computed before would tell a proxy which network it looks at.
            kept[identity] = {
                "name": label,
                "version": version,
                "label": shown,
                "seed": secrets.token_hex(16),
            }
            store.set_meta("submissions", kept)
    mine = kept[identity]
    return Request(identity, label, mine["label"], mine["version"], mine["seed"], description, chosen)


def checked_options(description: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults and given options together. Raises `GapbenchError` for an unknown one or one of another type."""
    defaults: dict[str, Any] = description["options"]
    for option, value in options.items():
        if option not in defaults:
            hint, known = did_you_mean(option, defaults), ", ".join(defaults) or "none"
            raise GapbenchError(f"{description['name']} has no option {option!r}.{hint} Options: {known}.")
        default = defaults[option]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(default, bool) != isinstance(value, bool) or (
            isinstance(default, int | float) and not isinstance(default, bool) and not number
        ):
            raise GapbenchError(f"{option} = {value!r} is not of the kind of its default {default!r}.")
    return {**defaults, **options}
