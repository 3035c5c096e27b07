"""`gapbench check`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gapbench.commands.parsing import limit_options, limits_of, options_of
from gapbench.commands.showing import showing
from gapbench.commands.wrapping import echo, terminal_width


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--proxy", help="Which one, if the file registers several.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the proxy.")
@click.option("--unsandboxed", is_flag=True, help="Without a sandbox even where there is one.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@limit_options
def check_command(
    file: Path,
    proxy: str | None,
    options: tuple[str, ...],
    unsandboxed: bool,
    as_json: bool,
    time_limit: float,
    memory_limit: float,
) -> None:
    """Check the proxy in FILE on small networks: valid, pure, repeatable, invariant to what, how fast.

    Exit code 1 if a point fails. The networks are made on first use and kept in the cache (GAPBENCH_CACHE).
    """
    from gapbench.checking.check import check
    from gapbench.sandbox import bubblewrap

    missing = bubblewrap.unavailable()
    if missing and not unsandboxed:
        click.echo(
            f"Warning: no sandbox: {missing}. Limits on time and memory hold, but the file can read and write "
            "what you can.",
            err=True,
        )
    with showing(err=True) as say:
        report = check(
            file,
            proxy=proxy,
            options=options_of(options),
            limits=limits_of(time_limit, memory_limit),
            unsandboxed=unsandboxed,
            say=say,
        )
    if as_json:
        click.echo(json.dumps(report.as_dict(), indent=2, allow_nan=False))
    else:
        echo(report.text(terminal_width()))
        where = "" if report.sandboxed else ", without a sandbox"
        echo(
            f"\n{report.proxy}: {'passes' if report.passed else 'does not pass'} ({report.seconds:.0f} s{where})"
        )
        if report.passed:
            echo(f"Next: gapbench submit {file} --run RUN")
    if not report.passed:
        raise click.exceptions.Exit(1)
