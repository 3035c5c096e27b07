"""`gapbench audit`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from gapbench.commands.completing import proxies, runs
from gapbench.commands.showing import LOADING, showing
from gapbench_base.errors import GapbenchError


@click.command("audit")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option(
    "--networks", type=click.IntRange(min=1), default=6, show_default=True, help="Size of the sample."
)
@click.option(
    "--proxies", shell_complete=proxies, help="Labels, separated by commas (default: all of the run's suite)."
)
@click.option("--strength", type=float, default=0.5, show_default=True, help="Of the transformations.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the transformations.")
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def audit_command(
    run: Path,
    networks: int,
    proxies: str | None,
    strength: float,
    seed: int,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Which proxies change when the function of a network does not?

    Transforms a sample of the networks in RUN (rescaled units, mixed attention heads, permuted units, ...) and
    measures each proxy before and after. The result goes to RUN/invariances.json; `gapbench board RUN` shows it.
    """
    from gapbench.invariance.population import audit_run
    from gapbench_base.allocation import keep_freed_memory
    from gapbench_base.files import write_atomically

    keep_freed_memory()
    chosen = None if proxies is None else [p.strip() for p in proxies.split(",") if p.strip()]
    target = run / "invariances.json"
    _require_writable(run)
    earlier = _earlier(target, seed) if chosen is not None and target.exists() else None
    with showing(err=True, first=LOADING) as say:
        result = audit_run(
            run,
            networks=networks,
            proxies=chosen,
            strengths=(strength,),
            data_dir=None if data_dir is None else str(data_dir),
            seed=seed,
            say=say,
        )
    if earlier is not None:
        result = _joined(target, earlier, result)
    text = json.dumps(result, indent=1, allow_nan=False)
    try:
        write_atomically(target, text)
    except OSError as error:
        raise GapbenchError(f"The result cannot be written to {target}: {error.strerror}.") from error
    if as_json:
        click.echo(text)
        return
    for label, rows in result["proxies"].items():
        click.echo(label)
        for row in rows:
            if row["verdict"] == "not applicable":
                continue
            change = "" if row["relative_change"] is None else f"  median change {row['relative_change']:.1e}"
            tau = (
                "" if row["rank_correlation"] is None else f"  tau before/after {row['rank_correlation']:.2f}"
            )
            note = f"  ({row['reason']})" if row["reason"] else ""
            click.echo(f"  {row['kind']:32s} {row['verdict']:14s}{change}{tau}{note}")
    click.echo(f"\nWritten: {run / 'invariances.json'}. Show it on the board: gapbench board {run}")


def _require_writable(run: Path) -> None:
    """Refuse a folder that cannot take the result, before an hour of measuring."""
    if not run.is_dir():
        return  # what is wrong with it is said where it is opened
    try:
        with tempfile.TemporaryFile(dir=run):
            pass
    except OSError as error:
        raise GapbenchError(
            f"The result would be written to {run}, which cannot be written to ({error.strerror}): nothing "
            "was measured. Copy the run to where you may write."
        ) from None


def _earlier(target: Path, seed: int) -> dict[str, object]:
    """What was audited before; read first, so that a refusal costs no audit."""
    try:
        earlier: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
        dict(earlier["proxies"]), int(earlier["networks"]), int(earlier["seed"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GapbenchError(f"{target} cannot be read ({error}). Delete it, or audit all proxies.") from error
    if earlier["seed"] != seed:
        raise _another(target, earlier)
    return earlier


def _joined(target: Path, earlier: dict[str, Any], result: dict[str, Any]) -> dict[str, object]:
    """What was audited before stays, with what is new; only results of one sample stand together."""
    if earlier["networks"] != result["networks"]:
        raise _another(target, earlier)
    return {**result, "proxies": {**earlier["proxies"], **result["proxies"]}}


def _another(target: Path, earlier: dict[str, object]) -> GapbenchError:
    return GapbenchError(
        f"{target} holds an audit of {earlier['networks']} networks with seed {earlier['seed']}; results of "
        "another sample cannot stand beside it. Use the same options, or audit all proxies."
    )
