"""Fetches a published population and its board, so that a new proxy can be scored without training."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from gapbench_leaderboard.board.publishing import artifact_names, check_project, in_bounded_time
from gapbench_leaderboard.board.wandb_server import unreachable
from gapbench_leaderboard.scores import TableError

NEEDED = ("run.sqlite", "weights")


def pull(
    suite: str,
    *,
    project: str,
    entity: str | None = None,
    version: str | None = None,
    trial: bool = False,
    folder: Path,
    seconds: float = 1800,
) -> Path:
    """Download the population of a suite into `folder`: `run.sqlite`, `weights/`, `board/`, `entries/`.

    Nothing appears at `folder` before everything is there.

    Args:
        suite: its name.
        project: wandb's project.
        entity: its owner; wandb's default if not given.
        version: of the suite; the latest that was published if not given.
        trial: an incomplete population; without it only complete ones are fetched.
        folder: that must not exist, or be empty.
        seconds: that the download may take.

    Returns:
        The folder.

    Raises:
        TableError: if the folder exists and is not empty, wandb cannot be reached, or it has no such artifact.
    """
    check_project(project)
    if not re.fullmatch(r"[^/\\]+", suite) or suite in (".", ".."):
        raise TableError(
            f"{suite!r} is no name of a suite: give the name alone, such as quick, and a folder by --out"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TableError(f"{folder} exists already; give another folder with --out")
    why = unreachable()
    if why is not None:
        raise TableError(f"nothing can be fetched from wandb: {why}")
    board, weights, alias = artifact_names(suite, version, trial)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
        whole = Path(place) / "run"
        artifacts = [
            {"name": weights, "type": "population", "alias": alias, "folder": str(whole)},
            {"name": board, "type": "board", "alias": alias, "folder": str(whole / "board")},
        ]
        specification = {"project": project, "entity": entity, "artifacts": artifacts}
        lines = in_bounded_time("wandb_download", specification, seconds)
        wrong = [line.partition(" ")[2] for line in lines if line.startswith("error ")]
        if wrong:
            raise TableError(
                f"wandb gave no {wrong[0]}. Was it published with --with-weights, and may you read the project?"
            )
        if sum(line.startswith("done ") for line in lines) < len(artifacts):
            raise TableError(f"wandb did not deliver everything within {seconds:g} s; nothing was kept")
        missing = [name for name in NEEDED if not (whole / name).exists()]
        if missing:
            raise TableError(f"the artifact {weights} has no {' and no '.join(missing)}: it is no population")
        if (whole / "board" / "entries").is_dir():
            shutil.move(whole / "board" / "entries", whole / "entries")
        if folder.is_dir():
            folder.rmdir()
        os.rename(whole, folder)
    return folder
