"""Widths at which a family has the same network: what a suite must not call two networks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from gapbench.suites.configuration import Configuration
from gapbench_base.errors import GapbenchError
from gapbench_models import parameter_count


def refuse_equal_networks(configurations: Iterable[Configuration], where: str) -> None:
    """A family's layers have a least size and whole numbers of channels, so that widths may give one network.

    No layer shrinks as the width grows, so networks of equal numbers of parameters are equal.

    Args:
        configurations: of a suite.
        where: names it in messages.

    Raises:
        GapbenchError: naming the widths of the first such network.
    """
    widths: dict[tuple[str, int | None], set[float]] = {}
    for configuration in configurations:
        widths.setdefault((configuration.family, configuration.training.depth), set()).add(
            configuration.width
        )
    for (family, depth), found in widths.items():
        if len(found) < 2:
            continue
        same: dict[int, list[float]] = {}
        for width in sorted(found):
            with contextlib.suppress(Exception):  # what cannot be built is said where it is trained
                same.setdefault(parameter_count(family, width, depth=depth), []).append(width)
        equal = next(((count, group) for count, group in same.items() if len(group) > 1), None)
        if equal is not None:
            count, group = equal
            listed = ", ".join(f"{width:g}" for width in group[:-1]) + f" and {group[-1]:g}"
            raise GapbenchError(
                f"{where}: {family} is the same network at the widths {listed} ({count:,} parameters for 10 "
                "classes). Keep one of them: a width that changes nothing would count as evidence about width."
            )
