"""What a measurement's details say that its value's reader must know: coverage of a symmetry, an ascent's end."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gapbench_base.errors import GapbenchError

COLUMNS = ("coverage", "converged")


def stated(text: object, where: str) -> dict[str, object]:
    """What the JSON text of a measurement's details says that its reader must know.

    Returns:
        `coverage` ("whole group", "partly covered: ...", "no symmetry found") and `converged` (bool), each None
        where the details do not say.

    Raises:
        GapbenchError: naming `where` for a text that is no JSON.
    """
    if not isinstance(text, str) or not any(f'"{name}"' in text for name in COLUMNS):
        return dict.fromkeys(COLUMNS)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise GapbenchError(f"{where} is damaged: its details are no JSON ({error}).") from None
    return noted(found if isinstance(found, Mapping) else {})


def noted(details: Mapping[str, object]) -> dict[str, object]:
    """The same of details as they are."""
    coverage, converged = details.get("coverage"), details.get("converged")
    return {
        "coverage": coverage if isinstance(coverage, str) and coverage else None,
        "converged": converged if isinstance(converged, bool) else None,
    }
