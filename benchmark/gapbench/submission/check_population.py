"""The small population of `gapbench check`: made on first use, then kept in the user's cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from gapbench.errors import GapbenchError
from gapbench.submission.population import Population, open_population

RANKED = ("plain/mlp", "plain/cnn")
"""Families that it has in several widths, among which a proxy's order is looked at."""

WAIT_SECONDS = 180.0


def cache_folder() -> Path:
    """Where it is kept: GAPBENCH_CACHE, else XDG_CACHE_HOME/gapbench, else ~/.cache/gapbench."""
    own = os.environ.get("GAPBENCH_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapbench"


def suite_text() -> str:
    """The suite, with every model family that the bundled text does not name (those of plug-ins)."""
    from gapbench_models import list_models

    text = (resources.files("gapbench") / "submission" / "check.toml").read_text(encoding="utf-8")
    others = [name for name in list_models() if f'"{name}"' not in text]
    if others:
        names = ", ".join(f'"{name}"' for name in others)
        text += (
            '\n[[grid]]\ntask = "digits_rotations"\ntask_options = { train_size = 60 }\n'
            "training = { max_epochs = 2, learning_rate = 0.02 }\n[grid.axes]\n"
            f"family = [{names}]\nwidth = [0.0625]\nseed = [0]\n"
        )
    return text


def check_population(say: Callable[[str], None] = lambda text: None) -> Population:
    """Open it, training it first where it is not complete. Raises `GapbenchError` if that is not possible."""
    from gapbench.environment import versions
    from gapbench.population.plan import content_key
    from gapbench.running import run

    text = suite_text()
    key = content_key({"suite": text, "versions": versions()})
    folder = cache_folder() / f"check-{key}"
    ready = folder / "complete"
    if not ready.exists():
        say("Making the networks to check on (once; kept in the cache).")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GapbenchError(f"The cache folder {folder} cannot be used: {error.strerror}.") from None
        suite = folder / "check.toml"
        suite.write_text(text, encoding="utf-8")
        deadline = time.monotonic() + WAIT_SECONDS
        while not ready.exists():
            try:
                made = run(suite, folder, device="cpu", board=False)
            except GapbenchError as error:
                if "working on" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(1.0)  # another check makes it at this moment
                continue
            if made.problems or made.failures:
                raise GapbenchError(
                    f"The networks to check on could not be made: {made.failures or made.problems}"
                )
            ready.touch()
    return open_population(folder)
