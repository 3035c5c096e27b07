"""`gapbench entries`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapbench.commands.completing import entries, runs
from gapbench.commands.wrapping import echo

if TYPE_CHECKING:
    from gapbench.submission.comparing import Comparison
    from gapbench.submission.keeping import Listed


@click.command("entries")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option(
    "--withdraw",
    metavar="NAME",
    shell_complete=entries,
    help="Take an entry off the board; nothing of it is deleted.",
)
@click.option("--put-back", metavar="NAME", help="Put a withdrawn entry back on the board.")
@click.option(
    "--rename", nargs=2, metavar="NAME NEW", help="Give an entry another name on the board.", default=None
)
@click.option(
    "--compare",
    metavar="NAME",
    shell_complete=entries,
    help="Compare an entry with its version before, or with the row of --with.",
)
@click.option(
    "--with", "other", metavar="OTHER", help="Any row of the board: an entry, or a proxy of the suite."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def entries_command(
    run: Path,
    withdraw: str | None,
    put_back: str | None,
    rename: tuple[str, str] | None,
    compare: str | None,
    other: str | None,
    as_json: bool,
) -> None:
    """List the submitted proxies of a RUN: score, networks, who by, verified or not; change one, or compare two.

    To measure an entry again: gapbench verify NAME --run RUN. A changed file is a new version: gapbench submit.
    """
    from gapbench.submission import keeping
    from gapbench_base.errors import GapbenchError

    asked = [name for name in (withdraw, put_back, rename, compare) if name is not None]
    if len(asked) > 1:
        raise GapbenchError("Give one of --withdraw, --put-back, --rename and --compare at a time.")
    if other is not None and compare is None:
        raise GapbenchError("--with says what to --compare an entry with: give both.")
    if compare is not None:
        _compare(run, compare, other or "", as_json)
        return
    if withdraw is not None:
        entry = keeping.withdraw(run, withdraw, echo)
        echo(f"{entry.label} is off the board. To undo it: gapbench entries {run} --put-back {entry.id}")
        return
    if put_back is not None:
        echo(f"{keeping.put_back(run, put_back, echo).label} is on the board again.")
        return
    if rename is not None:
        echo(f"{rename[0]} is now {keeping.rename(run, *rename, echo).label}.")
        return
    found = keeping.listed(run)
    if as_json:
        click.echo(json.dumps([_plain(entry) for entry in found], indent=2, allow_nan=False))
    elif not found:
        echo(f"{run} has no entries. To add one: gapbench submit FILE.py --run {run}")
    else:
        _print(found)
    for waiting in keeping.begun(run) if not as_json else ():
        echo(waiting.words + ("" if waiting.refused else " The same gapbench submit goes on with it."))


def _compare(run: Path, one: str, other: str, as_json: bool) -> None:
    import dataclasses

    from gapbench.submission.comparing import compared
    from gapbench_leaderboard.board.numbers import plain_members

    found = compared(run, one, other)
    if as_json:
        click.echo(json.dumps(plain_members(dataclasses.asdict(found)), indent=2, allow_nan=False))
    else:
        echo("\n".join(_compared(found)))


def _compared(found: Comparison) -> list[str]:
    """Both headlines, their difference, on how many networks the values are the same, and what changed."""
    sides = (found.first, found.second)
    width = max(len("difference"), *(len(side.label) for side in sides))
    lines = [f"{'':<{width}}  {'tau':>6}  {'95 % interval':<16}  networks"]
    for side in sides:
        ended = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in side.statuses.items())
        lines.append(
            f"{side.label:<{width}}  {_tau(side.tau)}  {_interval(side.low, side.high):<16}  {side.networks} of "
            f"{found.networks} ({ended or 'not measured'})"
        )
    told = "they differ" if found.told_apart else "they cannot be told apart"
    p = f"of this pair alone p = {found.p:.2g}: {told}" if found.p == found.p else "not known"
    lines.append(
        f"{'difference':<{width}}  {_tau(found.difference)}  {_interval(found.low, found.high):<16}  {p}"
    )
    lines.append("")
    alike = f"; tau between them {found.alike:.3f}" if found.alike == found.alike else ""
    lines.append(f"{found.both} networks have a value of both, {found.equal} of them the same{alike}")
    lines += [f"changed: {text}" for text in found.changed]
    return lines


def _tau(value: float) -> str:
    return f"{value:6.3f}" if value == value else f"{'-':>6}"


def _interval(low: float, high: float) -> str:
    return f"[{low:6.3f}, {high:6.3f}]" if low == low else ""


def _plain(listed: Listed) -> dict[str, object]:
    entry = listed.entry
    return {
        "id": entry.id,
        "name": entry.name,
        "label": entry.label,
        "version": entry.version,
        "proxy": entry.proxy,
        "options": dict(entry.options),
        "authors": entry.authors or "",
        "submitted": entry.submitted or "",
        "source_sha256": entry.source_sha256,
        "statuses": dict(entry.statuses),
        "tau": entry.claimed.value,
        "low": entry.claimed.low,
        "high": entry.claimed.high,
        "withdrawn": listed.withdrawn,
        "remarks": list(listed.remarks),
    }


def _print(found: list[Listed]) -> None:
    from gapbench.runs.entries import networks_of

    width = max(len("entry"), *(len(listed.entry.label) for listed in found))
    counts = {listed.entry.id: networks_of(listed.entry) for listed in found}
    wide = max(len("networks"), *map(len, counts.values()))
    echo(f"{'entry':<{width}}  {'tau with the gap':<22}  {'networks':>{wide}}  {'submitted':<10}  by")
    for listed in found:
        entry, claimed = listed.entry, listed.entry.claimed
        tau = "not defined" if claimed.value is None else f"{claimed.value:.3f}"
        if claimed.low is not None and claimed.high is not None:
            tau += f" [{claimed.low:.3f}, {claimed.high:.3f}]"
        day = (entry.submitted or "")[:10]
        line = f"{entry.label:<{width}}  {tau:<22}  {counts[entry.id]:>{wide}}  {day:<10}  {entry.authors or '-'}"
        echo(line + ("  (withdrawn)" if listed.withdrawn else ""))
        changed = {k: v for k, v in entry.options.items() if v != entry.default_options.get(k)}
        if changed:
            echo(f"  options: {', '.join(f'{key}={value}' for key, value in changed.items())}")
        for remark in listed.remarks:
            echo(f"  {remark}")
