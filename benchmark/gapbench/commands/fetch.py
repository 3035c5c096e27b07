"""`gapbench fetch`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("fetch")
@click.argument("name", type=click.Choice(["cifar10", "cifar100", "mnist", "svhn", "all"]))
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
def fetch_command(name: str, data_dir: Path | None) -> None:
    """Download NAME into the data folder with torchvision and verify every file.

    The set appears in the folder whole or not at all; one that is there and sound is left alone.
    """
    from gapbench_tasks.folder import SOURCES, fetch

    for each in SOURCES if name == "all" else [name]:
        click.echo(f"{SOURCES[each].title}: in {fetch(each, data_dir)}, verified")
