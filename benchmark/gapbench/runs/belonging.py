"""Whether an entry belongs to the population that it is shown with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapbench.runs.entry import Entry
from gapbench.runs.identity import Identity


def other_weights(entry: Entry, checksums: Mapping[str, str | None]) -> list[str]:
    """The networks that the entry was measured on with other weights than those here.

    Returns:
        Their cells; none for entries made before checksums were kept in them.
    """
    return [
        cell
        for cell, value in entry.values.items()
        if value.weights and checksums.get(cell) and value.weights != checksums[cell]
    ]


def strangers(entries: Sequence[Entry], identity: Identity, checksums: Mapping[str, str | None]) -> list[str]:
    """A sentence for every entry that was measured on another population than the one of this identity."""
    found = []
    for entry in entries:
        stated = entry.population.fingerprint
        if stated in (identity.fingerprint, identity.earlier):
            continue
        here = f"(population {stated}, here {identity.fingerprint})"
        label, values, changed = entry.label, entry.values, other_weights(entry, checksums)
        known = [cell for cell in values if cell in checksums]
        if changed:
            found.append(
                f"{label} was measured on other weights of {len(changed)} networks {here}: its score is not one of "
                "this board. Submit it again."
            )
        elif len(known) < len(values):
            found.append(
                f"{label} was measured on {len(values) - len(known)} networks that are not here {here}. Submit it "
                "again."
            )
        elif len(known) < len(checksums):
            found.append(
                f"{label} was measured on {len(known)} of this board's {len(checksums)} networks, on another "
                f"state of the population {here}. Submit it again to measure the rest."
            )
        elif not all(value.weights for value in values.values()):
            found.append(
                f"{label}: it is not known whether it was measured on these weights {here}. Submit it again."
            )
    return found
