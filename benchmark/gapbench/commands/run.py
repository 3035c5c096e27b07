"""`gapbench run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapbench.commands.completing import proxies, suites
from gapbench.commands.parsing import PROXY_GROUPS, engine_options
from gapbench.commands.wrapping import echo
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.runs.run import Run


@click.command("run")
@click.argument("suite", default="quick", shell_complete=suites)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the run (default: runs/SUITE, or runs/SUITE-i-of-n).",
)
@click.option(
    "--weights",
    metavar="PLACE",
    help="Keep weight files in this folder, or at this address (s3:// and what else fsspec knows); remembered.",
)
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]), show_default=True)
@click.option("--workers", type=click.IntRange(min=1), help="Processes (default: one per core; 4 on CUDA).")
@click.option("--limit", type=click.IntRange(min=1), help="Only so many networks, balanced over tasks.")
@click.option(
    "--shard",
    metavar="I/N",
    help="Only part I (from 0) of N, for job arrays; gapbench merge makes one run of the parts.",
)
@click.option(
    "--proxies",
    shell_complete=proxies,
    help=f"These proxies in place of the suite's, separated by commas; {PROXY_GROUPS}.",
)
@click.option("--retry-failed", is_flag=True, help="Repeat what has status failed.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 2),
    default=1,
    help="2: measure every proxy twice, independently; the board then shows how repeatable each is.",
)
@click.option(
    "--stacks",
    type=click.Choice(["exact", "any", "off"]),
    help="Train networks together: exact (no number changes; default on a CPU), any (default on CUDA), off.",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="Only as many networks, balanced, as are done in this time with scoring (30m, 2h); says what is left out.",
)
@engine_options("train and measure on a Ray cluster whose nodes share the data, and --out or --weights")
@click.option(
    "--gpu-share",
    type=click.FloatRange(0, 1, min_open=True),
    help="Of a GPU, for each task of a cluster (default: 1/4, 1/2 or 1 by the size of the network).",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say what it would take: time, memory and disk, by task and family. Trains a few networks for it.",
)
@click.option("--quiet", is_flag=True, help="Say nothing of progress, only what fails and the result.")
@click.option("--verbose", is_flag=True, help="A line for every network and every measurement, no bars.")
@click.option("--log", type=click.Path(path_type=Path), help="Append progress to this file, in plain lines.")
def run_command(
    suite: str,
    out: Path | None,
    proxies: str | None,
    dry_run: bool,
    quiet: bool,
    verbose: bool,
    log: Path | None,
    **options: Any,
) -> None:
    """Train, measure, score and build the board of SUITE: a name, a TOML file, or the folder of a run.

    Give the same command again after any interruption: finished results are kept and not repeated. Damaged weight
    files are found and restored.
    """
    from gapbench.commands.progress import progress
    from gapbench.proxies.registry import GROUPS, expanded
    from gapbench.running import run

    names = None if proxies is None else [name.strip() for name in proxies.split(",") if name.strip()]
    for group in () if quiet else GROUPS.keys() & set(names or ()):
        many = len(expanded([group]))
        echo(f"--proxies {group}: {many} proxies, those of the suite with its options, in place of its own.")
    with progress(quiet, log, verbose) as shown:
        if dry_run:
            text = _estimated(suite, out, proxies=names, progress=shown, **options)
        else:
            result = run(suite, out, proxies=names, board=False, progress=shown, **options)
    if dry_run:
        echo("\n" + text)
        return
    if not quiet:
        from gapbench.commands.time_table import time_table

        echo("\n" + time_table(result.folder))
    finish(result)


def _estimated(suite: str, out: Path | None, **options: Any) -> str:
    """What the run would take."""
    from gapbench.pilot.estimating import estimate, estimate_text
    from gapbench.population.places import check_engine

    wanted = ("engine", "address", "gpu_share", "budget", "retry_failed", "weights")
    engine, address, gpu_share, budget, *_ = (options.pop(name) for name in wanted)
    check_engine(engine, address, gpu_share)
    if engine != "local":
        raise GapbenchError(
            "--dry-run tries networks on this machine: leave --engine out, and give --workers with as many as the "
            "cluster does at a time."
        )
    if budget is not None:
        raise GapbenchError(
            "--dry-run tells what the whole takes, --budget does what fits: give one of them."
        )
    return estimate_text(estimate(suite, out, **options))


def _too_few(result: Run) -> None:
    """Why there is no ranking, by kind of network."""
    population = result.population
    converged = int((population["status"] == "converged").sum())
    if converged < 2:
        echo(f"\n{converged} of {len(population)} networks can be ranked; a ranking needs two:", err=True)
        for (task, family, status), group in population.groupby(["task", "family", "status"]):
            losses = group["train_loss"].dropna()
            ended = (
                f", training loss {losses.min():.3g} to {losses.max():.3g} at the end" if len(losses) else ""
            )
            echo(f"  {len(group)} of {task}, {family}: {status}{ended}", err=True)
        echo(
            "A network is ranked that came to the stop_loss of its suite. Give more epochs (max_epochs), rates at "
            'which they are enough, or a fixed budget (stop = "budget") by which all networks count.',
            err=True,
        )
    else:
        echo("\nNothing is ranked: no proxy has a value on these networks.", err=True)
    if len(population) and len(result.measurements):
        echo(f"Board of what there is: {result.build_board()}", err=True)


def finish(result: object) -> None:
    """Score, print the ranking, build the board, and end with the exit code that the results deserve."""
    from gapbench.commands.scoring import scored_with_progress, shown_columns
    from gapbench.runs.run import Run
    from gapbench_leaderboard.board import ranking_text
    from gapbench_leaderboard.board.doubts import doubts_of
    from gapbench_leaderboard.scores import decision_text

    assert isinstance(result, Run)
    counts = result.population["status"].value_counts()
    echo("\nNetworks: " + ", ".join(f"{count} {status}" for status, count in counts.items()) + ".")
    echo(f"Population {result.identity.fingerprint}: {result.identity.words}.")
    for note in result.notes():
        echo(f"Note: {note}")
    if int(counts.get("converged", 0)) >= 2 and len(result.measurements):
        scores = scored_with_progress(result)
        decision = result.decision(scores)
        page = result.build_board(scores, decision)
        echo("")
        wide, known = shown_columns(), doubts_of(result.measurements)
        echo(ranking_text(scores, baselines=result.baselines(), doubts=known, width=wide))
        echo("\n" + decision_text(decision, wide))
        echo(f"\nBoard: {page} (and board.md, scores.csv, population.csv, measurements.csv beside it)")
    else:
        _too_few(result)
    troubles = [*result.problems, *result.failures]
    if troubles:
        echo(f"\n{len(troubles)} failed:", err=True)
        for trouble in troubles[:20]:
            echo(f"  {trouble}", err=True)
        if len(troubles) > 20:
            echo(f"  ... and {len(troubles) - 20} more; see population.csv and measurements.csv", err=True)
        raise click.exceptions.Exit(1)
    if len(result.population) and not int(counts.get("converged", 0)):
        raise click.exceptions.Exit(1)
