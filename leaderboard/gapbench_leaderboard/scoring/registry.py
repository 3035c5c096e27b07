"""Estimators: what a score is called, what it means, who makes its rows, and where it is shown.

An estimator is one module of `gapbench_leaderboard.scoring.estimators`: a function that makes rows, decorated with
`for_each_proxy` or `for_all_proxies`, which take the `Estimator`s that the rows bear. Modules are found by scanning
that package, those of other installed packages by their entry points in `PLUGINS`. Terminal, Markdown, page, mirror
and commands read this registry; none of them names a column itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gapbench_base import plugins
from gapbench_base.errors import TableError
from gapbench_base.scanning import modules_of
from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.rows import Rows

Place = Literal["terminal", "markdown", "digits", "page", "mirror", "ranking", "score", "submit"]
TERMINAL: Place = "terminal"
MARKDOWN: Place = "markdown"
DIGITS: Place = "digits"
"""Markdown's table in full precision."""
PAGE: Place = "page"
MIRROR: Place = "mirror"
"""The summary of a remote run."""
RANKING: Place = "ranking"
"""The table `board.ranked.ranked`, which is published as well."""
SCORE: Place = "score"
"""`gapbench score`."""
SUBMIT: Place = "submit"
"""`gapbench submit`, beside the headline."""
BOARDS: tuple[Place, ...] = (TERMINAL, MARKDOWN, DIGITS, PAGE, MIRROR, RANKING)

ESTIMATORS = "gapbench_leaderboard.scoring.estimators"
PLUGINS = "gapbench.estimators"
"""The entry points of modules that register estimators."""
LETTERS_TAKEN = ("p", "n", "a")
NAMES_TAKEN = (
    *("partly covered", "no symmetry found", "not converged"),
    *("verified", "other population", "claimed", "not contradicted", "contradicted", "refuted", "undecided"),
)
"""What marks of values and of entries are called, in `board`: no estimator's mark may be."""
LONGEST_HEADING = 10
"""Characters over a column of the terminal."""
HEADLINE, RANK = "tau", "rank"
"""The estimator by which proxies are ranked, and their rank: the columns that every ranking begins with."""
NETWORKS_AT = 90
"""Columns of a larger `order` stand behind the number of networks."""


@dataclass(frozen=True)
class Mark:
    """A sign beside a proxy whose value of the estimator passes a threshold.

    Args:
        letter: on the terminal and in Markdown.
        name: on the page.
        meaning: of the letter, a phrase.
        about: of the name, a sentence.
        at_least: marked from this |value| on.
        below: marked below this value.
        of_baselines: whether baselines bear it too.
        score: what `gapbench score` says; nothing if empty.
        submit: what `gapbench submit` says, a sentence; nothing if empty.
        order: among the marks.
        order_in: another order in some place.
    """

    letter: str
    name: str
    meaning: str
    about: str
    at_least: float | None = None
    below: float | None = None
    of_baselines: bool = True
    score: str = ""
    submit: str = ""
    order: int = 55
    order_in: Mapping[Place, int] = field(default_factory=dict)

    def applies(self, value: float, baseline: bool = False) -> bool:
        """Whether a proxy with this value is marked; no undefined (NaN) value is."""
        if baseline and not self.of_baselines:
            return False
        reached = self.at_least is not None and abs(value) >= self.at_least
        return reached or (self.below is not None and value < self.below)

    def place(self, place: Place) -> int:
        """Its order in a place."""
        return self.order_in.get(place, self.order)


@dataclass(frozen=True)
class HeatMap:
    """A map of proxies against axes, tasks or families on the page, coloured by the estimator.

    Args:
        key: of the choice.
        title: of the choice.
        about: what a cell is, a sentence or two.
        columns: what has a column each; for `axis` the rows `<estimator>:<axis>`.
        single_tasks: such rows exist for single tasks only, over all families.
    """

    key: str
    title: str
    about: str
    columns: Literal["axis", "task", "family"]
    single_tasks: bool = False


@dataclass(frozen=True)
class Estimator:
    """A number that scores have of each proxy, or of the population.

    Args:
        name: in the column `estimator` of the scores.
        meaning: what it is, in one or more sentences; the page's explanation of its column.
        interval: of what kind `low` and `high` are: a 95 % interval, a range of resamples without a claim of
            coverage, or none.
        heading: over its column.
        shown_in: the places that show it.
        headings: other headings in some of them.
        note: what the terminal says of its heading, a phrase.
        notes: other phrases in some of the places.
        column: its name in the table of a ranking; `name` if empty.
        order: among the columns of every place.
        form: how people read it: a coefficient (three digits), a quantity of any size, or a whole number.
        whole: one number for all networks, in whatever scope it is shown.
        optional: its column is left out where no proxy has one.
        ascending: smaller values come first when a ranking is sorted by it.
        each: what has a row of its own, `<name>:<axis>`, `<name>:<proxy>` or `<name>:<reason>`.
        counted: the number of its pairs has a row `pairs:<name>`.
        heat_maps: maps of it on the page.
        mark: of proxies whose value passes a threshold.
    """

    name: str
    meaning: str
    interval: Literal["confidence", "range"] | None = None
    heading: str = ""
    shown_in: tuple[Place, ...] = ()
    headings: Mapping[Place, str] = field(default_factory=dict)
    note: str = ""
    notes: Mapping[Place, str] = field(default_factory=dict)
    column: str = ""
    order: int = 85
    form: Literal["coefficient", "quantity", "count"] = "coefficient"
    whole: bool = False
    optional: bool = False
    ascending: bool = False
    each: Literal["", "axis", "proxy", "reason"] = ""
    counted: bool = False
    heat_maps: tuple[HeatMap, ...] = ()
    mark: Mark | None = None

    def __post_init__(self) -> None:
        heading = self.heading_in(TERMINAL)
        if TERMINAL in self.shown_in and len(heading) > LONGEST_HEADING:
            raise TableError(
                f"The estimator {self.name}: its heading {heading!r} has more than {LONGEST_HEADING} characters; "
                'give a shorter one for the terminal: headings={"terminal": ...}.'
            )

    @property
    def key(self) -> str:
        """Name of its column in the table of a ranking."""
        return self.column or self.name

    def heading_in(self, place: Place) -> str:
        """What stands over its column in a place."""
        return self.headings.get(place, self.heading or self.name)

    def note_in(self, place: Place) -> str:
        """What a place says of its heading; nothing if empty."""
        return self.notes.get(place, self.note)


ForEachProxy = Callable[[Rows, ScoringData, str], None]
"""Adds the rows of one proxy; called in threads."""
ForAllProxies = Callable[[Rows, ScoringData], None]
"""Adds rows that need all proxies, or none."""


@dataclass(frozen=True)
class RowMaker:
    """A function that makes rows, and the estimators that they bear."""

    estimators: tuple[Estimator, ...]
    position: int
    """Of its rows among those of other functions."""
    module: str
    of_proxy: ForEachProxy | None = None
    of_all: ForAllProxies | None = None
    plugin: bool = False
    """Whether another installed package brings it."""


_makers: list[RowMaker] = []


def for_each_proxy(*estimators: Estimator, position: int = 1000) -> Callable[[ForEachProxy], ForEachProxy]:
    """Register a function that makes the rows of one proxy."""

    def register(function: ForEachProxy) -> ForEachProxy:
        _makers.append(RowMaker(estimators, position, function.__module__, of_proxy=function))
        return function

    return register


def for_all_proxies(*estimators: Estimator, position: int = 1000) -> Callable[[ForAllProxies], ForAllProxies]:
    """Register a function that makes rows once, after those of all proxies."""

    def register(function: ForAllProxies) -> ForAllProxies:
        _makers.append(RowMaker(estimators, position, function.__module__, of_all=function))
        return function

    return register


def row_makers() -> tuple[RowMaker, ...]:
    """All that the modules of `scoring.estimators` and of plug-ins register, in the order of their rows.

    Returns:
        Each function with the estimators that its rows bear.

    Raises:
        TableError: if two estimators share a name or a column, or two marks a letter or a name, or a module has no
            estimator. Of plug-ins such a one is left out, see `broken_plugins`.
    """
    return _known()[0]


def broken_plugins() -> list[tuple[str, str]]:
    """(name, reason) of installed plug-ins for estimators that cannot be used."""
    return list(_known()[1])


@functools.cache
def _known() -> tuple[tuple[RowMaker, ...], tuple[tuple[str, str], ...]]:
    for module in modules_of(ESTIMATORS):
        if not any(maker.module == module.__name__ for maker in _makers):
            raise TableError(f"{module.__name__} has no estimator: decorate a function with for_each_proxy.")
    points = plugins.found(PLUGINS)
    packages = {point.module.partition(".")[0] for point in points}
    own = [maker for maker in _makers if maker.module.partition(".")[0] not in packages]
    if clash := _clash(own):
        raise TableError(f"Two estimators or marks are called {clash!r}.")
    _, failed = plugins.load(PLUGINS)
    useless = {point.module for point in points if point.name in dict(failed)}
    broken = list(failed)
    made = {maker.module.partition(".")[0] for maker in _makers}
    for point in points:
        if point.module not in useless and point.module.partition(".")[0] not in made:
            broken.append((point.name, f"{plugins.source_of(point)} has no estimator: use for_each_proxy"))
    for maker in [maker for maker in _makers if maker not in own and maker.module not in useless]:
        clash = _clash([*own, maker], LETTERS_TAKEN, NAMES_TAKEN)
        if clash:
            broken.append((maker.estimators[0].name, f"{maker.module}: {clash!r} is the name of another one"))
        else:
            own.append(replace(maker, plugin=True))
    return tuple(sorted(own, key=lambda maker: (maker.position, maker.module))), tuple(broken)


def _clash(makers: Sequence[RowMaker], letters: Sequence[str] = (), marks: Sequence[str] = ()) -> str:
    """A name, column, letter or mark that two estimators have, or one of `letters` and `marks`; empty if none."""
    known = [estimator for maker in makers for estimator in maker.estimators]
    bearing = [estimator.mark for estimator in known if estimator.mark is not None]
    for names in (
        [estimator.name for estimator in known],
        [estimator.key for estimator in known],
        [*letters, *(mark.letter for mark in bearing)],
        [*marks, *(mark.name for mark in bearing)],
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            return twice[0]
    return ""


def estimators(place: Place | None = None) -> tuple[Estimator, ...]:
    """All estimators, or those that a place shows, in the order of their columns."""
    known = [estimator for maker in row_makers() for estimator in maker.estimators]
    shown = [estimator for estimator in known if place is None or place in estimator.shown_in]
    return tuple(sorted(shown, key=lambda estimator: estimator.order))


def columns(place: Place) -> tuple[Estimator, ...]:
    """The columns of a place beside rank and headline, which come first in every ranking."""
    return tuple(shown for shown in estimators(place) if shown.name not in (RANK, HEADLINE))


def marked(place: Place) -> tuple[tuple[Estimator, Mark], ...]:
    """The estimators that have a mark, with it, in the order of the marks in a place."""
    found = [(estimator, estimator.mark) for estimator in estimators() if estimator.mark is not None]
    return tuple(sorted(found, key=lambda pair: pair[1].place(place)))
