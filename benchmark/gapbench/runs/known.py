"""What a run keeps of the tasks, families, proxies and estimators that it was made with.

Names in a suite stand for code, some of it of other packages. What reading a run needs of that code (defaults of a
task's options, what a proxy's value means, which axes vary) is written down when the run is made, so that the run
opens where a package is no longer installed. Training and measuring need the code itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gapbench.suites.configuration import options_of_task
from gapbench.suites.requests import ProxyRequest, request_of
from gapbench.suites.suite import Suite, parse_suite, suite_of_file
from gapbench_base import plugins
from gapbench_base.errors import GapbenchError
from gapbench_base.json_values import plain
from gapbench_base.keys import text_key
from gapbench_base.validation import validated

if TYPE_CHECKING:
    from gapbench.runs.store import Store

META = "known"
"""Its name in the run's database."""
ESTIMATORS = "gapbench.estimators"


@dataclass(frozen=True)
class KnownTask:
    """Defaults of a task's options under the names of a suite, and what its entry says of its classes."""

    options: dict[str, Any]
    classes: int | str | None = None
    package: str = ""


@dataclass(frozen=True)
class KnownProxy:
    """What a board says of a proxy."""

    name: str
    version: int
    higher_means: str
    summary: str = ""
    reference: str | None = None
    package: str = ""


@dataclass(frozen=True)
class Known:
    """What a run keeps. `package` of each is the installed one that brought it, empty for gapbench itself.

    `suite` is the key of the suite's text, whose `axes` and `problem` these are. `families` and `estimators` (by
    entry point) have their package alone.
    """

    suite: str = ""
    axes: tuple[str, ...] = ()
    problem: tuple[str, ...] = ()
    tasks: dict[str, KnownTask] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    proxies: dict[str, KnownProxy] = field(default_factory=dict)
    estimators: dict[str, str] = field(default_factory=dict)

    def task_options(self, task: str) -> dict[str, Any]:
        """Defaults of a task's options, as the run was made; of what the run does not know as they are now."""
        known = self.tasks.get(task)
        return dict(known.options) if known is not None else options_of_task(task)

    def classes(self, task: str, options: Mapping[str, Any]) -> int | None:
        """How many classes a task has under options of a suite; None where its entry does not say."""
        known = self.tasks.get(task)
        if known is None:
            from gapbench_tasks.registry import number_of_classes

            return number_of_classes(task, {k: v for k, v in options.items() if k != "data_seed"})
        said = known.classes
        if isinstance(said, str):
            said = {**known.options, **options}.get(said)
        return int(said) if isinstance(said, int | float) else None

    def proxy(self, name: str) -> KnownProxy:
        """What a board says of a proxy."""
        return self.proxies[name] if name in self.proxies else _proxy(name)

    def missing(self, proxies: Sequence[str] = ()) -> list[str]:
        """Tasks, families and the named proxies that are not installed, in words with their package."""
        from gapbench.proxies.registry import list_proxies
        from gapbench_models import list_models
        from gapbench_tasks import list_tasks

        parts = [
            ("task", {name: task.package for name, task in self.tasks.items()}, list_tasks()),
            ("family", self.families, list_models()),
            ("proxy", {n: self.proxies[n].package for n in proxies if n in self.proxies}, list_proxies()),
        ]
        return [
            f"the {kind} {name}" + (f" of {package}" if package else "")
            for kind, packages, installed in parts
            for name, package in packages.items()
            if name not in installed
        ]

    def estimators_missing(self) -> list[str]:
        """Packages whose estimators scored the run and are not installed."""
        installed = {point.name for point in plugins.found(ESTIMATORS)}
        return sorted({package for name, package in self.estimators.items() if name not in installed})


def kept(suite: Suite, requests: Sequence[ProxyRequest], before: Known | None = None) -> dict[str, object]:
    """What a run of a suite keeps, as plain JSON; names that only `before` has stay."""
    from gapbench_models import describe
    from gapbench_tasks import task_entry

    earlier = before or Known()
    tasks = sorted({c.task for c in suite.configurations})
    families = sorted({c.family for c in suite.configurations})
    known = Known(
        suite=text_key(suite.text),
        axes=suite.axes,
        problem=suite.problem,
        tasks=earlier.tasks
        | {
            name: KnownTask(
                options_of_task(name),
                task_entry(name).classes,
                plugins.package_of("gapbench.tasks", task_entry(name).loader),
            )
            for name in tasks
        },
        families=earlier.families
        | {name: plugins.package_of("gapbench.models", describe(name).builder) for name in families},
        proxies=earlier.proxies | {request.proxy: _proxy(request.proxy) for request in requests},
        estimators=earlier.estimators
        | {point.name: plugins.distribution_of(point) for point in plugins.found(ESTIMATORS)},
    )
    found = plain(asdict(known))
    assert isinstance(found, dict)
    return found


def of_proxies(names: Sequence[str]) -> dict[str, object]:
    """What a run of networks trained elsewhere keeps of its proxies, as plain JSON."""
    found = plain(asdict(Known(proxies={name: _proxy(name) for name in names})))
    assert isinstance(found, dict)
    return found


def _proxy(name: str) -> KnownProxy:
    from gapbench.proxies.registry import proxy_entry

    entry = proxy_entry(name)
    return KnownProxy(
        name=entry.name,
        version=entry.version,
        higher_means=entry.higher_means,
        summary=entry.summary,
        reference=entry.reference,
        package=plugins.package_of("gapbench.proxies", entry.function.__module__),
    )


def joined(runs: Sequence[Known]) -> Known:
    """What several runs of one suite keep; of what two keep, that of the first."""
    first, *others = runs
    for other in others:
        first = replace(
            first,
            tasks=other.tasks | first.tasks,
            families=other.families | first.families,
            proxies=other.proxies | first.proxies,
            estimators=other.estimators | first.estimators,
        )
    return first


def known_in(store: Store) -> Known:
    """What a run keeps; nothing in runs of before there was this."""
    content = store.meta(META)
    return Known() if content is None else validated(content, Known, f"The run database {store.path}, known")


def requests_in(store: Store) -> tuple[ProxyRequest, ...]:
    """All proxies that were asked for in a run. Raises `GapbenchError` where the list is damaged."""
    try:
        return tuple(request_of(stored) for stored in store.meta("proxies") or ())
    except (TypeError, ValueError) as error:
        raise GapbenchError(
            f"{store.path.parent} has a run.sqlite whose list of proxies is damaged: {error!r}."
        ) from error


def stored_suite(text: str, known: Known, requests: Sequence[ProxyRequest], where: str) -> Suite:
    """The suite of a run for reading it.

    Args:
        text: of its file.
        known: what the run keeps.
        requests: the proxies of the run.
        where: names it in messages.

    Returns:
        The suite; without configurations where what it names is no longer installed.

    Raises:
        GapbenchError: for a text that is no suite.
    """
    try:
        return parse_suite(text, where)
    except GapbenchError:
        if known.suite != text_key(text):
            raise
        return suite_of_file(text, where, known.axes, known.problem, requests)


def suite_to_work_on(
    text: str, known: Known, requests: Sequence[ProxyRequest], where: str, measures: bool = True
) -> Suite:
    """The suite of a run for training, or with `measures` for measuring its proxies.

    Returns:
        The suite; where only its proxies are not installed and are not to be measured, with those of the run.

    Raises:
        GapbenchError: naming what is not installed.
    """
    names = list(dict.fromkeys(request.proxy for request in requests))
    if missing := known.missing(names if measures else ()):
        raise GapbenchError(
            f"{where} can be read, but not trained or measured on: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed."
        )
    return parse_suite(text, where, requests=requests if known.missing(names) else None)
