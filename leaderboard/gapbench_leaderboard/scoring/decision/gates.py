"""Verdicts: what a population passes, and what stands in its way, with numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gapbench_leaderboard.scoring.decision.tree import Gate, Kept, Resolution, Stratum
from gapbench_leaderboard.scoring.resolving import LARGEST_DIFFERENCE, STRONG, WEAK

LEAST_KEPT = 0.95
LEAST_KEPT_OF_LEVEL = 0.9
MOST_OF_AXIS = 0.5
MOST_OF_SEEDS = 0.15
FEWEST_CONFIGURATIONS = 24
"""From which on a share of variance is little by chance: with 12 one of four axes of three levels that have no
effect seems to explain more than half in a third of all samples, with 24 in 2 %."""
FEWEST_FOR_SPREAD = 10
"""Configurations from which on a standard deviation is known to a quarter of itself. Of five it is wrong by more
than half in one sample of seven."""
LEAST_RATIO = 3.0
TOO_FEW = (
    f"no problem and family with several seeds or a spread has the {FEWEST_FOR_SPREAD} configurations to tell"
)
WIDEST_HALF = 0.09
LEAST_POWER = 0.8
LEAST_GROUPS = 2
MOST_NAMED = 4


def gates_of(
    kept: int, networks: int, levels: Sequence[Kept], strata: Sequence[Stratum], resolution: Resolution
) -> tuple[Gate, ...]:
    """All verdicts, in the order in which they are shown."""
    return (
        kept_gate(kept, networks, levels),
        axis_gate(strata),
        seeds_gate(strata),
        spread_gate(strata),
        half_width_gate(resolution),
        planted_gate(resolution),
        groups_gate(resolution),
    )


def kept_gate(kept: int, networks: int, levels: Sequence[Kept]) -> Gate:
    """At least 95 % of the networks are ranked, and at least 90 % of every level."""
    if not networks:
        return Gate("kept", None, "there are no networks")
    low = sorted(
        (own for own in levels if own.share < LEAST_KEPT_OF_LEVEL and own.networks < networks),
        key=lambda own: (own.share, -own.networks, own.by, own.level),
    )
    said = f"{kept} of {networks} networks are ranked ({kept / networks:.2f}, at least {LEAST_KEPT})"
    named = [f"{kept_words(own)}" for own in low]
    return Gate(
        "kept",
        kept >= LEAST_KEPT * networks and not low,
        said + (f"; below {LEAST_KEPT_OF_LEVEL}: {listed(named)}" if low else ""),
    )


def kept_words(own: Kept) -> str:
    """`width 0.5: 3 of 8 kept`."""
    level = own.level if own.by == "family, width" else f"{own.by} {own.level}"
    return f"{level}: {own.kept} of {own.networks} kept"


def axis_gate(strata: Sequence[Stratum]) -> Gate:
    """No axis explains more than half of the variance within a problem and family of enough configurations."""
    known = [
        (share, axis, own)
        for own in strata
        for axis, share in own.shares.items()
        if math.isfinite(share) and own.configurations >= FEWEST_CONFIGURATIONS
    ]
    if not known and any(math.isfinite(share) for own in strata for share in own.shares.values()):
        return Gate(
            "axes", None, f"no problem and family has the {FEWEST_CONFIGURATIONS} configurations to tell"
        )
    if not known:
        return Gate("axes", None, "no axis varies within a problem and family, or there is no spread")
    known.sort(key=lambda found: (-found[0], found[1], found[2].name))
    high = [f"{axis} {share:.2f} ({own.name})" for share, axis, own in known if share > MOST_OF_AXIS]
    if high:
        return Gate("axes", False, f"one axis decides (above {MOST_OF_AXIS} of the variance): {listed(high)}")
    share, axis, own = known[0]
    return Gate(
        "axes",
        True,
        f"the largest share of the variance is {share:.2f}, of {axis} ({own.name}); at most {MOST_OF_AXIS}",
    )


def seeds_gate(strata: Sequence[Stratum]) -> Gate:
    """Seeds explain less than 15 % of the variance within every problem and family."""
    told = [own for own in strata if math.isfinite(own.seeds)]
    if not told:
        return Gate("seeds", None, "no configuration has two seeds that are ranked")
    known = sorted(
        ((own.seeds, own) for own in told if own.configurations >= FEWEST_FOR_SPREAD),
        key=lambda f: (-f[0], f[1].name),
    )
    if not known:
        return Gate("seeds", None, TOO_FEW)
    high = [f"{min(1.0, share):.2f} ({own.name})" for share, own in known if share >= MOST_OF_SEEDS]
    if high:
        return Gate("seeds", False, f"seeds explain {MOST_OF_SEEDS} of the variance or more: {listed(high)}")
    share, own = known[0]
    return Gate(
        "seeds",
        True,
        f"seeds explain at most {share:.2f} of the variance ({own.name}); below {MOST_OF_SEEDS}",
    )


def spread_gate(strata: Sequence[Stratum]) -> Gate:
    """The gap's spread is three times its test noise within every problem and family."""
    told = [own for own in strata if not math.isnan(own.ratio)]
    known = sorted(
        ((own.ratio, own) for own in told if own.configurations >= FEWEST_FOR_SPREAD),
        key=lambda f: (f[0], f[1].name),
    )
    if told and not known:
        return Gate("spread", None, TOO_FEW)
    if not known:
        return Gate("spread", None, _no_spread(strata))
    low = [f"{ratio:.1f} ({own.name})" for ratio, own in known if ratio < LEAST_RATIO]
    if low:
        return Gate(
            "spread", False, f"the spread is less than {LEAST_RATIO:g} times the test noise: {listed(low)}"
        )
    ratio, own = known[0]
    return Gate("spread", True, f"the spread is at least {ratio:.1f} times the test noise ({own.name})")


def _no_spread(strata: Sequence[Stratum]) -> str:
    """Why no problem and family has a spread to be compared with the noise of its test."""
    if not strata:
        return "there are no networks"
    if all(own.configurations < 2 for own in strata):
        return "no problem and family has two configurations"
    if all(math.isnan(own.noise) for own in strata):
        return "the size of the test set is not known"
    return "where the size of the test set is known, all values are the same"


def half_width_gate(resolution: Resolution) -> Gate:
    """The interval of a typical headline reaches at most 0.09 to either side."""
    half = resolution.half_width
    if not math.isfinite(half):
        return Gate("half-width", None, "no proxy that is ranked has an interval")
    said = f"the interval of a typical headline is ± {half:.3f} (at most {WIDEST_HALF})"
    if resolution.smallest_difference > LARGEST_DIFFERENCE:
        said += "; no difference of two can be significant"
    elif math.isfinite(resolution.smallest_difference):
        said += f"; the smallest significant difference of two is {resolution.smallest_difference:.3f}"
    if resolution.planned is not None and not math.isfinite(resolution.planned_half_width):
        said += f"; too few to say what it will be with the {resolution.planned} networks planned"
    elif resolution.planned is not None:
        said += (
            f"; with the {resolution.planned} networks planned about ± {resolution.planned_half_width:.3f}"
        )
        if resolution.planned_smallest_difference <= LARGEST_DIFFERENCE:
            said += f" and {resolution.planned_smallest_difference:.3f}"
    return Gate("half-width", half <= WIDEST_HALF, said)


def planted_gate(resolution: Resolution) -> Gate:
    """Planted proxies of headlines 0.2 and 0.4 are told apart in four of five plantings."""
    alone, among = resolution.planted_alone, resolution.planted_among
    if not math.isfinite(alone):
        return Gate(
            "planted", None, "no two proxies could be planted: nothing can be ranked, or too little to test"
        )
    said = f"proxies planted at {WEAK} and {STRONG} are told apart in {alone:.0%} of plantings"
    said += f" (at least {LEAST_POWER:.0%})"
    if math.isfinite(among):
        said += f"; among all {resolution.competing} proxies at once in {among:.0%}"
    return Gate("planted", alone >= LEAST_POWER, said)


def groups_gate(resolution: Resolution) -> Gate:
    """The sets of ranks tell at least two proxies apart."""
    if resolution.competing < 2:
        return Gate("ranks", None, "fewer than two proxies are ranked")
    number = resolution.rank_groups
    said = f"{number} of {resolution.competing} proxies have sets of ranks that do not meet"
    if number < LEAST_GROUPS:
        said = f"no two of {resolution.competing} proxies have sets of ranks that do not meet"
    return Gate("ranks", number >= LEAST_GROUPS, said)


def listed(named: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    shown = "; ".join(named[:MOST_NAMED])
    return shown if len(named) <= MOST_NAMED else f"{shown}; and {len(named) - MOST_NAMED} more"
