"""The grids of a suite: axes, ranges, conditions and samples, and the configurations that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from gapbench.suites import hyperparameters as hp
from gapbench.suites.columns import taken
from gapbench.suites.configuration import Configuration, options_of_task
from gapbench.suites.file import SPECIAL_AXES, SPECIAL_RULES, GridTable, RangeTable, When
from gapbench.suites.sampling import Axes, Range, SampleRule, points_of
from gapbench_base.complaints import Complaints
from gapbench_base.errors import GapbenchError, ModelError
from gapbench_base.rules import is_number, shown
from gapbench_base.suggestions import near_and_others
from gapbench_models import describe
from gapbench_tasks import TaskError, canonical_option, task_entry, task_options


def followers_of(grids: Sequence[GridTable]) -> dict[str, set[str]]:
    """Hyper-parameters that no grid lists with several values, and what may bring their values with it.

    Returns:
        For each the axes of the conditions that set it, and those that may leave it without effect.
    """
    listed = {
        name
        for grid in grids
        for name, values in grid.axes.items()
        if isinstance(values, dict) or (isinstance(values, list) and len(values) > 1)
    }
    found = {name: set(parents) for name, parents in hp.WITHOUT_EFFECT.items()}
    for grid in grids:
        for when in grid.when:
            for name in when.set:
                if name in hp.NAMES and name not in hp.OF_THE_DATA and isinstance(when.on, dict):
                    found.setdefault(name, set()).update(when.on)
    return {name: parents for name, parents in found.items() if name not in listed}


def expand(
    grid: GridTable, common: Mapping[str, object], where: str, careful: bool = False
) -> Iterator[Configuration]:
    """The configurations of a grid.

    Args:
        grid: as the file has it.
        common: training of all grids of the suite.
        where: names the grid in messages.
        careful: refuse samples of which some points give one network, so that there are fewer than it says.

    Yields:
        Configurations, in the order of the axes.

    Raises:
        GapbenchError: saying what is wrong and where.
    """
    if not grid.arm.isprintable():
        raise GapbenchError(f"{where}: arm = {grid.arm!r} must be a text of printable characters.")
    if grid.arm:
        where += f" ({grid.arm})"
    options, axes = _checked_parts(grid, where)
    data_seed = grid.task_options.get("data_seed", 0)
    base = data_seed if isinstance(data_seed, int) else 0  # what it is instead is said where it is read
    how = SampleRule(grid.sample, grid.core, grid.seeds, grid.replicate, base)
    if how.replicate == "data_seed" and ("data_seed" not in options or "data_seed" in axes):
        raise GapbenchError(
            f'{where}: replicate = "data_seed" is for a task that has a data_seed which is no axis already.'
        )

    def allowed(point: Mapping[str, object]) -> bool:
        return not any(when.skip and _holds(when, point) for when in grid.when)

    conditional = {name for when in grid.when if when.skip for name in when.on}
    points = points_of(grid.task, axes, how, allowed, conditional, where)
    if not points:
        raise GapbenchError(f"{where}: its conditions skip every point.")
    known: dict[Configuration, Mapping[str, object]] = {}
    parts = _Parts(grid, common, options, where)
    for point in points:
        configuration = parts.configuration(_resolved(point, grid, axes))
        if careful and grid.sample is not None and configuration in known:
            raise GapbenchError(_coincide(known[configuration], point, grid.sample, where))
        known[configuration] = point
        yield configuration


def _checked_parts(
    grid: GridTable, where: str
) -> tuple[dict[str, object], dict[str, Sequence[object] | Range]]:
    """The options of the task with their defaults, and the axes; all that is wrong is said at once."""
    complaints = Complaints()
    options: dict[str, object] = {}
    axes: dict[str, Sequence[object] | Range] = {}
    with complaints.collecting():
        options = _checked_names(grid, where)
    for name, values in grid.axes.items():
        with complaints.collecting():
            axes[name] = _axis(name, values, f"{where}: the axis {name}")
            _check_values(name, axes[name], f"{where}, axes")
    for name, value in grid.training.items():
        with complaints.collecting():
            hp.checked({name: value}, f"{where}, training")
    complaints.refuse()
    for number, when in enumerate(grid.when, start=1):
        with complaints.collecting():
            _check_when(when, grid, axes, options, f"{where}, when {number}")
    complaints.refuse()
    return options, axes


def _coincide(one: Mapping[str, object], other: Mapping[str, object], sample: int, where: str) -> str:
    """Why a sample would have fewer networks than it says, and what to do."""
    differ = [name for name in one if one[name] != other.get(name)]
    same = ", ".join(
        f"{name} = {one[name]!r}" for name in one if name in hp.CHOICES and one[name] == other.get(name)
    )
    values = " or ".join(str([point[name] for name in differ]) for point in (one, other))
    return (
        f"{where}: sample = {sample} would have fewer networks than that: of {', '.join(differ)} the values "
        f"{values} give one network{' with ' + same if same else ''}. Leave one out with [[grid.when]] and skip = "
        "true, or vary something that has an effect there."
    )


def _checked_names(grid: GridTable, where: str) -> dict[str, object]:
    """Whether task, axes and options exist, each once; the task's options and their defaults."""
    task, axes, fixed_options = grid.task, grid.axes, grid.task_options
    try:
        task_entry(task)
    except TaskError as error:
        raise GapbenchError(f"{where}, task: {error}") from None
    options = options_of_task(task)
    _refuse_shared_names(options, grid, where)
    for axis in axes:
        if axis not in (*SPECIAL_AXES, *hp.NAMES, *options):
            hint = near_and_others(axis, [*SPECIAL_AXES, *hp.NAMES, *options])
            raise GapbenchError(f"{where}: there is no axis {axis!r}.{hint}")
    for required in SPECIAL_AXES:
        if required not in axes:
            raise GapbenchError(f"{where}: the axis {required} is missing.")
    for option in fixed_options:
        if option not in options:
            hint = near_and_others(option, options)
            raise GapbenchError(f"{where}: the task {task} has no option {option!r}.{hint}")
    for both in set(axes) & (set(fixed_options) | set(grid.training)):
        raise GapbenchError(f"{where}: {both} is given both as an axis and as a fixed value.")
    return options


def _axis(name: str, values: object, where: str) -> Sequence[object] | Range:
    """The values of an axis; `where` names it in messages."""
    if isinstance(values, dict):
        return _range(name, values, where)
    if isinstance(values, list) and any(value in values[:place] for place, value in enumerate(values)):
        raise GapbenchError(f"{where} lists a value twice: {values}.")
    if not isinstance(values, list) or not values:
        raise GapbenchError(
            f"{where} must be a list of at least one value, or a table {{ range = [low, high] }}."
        )
    return values


def _check_values(name: str, values: Sequence[object] | Range, where: str) -> None:
    """Refuse values that an axis cannot have, each for itself; those of tasks are looked at with their task."""
    if isinstance(values, Range):
        values = (values.low, values.high)
    if name in hp.RULES:
        for value in values:
            hp.checked({name: value}, where)
    for value in values if name in SPECIAL_RULES else ():
        try:
            complaint = (
                ""
                if name == "family" and describe(str(value))
                else SPECIAL_RULES[name].complaint(name, value)
            )
        except ModelError as error:
            raise GapbenchError(f"{where}, family: {error}") from None
        if complaint:
            raise GapbenchError(f"{where}: {complaint}")


def _range(name: str, values: Mapping[str, object], where: str) -> Range:
    unknown = values.keys() - {known.name for known in fields(RangeTable)}
    if unknown or "range" not in values:
        raise GapbenchError(f'{where} must be {{ range = [low, high] }}, perhaps with scale = "linear".')
    if name in ("family", "seed", *hp.WHOLE, *hp.CHOICES):
        raise GapbenchError(f"{where} has no values between its own: list them.")
    if name != "width" and (name not in hp.NAMES or name in hp.OF_THE_DATA):
        raise GapbenchError(
            f"{where} changes the data, and networks are compared where that is the same: list its values."
        )
    bounds, scale = values["range"], values.get("scale", "log")
    numbers = isinstance(bounds, list) and len(bounds) == 2 and all(is_number(bound) for bound in bounds)
    if not numbers or not bounds[0] < bounds[1]:  # type: ignore[index]
        raise GapbenchError(f"{where}: range = {shown(bounds)} must be two numbers, the smaller one first.")
    if scale not in ("log", "linear"):
        raise GapbenchError(f"{where}: scale = {shown(scale)} is none of log, linear.")
    low, high = (float(bound) for bound in bounds)  # type: ignore[attr-defined]
    if scale == "log" and low <= 0:
        raise GapbenchError(f'{where}: a range from {low:g} has no logarithm; give scale = "linear" with it.')
    return Range(low, high, scale == "log")


def _check_when(when: When, grid: GridTable, axes: Axes, options: Mapping[str, object], where: str) -> None:
    """Whether a condition speaks of axes and values that there are."""
    if not when.on:
        raise GapbenchError(f"{where}: on = {{ AXIS = VALUE }} is empty.")
    if bool(when.set) == when.skip:
        raise GapbenchError(f"{where}: either set = {{ NAME = VALUE }} or skip = true is needed.")
    for name, wanted in when.on.items():
        own = axes.get(name)
        if own is None or name == "seed" or isinstance(own, Range):
            hint = near_and_others(name, axes)
            raise GapbenchError(f"{where}: {name!r} is no axis with listed values here.{hint}")
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if value not in own:
                listed = ", ".join(map(repr, own))
                raise GapbenchError(f"{where}: {name} = {value!r} is none of the axis' values: {listed}.")
    for name, value in when.set.items():
        if name == "data_seed" and grid.replicate == "data_seed":
            raise GapbenchError(f'{where}: data_seed cannot be set where replicate = "data_seed" draws it.')
        if name in SPECIAL_AXES or name not in (*hp.NAMES, *options):
            hint = near_and_others(name, [*hp.NAMES, *options])
            raise GapbenchError(f"{where}: {name!r} cannot be set.{hint}")
        own = axes.get(name)
        if isinstance(own, Range):
            _range(name, value if isinstance(value, dict) else {}, f"{where}: {name}")
        elif own is not None and not (isinstance(value, list) and len(value) == len(own)):
            raise GapbenchError(
                f"{where}: {name} is an axis: give a list of {len(own)} values, one for each of its own."
            )
        elif name in hp.RULES:
            _check_values(name, [value] if own is None else value, f"{where}, set")


def _holds(when: When, point: Mapping[str, object]) -> bool:
    return all(
        point[name] in (wanted if isinstance(wanted, list) else [wanted]) for name, wanted in when.on.items()
    )


def _resolved(point: Mapping[str, object], grid: GridTable, axes: Axes) -> dict[str, object]:
    """A point with the values of its ranges, and with what its conditions set."""
    values = dict(point)
    ranges = {name: own for name, own in axes.items() if isinstance(own, Range)}
    for when in grid.when:
        if not _holds(when, point):
            continue
        for name, value in when.set.items():
            own = axes.get(name)
            if isinstance(own, Range):
                ranges[name] = _range(name, value, "")
            else:
                values[name] = value if own is None else value[list(own).index(point[name])]
    for name, own in ranges.items():
        share = point[name]
        assert isinstance(share, float)
        values[name] = own.at(share)
    return values


class _Parts:
    """Makes the configurations of a grid.

    Most points of a large one share their training and their task's options, which are looked at once: by their
    text, as equal numbers may have two (0.0 and -0.0).
    """

    def __init__(
        self, grid: GridTable, common: Mapping[str, object], options: dict[str, object], where: str
    ) -> None:
        self._grid, self._options, self._where = grid, options, where
        self._training = {**common, **grid.training}
        self._trainings: dict[str, hp.Hyperparameters] = {}
        self._tasks: dict[str, tuple[tuple[str, object], ...]] = {}

    def configuration(self, values: dict[str, object]) -> Configuration:
        """That of a point with these values of the axes."""
        family, width, seed = (values.pop(name) for name in SPECIAL_AXES)
        chosen = {k: v for k, v in values.items() if k in hp.NAMES}
        own = {k: v for k, v in values.items() if k in self._options and k not in hp.NAMES}
        return Configuration(
            task=self._grid.task,
            task_options=self._task_options(own),
            family=str(family),
            width=float(width),  # type: ignore[arg-type]
            training=self._hyperparameters(chosen, str(family)),
            seed=int(seed),  # type: ignore[call-overload]
        )

    def _hyperparameters(self, chosen: dict[str, object], family: str) -> hp.Hyperparameters:
        text = repr((family, chosen))
        if text not in self._trainings:
            values = {**self._training, **chosen}
            self._trainings[text] = hp.hyperparameters(values, self._where, family)
        return self._trainings[text]

    def _task_options(self, own: dict[str, object]) -> tuple[tuple[str, object], ...]:
        text = repr(own)
        if text not in self._tasks:
            values = {**self._grid.task_options, **own}
            self._tasks[text] = _task_options(self._grid.task, values, self._options, self._where)
        return self._tasks[text]


def _refuse_shared_names(options: Mapping[str, object], grid: GridTable, where: str) -> None:
    """An option of a task that a grid uses must not be called like something else that is kept of a network."""
    shared = set(taken(options)) | set(options) & {"width", *hp.NAMES}
    if "data_seed" in task_options(grid.task):
        shared.add("data_seed")
    given = grid.task_options
    for name in [*given, *grid.axes]:
        own = name in SPECIAL_AXES or name in hp.NAMES
        if name in shared and (name in given or not own):
            raise GapbenchError(
                f"{where}: the option {name!r} of the task {grid.task} cannot be given in a suite: {name!r} is "
                + ("a hyper-parameter of every network" if own else "a column of population.csv")
                + " already. Give the option another name in the task."
            )


def _task_options(
    task: str, values: dict[str, object], defaults: dict[str, object], where: str
) -> tuple[tuple[str, object], ...]:
    """Options in canonical types without those at their default, so that equal tasks have equal keys."""
    chosen = {}
    for name, value in values.items():
        try:
            canonical = canonical_option(task, "seed" if name == "data_seed" else name, value, called=name)
        except TaskError as error:
            raise GapbenchError(f"{where}: {error}") from None
        if canonical != defaults[name]:
            chosen[name] = canonical
    return tuple(sorted(chosen.items()))
