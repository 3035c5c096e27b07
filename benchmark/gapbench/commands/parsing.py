"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.sandbox.limits import Limits


PROXY_GROUPS = "all, central and cheap stand for several (gapbench list proxies)"


def engine_options(what: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """`--engine` and `--address`; `what` is done on a cluster, in words."""

    def add(command: Callable[..., object]) -> Callable[..., object]:
        command = click.option(
            "--address",
            metavar="HOST:PORT",
            help="Of the Ray cluster (default: RAY_ADDRESS, or one that runs on this machine or is started here).",
        )(command)
        return click.option(
            "--engine",
            type=click.Choice(["local", "ray"]),
            default="local",
            show_default=True,
            help=f"ray: {what}.",
        )(command)

    return add


def limit_options(command: Callable[..., object]) -> Callable[..., object]:
    """`--time-limit` and `--memory-limit`."""
    command = click.option(
        "--memory-limit",
        type=click.FloatRange(min=0.1),
        default=4.0,
        show_default=True,
        help="GiB beyond the network, its data and the libraries.",
    )(command)
    return click.option(
        "--time-limit",
        type=click.FloatRange(min=0.1),
        default=60.0,
        show_default=True,
        help="Seconds for each network; waiting for a busy processor is not counted.",
    )(command)


def limits_of(time_limit: float, memory_limit: float) -> Limits:
    """The limits that the options give."""
    from gapbench.sandbox.limits import Limits

    return Limits(seconds=time_limit, memory=int(memory_limit * 2**30))


def options_of(texts: Sequence[str]) -> dict[str, object]:
    """NAME=VALUE texts as a table; values are numbers, true, false, or text. Raises `GapbenchError`."""
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise GapbenchError(f"--option {text!r}: give NAME=VALUE.")
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        found[name] = parsed if isinstance(parsed, bool | int | float | str) else value
    return found
