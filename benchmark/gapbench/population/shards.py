"""Parts of a plan for several machines: the i-th of n, balanced, disjoint, and together the whole."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gapbench.population.plan import Cell
from gapbench.population.siblings import without_seed
from gapbench.population.stacks import kind_of
from gapbench_base.errors import GapbenchError

META = "shard"
"""Its name in the database of a run that holds a part."""


@dataclass(frozen=True)
class Shard:
    """The part `index` (from 0) of `count`."""

    index: int
    count: int

    @property
    def text(self) -> str:
        """As it is asked for: `0/8`."""
        return f"{self.index}/{self.count}"

    @property
    def whole(self) -> bool:
        """Whether it is all there is."""
        return self.count == 1


def parse_shard(text: str) -> Shard:
    """The shard that `i/n` names.

    Returns:
        The shard.

    Raises:
        GapbenchError: for another text, or an i that is not from 0 to n - 1.
    """
    match = re.fullmatch(r"\s*(\d{1,6})/(\d{1,6})\s*", text)
    if not match:
        raise GapbenchError(f"--shard {text!r}: give i/n, such as 0/8 for the first of eight parts.")
    index, count = int(match[1]), int(match[2])
    if not index < count:
        parts = f"0/{count} to {count - 1}/{count}" if count else "at least 0/1"
        raise GapbenchError(f"--shard {text}: parts are counted from 0, so give {parts}.")
    return Shard(index, count)


def part_of(cells: Sequence[Cell], shard: Shard, seeds_together: bool = False) -> list[Cell]:
    """The cells of one part, in the order of the plan.

    Cells are put in order by what they cost (architecture, task and its sizes, epochs) and dealt out like cards, so
    that of every kind each part has as many as any other, up to one. It depends on nothing but the cells.

    Args:
        cells: the whole plan.
        shard: which part.
        seeds_together: whether networks that differ in their seed alone go to one part, for proxies that see both.

    Returns:
        The part.

    Raises:
        GapbenchError: if there are fewer cells than parts, so that it is empty.
    """
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[without_seed(cell.description) if seeds_together else cell.key].append(cell)
    ordered = sorted(groups.values(), key=lambda own: (*_cost(own[0]), min(cell.key for cell in own)))
    chosen = {cell.key for own in ordered[shard.index :: shard.count] for cell in own}
    if not chosen:
        what = "configurations, whose seeds stay together" if seeds_together else "networks"
        raise GapbenchError(f"--shard {shard.text}: the suite has only {len(groups)} {what}, so it is empty.")
    return [cell for cell in cells if cell.key in chosen]


def _cost(cell: Cell) -> tuple[str, int]:
    return json.dumps(kind_of(cell), sort_keys=True), cell.configuration.training.max_epochs


def of_run(
    stored: str | None, asked: Shard | None, fresh: bool, folder: object
) -> tuple[Shard | None, str | None]:
    """Which part of a run is worked on, and which it is to remember: what it was made for, until it is widened.

    Args:
        stored: what it remembers.
        asked: what is asked for; the whole (`0/1`) makes a part an ordinary run.
        fresh: whether nothing was run there yet.
        folder: of the run, for the message.

    Returns:
        The part, None for the whole; and what to remember.

    Raises:
        GapbenchError: if it is a part and another is asked for.
    """
    known = None if stored is None else parse_shard(stored)
    if asked is None:
        return known, stored
    if asked.whole:
        return None, None
    if known is not None and asked != known:
        raise GapbenchError(
            f"{folder} holds the part {known.text} of its suite, not {asked.text}: choose another folder with "
            "--out, or --shard 0/1 to go on with the whole suite there. Nothing was changed."
        )
    return asked, asked.text if fresh else stored
