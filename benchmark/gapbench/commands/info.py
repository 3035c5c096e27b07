"""`gapbench info`."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import click

from gapbench.commands.completing import names


@click.command("info")
@click.argument("name", required=False, shell_complete=names)
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def info_command(name: str | None, data_dir: Path | None, as_json: bool) -> None:
    """What is known of NAME, a proxy, a suite (or its file), a family of networks, a task or the folder of a run.

    Without a name: versions, devices and data found.
    """
    if name is not None:
        from gapbench.commands.describing import described, lines_of

        about = described(name)
        if as_json:
            click.echo(json.dumps(about, indent=2))
        else:
            click.echo("\n\n".join("\n".join(lines_of(content)) for content in about))
        return
    from gapbench.runs.environment import devices, versions
    from gapbench_tasks.folder import data_folder, find_data

    folder = data_folder(data_dir)
    found = {
        "python": platform.python_version(),
        "versions": versions(),
        "devices": devices(),
        "data_folder": str(folder),
        "data": find_data(folder),
    }
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(f"python {found['python']}")
    for package, version in versions().items():
        click.echo(f"{package} {version}")
    machine = devices()
    click.echo(f"cpu {machine['cpu']}, {machine['cores']} cores")
    for card in machine["cuda"]:
        click.echo(f"cuda {card['name']}, {card['memory'] / 2**30:.0f} GiB")
    if not machine["cuda"]:
        click.echo("cuda none")
    click.echo(f"data folder {folder}")
    for name, state in find_data(folder).items():
        hint = f"; fetch it with: gapbench fetch {name} --data {folder}" if state == "missing" else ""
        click.echo(f"  {name}: {state}{hint}")
