"""Writes records to wandb, in a process of its own that its parent may end: `python -m ... SPECIFICATION`.

With `wandb_download` the only module that imports wandb. A line `done IDENTIFIER` on standard output says
that a run is complete, a line `error ...` why the rest is not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BOARD_FILES = (
    "scores.csv", "population.csv", "measurements.csv", "invariances.csv", "data.json", "board.md", "index.html",
)  # fmt: skip
BATCH = 50_000
"""Rows of a table of scores that wandb shows in the browser; the artifact holds all of them."""


def upload(specification: dict[str, Any]) -> None:
    """One short init-log-finish per record, then one for the leaderboard with its tables and artifacts."""
    done = set(specification["done"])
    for record in specification["records"]:
        if record["identifier"] not in done:
            with _run(specification, record) as run:
                _replace_summary(run, record["summary"])
            print("done", record["identifier"], flush=True)
    board = specification["leaderboard"]
    if board["identifier"] not in done:
        with _run(specification, board) as run:
            _log_board(run, specification, board)
        print("done", board["identifier"], flush=True)


def _run(specification: dict[str, Any], record: dict[str, Any]) -> Any:
    import wandb

    offline = specification["offline"]
    return wandb.init(
        project=specification["project"],
        entity=specification["entity"],
        dir=specification["folder"],
        id=record["identifier"],
        name=record["name"],
        job_type=record["kind"],
        group=specification["group"],
        tags=record["tags"],
        config=record["config"],
        mode="offline" if offline else "online",
        resume=None if offline else "allow",
        settings=wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            save_code=False,
            init_timeout=60,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            host="",
        ),
    )


def _replace_summary(run: Any, summary: dict[str, Any]) -> None:
    """The numbers as they are now: one that is no longer defined must not stay from an earlier publication."""
    for key in list(run.summary.keys()):
        if not key.startswith("_") and key not in summary:
            del run.summary[key]
    run.summary.update(summary)


def _log_plots(run: Any, tables: dict[str, Any]) -> None:
    """Bars of the headline, and the headline against its cost, for each target."""
    import wandb

    for name, table in tables.items():
        if not name.startswith("ranking_"):
            continue
        target = name.removeprefix("ranking_")
        place = [table["columns"].index(column) for column in ("proxy", "value", "seconds")]
        rows: list[Any] = [[row[k] for k in place] for row in table["rows"] if row[place[1]] is not None]
        bars = wandb.Table(columns=["proxy", "tau"], data=[row[:2] for row in rows])
        timed: list[Any] = [row for row in rows if row[2] is not None]
        cost = wandb.Table(columns=["proxy", "tau", "seconds"], data=timed)
        run.log(
            {
                f"plot_tau_{target}": wandb.plot.bar(bars, "proxy", "tau", title=f"tau with {target}"),
                f"plot_cost_{target}": wandb.plot.scatter(
                    cost, "seconds", "tau", title=f"tau with {target} against seconds for one network"
                ),
            }
        )


def _log_board(run: Any, specification: dict[str, Any], board: dict[str, Any]) -> None:
    import wandb

    for name, table in board["tables"].items():
        shown = wandb.Table(columns=table["columns"], data=table["rows"][:BATCH], allow_mixed_types=True)
        run.log({name: shown})
    _log_plots(run, board["tables"])
    run.summary.update(board["summary"])
    artifact = wandb.Artifact(board["artifact"], type="board", metadata=board["config"])
    for file in BOARD_FILES:
        path = Path(specification["board"]) / file
        if path.is_file():
            artifact.add_file(str(path), name=file)
    for name, text in specification["sources"].items():
        with artifact.new_file(name, mode="w", encoding="utf-8") as stream:
            stream.write(text)
    run.log_artifact(artifact, aliases=board["aliases"])
    if specification["weights"]:
        weights = wandb.Artifact(f"{board['artifact']}-weights", type="population")
        weights.add_dir(specification["weights"], name="weights")
        weights.add_file(specification["database"], name="run.sqlite")
        run.log_artifact(weights, aliases=board["aliases"])


if __name__ == "__main__":
    try:
        upload(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except Exception as error:  # said to the parent, which does not hear wandb's own messages
        print("error", f"{type(error).__name__}: {' '.join(str(error).split())}"[:300], flush=True)
        raise
