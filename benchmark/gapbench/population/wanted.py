"""What is to be measured on a network: every measurement with its key, a hash of its complete description."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from gapbench.population.jobs import Description, Setup
from gapbench.population.plan import Cell
from gapbench.proxies.registry import checked_options, proxy_entry
from gapbench.runs.records import CALIBRATED
from gapbench.suites.requests import ProxyRequest
from gapbench_base.keys import canonical, content_key, text_key

MEASURE_PROTOCOL = 1
PLACE = "0" * 16
"""Stands for the key of a network in a text of which every network's is made."""


class Wanted(NamedTuple):
    """A measurement by its `key`: what is asked for, which `repeat` of it; `beside`: it needs the sibling too.

    A tuple, as a large run has very many.
    """

    key: str
    request: ProxyRequest
    repeat: int
    beside: bool


def measurement_description(
    cell: str, request: ProxyRequest, setup: Setup, repeat: int = 0, sibling: str | None = None
) -> Description:
    """All that a measurement's value depends on; its key is the hash of this."""
    entry = proxy_entry(request.proxy)
    description: Description = {
        "protocol": MEASURE_PROTOCOL,
        "cell": cell,
        "proxy": entry.name,
        "version": entry.version,
        "options": checked_options(entry, dict(request.options)),
        "label": request.label,
        "samples": setup.samples,
        "loss": setup.loss,
        "seed": setup.measure_seed,
    }
    if repeat:
        description["repeat"] = repeat
    if "sibling" in entry.needs and sibling is not None:
        description["sibling"] = sibling
    if request.named:  # the names are those of the whole row, the numbers of this network alone
        options = checked_options(entry, dict(request.options))
        description[CALIBRATED] = {key: options[key] for key, _ in request.named}
        description["options"] = {**options, **dict(request.named)}
    return description


class Measurements:
    """All measurements that the networks of a run are to have: every request, `repeats` times."""

    def __init__(self, requests: Sequence[ProxyRequest], setup: Setup, repeats: int):
        self._setup = setup
        self._rows = [
            (request, repeat, self._text(request, repeat))
            for repeat in range(repeats)
            for request in requests
        ]

    def _text(self, request: ProxyRequest, repeat: int) -> tuple[str, str] | None:
        """What stands before and behind the key of a network in the text that is hashed.

        Returns:
            None where more than the key differs between networks.
        """
        if request.calibrated or "sibling" in proxy_entry(request.proxy).needs:
            return None
        text = canonical(measurement_description(PLACE, request, self._setup, repeat))
        before, found, after = text.partition(f'"cell":{json.dumps(PLACE)}')
        assert found
        return before + '"cell":"', '"' + after

    @property
    def beside(self) -> bool:
        """Whether some may need a sibling."""
        return any("sibling" in proxy_entry(request.proxy).needs for request, _, _ in self._rows)

    def on(self, cell: Cell, sibling: str | None) -> list[Wanted]:
        """Those of a network, the first of each request before the second of any."""
        found, key = [], cell.key
        for request, repeat, text in self._rows:
            if text is not None:
                found.append(Wanted(text_key(f"{text[0]}{key}{text[1]}"), request, repeat, False))
                continue
            own = request.on(cell.configuration)
            description = measurement_description(cell.key, own, self._setup, repeat, sibling)
            found.append(Wanted(content_key(description), own, repeat, "sibling" in description))
        return found

    def described(
        self, cell: str, wanted: Wanted, sibling: str | None
    ) -> tuple[str, ProxyRequest, Description]:
        """A measurement as a job has it: key, request and description."""
        description = measurement_description(cell, wanted.request, self._setup, wanted.repeat, sibling)
        return wanted.key, wanted.request, description
