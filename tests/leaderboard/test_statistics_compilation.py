"""The compiled loops work where no machine code can be kept, and the package imports no torch."""

from __future__ import annotations

import os
import subprocess
import sys

WITHOUT_A_CACHE = """
import numba.core.caching as caching

def refuse(self):
    raise PermissionError(13, "read-only file system")

caching._CacheLocator.ensure_cache_path = refuse
import numpy as np
import gapbench_leaderboard.statistics
from gapbench_leaderboard.statistics.calibration import isotonic_curve
print(isotonic_curve(np.arange(3.0), np.array([1.0, 3.0, 2.0]), np.ones(3)).values)
"""
WITHOUT_TORCH = """
import sys
import gapbench_leaderboard.scores
import gapbench_leaderboard.statistics
print([name for name in ("torch", "torchvision", "timm", "wandb") if name in sys.modules])
"""


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_loops_compile_where_the_cache_cannot_be_written() -> None:
    assert run(WITHOUT_A_CACHE) == "[1.  2.5 2.5]"


def test_scoring_imports_no_torch() -> None:
    assert run(WITHOUT_TORCH) == "[]"
