"""The small population of `gapbench check`: made on first use, then kept in the user's cache.

Kept ready for use: networks as they are handed to the sandboxed process, and transformed ones for the audit
of invariances, so that a check builds no network and finds no symmetries. Imports no torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gapbench.population.stored import Member, Population
from gapbench.runs.identity import Identity
from gapbench.sandbox.protocol import clean
from gapbench_base.errors import GapbenchError
from gapbench_base.files import write_atomically

RANKED = ("plain/mlp", "plain/cnn")
"""Families that it has in several widths, among which a proxy's order is looked at."""

AUDITED = ("plain/mlp", "timm/convmixer", "timm/vit_tiny")
"""Families whose widest network is audited: rescaled units, batch normalisation, attention."""

INDEX = "prepared.json"
TOLD = "made one of "
"""Before the number of networks, in a line for each that is made."""
NETWORKS, EACH, STARTING = 35, 0.3, 6.5
"""How many networks there are, the seconds that one takes, and the seconds before the first, until it is known."""
AFTERWARDS = 16.0
"""Seconds that preparing the audit, starting the sandbox and a check of a cheap proxy take then, on a machine on
which the others are right; as many times more on a slower one."""
LOADING = 4.0
"""Seconds in which a file is loaded on such a machine."""
TOOK = "loading.txt"
"""In the folder of the networks: how many it took the last time."""
CODE = ("gapbench_base", "gapbench_models", "gapbench_tasks", "gapbench")
"""Packages whose sources decide what the networks are."""


@dataclass(frozen=True)
class AuditCase:
    """A network before (`kind` empty) or after a transformation: its file, or the `reason` there is none."""

    family: str
    kind: str
    strength: float
    file: str
    reason: str


@dataclass(frozen=True)
class CheckPopulation:
    """The population of a check.

    Its networks packed (by cell), the modules that define their classes, what the baselines are (label -> cell ->
    value), the seconds of one pass over a network's data (by cell), and networks to audit.
    """

    population: Population
    packed: Mapping[str, bytes]
    modules: tuple[str, ...]
    baselines: Mapping[str, Mapping[str, float]]
    passes: Mapping[str, float]
    audits: tuple[AuditCase, ...]

    def audit_network(self, case: AuditCase) -> bytes:
        """A packed network of the audit."""
        return (self.population.folder / case.file).read_bytes()


def cache_folder() -> Path:
    """Where it is kept: GAPBENCH_CACHE, else XDG_CACHE_HOME/gapbench, else ~/.cache/gapbench."""
    own = os.environ.get("GAPBENCH_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapbench"


def suite_text() -> str:
    """The suite, with every model family that the bundled text does not name (those of plug-ins)."""
    from gapbench_models import list_models

    text = (resources.files("gapbench") / "checking" / "check.toml").read_text(encoding="utf-8")
    others = [name for name in list_models() if f'"{name}"' not in text]
    if others:
        names = ", ".join(f'"{name}"' for name in others)
        text += (
            '\n[[grid]]\ntask = "digits_rotations"\ntask_options = { train_size = 60 }\n'
            "training = { max_epochs = 2, learning_rate = 0.02 }\n[grid.axes]\n"
            f"family = [{names}]\nwidth = [0.0625]\nseed = [0]\n"
        )
    return text


def check_packages() -> list[str]:
    """Packages beside gapbench's that its networks come from, known before they are made."""
    from gapbench.population.stored import packages_of
    from gapbench.suites.suite import parse_suite

    suite = parse_suite(suite_text(), "of gapbench check")
    return packages_of(configuration.family for configuration in suite.configurations)


def is_made() -> bool:
    """Whether it lies in the cache, complete."""
    return (_place(suite_text()) / INDEX).exists()


def _place(text: str) -> Path:
    """The folder of the networks of a suite, made by this code and these versions of the libraries."""
    from gapbench.runs.environment import versions
    from gapbench_base.keys import content_key

    key = content_key({"suite": text, "versions": versions(), "code": _code()})
    return (cache_folder() / f"check-{key}").absolute()


def check_population(say: Callable[[str], None] = lambda text: None) -> CheckPopulation:
    """Open it, making it first where it is not complete. Raises `GapbenchError` if that is not possible."""
    text = suite_text()
    folder = _place(text)
    if not (folder / INDEX).exists():
        say("Making the networks to check on (once; kept in the cache).")
        _make(folder, text, say)
    try:
        return _opened(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GapbenchError(f"The cache {folder} is damaged ({error}); delete it and try again.") from error


def _code() -> str:
    digest = hashlib.sha256()
    for package in CODE:
        for path in sorted(Path(str(resources.files(package))).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _make(folder: Path, text: str, say: Callable[[str], None]) -> None:
    """In a process of its own, which neither this one's settings nor its patches reach."""
    from gapbench.runs.countdown import Countdown

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "check.toml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise GapbenchError(f"The cache folder {folder} cannot be used: {error.strerror}.") from None
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    path = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gapbench.checking.preparing", str(folder)],
            env={**os.environ, **threads, **path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        began, made, pace = time.monotonic(), 0, 1.0
        countdown = Countdown(
            NETWORKS, say, lambda: AFTERWARDS * pace, "networks made", typical=EACH, before=STARTING
        )
        with process:
            for line in process.stdout or ():  # one for each network, with how many there are
                if line.startswith(TOLD):
                    made += 1
                    pace = slowness(time.monotonic() - began, made)
                    countdown.total = int(line.removeprefix(TOLD))
                    countdown.more()
        said.seek(0)
        errors = said.read().strip()
    if process.returncode != 0 or not (folder / INDEX).exists():
        why = clean(errors.splitlines()[-1]) if errors else "it gave no reason"
        raise GapbenchError(f"The networks to check on could not be made: {why}")
    remember_loading(folder, LOADING * pace)


def expected_loading(folder: Path) -> float:
    """Seconds that loading a file takes, as the last time on this machine."""
    try:
        return min(60.0, max(0.5, float((folder / TOOK).read_text(encoding="utf-8"))))
    except (OSError, ValueError):
        return LOADING


def remember_loading(folder: Path, seconds: float) -> None:
    """Keep what loading a file took, for the next forecast; a folder that cannot be written to is none's fault."""
    with contextlib.suppress(OSError):
        write_atomically(folder / TOOK, f"{seconds:.3f}\n".encode())


def slowness(seconds: float, made: int) -> float:
    """How many times longer than foretold it took until so many networks were made; 1 before the first."""
    return 1.0 if made == 0 else seconds / (STARTING + EACH * made)


def _opened(folder: Path) -> CheckPopulation:
    from gapbench.suites.suite import parse_suite

    content: dict[str, Any] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    suite = parse_suite((folder / "check.toml").read_text(encoding="utf-8"), f"of {folder}")
    members = tuple(
        Member(entry["cell"], entry["sha256"], suite.configurations[entry["configuration"]])
        for entry in content["members"]
    )
    identity = Identity(content["fingerprint"], len(members), len(members))
    return CheckPopulation(
        population=Population(folder, content["data"], suite, members, identity),
        packed={member.key: (folder / f"{member.key}.packed").read_bytes() for member in members},
        modules=tuple(content["modules"]),
        baselines=content["baselines"],
        passes=content["passes"],
        audits=tuple(AuditCase(**case) for case in content["audits"]),
    )
