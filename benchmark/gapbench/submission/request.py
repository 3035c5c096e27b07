"""What is submitted: which proxy of a file, under which name, version, options and seed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gapbench.population.stored import Population
from gapbench.sandbox.described import options_with
from gapbench.sandbox.source import ProxyFile
from gapbench_base.errors import GapbenchError

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


NAME_LENGTH = 64


def default_name(proxy: str, options: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    """What an entry is called that nobody named: its proxy, with the options that are not the defaults in brackets.

    Returns:
        `name` or `name[radius=0.5]`, as rows of a suite; without options where that is too long.
    """
    told = ", ".join(f"{key}={value}" for key, value in options.items() if value != defaults.get(key))
    label = f"{proxy}[{told}]" if told else proxy
    return label if len(label) <= NAME_LENGTH and label.isprintable() else proxy


def check_name(name: str, rows: Iterable[str]) -> None:
    """Refuse what cannot be an entry's name, or is the name of a proxy, a baseline or one of the suite's `rows`."""
    from gapbench.proxies.registry import list_proxies
    from gapbench_leaderboard.scores import BASELINES

    if not 1 <= len(name) <= NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise GapbenchError(f"The name {name!r} must be 1 to 64 printable characters.")
    if name in {*list_proxies(), *BASELINES, *rows}:
        raise GapbenchError(
            f"There is already a proxy or a row {name!r}: choose another name (gapbench submit: --name)."
        )


def request_for(
    population: Population,
    source: ProxyFile,
    description: dict[str, Any],
    name: str | None,
    options: dict[str, object],
) -> Request:
    """Name, version and seed of a submission; new ones are drawn and kept in the run's database."""
    from gapbench.runs.store import Store
    from gapbench_base.keys import content_key

    chosen = options_with(description, options)
    label = name or default_name(description["name"], chosen, description["options"])
    check_name(label, [request.label for request in population.suite.proxies])
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


def note_refusal(run: Path, request: Request, reasons: Sequence[str]) -> None:
    """Keep why a submission was not entered, so that a list of the run's entries can say it; none clears it."""
    from gapbench.runs.store import Store

    with Store(run) as store:
        kept: dict[str, Any] = store.meta("submissions") or {}
        own = kept[request.identity]
        if list(reasons) != own.get("refused", []):
            kept[request.identity] = {**own, "refused": list(reasons)}
            store.set_meta("submissions", kept)
