"""An entry: what was submitted and what came out, as one JSON file that appears whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapbench_base.errors import GapbenchError
from gapbench.proxies.registry import NAME
from gapbench.runs.comparing import CONFIRMED, outcome_of
from gapbench.sandbox.limits import Limits

FORMAT = 1
RULES = 1
"""Version of RULES.md that a submission follows."""

Entry = dict[str, Any]
_REQUIRED = {
    "id": str,
    "name": str,
    "label": str,
    "version": int,
    "proxy": str,
    "source": str,
    "source_sha256": str,
    "limits": dict,
    "options": dict,
    "default_options": dict,
    "statuses": dict,
    "higher_means": str,
    "population": dict,
    "claimed": dict,
    "values": dict,
    "scores": list,
    "seed": str,
    "verifications": list,
}


def entries_folder(run: Path) -> Path:
    """Where a run keeps its entries."""
    return run / "entries"


def write_entry(run: Path, entry: Mapping[str, Any]) -> Path:
    """Write an entry by temporary name, fsync and rename. Replaces one of the same identity."""
    from gapbench_base.files import write_atomically

    folder = entries_folder(run)
    folder.mkdir(exist_ok=True)
    text = json.dumps(plain(entry), indent=1, sort_keys=False, allow_nan=False, ensure_ascii=False)
    return write_atomically(folder / f"{entry['id']}.json", text + "\n")


def read_entry(path: str | os.PathLike[str]) -> Entry:
    """Read an entry. Raises `GapbenchError` saying what is wrong with the file."""
    file = Path(path)
    try:
        entry = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise GapbenchError(f"The entry {file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise GapbenchError(
            f"The entry {file} is damaged, it is no JSON ({error}): put the file back, or delete it and "
            "submit again."
        ) from None
    if not isinstance(entry, dict) or entry.get("format") != FORMAT:
        raise GapbenchError(f"{file} is no entry of format {FORMAT}.")
    for name, kind in _REQUIRED.items():
        if not isinstance(entry.get(name), kind):
            raise GapbenchError(f"The entry {file} has no {name}, or not as a {kind.__name__}.")
    wrong = _wrong(entry)
    if wrong:
        raise GapbenchError(f"The entry {file}: {wrong}.")
    return entry


def _wrong(entry: Entry) -> str:
    """What else does not fit, in words: an entry may come from anybody."""
    if not re.fullmatch(r"[0-9a-f]{16}", entry["id"]):
        return "its id is not 16 hexadecimal digits"
    if not NAME.fullmatch(entry["proxy"]):
        return "its proxy has no valid name"
    if not isinstance(entry["population"].get("fingerprint"), str):
        return "its population has no fingerprint"
    if not all(_number(entry["claimed"].get(key)) for key in ("value", "low", "high")):
        return "its claimed score is not a number with an interval"
    for cell, value in entry["values"].items():
        if not (
            isinstance(value, dict)
            and isinstance(value.get("status"), str)
            and _number(value.get("value"))
            and _number(value.get("standard_error"))
        ):
            return f"its value on the network {cell[:40]} is not a number with a status"
    return ""


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def limits_of(entry: Mapping[str, Any]) -> Limits:
    """The limits that an entry was measured with. Raises `GapbenchError` for nonsense."""
    known = {field.name for field in dataclasses.fields(Limits)}
    given = {name: value for name, value in entry["limits"].items() if name in known}
    if not all(_number(value) and value is not None for value in given.values()):
        raise GapbenchError("The entry's limits are no numbers.")
    whole = {name: int(given[name]) for name in ("memory", "output", "files") if name in given}
    return Limits(**{**given, **whole})


def load_entries(run: Path) -> list[Entry]:
    """All entries of a run, by name and version. Raises `GapbenchError` for a damaged one."""
    folder = entries_folder(run)
    if not folder.is_dir():
        return []
    entries = [read_entry(path) for path in sorted(folder.glob("*.json"))]
    return sorted(entries, key=lambda entry: (entry["name"], entry["version"]))


def find_entry(run: Path, wanted: str) -> Entry:
    """An entry by label, name, identity or file. Raises `GapbenchError` if it is not one."""
    if wanted.endswith(".json") or os.sep in wanted:
        return read_entry(wanted)
    entries = load_entries(run)
    found = [entry for entry in entries if wanted in (entry["label"], entry["id"])]
    found = found or [entry for entry in entries if wanted == entry["name"]][-1:]
    if not found:
        known = ", ".join(entry["label"] for entry in entries) or "none"
        raise GapbenchError(f"{run} has no entry {wanted!r}. Entries: {known}.")
    return found[0]


def is_verified(entry: Mapping[str, Any]) -> bool:
    """Whether the latest verification confirmed it."""
    outcomes = [outcome_of(v) for v in entry["verifications"] if isinstance(v, dict)]
    return bool(outcomes) and outcomes[-1] == CONFIRMED


def board_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the board says about an entry beside its scores."""
    return {
        "proxy": entry["proxy"],
        "version": entry["version"],
        "summary": entry.get("summary", ""),
        "reference": entry.get("paper") or entry.get("reference") or None,
        "higher_means": entry["higher_means"],
        "options": entry["options"],
        "authors": entry.get("authors", ""),
        "source_sha256": entry["source_sha256"],
        "submitted": True,
        "claimed": True,
        "verified": is_verified(entry),
        "verifications": [
            {"outcome": outcome_of(found)}
            | {key: str(found.get(key) or "") for key in ("kind", "date", "by", "role", "text")}
            for found in entry["verifications"]
            if isinstance(found, dict)
        ],
        "sandbox": entry.get("sandbox", ""),
        "measured_on": {
            key: entry["population"].get(key) for key in ("fingerprint", "networks", "gapbench", "date")
        },
        "submitted_at": entry.get("submitted", ""),
    }


def plain(value: Any) -> Any:
    """Plain JSON: numbers of numpy as Python's, what is not finite as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [plain(content) for content in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
