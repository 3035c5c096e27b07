"""`gapbench measure`: all proxies of a network that somebody trained elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapbench.commands.completing import proxies
from gapbench.commands.parsing import PROXY_GROUPS, options_of
from gapbench.commands.showing import LOADING, Bar, showing
from gapbench_base.losses import MSE

if TYPE_CHECKING:
    from gapbench.proxies.results import Measurement

NOTES = ("dtype", "precision", "frozen", "batch")
"""What details say of how a network was measured; all but the first are printed."""
OPTIONS = {
    "frozen='include' takes": "--include-frozen takes",
    "forward=lambda network, inputs: network(inputs)[...]": "--forward MODULE:FUNCTION of (network, inputs)",
    "give a forward= that": "give a --forward MODULE:FUNCTION that",
}
"""Arguments of `gapbench.measure` as its texts name them, and the options in their place."""


@click.command("measure")
@click.argument("factory", metavar="MODULE:FACTORY")
@click.option("--weights", required=True, type=click.Path(path_type=Path), help="State dict of the network.")
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="Training examples: .npz with inputs, targets; with --task the data folder.",
)
@click.option("--task", help="A task of gapbench that it was trained on, instead of a data file.")
@click.option(
    "--task-option", "task_options", multiple=True, metavar="NAME=VALUE", help="As train_size=1000."
)
@click.option("--initial", type=click.Path(path_type=Path), help="State dict at initialisation.")
@click.option("--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="For the factory.")
@click.option("--proxies", shell_complete=proxies, help=f"Only these, separated by commas; {PROXY_GROUPS}.")
@click.option(
    "--samples",
    type=click.IntRange(min=2),
    default=256,
    show_default=True,
    help="Examples to differentiate on.",
)
@click.option(
    "--loss",
    type=click.Choice(["cross_entropy", "mse"]),
    default="cross_entropy",
    show_default=True,
    help=f"mse is {MSE}.",
)
@click.option(
    "--forward",
    metavar="MODULE:FUNCTION",
    help="function(network, inputs) -> outputs, where it returns more than one tensor or is called otherwise.",
)
@click.option("--include-frozen", is_flag=True, help="Count parameters that require no gradient, too.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def measure_command(
    factory: str,
    weights: Path,
    data: Path,
    task: str | None,
    task_options: tuple[str, ...],
    initial: Path | None,
    arguments: tuple[str, ...],
    proxies: str | None,
    samples: int,
    loss: str,
    forward: str | None,
    include_frozen: bool,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    """Measure every proxy on your own network, made by MODULE:FACTORY (or FILE.py:FACTORY).

    The factory's code runs in this process, as your own.
    """
    from gapbench.foreign.measuring import measurements_of
    from gapbench.foreign.networks import factory_of, load_network, read_examples
    from gapbench.runs.environment import choose_device
    from gapbench_base.errors import GapbenchError

    if task_options and task is None:
        raise GapbenchError("--task-option goes with --task.")
    names = _names(proxies)
    chosen = choose_device(device)
    made = options_of(arguments)
    network = load_network(factory, weights, made).to(chosen)
    start = None if initial is None else load_network(factory, initial, made).to(chosen)
    if task is None:
        inputs, targets = read_examples(data)
    else:
        from gapbench_tasks import load_task

        split = load_task(task, data, **options_of(task_options)).train
        inputs, targets = split.inputs, split.targets
    table = _Table(names)
    with showing(err=as_json, first=LOADING) as say:
        try:
            found = measurements_of(
                network,
                inputs,
                targets,
                names,
                initial=start,
                samples=samples,
                loss=loss,
                seed=seed,
                forward=None if forward is None else factory_of(forward),
                frozen="include" if include_frozen else "exclude",
                begun=lambda name: _begin(say, name, names),
                ended=lambda measurement: None if as_json else table.say(say, _row(measurement)),
            )
        except GapbenchError as error:
            raise GapbenchError(_of_the_command(str(error))) from error
    rows = [_row(measurement) for measurement in found]
    if as_json:
        click.echo(json.dumps(rows, indent=2, allow_nan=False))
    else:
        _print_notes(rows)
    if any(row["status"] == "failed" for row in rows):
        raise click.exceptions.Exit(1)


def _begin(say: Callable[[str], None], name: str, names: Sequence[str]) -> None:
    """Show which one is being measured, on a terminal."""
    if isinstance(say, Bar):
        say.progress("proxies", names.index(name), len(names), None, name)


def _names(proxies: str | None) -> list[str]:
    """The proxies that are named, separated by commas; all of them by default."""
    from gapbench.proxies.registry import expanded, list_proxies, proxy_entry
    from gapbench_base.errors import GapbenchError

    if proxies is None:
        return list_proxies()
    names = expanded([name.strip() for name in proxies.split(",") if name.strip()])
    if not names:
        raise GapbenchError("--proxies names no proxy: give at least one, or leave the option out.")
    for name in names:
        proxy_entry(name)
    return names


def _row(found: Measurement) -> dict[str, object]:
    from gapbench.runs.details import noted

    said = {name: _of_the_command(str(found.details[name])) for name in NOTES if name in found.details}
    return {
        "proxy": found.proxy,
        "value": found.value,
        "standard_error": found.standard_error,
        "seconds": found.seconds,
        "status": found.status,
        "reason": _of_the_command(found.reason),
        **noted(found.details),
        **said,
    }


def _of_the_command(text: str) -> str:
    """A text that names arguments of `gapbench.measure`, with the command line's options in their place."""
    for argument, option in OPTIONS.items():
        text = text.replace(argument, option)
    return text


class _Table:
    """Lines of a table, as wide as the names of all that will stand in it; the first comes with a head."""

    def __init__(self, names: Sequence[str]) -> None:
        self.width, self.begun = max(map(len, names)), False

    def say(self, say: Callable[[str], None], row: dict[str, Any]) -> None:
        if not self.begun:
            say(f"{'proxy':<{self.width}}  {'value':>13}  {'std. error':>10}  {'seconds':>8}")
        self.begun = True
        name = f"{row['proxy']:<{self.width}}"
        if row["status"] != "ok":
            say(f"{name}  {row['status'].replace('_', ' ')}: {row['reason']}")
            return
        error = "" if row["standard_error"] is None else f"{row['standard_error']:.3g}"
        say(f"{name}  {row['value']:>13.6g}  {error:>10}  {row['seconds']:>8.3f}")


def _print_notes(rows: Sequence[dict[str, Any]]) -> None:
    from gapbench_leaderboard.board.doubts import words_of_one

    for name in NOTES[1:]:
        for text in dict.fromkeys(row[name] for row in rows if name in row):
            click.echo(f"Note: {text}")
    for row in rows:
        for text in words_of_one(row["coverage"], row["converged"]):
            click.echo(f"Note: {row['proxy']}: {text}")
