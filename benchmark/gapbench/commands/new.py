"""`gapbench new`."""

from __future__ import annotations

import keyword
import re
from importlib import resources
from pathlib import Path

import click

from gapbench_base.errors import GapbenchError


@click.command("new")
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), help="File to write (default: NAME.py here).")
def new_command(name: str, out: Path | None) -> None:
    """Write a commented template of a proxy called NAME."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise GapbenchError(
            f"{name!r} is no name for a proxy: use lower-case letters, digits and '_', a letter first, at most 64."
        )
    if keyword.iskeyword(name):
        raise GapbenchError(f"{name!r} is a word of Python's own: choose another name, such as {name}_proxy.")
    from gapbench.proxies.registry import list_proxies

    if name in list_proxies():
        raise GapbenchError(f"There is already a proxy {name!r} in gapbench; choose another name.")
    path = out or Path(f"{name}.py")
    text = (resources.files("gapbench") / "commands" / "template.txt").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text.format(name=name, file=path))
    except FileExistsError:
        raise GapbenchError(f"{path} exists already; nothing was changed.") from None
    except OSError as error:
        raise GapbenchError(f"{path} cannot be written: {error.strerror}.") from None
    click.echo(f"Written: {path}. Next: gapbench check {path}")
