"""What a suite asks to be measured: proxies with options, under the labels that they have in every table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gapbench.proxies.registry import ProxyEntry, list_proxies, proxy_entry
from gapbench.suites.calibration import Calibrated, names_of, number_for
from gapbench.suites.configuration import Configuration
from gapbench.suites.file import LABELS, SCORER_ROWS
from gapbench_base.complaints import Complaints
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others


@dataclass(frozen=True)
class ProxyRequest:
    """One row of measurements: a proxy with options, under the label it has in every table.

    `named`: options with the names of `calibrated` whose numbers they have. In `options` stand the names or, of a
    request for one network (`on`), the numbers.
    """

    proxy: str
    options: tuple[tuple[str, object], ...] = ()
    label: str = ""
    named: tuple[tuple[str, str], ...] = ()
    calibrated: tuple[Calibrated, ...] = ()

    def on(self, configuration: Configuration) -> ProxyRequest:
        """The request for one network: with numbers in the place of their names."""
        if not self.calibrated:
            return self
        numbers = {key: number_for(name, self.calibrated, configuration) for key, name in self.named}
        options = tuple((key, numbers.get(key, value)) for key, value in self.options)
        return replace(self, options=options, calibrated=())

    def shown(self) -> dict[str, object]:
        """The options for people: of a name between which numbers it is."""
        shown = dict(self.options)
        for key, name in self.named:
            own = [number for entry in self.calibrated for other, number in entry.numbers if other == name]
            shown[key] = f"{name} ({min(own):g} to {max(own):g} by problem and family)"
        return shown


def stored_request(request: ProxyRequest) -> list[Any]:
    """The request as the database of a run keeps it."""
    kept: list[Any] = [request.proxy, [list(pair) for pair in request.options], request.label]
    numbers = [
        [[[name, list(wanted)] for name, wanted in entry.on], [list(pair) for pair in entry.numbers]]
        for entry in request.calibrated
    ]
    return [*kept, [list(pair) for pair in request.named], numbers] if numbers else kept


def request_of(stored: Sequence[Any]) -> ProxyRequest:
    """The request that was kept; raises `TypeError` or `ValueError` where it is damaged."""
    name, options, label, *calibrated = stored
    named, numbers = calibrated or ((), ())
    entries = tuple(
        Calibrated(
            tuple((str(key), tuple(wanted)) for key, wanted in on),
            tuple((str(key), float(value)) for key, value in values),
        )
        for on, values in numbers
    )
    names = tuple((str(key), str(value)) for key, value in named)
    return ProxyRequest(name, tuple((key, value) for key, value in options), label, names, entries)


def proxy_requests(
    entries: Sequence[str | Mapping[str, object]], where: str, calibrated: tuple[Calibrated, ...] = ()
) -> tuple[ProxyRequest, ...]:
    """Validate the list of proxies: names, or tables with `proxy`, options and perhaps a `label`.

    Without a label, a proxy that is listed once keeps its name; one listed several times gets the options
    in which the entries differ in brackets. The empty list means every proxy with its defaults. The value of an
    option may be a name of `calibrated`.

    Returns:
        The requests in their order, no label twice.

    Raises:
        GapbenchError: naming `where` for an unknown proxy or option, a value of another type, and a label that is
            taken.
    """
    parsed: list[tuple[str, dict[str, object], str]] = []
    complaints, names = Complaints(), names_of(calibrated)
    for entry in entries or list_proxies():
        with complaints.collecting():
            parsed.append(_parsed(entry, where, names))
    complaints.refuse()
    requests = []
    for name, options, label in parsed:
        same = [other for other_name, other, _ in parsed if other_name == name]
        differing = [k for k in options if len({repr(o.get(k)) for o in same}) > 1]
        brackets = ",".join(f"{k}={options[k]}" for k in sorted(differing))
        shown = label or (f"{name}[{brackets}]" if brackets else name)
        named = tuple((k, str(v)) for k, v in sorted(options.items()) if _is_name(name, k, v, names))
        used = calibrated if named else ()
        requests.append(ProxyRequest(name, tuple(sorted(options.items())), shown, named, used))
    _refuse_labels(where, [label for _, _, label in parsed if label])
    labels = [request.label for request in requests]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise GapbenchError(f"{where}: listed more than once: {', '.join(twice)}.")
    return tuple(requests)


def refuse_gaps(
    requests: Iterable[ProxyRequest], configurations: Sequence[Configuration], where: str
) -> None:
    """Raise `GapbenchError` where a proxy uses a name that has no number for some network."""
    for request in requests:
        for configuration in configurations if request.named else ():
            try:
                request.on(configuration)
            except GapbenchError as error:
                raise GapbenchError(f"{where}: {request.proxy}: {error}") from None


def _parsed(
    entry: str | Mapping[str, object], where: str, names: Sequence[str]
) -> tuple[str, dict[str, object], str]:
    """Name, options and label of an entry of the list; `names` have numbers by network."""
    table: dict[str, object] = {"proxy": entry} if isinstance(entry, str) else dict(entry)
    name, label = table.pop("proxy", None), table.pop("label", "")
    if not isinstance(name, str):
        raise GapbenchError(f"{where}: {entry!r} is no proxy: give a name or a table with proxy = name.")
    known = _entry(name, where).options
    for option in table:
        if option not in known:
            hint = near_and_others(option, known)
            raise GapbenchError(f"{where}: {name} has no option {option!r}.{hint}")
        if not _is_name(name, option, table[option], names):
            _option_type(f"{where}: {name}", option, table[option], known[option], names)
    return name, table, str(label)


def _is_name(proxy: str, option: str, value: object, names: Sequence[str]) -> bool:
    """Whether the value of an option is the name of a number, which no option that is a text can be."""
    return (
        isinstance(value, str) and value in names and not isinstance(proxy_entry(proxy).options[option], str)
    )


def _entry(name: str, where: str) -> ProxyEntry:
    try:
        return proxy_entry(name)
    except GapbenchError as error:
        raise GapbenchError(f"{where}: {error}") from None


def _refuse_labels(where: str, labels: Sequence[str]) -> None:
    """Labels that people choose must be names that a table can show, and not those of the scorer's own rows."""
    for label in labels:
        if not label.isprintable() or label != label.strip():
            raise GapbenchError(f"{where}: the label {label!r} must be {LABELS}.")
        if label in SCORER_ROWS:
            raise GapbenchError(f"{where}: every board has a row {label!r} of its own; choose another label.")


def _option_type(where: str, option: str, value: Any, default: object, names: Sequence[str]) -> None:
    """A proxy's option must be of the type of its default; one without default may be any number or text."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    fits = {
        bool: isinstance(value, bool),
        int: number and value == int(value),
        float: number,
        str: isinstance(value, str),
    }.get(type(default), number or isinstance(value, str))
    if not fits:
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        hint = near_and_others(value, names) if names and isinstance(value, str) else ""
        raise GapbenchError(
            f"{where}: {option} = {value!r} must be {kind.get(type(default), 'a number or a text')}"
            f"{' or the name of a calibration' if hint else ''}.{hint}"
        )
