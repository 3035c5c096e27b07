"""Every command that README and the documents show is run: here as it stands, or where `ELSEWHERE` says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmark.conftest import WALLS

ROOT = Path(__file__).parent.parent
WRITTEN = ("cli.md", "suites.md", "terminals.md", "architecture.md")
"""Documents that scripts write from the code, or of commands that they run."""
FEW = "--proxies param_norm,random,parameter_count,train_loss"
SHORT = f"--limit 4 {FEW}"
ELSEWHERE = {
    r"publish .*--wandb-project \S+( --entity \S+)?( --with-weights)?$": (
        "leaderboard/test_board_online.py",
        "publish",
    ),
    r"pull .*--wandb-project": ("leaderboard/test_board_online.py", "pull("),
    r"pull (https|hf)://": ("benchmark/runs/test_pulling.py", "pull_pack("),
    r"score pgdl_": ("leaderboard/test_statistics_published.py", "pgdl"),
    r"measure ": ("benchmark/foreign/test_foreign.py", '"measure"'),
    r"import-population ": ("benchmark/foreign/test_importing.py", "import_population"),
    r"run width_study": ("benchmark/suites/test_suite.py", 'load_suite("width_study")'),
    r"run suite.toml": ("test_extending.py", "suite.toml"),
    r"run quick .*--address": ("benchmark/population/test_ray.py", '"--address", cluster.address'),
    r"run quick .*--weights s3:": ("benchmark/runs/test_weights_elsewhere.py", 'away(tmp_path / "there")'),
    r"(submit|verify) .*--engine ray": (
        "benchmark/submission/test_ray_submission.py",
        '"engine": "ray", "address": cluster.address',
    ),
    r"verify .*--fresh-seeds": ("benchmark/submission/test_submit.py", "fresh_seeds=True"),
}
"""Commands that need a server, data or files of one's own, or train a whole suite: the test of what they do, and
what stands in it. Of the width study the suite is only read."""
SHORTER = {
    r"run( quick)?$": f"run quick {SHORT}",
    r"run quick --repeats 2$": f"run quick --repeats 2 {SHORT}",
    r"run quick --engine ray$": f"run quick --engine ray {SHORT}",
    r"run quick --weights /": f"run quick --out runs/away --weights weights-of-away {SHORT}",
    r"run quick --budget 10m$": f"run quick --budget 60s {SHORT}",
    r"run compact --budget 2h$": f"run quick --budget 60s {SHORT}",
    r"run quick --shard ": f"run quick --shard 0/40 {SHORT}",
    r"run standard --shard ": f"run quick --shard 0/40 {SHORT}",
    r"merge runs/(quick|standard)-\*": "merge runs/a runs/b --out runs/whole",
    r"run compact --dry-run$": "run quick --dry-run --limit 6 --proxies param_norm",
    r"pilot compact$": "pilot quick --networks 4",
    r"calibrate compact (.*)$": "calibrate runs/quick sharpness_full.radius=0.1 --networks 1",
    r"audit runs/quick$": "audit runs/quick --networks 1 --proxies param_norm",
}
"""The same with fewer networks."""


def shown() -> list[str]:
    """The commands in the blocks of README and documents, in their order, each once."""
    found: dict[str, None] = {}
    for file in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if file.name in WRITTEN or file.name.endswith(".template.md"):
            continue
        for block in re.findall(
            r"^```\w*\n(.*?)^```", file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                command = re.search(r"(?:^|&& )(?:\.venv/bin/)?gapbench ([a-z].*)", line)
                if command:
                    found.setdefault(re.sub(r"\s+", " ", command[1].partition("  #")[0]).strip())
    return [command.replace("runs/compact", "runs/quick") for command in found]


COMMANDS = shown()


def run(command: str, folder: Path, status: int = 0) -> str:
    """What a command prints; it must end with an exit code."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "WANDB_MODE": "offline",
    }
    done = subprocess.run(
        [sys.executable, "-m", "gapbench", *shlex.split(command)],
        cwd=folder, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == status, f"gapbench {command} ended with {done.returncode}:\n{said}"
    assert "Traceback" not in said
    return said


def short(command: str) -> str:
    """The command with fewer networks, and without walls where there are none."""
    for pattern, other in SHORTER.items():
        if re.match(pattern, command):
            return other
    return command + (" --unsandboxed" if WALLS and re.match("submit|verify", command) else "")


OWN = [command for command in COMMANDS if not any(re.match(pattern, command) for pattern in ELSEWHERE)]
HERE = list({short(command): command for command in reversed(OWN)}.values())
"""One of those that are the same when they are short."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the commands speak of: a run with an entry, runs of others, a table."""
    folder = tmp_path_factory.mktemp("stage")
    run(f"run quick --limit 8 {FEW}", folder)
    run("new my_proxy", folder)
    run(short("submit my_proxy.py --run runs/quick"), folder)
    for other in ("a", "b", "colleague"):
        shutil.copytree(folder / "runs/quick", folder / "runs" / other)
    run("pack runs/quick --out quick.zip", folder)
    entry = next((folder / "runs/quick/entries").glob("*.json"))
    shutil.copy(entry, folder / "entry.json")
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"a": np.repeat([1, 2, 3], 12), "b": np.tile([0.1, 0.2], 18)})
    rows["width"], rows["lr"], rows["seed"] = 16 * 2 ** rows["a"], rows["b"] / 10, np.arange(36) % 12 // 2
    rows["augmentation"] = np.where(rows["seed"] % 2, "flip", "none")
    rows["family"], rows["parameters"] = np.where(rows["seed"] > 2, "mlp", "cnn"), rows["width"] ** 2
    rows["train_error"] = 0.01 * random.random(36)
    rows["gap"] = 0.1 * rows["a"] + 0.02 * random.standard_normal(36)
    rows["test_error"], rows["status"] = (
        rows["gap"] + rows["train_error"],
        np.where(rows.index % 9, "ok", "diverged"),
    )
    for measure in ("measure", "sharpness", "margin"):
        rows[measure] = rows["gap"] + 0.2 * random.standard_normal(36)
    rows.to_csv(folder / "TABLE.csv", index=False)
    return folder


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 25
    for pattern, (file, words) in ELSEWHERE.items():
        assert any(re.match(pattern, command) for command in COMMANDS), pattern
        assert words in (ROOT / "tests" / file).read_text(encoding="utf-8"), (pattern, file)


@pytest.mark.slow
@pytest.mark.parametrize("command", HERE)
def test_a_command_that_is_shown_works(
    command: str,
    stage: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if command.startswith("check"):  # on networks that are made once for all tests
        monkeypatch.setenv("GAPBENCH_CACHE", str(request.getfixturevalue("check_cache")))
    folder = tmp_path / "here"
    shutil.copytree(stage, folder)
    if command.startswith("run"):
        shutil.rmtree(folder / "runs")
    if command.startswith("new"):
        (folder / "my_proxy.py").unlink()
    if "--serve" in command:
        served(command, folder)
        return
    said = run(short(command), folder)
    assert said.strip()


def served(command: str, folder: Path) -> None:
    """A board is shown until Ctrl-C."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "gapbench", *shlex.split(command)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background it is ignored
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "http://" in line:
            break
    else:
        raise AssertionError("no address was told")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in (0, 130)
