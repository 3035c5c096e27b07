"""Options of proxies at which their medians are equal: radii of the same rise in every problem and family."""

from __future__ import annotations

import math
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gapbench.population.choosing import choose
from gapbench.population.facts import facts_source
from gapbench.population.stored import Member, Population, open_population
from gapbench.population.updating import brought_up_to_date
from gapbench.proxies.registry import checked_options, proxy_entry
from gapbench.running import check_numbers, planned, setup_of, worker_count
from gapbench.runs.countdown import Countdown
from gapbench.runs.environment import choose_device
from gapbench.runs.folder import run_folder
from gapbench.suites.calibration import values_of
from gapbench.suites.suite import Suite, load_suite
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others

if TYPE_CHECKING:
    from gapbench.population.progress import Progress
    from gapbench.proxies.context import Context

Say = Callable[[str], None]
FACTOR = 4.0
"""Between trials until the value is passed."""
SPAN = 10
"""Such factors from the beginning, at most, to either side."""
NEAR = 0.02
"""Relative distance from the value at which a search ends."""
TRIALS = 12
"""After the value is between two numbers."""
NOT_FINITE = "finite"
"""In the reason of a measurement where the loss is not a number: it has risen beyond all bounds."""


@dataclass(frozen=True)
class Aim:
    """The `option` of a proxy is to be such that the median of the proxy is `value`."""

    proxy: str
    option: str
    value: float

    @property
    def name(self) -> str:
        """Under which the numbers stand in a suite."""
        return f"{self.proxy} {self.value:g}"


@dataclass(frozen=True)
class CalibratedStratum:
    """What was found for the networks `on` which these values are: by aim the number, and the median there."""

    on: Mapping[str, object]
    networks: int
    found: Mapping[Aim, tuple[float, float]]
    missing: Mapping[Aim, str]


def aim_of(text: str) -> Aim:
    """`PROXY.OPTION=VALUE`. Raises `GapbenchError` for what is no such thing."""
    target, equals, value = text.partition("=")
    proxy, dot, option = target.strip().partition(".")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (dot and equals and 0 < number < math.inf):
        raise GapbenchError(
            f"{text!r}: give PROXY.OPTION=VALUE with a positive value: sharpness_full.radius=0.1"
        )
    options = proxy_entry(proxy).options
    if option not in options:
        raise GapbenchError(f"{proxy} has no option {option!r}.{near_and_others(option, options)}")
    default = options[option]
    if isinstance(default, str | bool | int):
        raise GapbenchError(f"{proxy}.{option} = {default!r} is no number between which others lie.")
    return Aim(proxy, option, number)


def calibrate(
    suite: str | os.PathLike[str],
    aims: Sequence[Aim],
    networks: int = 8,
    out: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    say: Say = lambda text: None,
) -> list[CalibratedStratum]:
    """Find options at which proxies have the same median in every problem and family.

    Where the proxy is a rise of the loss and the option a radius, that is the radius at which the median rise is so
    many nats. The networks are those of a run; of a suite a balanced part is trained before in `out` (default
    `runs/calibrate-<suite>`), which resumes. Other options are those with which the suite lists the proxy. Numbers
    are rounded to two digits, and the medians are those of the rounded numbers.

    Args:
        suite: name or file of a suite, or the folder of a run.
        aims: what is to have which value.
        networks: of each problem and family, at most.
        out: the folder of what is trained.
        device: as in `gapbench.run`.
        data_dir: as in `gapbench.run`.
        workers: as in `gapbench.run`.
        progress: hears of every network that is trained.
        say: hears how far the measuring is.

    Returns:
        The problems and families, in the order of the suite.

    Raises:
        GapbenchError: for wrong usage, missing data, or a folder that cannot be used.
    """
    from gapbench.population.network import context_of, handover_of

    if networks < 1:
        raise GapbenchError(f"networks = {networks} must be at least 1.")
    folder = run_folder(suite)
    if folder is None:
        folder = _trained(os.fspath(suite), networks, out, device, data_dir, workers, progress)
    population = open_population(folder, data_dir)
    groups = _groups(population, networks)
    countdown = Countdown(len(groups) * len(aims), say, what="numbers found")
    found = []
    for on, members in groups:
        contexts = [context_of(handover_of(member, population)) for member in members]
        numbers: dict[Aim, tuple[float, float]] = {}
        missing: dict[Aim, str] = {}
        for aim in aims:
            try:
                numbers[aim] = _found(aim, contexts, population.suite)
            except GapbenchError as reason:
                missing[aim] = str(reason)
            countdown.more()
        found.append(CalibratedStratum(on, len(members), numbers, missing))
    return found


def _trained(
    suite: str,
    networks: int,
    out: str | os.PathLike[str] | None,
    device: str,
    data_dir: str | os.PathLike[str] | None,
    workers: int | None,
    progress: Progress | None,
) -> Path:
    """The folder of a run that has so many networks of each problem and family."""
    chosen, device = load_suite(suite), choose_device(device)
    check_numbers(None, workers, 1, device)
    folder = Path(out if out is not None else Path("runs") / f"calibrate-{chosen.name}")
    count = worker_count(workers, device)
    setup = setup_of(chosen, folder, device, data_dir, count, "any" if device == "cuda" else "exact")
    whole = planned(chosen, setup.data_dir, f"suite {suite}, [measure]")
    facts = facts_source(setup.data_dir)
    strata = defaultdict(list)
    for cell in whole:
        strata[tuple(_place(values_of(cell.configuration), chosen).items())].append(cell)
    cells = [cell for part in strata.values() for cell in choose(part, networks, chosen.axes, facts)]
    brought_up_to_date(chosen, setup, cells, (), count, progress=progress)
    return folder


def _place(values: Mapping[str, object], suite: Suite) -> dict[str, object]:
    """Task and family of a network, and what of its problem differs within the suite."""
    return {name: values[name] for name in ("task", "family", *suite.problem) if name in values}


def _groups(population: Population, networks: int) -> list[tuple[dict[str, object], list[Member]]]:
    """The members of each problem and family, some of them where there are more, spread over the plan."""
    groups: dict[tuple[tuple[str, object], ...], list[Member]] = {}
    for member in population.members:
        place = _place(values_of(member.configuration), population.suite)
        groups.setdefault(tuple(place.items()), []).append(member)
    found = []
    for key, members in groups.items():
        same = [dict(other) for other in groups if other[:2] == key[:2]]
        on = {n: v for n, v in key if n in ("task", "family") or len({o[n] for o in same}) > 1}
        step = max(1.0, len(members) / networks)
        found.append((on, [members[int(k * step)] for k in range(min(networks, len(members)))]))
    return found


def _found(aim: Aim, contexts: Sequence[Context], suite: Suite) -> tuple[float, float]:
    """The number, rounded, and the median there."""
    from gapbench.proxies.measuring import measure_in
    from gapbench_base.seeds import named_seed

    entry = proxy_entry(aim.proxy)
    listed = [dict(request.options) for request in suite.proxies if request.proxy == aim.proxy]
    own = next((options for options in listed if aim.option in options), {})
    start = own.get(aim.option, entry.options[aim.option])

    def median(number: float) -> float:
        options = checked_options(entry, {**own, aim.option: number})
        rows = [measure_in(c, entry, options, named_seed("calibrate", k)) for k, c in enumerate(contexts)]
        if not all(row.status == "ok" or NOT_FINITE in row.reason for row in rows):
            raise GapbenchError(next(row.reason for row in rows if row.status != "ok"))
        return statistics.median(math.inf if row.value is None else row.value for row in rows)

    number = solved(median, aim.value, float(start) if isinstance(start, int | float) else 1.0)
    rounded = float(f"{number:.2g}")
    return rounded, median(rounded)


def solved(value_at: Callable[[float], float], value: float, start: float) -> float:
    """The positive number at which a rising function has a value, by secants in logarithms.

    Args:
        value_at: the function.
        value: a positive one.
        start: where the search begins.

    Returns:
        A number at which the function is within 2 % of the value, or the middle of where it jumps over it.

    Raises:
        GapbenchError: the function does not reach the value within a factor of a million.
    """

    def distance(x: float) -> float:
        there = value_at(math.exp(x))
        return math.inf if there == math.inf else math.log(max(there, 1e-9 * value) / value)

    x = math.log(start)
    y = distance(x)
    ahead = y < 0
    for _ in range(SPAN):
        other = x + math.log(FACTOR) * (1 if ahead else -1)
        beyond = distance(other)
        if (beyond >= 0) == ahead:
            break
        x, y = other, beyond
    else:
        raise GapbenchError(f"its median does not reach {value:g} between {math.exp(x):.2g} and {start:g}")
    low, high = ((x, y), (other, beyond)) if ahead else ((other, beyond), (x, y))
    for _ in range(TRIALS):
        nearest = min((low, high), key=lambda point: abs(point[1]))
        if abs(nearest[1]) <= NEAR:
            return math.exp(nearest[0])
        share = -low[1] / (high[1] - low[1]) if high[1] < math.inf else 0.5
        middle = low[0] + min(0.9, max(0.1, share)) * (high[0] - low[0])
        there = (middle, distance(middle))
        low, high = (there, high) if there[1] < 0 else (low, there)
    return math.exp((low[0] + high[0]) / 2)


def toml_of(strata: Sequence[CalibratedStratum]) -> str:
    """The numbers as a suite has them, with the medians in comments."""
    lines: list[str] = []
    for stratum in strata:
        on = ", ".join(f"{name} = {_toml(value)}" for name, value in stratum.on.items())
        numbers = ", ".join(f'"{aim.name}" = {number:g}' for aim, (number, _) in stratum.found.items())
        medians = ", ".join(f"{median:.3g}" for _, median in stratum.found.values())
        lines += ["", "[[measure.calibration]]", f"on = {{ {on} }}"]
        lines += [f"set = {{ {numbers} }}", f"# medians of {stratum.networks} networks: {medians}"]
        lines += [f"# {aim.name}: none, {reason}" for aim, reason in stratum.missing.items()]
    return "\n".join(lines).strip("\n")


def _toml(value: object) -> str:
    """A value of an axis in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
