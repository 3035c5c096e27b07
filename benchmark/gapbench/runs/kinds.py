"""What a stored measurement is one of: which repeat, by which version, options and protocol, or of which entry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gapbench.runs.records import OF_A_NETWORK
from gapbench_base.errors import GapbenchError

SUBMISSION = '"submission":'
"""What the description of a measurement made for an entry has, and no other."""
OF_AN_ENTRY = "submission"
"""The generation of all measurements for entries: a label of an entry has one source and one set of options."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Of a measurement.

    Attributes:
        repeat: 0 or 1.
        generation: its description without what differs between networks and repeats; equal texts are one object.
        submission: the identity of the entry that it was made for, if any.
    """

    repeat: int
    generation: str
    submission: str | None = None


class Kinds:
    """Reads the descriptions of many measurements of one run database, of which most differ in the network alone.

    `several`: whether a measurement was read of which a network may have more than one.
    """

    def __init__(self, path: Path):
        self.several = False
        self._path = path
        self._known: dict[str, Kind] = {}
        self._generations: dict[str, str] = {}

    def where(self, key: str) -> str:
        """Names a measurement in messages."""
        return f"The run database {self._path}, measurement {key}"

    def of(self, key: str, description: str) -> Kind:
        """The kind of a measurement.

        Args:
            key: of the measurement, for messages.
            description: of all that its value depends on, without the key of its network.

        Returns:
            One object for all that differ in the network alone.

        Raises:
            GapbenchError: for a description that cannot be read.
        """
        if description not in self._known:
            self._known[description] = self._read(key, description)
        return self._known[description]

    def _read(self, key: str, description: str) -> Kind:
        if SUBMISSION in description:
            self.several = True
            return Kind(0, OF_AN_ENTRY, self._submission(key, description))
        repeat, text = 0, description
        if any(f'"{name}"' in description for name in OF_A_NETWORK):
            self.several = True
            try:
                content = json.loads(description)
                repeat = int(content.get("repeat", 0))
                for name in OF_A_NETWORK:
                    content.pop(name, None)
            except (ValueError, TypeError, AttributeError) as error:
                raise self._damaged(key, error) from None
            text = json.dumps(content, sort_keys=True)
        return Kind(repeat, self._generations.setdefault(text, text))

    def _submission(self, key: str, description: str) -> str:
        try:
            return str(json.loads(description)["submission"])
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(key, error) from None

    def _damaged(self, key: str, error: Exception) -> GapbenchError:
        return GapbenchError(f"{self.where(key)} is damaged: its description is no JSON ({error}).")
