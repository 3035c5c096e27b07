"""The files of entries: one JSON file each, which appears whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gapbench.runs.comparing import CONFIRMED, outcome_of
from gapbench.runs.entry import FORMAT, Entry, EntryValue, Option
from gapbench_base.errors import GapbenchError
from gapbench_base.files import write_atomically
from gapbench_base.json_values import plain
from gapbench_base.validation import validated

OMITTED = (
    "coverage",
    "converged",
    "networks",
    "planned",
    "complete",
    "differing",
    "claimed",
    "fresh",
    "population",
)
"""Keys of values and verifications that are left out where there is nothing to say."""

NAMED: tuple[tuple[str, Any, str], ...] = (
    ("values", EntryValue, "value on the network"),
    ("options", Option, "option"),
    ("default_options", Option, "default option"),
    ("statuses", int, "number of measurements with the status"),
)
"""Tables of an entry by names of anybody, and what each name stands for."""


def entries_folder(run: Path) -> Path:
    """Where a run keeps its entries."""
    return run / "entries"


def write_entry(run: Path, entry: Entry) -> Path:
    """Write an entry by temporary name, fsync and rename. Replaces one of the same identity."""
    folder = entries_folder(run)
    folder.mkdir(exist_ok=True)
    text = json.dumps(as_json(entry), indent=1, sort_keys=False, allow_nan=False, ensure_ascii=False)
    return write_atomically(folder / f"{entry.id}.json", text + "\n")


def as_json(entry: Entry) -> dict[str, object]:
    """An entry as plain JSON values, without what it does not say."""
    content: dict[str, Any] = plain(dataclasses.asdict(entry))
    content["values"] = {cell: _said(value) for cell, value in content["values"].items()}
    content["verifications"] = [_said(found) for found in content["verifications"]]
    further: dict[str, Any] = content.pop("further")
    return content | further


def _said(content: dict[str, object]) -> dict[str, object]:
    return {
        key: value
        for key, value in content.items()
        if not (value is None and key in OMITTED)
        and not (value == [] and (key == "refused" or not content["networks"]))
    }


def read_entry(path: str | os.PathLike[str]) -> Entry:
    """Read an entry, which may come from anybody.

    Args:
        path: the file.

    Returns:
        The entry, every field of the kind that it should be.

    Raises:
        GapbenchError: saying what is wrong with the file.
    """
    file = Path(path)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise GapbenchError(f"The entry {file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise GapbenchError(
            f"The entry {file} is damaged, it is no JSON ({error}): put the file back, or delete it and "
            "submit again."
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise GapbenchError(f"{file} is no entry of format {FORMAT}.")
    for key, kind, words in NAMED:  # one by one, so that a complaint names the network or option
        for name, value in content[key].items() if isinstance(content.get(key), dict) else ():
            validated(value, kind, f"The entry {file}, its {words} {str(name)[:40]}")
    entry = validated(content, Entry, f"The entry {file}")
    known = {field.name for field in dataclasses.fields(Entry)}
    return dataclasses.replace(entry, further={k: v for k, v in content.items() if k not in known})


def load_entries(run: Path) -> list[Entry]:
    """All entries of a run, by name and version.

    Args:
        run: the run's folder.

    Returns:
        The entries; none where there is no folder of them.

    Raises:
        GapbenchError: for a damaged one.
    """
    folder = entries_folder(run)
    if not folder.is_dir():
        return []
    entries = [read_entry(path) for path in sorted(folder.glob("*.json"))]
    return sorted(entries, key=lambda entry: (entry.name, entry.version))


def find_entry(run: Path, wanted: str) -> Entry:
    """An entry by label, name, identity or file.

    Args:
        run: the run's folder.
        wanted: one of these.

    Returns:
        The entry; of several of one name the latest version.

    Raises:
        GapbenchError: if there is none, or it is damaged.
    """
    if wanted.endswith(".json") or os.sep in wanted:
        return read_entry(wanted)
    entries = load_entries(run)
    found = named(entries, wanted)
    if found is None:
        known = ", ".join(entry.label for entry in entries) or "none"
        raise GapbenchError(f"{run} has no entry {wanted!r}. Entries: {known}.")
    return found


def named(entries: Sequence[Entry], wanted: str) -> Entry | None:
    """That of some entries, by name and version, which has this label or identity, or the last of this name."""
    found = [entry for entry in entries if wanted in (entry.label, entry.id)]
    found = found or [entry for entry in entries if wanted == entry.name][-1:]
    return found[0] if found else None


def verified_words(entry: Entry) -> str:
    """What came of its latest verification, by whom and when; empty where there is none."""
    if not entry.verifications:
        return ""
    last = entry.verifications[-1]
    by = f" by {last.by}" if last.by else ""
    return f"{outcome_of(last)} on the {last.kind}{by}, {(last.date or '')[:10]}"


def networks_of(entry: Entry) -> str:
    """Of how many networks trained the headline is: "367 of 368"."""
    import pandas as pd

    from gapbench_leaderboard.board.trained import networks_text, trained_networks

    rows = [{**dataclasses.asdict(row), "proxy": entry.label} for row in entry.scores]
    trained = trained_networks(pd.DataFrame(rows), entry.claimed.target) if rows else None
    return networks_text({"models": entry.claimed.models, "trained": trained})


def is_verified(entry: Entry) -> bool:
    """Whether the latest verification confirmed it."""
    return bool(entry.verifications) and outcome_of(entry.verifications[-1]) == CONFIRMED


def board_entry(entry: Entry) -> dict[str, object]:
    """What the board says about an entry beside its scores, as plain JSON values."""
    population = entry.population
    return {
        "proxy": entry.proxy,
        "version": entry.version,
        "summary": entry.summary or "",
        "reference": entry.paper or entry.reference or None,
        "higher_means": entry.higher_means,
        "options": dict(entry.options),
        "authors": entry.authors or "",
        "source_sha256": entry.source_sha256,
        "submitted": True,
        "claimed": True,
        "verified": is_verified(entry),
        "verifications": [
            {
                "outcome": outcome_of(found),
                "kind": found.kind or "",
                "date": found.date or "",
                "by": found.by or "",
                "role": found.role or "",
                "text": found.text or "",
            }
            for found in entry.verifications
        ],
        "sandbox": entry.sandbox or "",
        "measured_on": {
            "fingerprint": population.fingerprint,
            "networks": population.networks,
            "gapbench": list(population.gapbench or ()) or None,
            "date": population.date or None,
        },
        "submitted_at": entry.submitted or "",
    }
