"""Write docs/proxies.md: what every proxy is, where it is defined, and what leaves it as it is.

python scripts/proxies_docs.py                       # writes the page of the registry and of what was measured
python scripts/proxies_docs.py --check               # exit code 1 if it is not up to date
python scripts/proxies_docs.py --measure [NAME ...]  # measure these (default: what is not measured in its version)

What is measured is kept in docs/proxies.csv and docs/proxies_invariances.csv, and that of a larger network, which
performance/proxies.py measures, in docs/proxies_costs.csv.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gapbench.proxies.registry import COSTS, ProxyEntry, built_in, checked_options, proxy_entry
from gapbench_models import list_models

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gapbench.proxies.context import Context
    from gapbench.proxies.results import Measurement

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "proxies.md"
MEASURED, AUDITED = DOCS / "proxies.csv", DOCS / "proxies_invariances.csv"
LARGER = DOCS / "proxies_costs.csv"
"""Written by `performance/proxies.py --networks resnet18-1/4 --table`."""
EXAMPLES = 60
WIDTHS = {"plain": 0.25}
"""Of networks by library; 1/16 of others."""
AUDIT = ("plain/mlp", "plain/cnn", "timm/convmixer", "timm/vit_tiny")
SLOWEST = 10
TIMED = "plain/cnn"
"""The family whose times are told, with default options; on the others `LITTLE` effort is made."""
FEW_SAMPLES = 8.0
"""Student's quantile of two degrees of freedom for one in a thousand, in the four standard errors of an audit."""
LITTLE = {"steps": 3, "samples": 3, "probes": 3, "restarts": 1, "max_products": 60}


@dataclass(frozen=True)
class Row:
    """A proxy on the network of a family."""

    proxy: str
    version: str
    family: str
    status: str
    seconds: str
    reason: str


@dataclass(frozen=True)
class Verdict:
    """A proxy on the network of a family under a kind of transformation."""

    proxy: str
    version: str
    family: str
    kind: str
    verdict: str


PEERS = (
    "## Beside other packages",
    "",
    "On a network of ten parameters (`tests/benchmark/curvature/test_peers.py`), against the Hessian that twofold "
    "differentiation gives:",
    "",
    "| package | what | |",
    "|---|---|---|",
    "| curvlinops | Hessian products | the same to 1e-10, and so is the trace; the largest eigenvalue to 1e-8 |",
    "| PyHessian | `eigenvalues` | the eigenvalue of largest *size*. Where that is negative it is not the same as "
    "the largest eigenvalue, which `hessian_top_eigenvalue` is; a curvature that is negative is no sharpness |",
    "| PyHessian | `trace` | ends where the mean of its probes moves by less than 0.1 %, which says nothing of its "
    "error: of twenty seeds half end more than 1 % from the trace. `hessian_trace` is exact there, and where it is "
    "sampled it states a standard error |",
)
"""Text of its own, held by a test."""
Kind = TypeVar("Kind", Row, Verdict)


def rows_of(path: Path, kind: type[Kind]) -> list[Kind]:
    """The rows of a table; none if there is none."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return [kind(**row) for row in csv.DictReader(stream)]


def write(path: Path, rows: Iterable[Row | Verdict], kind: type[Row] | type[Verdict]) -> None:
    """Write a table, in the order of the proxies' names."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(field.name for field in fields(kind))
        out.writerows(sorted(map(astuple, rows)))


def trained(family: str) -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    """A small network that fits its examples, the same at initialisation, and these."""
    import copy

    import torch

    import gapbench

    torch.manual_seed(0)
    task = gapbench.load_task("digits_rotations", train_size=EXAMPLES, seed=0)
    x, y = task.train.inputs, task.train.targets
    width = WIDTHS.get(family.partition("/")[0], 1 / 16)
    network = gapbench.build_model(family, width, task.input_shape, 10, seed=0)
    initial = copy.deepcopy(network).eval()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(400):
        network.train()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
        if step % 10 == 9:
            with torch.no_grad():
                for _ in range(30):
                    network(x)  # so that batch normalisation has the statistics of these examples
                network.eval()
                logits = network(x)
            own = logits.gather(1, y[:, None])[:, 0]
            others = logits.scatter(1, y[:, None], -torch.inf).max(dim=1).values
            if float((own - others).quantile(0.1)) > 1.0:
                break
    return network.eval(), initial, x, y


def measure(names: Sequence[str], again: bool) -> None:
    """Measure proxies on a network of each family, audit them on some; what is done is kept, family by family.

    Families on which nothing is missing are left alone unless `again`.
    """
    import torch

    from gapbench.invariance.audit import audit_measures

    torch.set_num_threads(1)
    for family in list_models():
        if not again and not set(names) & set(unmeasured_on(family)):
            continue
        rows, verdicts = up_to_date(rows_of(MEASURED, Row)), up_to_date(rows_of(AUDITED, Verdict))
        rows = [row for row in rows if not (row.proxy in names and row.family == family)]
        network, initial, x, y = trained(family)
        found = _measured(names, network, initial, x, y, family)
        write(MEASURED, rows + found, Row)
        if family in AUDIT:
            measures = _measuring(names, x.double(), y, initial.double())
            audited = audit_measures(measures, network, x, seed=0)
            verdicts = [row for row in verdicts if not (row.proxy in names and row.family == family)]
            for name, results in audited.items():
                version = str(proxy_entry(name).version)
                verdicts += [
                    Verdict(name, version, family, r.kind, told(r.verdict, r.reason)) for r in results
                ]
            write(AUDITED, verdicts, Verdict)
        print(family, Counter(row.status for row in found), flush=True)


def _measured(
    names: Sequence[str], network: nn.Module, initial: nn.Module, x: Tensor, y: Tensor, family: str
) -> list[Row]:
    from gapbench.proxies.measuring import make_context, measure_in

    context = make_context(network, x, y, all_inputs=x, all_targets=y, initial=initial)
    found = []
    for name in names:
        entry = proxy_entry(name)
        own = checked_options(entry, {} if family == TIMED else _little_effort(entry))
        m = measure_in(context, entry, own, 0)
        found.append(Row(name, str(entry.version), family, m.status, f"{m.seconds:.2g}", m.reason))
    return found


def _little_effort(entry: ProxyEntry) -> dict[str, int]:
    """Options with which a proxy is soon measured: whether it is defined does not depend on them."""
    return {option: few for option, few in LITTLE.items() if option in entry.options}


def _measuring(
    names: Sequence[str], x: Tensor, y: Tensor, initial: nn.Module
) -> dict[str, Callable[[nn.Module], Measurement]]:
    """The measuring of each; what they share is computed once for a network."""
    from gapbench.proxies.measuring import make_context, measure_in

    @functools.lru_cache(maxsize=1)
    def context(network: nn.Module) -> Context:
        return make_context(network, x, y, all_inputs=x, all_targets=y, initial=initial)

    def measuring(name: str) -> Callable[[nn.Module], Measurement]:
        entry = proxy_entry(name)
        own = checked_options(entry, _little_effort(entry))
        return lambda network: _cautious(measure_in(context(network), entry, own, 0))

    return {name: measuring(name) for name in names}


def _cautious(found: Measurement) -> Measurement:
    """With a standard error that allows for few samples: by Student's distribution, not the normal one."""
    if found.standard_error is None:
        return found
    return dataclasses.replace(found, standard_error=FEW_SAMPLES * found.standard_error)


def told(verdict: str, reason: str) -> str:
    """A verdict in a word or two."""
    if verdict != "not applicable":
        return verdict
    return "cannot be told" if reason.startswith("cannot be told") else verdict


def up_to_date(rows: Iterable[Kind]) -> list[Kind]:
    """Those of proxies that there are, in their versions."""
    versions = {name: str(proxy_entry(name).version) for name in built_in()}
    return [row for row in rows if versions.get(row.proxy) == row.version]


def unmeasured() -> list[str]:
    """Built-in proxies that some family lacks, or the audit."""
    missing = {name for family in list_models() for name in unmeasured_on(family)}
    return [name for name in built_in() if name in missing]


def unmeasured_on(family: str) -> list[str]:
    """Built-in proxies that lack a measurement on a family, or the audit."""
    known = {row.proxy for row in up_to_date(rows_of(MEASURED, Row)) if row.family == family}
    audited = {row.proxy for row in up_to_date(rows_of(AUDITED, Verdict)) if row.family == family}
    return [n for n in built_in() if n not in known or (family in AUDIT and n not in audited)]


def page() -> str:
    """The text of the page."""
    rows, verdicts = up_to_date(rows_of(MEASURED, Row)), up_to_date(rows_of(AUDITED, Verdict))
    names = built_in()
    lines = [
        "# The proxies",
        "",
        f"All {len(names)} proxies that come with gapbench. Made by `scripts/proxies_docs.py` from their own "
        "descriptions and from what was measured with them: on a small trained network of every family "
        f"({EXAMPLES} digits), and before and after changes that leave a network's function as it is (on "
        f"{', '.join(AUDIT)}, in float64; a logit scale changes the loss). `gapbench info NAME` says the same of "
        "one, and in which suites it is. As functions they are in "
        "[`gapbench.measures`](api.md#proxies-as-functions).",
        "",
        "The small plots show each proxy against width and against the gap on 16 networks of `quick` "
        "(`plain/cnn` on rotated digits, one problem; colours are widths; drawn by `scripts/proxies_plots.py`): "
        "what its values look like, not how it ranks.",
        "",
        "Costs: " + "; ".join(f"*{cost}*: {meaning}" for cost, meaning in COSTS.items()) + ".",
        "",
        *_contents(names),
        "",
        "## Where they are defined",
        "",
        *_matrix(names, rows),
        "",
        "## What they cost",
        "",
        *_costs(rows),
        "",
        *PEERS,
    ]
    for name in names:
        lines += ["", *_section(proxy_entry(name), rows, verdicts)]
    return "\n".join(lines) + "\n"


def _contents(names: Sequence[str]) -> list[str]:
    lines = ["| proxy | larger values | cost | source |", "|---|---|---|---|"]
    for entry in map(proxy_entry, names):
        gap = "smaller gap" if entry.higher_means == "better" else "larger gap"
        star = " (central)" if entry.central else ""
        lines.append(
            f"| [{entry.name}](#{entry.name}){star} | {gap} | {entry.cost} | {entry.reference or '-'} |"
        )
    return lines


def _matrix(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    families = list_models()
    marks = {"ok": "x", "not_applicable": "-", "failed": "FAILED"}
    found = {(row.proxy, row.family): marks[row.status] for row in rows}
    lines = [
        "x: a value; -: not applicable, with its reason at the proxy below. "
        + "; ".join(f"{number}: {family}" for number, family in enumerate(families, 1))
        + ".",
        "",
        "| proxy | " + " | ".join(str(number) for number in range(1, len(families) + 1)) + " |",
        "|---|" + ":-:|" * len(families),
    ]
    for name in names:
        lines.append(f"| {name} | " + " | ".join(found.get((name, f), "?") for f in families) + " |")
    return lines


def _costs(rows: Sequence[Row]) -> list[str]:
    seconds = {row.proxy: float(row.seconds) for row in rows if row.family == TIMED and row.status == "ok"}
    slowest = sorted(seconds, key=lambda name: -seconds[name])[:SLOWEST]
    lines = [
        f"Seconds on one core for the {TIMED} of these networks, each by itself; the {len(slowest)} slowest, "
        f"{sum(seconds.values()):.0f} s in all. What several share is computed once where they are measured "
        "together.",
        "",
        "| proxy | seconds |",
        "|---|---:|",
    ]
    lines += [f"| {name} | {seconds[name]:.2g} |" for name in slowest]
    return [*lines, "", *_larger_costs()]


def _larger_costs() -> list[str]:
    """The same of a network that is not small."""
    with LARGER.open(newline="", encoding="utf-8") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: -float(row["seconds"]))
    total, gradients = (sum(float(row[key]) for row in rows) for key in ("seconds", "gradients"))
    return [
        f"All {len(rows)} together on a torchvision/resnet18 of width 1/4 (701,466 parameters) and 256 images of "
        f"32 x 32, in one context, take {total:.0f} processor seconds on one core beside other work, "
        f"{gradients:.0f} gradients of the loss on these images. "
        f"The {SLOWEST} slowest; what several share is in the row of the first, by name.",
        "",
        "| proxy | seconds | gradients |",
        "|---|---:|---:|",
        *(
            f"| {r['proxy']} | {float(r['seconds']):.3g} | {float(r['gradients']):.3g} |"
            for r in rows[:SLOWEST]
        ),
    ]


def _section(entry: ProxyEntry, rows: Sequence[Row], verdicts: Sequence[Verdict]) -> list[str]:
    text = re.split(r"\n\s*(?:Args|Returns|Raises):", inspect.getdoc(entry.function) or "")[0]
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    lines = [f"## {entry.name}", "", f"![against width and gap](pictures/proxies/{entry.name}.svg)", ""]
    for paragraph in paragraphs:
        lines += [_escaped(paragraph), ""]
    options = ", ".join(f"`{name} = {value!r}`" for name, value in entry.options.items())
    lines.append(f"- source: {entry.reference or '-'}; version {entry.version}; cost: {entry.cost}")
    if options:
        lines.append(f"- options: {options}")
    if entry.needs:
        lines.append(f"- needs: {', '.join(entry.needs)}")
    lines += _applicability([row for row in rows if row.proxy == entry.name])
    lines += _invariances([row for row in verdicts if row.proxy == entry.name])
    return lines


def _applicability(own: Sequence[Row]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in own:
        if row.status != "ok":
            by_reason.setdefault(row.reason, []).append(row.family)
    return [
        f"- not applicable: {', '.join(families)}: {_escaped(why)}" for why, families in by_reason.items()
    ]


def _invariances(own: Sequence[Verdict]) -> list[str]:
    by_verdict: dict[str, dict[str, list[str]]] = {}
    for row in own:
        by_verdict.setdefault(row.kind, {}).setdefault(row.verdict, []).append(row.family)
    kept, changed, hidden = [], [], []
    for kind, found in by_verdict.items():
        if "not invariant" in found:
            changed.append(kind)
        elif "invariant" in found:
            kept.append(kind)
        elif "cannot be told" in found:
            hidden.append(kind)
    lines = [f"- left as it is by: {', '.join(kept)}"] if kept else []
    lines += [f"- changed by: {', '.join(changed)}"] if changed else []
    return lines + ([f"- within its sampling error under: {', '.join(hidden)}"] if hidden else [])


def _escaped(text: str) -> str:
    for character in "\\*_<>[]":
        text = text.replace(character, "\\" + character)
    parts = text.split("`")  # within code nothing is escaped
    for place in range(1, len(parts), 2):
        for character in "*_<>[]\\":
            parts[place] = parts[place].replace("\\" + character, character)
    return "`".join(parts)


def main() -> None:
    """Write or check the page; measure first if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--measure", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measure(arguments.measure or unmeasured(), again=bool(arguments.measure))
    text = page()
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit(f"{PAGE.name} is not up to date: python scripts/proxies_docs.py")
        return
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
