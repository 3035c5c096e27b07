"""The audit of a run's proxies as `gapbench audit` stores it: RUN/invariances.json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from gapbench_base.errors import GapbenchError

FILE = "invariances.json"
VERDICTS = ("invariant", "not invariant", "not applicable")


def read_invariances(folder: Path) -> dict[str, Any] | None:
    """The stored audit, or None if there is none. Raises `GapbenchError` if the file is damaged."""
    path = folder / FILE
    try:
        audit = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(audit, dict) or not isinstance(audit.get("proxies"), dict):
        raise _damaged(path, "it has no 'proxies'")
    for name in ("networks", "seed"):
        if type(audit.get(name)) is not int:
            raise _damaged(path, f"{name!r} is not a whole number")
    for label, rows in audit["proxies"].items():
        if not isinstance(rows, list):
            raise _damaged(path, f"proxy {label!r} has no list of results")
        for row in rows:
            problem = _problem(row)
            if problem:
                raise _damaged(path, f"proxy {label!r}: {problem}")
    return audit


def _problem(row: object) -> str:
    if not isinstance(row, dict):
        return "a result is not an object"
    if not isinstance(row.get("kind"), str):
        return "a result has no 'kind'"
    if row.get("verdict") not in VERDICTS:
        return f"the verdict {row.get('verdict')!r} is none of {', '.join(VERDICTS)}"
    if row.get("reason") is not None and not isinstance(row["reason"], str):
        return "'reason' is not a text"
    for name in ("strength", "relative_change", "rank_correlation"):
        value = row.get(name)
        if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
            return f"{name!r} is not a number"
    return ""


def _refused(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _damaged(path: Path, what: str) -> GapbenchError:
    return GapbenchError(f"{path} is damaged: {what}. Make it again with `gapbench audit`, or delete it.")
