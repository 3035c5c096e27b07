"""`gapbench calibrate`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import suites


@click.command("calibrate")
@click.argument("suite", shell_complete=suites)
@click.argument("aims", nargs=-1, required=True, metavar="PROXY.OPTION=VALUE...")
@click.option(
    "--networks",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Of each problem and family, at most.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of what is trained (default: runs/calibrate-SUITE).",
)
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]), show_default=True)
@click.option("--workers", type=click.IntRange(min=1), help="Processes (default: one per core; 4 on CUDA).")
@click.option("--quiet", is_flag=True, help="Say nothing of progress, only what fails and the result.")
def calibrate_command(
    suite: str,
    aims: tuple[str, ...],
    networks: int,
    out: Path | None,
    data_dir: Path | None,
    device: str,
    workers: int | None,
    quiet: bool,
) -> None:
    """Find the options at which proxies are as large in every problem and family.

    SUITE is a suite, of which a small balanced part is trained, or the folder of a run. In
    sharpness_full.radius=0.1 the radius is found at which the median rise of the loss is 0.1 nats. Prints
    the [[measure.calibration]] tables of a suite, where options of proxies then name these numbers.
    """
    from gapbench.commands.progress import progress
    from gapbench.commands.showing import showing
    from gapbench.pilot.calibrating import aim_of, calibrate, toml_of

    wanted = [aim_of(text) for text in dict.fromkeys(aims)]
    with progress(quiet, None, False) as shown, showing(err=True) as say:
        strata = calibrate(
            suite,
            wanted,
            networks,
            out,
            device=device,
            data_dir=data_dir,
            workers=workers,
            progress=shown,
            say=(lambda text: None) if quiet else say,
        )
    click.echo(toml_of(strata))
    if any(stratum.missing for stratum in strata):
        raise click.exceptions.Exit(1)
