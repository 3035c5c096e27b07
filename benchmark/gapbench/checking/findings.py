"""From measurements to the points of a report, each with what to change."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gapbench.checking.report import FAIL, INFORMATION, PASS, WARNING, Point
from gapbench.population.stored import Member, Population
from gapbench.proxies.results import Measurement
from gapbench.sandbox.fleet import same_value
from gapbench.sandbox.limits import LATE, Limits
from gapbench.sandbox.sandbox import Answer, Loaded
from gapbench_base.suggestions import did_you_mean

DREW = "it drew"
PURITY = ("it changed the", "it replaced", "it left", DREW)
Answers = dict[tuple[str, int], Answer]


@dataclass
class Evidence:
    """What the proxy did on the networks of the check, by name of network and seed.

    `first` holds the answers; `second` those with seed 0 under another clock, another global random state, other
    hash seeds and in the opposite order.
    """

    name: str
    population: Population
    ranked: tuple[Member, ...]
    first: Answers
    second: Answers
    violations: tuple[str, ...]
    limits: Limits
    ended: int
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    audits: Point | None = None

    def all_violations(self) -> list[str]:
        """Everything that was refused, once each."""
        found = dict.fromkeys(self.violations)
        for answer in [*self.first.values(), *self.second.values()]:
            found.update(dict.fromkeys(answer.violations))
        return list(found)

    def measurements(self) -> dict[str, Measurement]:
        """With seed 0, undisturbed, by network."""
        return {name: answer.measurement for (name, seed), answer in self.first.items() if seed == 0}

    def values(self) -> dict[str, float]:
        """Finite values among them."""
        return {name: m.value for name, m in self.measurements().items() if m.value is not None}

    def family(self, name: str) -> str:
        """A network's family."""
        return next(m.configuration.family for m in self.population.members if m.key == name)


def loads(loaded: Loaded, chosen: str = "") -> Point:
    """Whether the file could be imported, what it says of the `chosen` proxy, and whether its name is free."""
    from gapbench.proxies.registry import list_proxies
    from gapbench_leaderboard.scores import BASELINES

    if loaded.reason:
        said = f"\n{loaded.output}" if loaded.output else ""
        return Point("loads", FAIL, loaded.reason + said, _how_to_load(loaded.reason))
    names = ", ".join(str(entry.get("name")) for entry in loaded.proxies) or "no proxy"
    if chosen in {*list_proxies(), *BASELINES}:
        taken = f"the file registers {names}; {chosen} is the name of a proxy that is there already"
        return Point("loads", WARNING, taken, "give it another name, or submit it under one with --name")
    for entry in loaded.proxies:
        if entry.get("name") == chosen:
            means = entry.get("higher_means")
            gap = "larger" if means == "worse" else "smaller"
            said = f'larger values of {chosen} mean {gap} gaps (higher_means = "{means}")'
            return Point("loads", PASS, f"the file registers {names}; {said}")
    return Point("loads", PASS, f"the file registers {names}")


def _how_to_load(reason: str) -> str:
    if "GapbenchError" in reason:  # which says it itself
        return ""
    if "No module named" in reason:
        return "install it where gapbench is installed, or do without it"
    return "the file must be importable on its own" if "Error" in reason else ""


def isolation(violations: tuple[str, ...] | list[str]) -> Point:
    """Whether it kept to what it was given."""
    found = [what for what in violations if not what.startswith(PURITY)]
    if not found:
        return Point(
            "isolation", PASS, "no attempt to reach files, processes, the network or the interpreter"
        )
    return Point(
        "isolation",
        FAIL,
        "\n".join(found),
        "compute from the context alone; see RULES.md for what may be used",
    )


def judge(evidence: Evidence) -> list[Point]:
    """Every point that the measurements speak to."""
    points = [isolation(evidence.all_violations()), _purity(evidence)]
    if evidence.all_violations():
        return points  # what it computed meanwhile says nothing
    points += _values(evidence)
    if evidence.values():
        points += [_variation(evidence), _repeatability(evidence), _seeds(evidence)]
        points += [_families(evidence), _cost(evidence), _baselines(evidence)]
    return points


def _purity(evidence: Evidence) -> Point:
    found = dict.fromkeys(w for w in evidence.all_violations() if w.startswith(PURITY))
    for answer in [*evidence.first.values(), *evidence.second.values()]:
        if answer.measurement.status == "failed":
            parts = answer.measurement.reason.split("; ")
            found.update(dict.fromkeys(part for part in parts if part.startswith(PURITY)))
    if not found:
        return Point(
            "purity", PASS, "weights, buffers, flags, gradients, data and global random state are left alone"
        )
    return Point(
        "purity",
        FAIL,
        "\n".join(list(found)[:5]),
        _how_to_be_pure(list(found)),
    )


def _how_to_be_pure(found: Sequence[str]) -> str:
    """What to do instead, by what was done."""
    drawn = [what for what in found if what.startswith(DREW)]
    advice = []
    if len(drawn) < len(found):
        advice.append("work on copies (copy.deepcopy(context.model), tensor.clone())")
    if drawn:
        advice.append(
            "draw from context.generator: torch.randn(shape, generator=context.generator), for instance, where "
            "torch.randn_like has no generator"
        )
    return "; ".join(advice)


def _values(evidence: Evidence) -> list[Point]:
    found = evidence.measurements()
    failed = {
        name: m.reason
        for name, m in found.items()
        if m.status == "failed" and not m.reason.startswith(PURITY)
    }
    ok = len(evidence.values())
    if not failed and ok:
        return [Point("values", PASS, f"a finite number for {ok} of {len(found)} networks")]
    if not failed:
        reasons = sorted({m.reason for m in found.values() if m.status == "not_applicable"})[:3]
        if not reasons:
            return []  # the point on purity says why
        text = "no network has a value: not applicable: " + "; ".join(reasons)
        return [Point("values", FAIL, text, "it must be defined on some of the networks")]
    reasons = list(dict.fromkeys(failed.values()))
    untried = len(evidence.population.members) - len(found)
    others = f" (the other {untried} were not tried)" if untried and not ok else ""
    text = f"failed on {len(failed)} of {len(found)} networks{others}:\n" + "\n".join(reasons[:4])
    if ok:
        return [Point("values", WARNING, text, "see the point on families")]
    return [Point("values", FAIL, text, _how_to_value(reasons))]


def _how_to_value(reasons: Sequence[str]) -> str:
    """What to change where every network fails, by what is said."""
    from gapbench.proxies.context import Context

    for missing in re.findall(r"'Context' object has no attribute '(\w+)'", "\n".join(reasons)):
        names = [name for name in (*Context.__annotations__, *vars(Context)) if not name.startswith("_")]
        return f"context has no {missing!r}.{did_you_mean(missing, names)}"
    return (
        "return a finite float or a gapbench.Estimate; raise gapbench.NotApplicable where it is not defined"
    )


def _variation(evidence: Evidence) -> Point:
    values = evidence.values()
    ranked = [values[m.key] for m in evidence.ranked if m.key in values]
    compared = ranked if len(ranked) > 1 else list(values.values())
    distinct = len(set(compared))
    if distinct > 1:
        return Point("variation", PASS, f"{distinct} different values on {len(compared)} networks")
    if len(compared) == 1:
        return Point("variation", WARNING, "only one network has a value", "see the point on families")
    drawn = any(
        answer.measurement.value is not None and answer.measurement.value != compared[0]
        for (_, seed), answer in evidence.first.items()
        if seed != 0
    )
    return Point(
        "variation",
        FAIL,
        f"the same value, {compared[0]:g}, on every network" + (" with one seed" if drawn else ""),
        "it is drawn and depends on the seed alone; is it computed from context.model?"
        if drawn
        else "a constant ranks nothing; is the value computed from context.model?",
    )


def _repeatability(evidence: Evidence) -> Point:
    compared, differing = 0, []
    for name, first in evidence.measurements().items():
        answer = evidence.second.get((name, 0))
        if answer is None:
            continue
        second = answer.measurement
        if first.reason.startswith(LATE) or second.reason.startswith(LATE):
            continue  # how busy the machine was decides on which of two times a slow proxy is late
        compared += 1
        if first.status != second.status:
            differing.append(f"{first.status} once, {second.status} once ({evidence.family(name)})")
        elif (
            first.value is not None and second.value is not None and not same_value(first.value, second.value)
        ):
            differing.append(f"{first.value:.9g} once, {second.value:.9g} once ({evidence.family(name)})")
    if not compared:
        return Point("repeatability", WARNING, "no network was measured twice within its time")
    if not differing:
        return Point(
            "repeatability",
            PASS,
            f"the same on {compared} networks in another process, order and random state and at another time",
        )
    return Point(
        "repeatability",
        FAIL,
        f"with the same seed differs on {len(differing)} of {compared} networks:\n"
        + "\n".join(differing[:3]),
        "it depends on the clock, on global random state, on hashes or on earlier calls; take all randomness "
        "from context.generator and keep nothing between calls",
    )


def _seeds(evidence: Evidence) -> Point:
    by_network: dict[str, list[Measurement]] = {}
    for (name, _), answer in evidence.first.items():
        if answer.measurement.value is not None:
            by_network.setdefault(name, []).append(answer.measurement)
    several = {name: found for name, found in by_network.items() if len(found) > 2}
    if not several:
        return Point("seeds", WARNING, "no network with a value was measured with several seeds")
    spreads = [statistics.stdev(_numbers(found)) for found in several.values()]
    values = evidence.values()
    between = [values[m.key] for m in evidence.ranked if m.key in values]
    spread = statistics.median(spreads)
    if max(spreads) <= 1e-6 * max(abs(v) for v in between):
        return Point("seeds", PASS, "deterministic: other seeds give the same values")
    text = f"other seeds move the value by {spread:.3g} (standard deviation)"
    if len(set(between)) > 1:
        text += f", {spread / statistics.stdev(between):.2g} of that between networks"
    errors = [m.standard_error for found in several.values() for m in found]
    if any(error is None for error in errors):
        return Point(
            "seeds",
            WARNING,
            f"{text}, and no standard error is stated",
            "return gapbench.Estimate(value, standard_error)",
        )
    stated = statistics.median(error for error in errors if error is not None)
    text += f"; stated standard error {stated:.3g}"
    if spread > 3 * stated:
        return Point("seeds", WARNING, text, "the stated standard error is too small")
    return Point("seeds", PASS, text)


def _numbers(found: list[Measurement]) -> list[float]:
    return [m.value for m in found if m.value is not None]


def _families(evidence: Evidence) -> Point:
    statuses: dict[str, dict[str, str]] = {"ok": {}, "not_applicable": {}, "failed": {}}
    for name, m in evidence.measurements().items():
        statuses[m.status][evidence.family(name)] = m.reason
    untried = {m.configuration.family for m in evidence.population.members} - {
        family for found in statuses.values() for family in found
    }
    lines = [f"{len(set(statuses['ok']))} families have values"]
    if statuses["not_applicable"]:
        lines += [
            f"{family}: not applicable: {why}" for family, why in sorted(statuses["not_applicable"].items())
        ]
    lines += [f"{family}: failed: {why}" for family, why in sorted(statuses["failed"].items())]
    if untried:
        lines.append(f"not tried after {evidence.ended} processes ended: {', '.join(sorted(untried))}")
    if statuses["failed"] or untried:
        advice = "raise gapbench.NotApplicable(reason) where it is not defined, or compute it"
        if statuses["failed"] and all(why.startswith(LATE) for why in statuses["failed"].values()):
            advice = "make it faster on these families; submit takes a longer --time-limit"
        return Point("families", FAIL, "\n".join(lines), advice)
    return Point("families", PASS, "\n".join(lines))


def _cost(evidence: Evidence) -> Point:
    found = {n: m for n, m in evidence.measurements().items() if m.value is not None}
    slowest = max(found, key=lambda name: found[name].seconds)
    median = statistics.median(m.seconds for m in found.values())
    memory = max((m.peak_memory or 0.0) for m in found.values())
    return Point(
        "cost",
        INFORMATION,
        f"{median:.3g} s a network (median), at most {found[slowest].seconds:.3g} s "
        f"({evidence.family(slowest)}); {memory / 2**20:.0f} MiB at most; limit {evidence.limits.seconds:g} s",
    )


def _baselines(evidence: Evidence) -> Point:
    """Kendall's tau-b with the baseline rows, within task, over the networks of several widths."""
    from gapbench_leaderboard.statistics import kendall_tau

    values = evidence.values()
    parts = []
    warning = False
    for label in ("parameter_count", "train_loss", "param_norm"):
        baseline = evidence.baselines.get(label, {})
        taus = []
        for task in sorted({m.configuration.task for m in evidence.ranked}):
            cells = [
                m.key
                for m in evidence.ranked
                if m.configuration.task == task and m.key in values and m.key in baseline
            ]
            if len(cells) > 2 and len({values[c] for c in cells}) > 1:
                taus.append(
                    kendall_tau([values[c] for c in cells], [baseline[c] for c in cells], variant="b")
                )
        if taus:
            tau = sum(taus) / len(taus)
            parts.append(f"{label} {tau:+.2f}")
            warning = warning or (label == "parameter_count" and abs(tau) > 0.95)
    text = "too few values to compare with the baselines"
    if parts:
        text = f"rank correlation (tau) of {evidence.name} with " + ", ".join(parts)
    if warning:
        text += ": it orders these networks as their number of parameters does"
    return Point("baselines", INFORMATION, text)
