"""The command line. Imports click alone; each command imports what it needs when it is called."""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Any

import click

from gapbench_base.errors import DiskFull, GapbenchError, NotDefined
from gapbench_base.suggestions import did_you_mean
from gapbench_base.unread import readers_may_leave
from gapbench_base.version import __version__

COMMANDS = {
    "run": "train, measure, score and build the board of a suite; resumes",
    "status": "how far a run is: done, running, failed, time left; also while it works",
    "retry": "train and measure again only what failed in a run",
    "pilot": "train a small part of a suite: what the whole would cost and could decide",
    "calibrate": "radii at which the loss rises as far in every problem and family of a suite",
    "score": "rank statistics of your own table of networks and measures",
    "new": "write a commented template of a proxy",
    "check": "is this proxy valid, pure, repeatable, invariant to what, how fast",
    "submit": "measure a proxy on a trained population in a sandbox, add it to the board",
    "entries": "list the submissions of a run; withdraw or rename one",
    "audit": "which proxies change when a network's function does not",
    "verify": "measure an entry again, on the same or on freshly trained networks",
    "measure": "all proxies of a network that you trained yourself",
    "import-population": "make networks trained elsewhere a population of their own",
    "list": "list tasks, models, proxies or suites",
    "info": "what is known of a proxy, suite, family or task; versions, devices and data found",
    "fetch": "download CIFAR-10, CIFAR-100, MNIST or SVHN into the data folder, verified",
    "merge": "make one run of several parts of a suite",
    "board": "rebuild the board of a run, join several runs, show it",
    "plot": "static figures of a board (PNG, SVG)",
    "diff": "what changed between two boards",
    "publish": "mirror a run's board to wandb, online or offline",
    "gc": "remove weight files that no row of a run names, and half-written files",
    "pack": "make one checksummed archive of a run, with its weights",
    "pull": "fetch a population with its weights: a pack, or from wandb",
}


class _Lazy(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"gapbench.commands.{name.replace('-', '_')}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        hint = did_you_mean(args[0], COMMANDS)
        if args[0] not in COMMANDS and hint:
            context.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(context, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="gapbench %(version)s")
def cli() -> None:
    """Which numbers computed from a trained network predict its test gap?

    Exit codes: 0 all well, 1 a network or measurement failed or the disk is full, 2 wrong usage or unusable
    input.
    """


RESUMING = {"run", "pilot", "calibrate", "submit", "verify", "fetch", "merge", "pull", "retry"}
"""Commands that keep what is finished and go on from there."""


def _interrupted(arguments: list[str]) -> str:
    """What is true of the command that was interrupted."""
    if arguments and arguments[0] in RESUMING:
        return "Interrupted. Finished results are kept; the same command goes on from there."
    return "Interrupted. Nothing was written that was not finished; the same command begins anew."


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: errors that a user can mend are one message and exit code 2, never a traceback.

    Where the reader of the output ends (`| head`), the command does its work to the end.
    """
    with readers_may_leave():
        sys.exit(_exit_code(arguments))


def _exit_code(arguments: list[str] | None) -> int:
    try:
        code = cli.main(arguments, prog_name="gapbench", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo(_interrupted(sys.argv[1:] if arguments is None else arguments), err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:  # a full disk, a read-only folder, a file that is a folder
        where = f": {error.filename}" if error.filename is not None else ""
        click.echo(f"Error: {error.strerror or error}{where}", err=True)
        return 1 if error.errno == errno.ENOSPC else 2
    except (GapbenchError, NotDefined) as error:
        click.echo(f"Error: {error}", err=True)
        return 1 if isinstance(error, DiskFull) else 2
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
