"""`gapbench plot`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import proxies, runs


@click.command("plot")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option(
    "--target", default="gap", show_default=True, help="The target of the ranking and the scatters."
)
@click.option(
    "--proxies",
    shell_complete=proxies,
    help="Scatters of these, separated by commas (default: the three of highest tau).",
)
@click.option("--format", "formats", default="svg,png", show_default=True, help="svg, png, pdf.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the figures (default: RUN/figures).")
def plot_command(run: Path, target: str, proxies: str | None, formats: str, out: Path | None) -> None:
    """Static figures of the board of the run in folder RUN, for papers. Needs matplotlib."""
    from importlib.util import find_spec

    from gapbench_base.errors import GapbenchError

    if find_spec("matplotlib") is None:  # said before anything is read
        raise GapbenchError("figures need matplotlib: pip install 'gapbench[plot]', or '.[plot]' in a clone")
    from gapbench.runs.run import open_run
    from gapbench_leaderboard.board.document import proxy_entries
    from gapbench_leaderboard.board.figures import figures
    from gapbench_leaderboard.board.scores_file import read_scores
    from gapbench_leaderboard.scores import TableError, ranking

    opened = open_run(run)
    scores = read_scores(run)
    directions = {label: {"proxy": label, "higher_means": way} for label, way in opened.directions().items()}
    entries = proxy_entries(opened.measurements, scores, directions)
    if proxies is None:
        plain = {entry["label"] for entry in entries if not entry["baseline"]}
        table = ranking(scores, target=target)
        table = table[table["proxy"].isin(plain) & table["value"].notna()]
        names = list(table.sort_values("value", ascending=False)["proxy"][:3])
    else:
        names = [name.strip() for name in proxies.split(",") if name.strip()]
    if target not in opened.population.columns:
        raise TableError(f"--target {target!r}: the population has no such column")
    written = figures(
        out if out is not None else run / "figures",
        population=opened.rankable(),
        measurements=opened.measurements,
        scores=scores,
        entries=entries,
        target=target,
        formats=[name.strip() for name in formats.split(",") if name.strip()],
        proxies=names,
    )
    for path in written:
        click.echo(path)
