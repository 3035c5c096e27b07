"""What a measurement's details say that its value's reader must know: coverage of a symmetry, an ascent's end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gapbench_base.errors import GapbenchError

COLUMNS = ("coverage", "converged")


def said_in(texts: Sequence[object], where: Callable[[int], str]) -> dict[str, list[object]]:
    """What the JSON texts of many measurements' details say that their reader must know.

    Args:
        texts: of the details; most of a large run say nothing of it.
        where: names the measurement of a text in messages.

    Returns:
        For each text `coverage` ("whole group", "partly covered: ...", "no symmetry found") and `converged` (bool),
        each None where the details do not say.

    Raises:
        GapbenchError: for a text that is no JSON.
    """
    found: dict[str, list[object]] = {name: [None] * len(texts) for name in COLUMNS}
    columns = [found[name] for name in COLUMNS]
    for row, text in enumerate(texts):
        if isinstance(text, str) and ('"coverage"' in text or '"converged"' in text):
            for column, value in zip(columns, _stated(text, where, row)):
                column[row] = value
    return found


def _stated(text: str, where: Callable[[int], str], row: int) -> tuple[object, object]:
    try:
        said = _quick(text)
        return _known(said.coverage, said.converged)
    except msgspec.MsgspecError:  # also for numbers that JSON has not, which json reads
        pass
    try:
        found = json.loads(text)
    except ValueError as error:
        raise GapbenchError(f"{where(row)} is damaged: its details are no JSON ({error}).") from None
    return (
        _known(found.get("coverage"), found.get("converged")) if isinstance(found, Mapping) else (None, None)
    )


def _known(coverage: object, converged: object) -> tuple[object, object]:
    return (
        coverage if isinstance(coverage, str) and coverage else None,
        converged if isinstance(converged, bool) else None,
    )


class _Said(msgspec.Struct):
    """What is looked for; a large run has many details, of which the rest need not be read."""

    coverage: object = None
    converged: object = None


_quick = msgspec.json.Decoder(_Said).decode


def noted(details: Mapping[str, object]) -> dict[str, object]:
    """The same of the details of one, as they are."""
    return dict(zip(COLUMNS, _known(details.get("coverage"), details.get("converged"))))
