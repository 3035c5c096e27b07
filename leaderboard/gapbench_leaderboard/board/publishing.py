"""Mirrors a board to wandb in bounded time; where there is no key or no network, to an offline directory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gapbench_leaderboard.board.content import BoardSuite, Columns
from gapbench_leaderboard.board.document import baseline_labels
from gapbench_leaderboard.board.document_file import read_document
from gapbench_leaderboard.board.mirror import (
    entry_records,
    group,
    is_trial,
    leaderboard_identifier,
    made_with,
    population_tags,
)
from gapbench_leaderboard.board.numbers import plain_cells
from gapbench_leaderboard.board.ranked import ranked
from gapbench_leaderboard.board.scores_file import read_scores
from gapbench_leaderboard.board.wandb_server import unreachable
from gapbench_leaderboard.scores import TableError


@dataclass(frozen=True)
class Published:
    """What was published, and how.

    `runs`: identifiers written; `folder`: of the offline directory, or None; `command`: that uploads
    it; `why`: it is offline, in words.
    """

    runs: tuple[str, ...]
    folder: Path | None
    command: str
    why: str


def publish(
    board: Path,
    *,
    project: str,
    entity: str | None = None,
    offline: bool = False,
    folder: Path,
    seconds: float = 600,
    weights: Path | None = None,
    database: Path | None = None,
    sources: Mapping[str, str] | None = None,
) -> Published:
    """Publish the board in a folder: one run per entry, one for the leaderboard, under stable identifiers.

    Publishing again updates the same runs; after a kill it completes them. What is not done in time,
    and everything where wandb cannot be reached, is written to an offline directory, which replaces an
    earlier offline copy of the same runs.

    Args:
        board: folder of the board.
        project: wandb's project.
        entity: its owner; wandb's default if not given.
        offline: whether to write offline in any case.
        folder: of wandb's files, in which the offline directory is made.
        seconds: within which everything online must be done.
        weights: folder of the networks' weights, for an artifact of their own.
        database: of the run, for the same artifact.
        sources: texts that go into the board's artifact, by their paths in it (entries, code of proxies).

    Returns:
        What was published, and the command that uploads what was written offline.

    Raises:
        TableError: if `board` holds no board, the project's name cannot be used, or `folder` cannot be written.
    """
    check_project(project)
    with tempfile.TemporaryDirectory() as place:
        copy = None if database is None else snapshot(database, Path(place) / "run.sqlite")
        specification = specify(board, project, entity, weights, copy)
        specification["sources"] = dict(sources or {})
        return _publish(specification, project, entity, offline, folder, seconds)


def check_project(project: str) -> None:
    """Refuse a name that wandb does not take for a project.

    Raises:
        TableError: if it is one.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\- ]{0,127}", project):
        raise TableError(
            f"--wandb-project {project!r}: use letters, digits, '-', '_', '.', a letter or digit first, "
            "at most 128"
        )


def snapshot(database: Path, copy: Path) -> Path:
    """A whole copy of a database that may be in use: rows may lie in the log beside the file.

    Returns:
        The path of the copy.

    Raises:
        TableError: if there is none, or it is damaged.
    """
    if not database.is_file():
        raise TableError(f"there is no database {database}")
    try:
        with (
            contextlib.closing(
                sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
            ) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise TableError(f"the database {database} cannot be read: {error}") from error
    return copy


def _publish(
    specification: dict[str, Any],
    project: str,
    entity: str | None,
    offline: bool,
    folder: Path,
    seconds: float,
) -> Published:
    wanted = [record["identifier"] for record in specification["records"]]
    wanted.append(specification["leaderboard"]["identifier"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"the folder {folder} cannot be written: {error.strerror}") from error
    why = "asked for" if offline else unreachable()
    if why is None:
        done, refusal = _upload(
            {**specification, "offline": False, "done": [], "folder": str(folder)}, seconds
        )
        if set(done) >= set(wanted):
            return Published(tuple(done), None, "", "")
        specification["done"] = done
        why = f"wandb took {len(done)} of {len(wanted)} runs within {seconds:g} s"
        why += f"; then: {refusal}" if refusal else ""
    remove_offline(folder, wanted)
    done, _ = _upload({**specification, "offline": True, "folder": str(folder)}, seconds)
    missing = set(wanted) - set(done) - set(specification["done"])
    if missing:
        raise TableError(f"wandb could not write {len(missing)} offline runs to {folder}")
    where = folder / "wandb"
    command = ["wandb", "sync", "--yes", "--project", project, *(["--entity", entity] if entity else [])]
    own, everything = offline_runs(folder, wanted), sorted(where.glob("offline-run-*"))
    if own == everything:
        runs = f"{shlex.quote(str(where))}/offline-run-*"
    else:
        runs = " ".join(shlex.quote(str(path)) for path in own)
    return Published(tuple(wanted), where, f"{shlex.join(command)} {runs}", why)


def specify(
    board: Path, project: str, entity: str | None, weights: Path | None, database: Path | None
) -> dict[str, Any]:
    """Everything that `wandb_upload` needs, as plain JSON."""
    document = read_document(board)
    suite = document["suite"]
    scores = read_scores(board)
    name = f"{suite.get('name')}-v{suite.get('version')}"
    tables: dict[str, Any] = {"scores": _table(scores)}
    labels = baseline_labels(document["proxies"])
    for target in document["targets"]:
        found = ranked(scores, target=target, baselines=labels)
        if found is not None:
            tables[f"ranking_{target}"] = _table(found.table)
    return {
        "project": project,
        "entity": entity,
        "group": group(suite),
        "board": str(board),
        "done": [],
        "sources": {},
        "weights": str(weights) if weights is not None else None,
        "database": str(database) if database is not None else None,
        "records": [record.as_dict() for record in entry_records(document, scores)],
        "leaderboard": {
            "identifier": leaderboard_identifier(suite),
            "name": f"leaderboard {'trial ' if is_trial(suite) else ''}{name}"[:128],
            "kind": "leaderboard",
            "config": {
                **made_with(suite),
                "suite": suite,
                "notes": document["notes"],
                "axes": document["axes"],
            },
            "summary": {"entries": len(document["proxies"]), "networks": _length(document["population"])},
            "tags": ["leaderboard", *population_tags(suite)],
            "tables": tables,
            "artifact": artifact_names(str(suite.get("name")), None, is_trial(suite))[0],
            "aliases": aliases(suite),
        },
    }


def aliases(suite: BoardSuite) -> list[str]:
    """The aliases of a board's artifacts: of the suite's version, and of the population where it is known."""
    fingerprint = (suite.get("population") or {}).get("fingerprint")
    version = artifact_names(str(suite.get("name")), str(suite.get("version")))[2]
    return [version, *([f"population-{fingerprint}"] if fingerprint else [])]


def artifact_names(suite: str, version: str | None, trial: bool = False) -> tuple[str, str, str]:
    """The names of the artifacts of a suite.

    Those of a trial have names of their own, so that who asks for the latest of a suite never gets one.

    Returns:
        The names of the board's and of the population's artifact, and the alias of the version.
    """
    kind = "trial" if trial else "board"
    board = re.sub(r"[^A-Za-z0-9_.\-]", "-", f"gapbench-{kind}-{suite}")[:120]
    alias = re.sub(r"[^A-Za-z0-9_.\-]", "-", f"suite-{suite}-v{version}")[:128]
    return board, f"{board}-weights", "latest" if version is None else alias


def offline_runs(folder: Path, identifiers: list[str]) -> list[Path]:
    """The offline directories of these runs within `folder`."""
    found = (folder / "wandb").glob("offline-run-*")
    return sorted(path for path in found if path.name.rpartition("-")[2] in identifiers)


def remove_offline(folder: Path, identifiers: list[str]) -> None:
    """Delete earlier offline copies of these runs, complete or not: each run is written once."""
    for path in offline_runs(folder, identifiers):
        shutil.rmtree(path)


def _upload(specification: Mapping[str, Any], seconds: float) -> tuple[list[str], str]:
    """Run `wandb_upload` for at most `seconds`; the identifiers that it finished, and wandb's error or ""."""
    lines = in_bounded_time("wandb_upload", specification, seconds)
    done = [line.partition(" ")[2] for line in lines if line.startswith("done ")]
    said = next((line.partition(" ")[2] for line in lines if line.startswith("error ")), "")
    if specification["offline"] and not done and said:
        raise TableError(f"wandb could not write offline runs to {specification['folder']}: {said}")
    return done, said


def in_bounded_time(module: str, specification: Mapping[str, Any], seconds: float) -> list[str]:
    """Run a module that uses wandb in a process of its own for at most `seconds`; the lines that it wrote."""
    with tempfile.TemporaryDirectory() as place:
        path, log = Path(place) / "specification.json", Path(place) / "log"
        path.write_text(json.dumps(specification), encoding="utf-8")
        environment = {
            **os.environ,
            "WANDB_SILENT": "true",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", f"gapbench_leaderboard.board.{module}", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if specification.get("offline") else subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # so that wandb's own service ends with it
            )
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
            finally:
                _end(process)
        return log.read_text(encoding="utf-8", errors="replace").splitlines()


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _table(frame: pd.DataFrame) -> dict[str, Any]:
    columns = [plain_cells(frame[name]) for name in frame.columns]
    return {"columns": [str(name) for name in frame.columns], "rows": [list(row) for row in zip(*columns)]}


def _length(table: Columns) -> int:
    return len(table["cell"] if isinstance(table["cell"], list) else table["cell"]["codes"])
