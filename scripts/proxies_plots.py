"""Draw every proxy against width and against the gap: docs/pictures/proxies/NAME.svg.

python scripts/proxies_plots.py                       # draws what docs/proxies_population.csv has
python scripts/proxies_plots.py --check               # exit code 1 if a drawing is not up to date
python scripts/proxies_plots.py --measure runs/quick  # measures what is missing there in its version first

The networks are those of one problem and family of the suite `quick`.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gapbench.proxies.registry import built_in, checked_options, proxy_entry

DOCS = Path(__file__).resolve().parents[1] / "docs"
VALUES, PICTURES = DOCS / "proxies_population.csv", DOCS / "pictures" / "proxies"
TASK, FAMILY = "digits_rotations", "plain/cnn"
MOST = 16
"""Networks that are measured."""
COLOURS = ("#3b7dd8", "#d98a1e", "#2f9e6e", "#b0559f", "#7a7a7a")
"""Of widths; with the grey of the axes they can be seen on light and dark pages."""
GREY = "#8a8a8a"
WIDTH, HEIGHT, LEFT, TOP, PANEL, GAP = 440, 150, 62, 12, (150, 100), 70
RATIO = 30.0
"""Values that differ by more are drawn in their logarithm."""

Table = dict[str, dict[str, float]]
"""Values by network, by column."""


def column_of(name: str) -> str:
    """A proxy's column, which says of which version the values are."""
    return f"{name} {proxy_entry(name).version}"


def read() -> Table:
    """What was measured; empty if nothing was."""
    if not VALUES.exists():
        return {}
    with VALUES.open(newline="", encoding="utf-8") as stream:
        return {
            row["network"]: {k: float(v) for k, v in row.items() if k != "network" and v not in ("", None)}
            for row in csv.DictReader(stream)
        }


def write(table: Table, columns: Sequence[str]) -> None:
    """Keep what was measured, to five digits."""
    with VALUES.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(["network", *columns])
        for network, row in table.items():
            out.writerow([network, *(f"{row[c]:.5g}" if c in row else "" for c in columns)])


def measure(run: Path) -> None:
    """Measure what is missing in its version on networks of a run."""
    import torch

    from gapbench import open_run
    from gapbench.population.network import context_of, handover_of
    from gapbench.population.stored import open_population
    from gapbench.proxies.measuring import measure_in
    from gapbench_base.seeds import named_seed

    torch.set_num_threads(1)
    population = open_population(run)
    outcomes = open_run(run).population.set_index("cell")
    good = [
        member
        for member in population.members
        if (member.configuration.task, member.configuration.family) == (TASK, FAMILY)
        and outcomes.loc[member.key, "status"] == "converged"
    ]
    chosen = good[:: max(1, len(good) // MOST)][:MOST]
    known = read()
    known = known if set(known) == {member.key for member in chosen} else {}
    names = [n for n in built_in() if not any(column_of(n) in row for row in known.values())]
    table: Table = {}
    for number, member in enumerate(chosen, 1):
        context = context_of(handover_of(member, population))
        row = dict(known.get(member.key, {}))
        row |= {"width": member.configuration.width, "gap": float(outcomes.loc[member.key, "gap"])}
        for name in names:
            entry = proxy_entry(name)
            found = measure_in(context, entry, checked_options(entry, {}), named_seed("plots", member.key))
            if found.value is not None and math.isfinite(found.value):
                row[column_of(name)] = found.value
        table[member.key] = row
        print(f"{number}/{len(chosen)}", flush=True)
    write(table, ["width", "gap", *(column_of(name) for name in built_in())])


def drawing(name: str, rows: Sequence[Mapping[str, float]]) -> str:
    """The two panels of a proxy as SVG."""
    own = [row for row in rows if column_of(name) in row]
    values = [row[column_of(name)] for row in own]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="10" role="img">',
        f"<title>{name} on {len(own)} networks, against width and against the gap</title>",
    ]
    if own:
        widths = sorted({row["width"] for row in rows})
        colours = {width: COLOURS[k % len(COLOURS)] for k, width in enumerate(widths)}
        logarithmic = min(values) > 0 and max(values) / min(values) > RATIO
        y = _scale(values, PANEL[1], logarithmic, upwards=True)
        for place, (axis, log) in enumerate((("width", True), ("gap", False))):
            x0 = LEFT + place * (PANEL[0] + GAP)
            x = _scale([row[axis] for row in rows], PANEL[0], log)
            lines += _frame(
                x0, axis, [row[axis] for row in rows], values if place == 0 else None, logarithmic
            )
            lines += [
                f'<circle cx="{x0 + x(row[axis]):.1f}" cy="{TOP + y(value):.1f}" r="2.6" '
                f'fill="{colours[row["width"]]}" fill-opacity="0.75"/>'
                for row, value in zip(own, values)
            ]
    else:
        lines.append(
            f'<text x="{LEFT}" y="{HEIGHT / 2}" fill="{GREY}">not applicable to these networks</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _scale(
    values: Sequence[float], length: float, logarithmic: bool, upwards: bool = False
) -> Callable[[float], float]:
    """From a value to a place on a side of a panel, with some room at the ends."""

    def place(value: float) -> float:
        return math.log(value) if logarithmic else value

    low, high = min(map(place, values)), max(map(place, values))
    room = (high - low) or 1.0
    low, high = low - 0.06 * room, high + 0.06 * room

    def scaled(value: float) -> float:
        share = (place(value) - low) / (high - low)
        return length * (1 - share if upwards else share)

    return scaled


def _frame(
    x0: float, axis: str, across: Sequence[float], up: Sequence[float] | None, logarithmic: bool
) -> list[str]:
    """A panel's frame with the least and greatest value of each side."""
    right, bottom = x0 + PANEL[0], TOP + PANEL[1]
    lines = [
        f'<rect x="{x0}" y="{TOP}" width="{PANEL[0]}" height="{PANEL[1]}" fill="none" stroke="{GREY}"/>',
        f'<text x="{x0}" y="{bottom + 13}" fill="{GREY}">{min(across):.3g}</text>',
        f'<text x="{right}" y="{bottom + 13}" fill="{GREY}" text-anchor="end">{max(across):.3g}</text>',
        f'<text x="{(x0 + right) / 2}" y="{bottom + 25}" fill="{GREY}" text-anchor="middle">{axis}</text>',
    ]
    if up is not None:
        end = f'x="{x0 - 4}" fill="{GREY}" text-anchor="end"'
        lines += [
            f'<text {end} y="{TOP + 9}">{max(up):.3g}</text>',
            f'<text {end} y="{bottom}">{min(up):.3g}</text>',
        ]
        if logarithmic:
            lines.append(f'<text {end} y="{(TOP + bottom) / 2 + 3}">log</text>')
    return lines


def drawings() -> dict[Path, str]:
    """Each file with what is to stand in it."""
    rows = list(read().values())
    return {PICTURES / f"{name}.svg": drawing(name, rows) for name in built_in()}


def missing() -> list[str]:
    """Built-in proxies of whose version nothing was tried."""
    with VALUES.open(encoding="utf-8") as stream:
        columns = next(csv.reader(stream))
    return [name for name in built_in() if column_of(name) not in columns]


def main() -> None:
    """Draw, or check what is drawn; measure first if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--measure", type=Path, metavar="RUN")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measure(arguments.measure)
    wanted = drawings()
    if arguments.check:
        old = [
            p.name for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text
        ]
        if old:
            sys.exit(f"{', '.join(old)}: not up to date: python scripts/proxies_plots.py")
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old_file in PICTURES.glob("*.svg"):
        if old_file not in wanted:
            old_file.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
