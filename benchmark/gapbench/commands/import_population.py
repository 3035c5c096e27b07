"""`gapbench import-population`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import proxies
from gapbench.commands.parsing import PROXY_GROUPS


@click.command("import-population")
@click.argument("table", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--weights", required=True, type=click.Path(path_type=Path), help="Folder of the weight files.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the new population.")
@click.option("--axes", required=True, help="Columns that were varied, separated by commas.")
@click.option("--factory", help="MODULE:FACTORY of all networks (or a column factory).")
@click.option("--data", type=click.Path(path_type=Path), help="Training examples of all (or a column data).")
@click.option(
    "--test-data", type=click.Path(path_type=Path), help="Test examples of all (or a column test_data)."
)
@click.option("--test-size", type=click.IntRange(min=1), help="Test examples behind test_error.")
@click.option("--proxies", shell_complete=proxies, help=f"Only these, separated by commas; {PROXY_GROUPS}.")
@click.option(
    "--samples",
    type=click.IntRange(min=2),
    default=256,
    show_default=True,
    help="Examples to differentiate on.",
)
def import_population_command(
    table: Path,
    weights: Path,
    out: Path,
    axes: str,
    factory: str | None,
    data: Path | None,
    test_data: Path | None,
    test_size: int | None,
    proxies: str | None,
    samples: int,
) -> None:
    """Measure networks trained elsewhere, listed in TABLE with their errors, and build their board.

    TABLE has one row per network: weights, train_error, test_error, and optionally task, family, width, seed,
    factory, data, test_data, initial, test_size, train_loss, test_loss, status, and the axes. The errors are
    recomputed on the data, and a table that disagrees is refused.
    """
    from gapbench.commands.run import finish
    from gapbench.foreign.importing import import_population

    names = None if proxies is None else [name.strip() for name in proxies.split(",") if name.strip()]
    run = import_population(
        table,
        weights,
        out,
        axes=[name.strip() for name in axes.split(",") if name.strip()],
        factory=factory,
        data=data,
        test_data=test_data,
        test_size=test_size,
        proxies=names,
        samples=samples,
        say=click.echo,
    )
    finish(run)
