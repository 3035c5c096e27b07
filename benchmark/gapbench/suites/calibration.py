"""Numbers of a suite that differ between problems and families, such as radii at which losses have risen as far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapbench.suites.configuration import Configuration, configuration_values
from gapbench_base.complaints import Complaints
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others

if TYPE_CHECKING:
    from gapbench.suites.file import CalibrationTable


@dataclass(frozen=True)
class Calibrated:
    """Numbers by name, for the networks on which each name of `on` has one of its values."""

    on: tuple[tuple[str, tuple[object, ...]], ...]
    numbers: tuple[tuple[str, float], ...]

    def holds(self, values: Mapping[str, object]) -> bool:
        """Whether they are those of a network with these values."""
        return all(values.get(name) in wanted for name, wanted in self.on)


def values_of(configuration: Configuration) -> dict[str, object]:
    """What a calibration can ask about a network: task, family, and all that is in `configuration_values`."""
    named = {"task": configuration.task, "family": configuration.family}
    return configuration_values(configuration) | named


def number_for(name: object, calibrated: Iterable[Calibrated], configuration: Configuration) -> float:
    """The number of this name for a network.

    Args:
        name: which.
        calibrated: where it is looked for; at most one entry has it for a network.
        configuration: of the network.

    Returns:
        The number.

    Raises:
        GapbenchError: there is none.
    """
    values = values_of(configuration)
    for entry in calibrated:
        for own, number in entry.numbers:
            if own == name and entry.holds(values):
                return number
    raise GapbenchError(
        f"no calibration sets {name!r} for {configuration.family} on {configuration.task} (width "
        f"{configuration.width:g})."
    )


def calibrated(
    tables: Sequence[CalibrationTable], configurations: Sequence[Configuration], where: str
) -> tuple[Calibrated, ...]:
    """Validate the calibrations of a suite.

    Args:
        tables: as in the file.
        configurations: of the suite.
        where: names it in messages.

    Returns:
        The numbers, in the order of the file.

    Raises:
        GapbenchError: for a name or value that no network has, for what is no number, and where two calibrations
            set one name for one network.
    """
    complaints, found = Complaints(), []
    if tables:
        rows = list({tuple(sorted(values_of(c).items(), key=lambda p: p[0])): None for c in configurations})
        networks = [dict(row) for row in rows]
    for index, table in enumerate(tables, start=1):
        place = f"{where}, calibration {index}"
        with complaints.collecting():
            found.append(_checked(table, networks, place))
    complaints.refuse()
    for index, entry in enumerate(found):
        for earlier in found[:index]:
            twice = sorted(dict(entry.numbers).keys() & dict(earlier.numbers).keys())
            both = [values for values in networks if entry.holds(values) and earlier.holds(values)]
            if twice and both:
                raise GapbenchError(
                    f"{where}, calibration {index + 1}: set = {{ {twice[0]} }} stands in calibration "
                    f"{found.index(earlier) + 1} for the same networks: {both[0]['family']} on {both[0]['task']}."
                )
    return tuple(found)


def _checked(table: CalibrationTable, networks: Sequence[Mapping[str, object]], where: str) -> Calibrated:
    known = {name for values in networks for name in values}
    on = []
    for name, value in table.on.items():
        if name not in known:
            raise GapbenchError(f"{where}: on: there is no {name!r}.{near_and_others(name, sorted(known))}")
        wanted = tuple(value) if isinstance(value, list) else (value,)
        held = {values.get(name) for values in networks}
        for one in wanted:
            if isinstance(one, list | dict) or one not in held:
                have = near_and_others(one, sorted(map(str, held)))
                raise GapbenchError(f"{where}: on: no network has {name} = {one!r}.{have}")
        on.append((name, wanted))
    if not table.set:
        raise GapbenchError(f"{where}: set = {{ NAME = NUMBER }} is empty.")
    for name, number in table.set.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise GapbenchError(f"{where}: set: {name} = {number!r} must be a number.")
    entry = Calibrated(tuple(on), tuple((name, float(number)) for name, number in table.set.items()))
    if not any(entry.holds(values) for values in networks):
        raise GapbenchError(f"{where}: on: no network has all of these values.")
    return entry


def names_of(entries: Iterable[Calibrated]) -> list[str]:
    """The names that have numbers, in their order."""
    return list(dict.fromkeys(name for entry in entries for name, _ in entry.numbers))
