"""What a measurement's details say that its value's reader must know: coverage of a symmetry, an ascent's end."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from gapbench_base.errors import GapbenchError

COLUMNS = ("coverage", "converged")


NOTHING: Mapping[str, object] = dict.fromkeys(COLUMNS)
"""What details state that say nothing of it."""


def says(text: object) -> bool:
    """Whether the JSON text of details may say something of it; most of a large run say nothing."""
    return isinstance(text, str) and ('"coverage"' in text or '"converged"' in text)


def stated(text: object, where: str) -> Mapping[str, object]:
    """What the JSON text of a measurement's details says that its reader must know.

    Returns:
        `coverage` ("whole group", "partly covered: ...", "no symmetry found") and `converged` (bool), each None
        where the details do not say.

    Raises:
        GapbenchError: naming `where` for a text that is no JSON.
    """
    if not (isinstance(text, str) and says(text)):
        return NOTHING
    try:
        return noted(msgspec.structs.asdict(_quick(text)))
    except msgspec.MsgspecError:  # also for numbers that JSON has not, which json reads
        pass
    try:
        found = json.loads(text)
    except ValueError as error:
        raise GapbenchError(f"{where} is damaged: its details are no JSON ({error}).") from None
    return noted(found if isinstance(found, Mapping) else {})


class _Said(msgspec.Struct):
    """What is looked for; a large run has many details, of which the rest need not be read."""

    coverage: object = None
    converged: object = None


_quick = msgspec.json.Decoder(_Said).decode


def noted(details: Mapping[str, object]) -> dict[str, object]:
    """The same of details as they are."""
    coverage, converged = details.get("coverage"), details.get("converged")
    return {
        "coverage": coverage if isinstance(coverage, str) and coverage else None,
        "converged": converged if isinstance(converged, bool) else None,
    }
