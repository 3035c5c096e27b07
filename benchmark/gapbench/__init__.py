"""gapbench: which numbers computed from a trained network predict its test gap?

Names are imported on first use, so that `import gapbench` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gapbench_base.version import __version__

_ORIGIN = {
    "Context": "gapbench.proxies.context",
    "Estimate": "gapbench.proxies.results",
    "GapbenchError": "gapbench_base.errors",
    "Measurement": "gapbench.proxies.results",
    "NotApplicable": "gapbench.proxies.results",
    "Run": "gapbench.runs.run",
    "build_model": "gapbench_models",
    "list_models": "gapbench_models",
    "list_proxies": "gapbench.proxies.registry",
    "list_suites": "gapbench.suites.suite",
    "list_tasks": "gapbench_tasks",
    "load_task": "gapbench_tasks",
    "measure": "gapbench.proxies.measuring",
    "measure_all": "gapbench.foreign.measuring",
    "open_run": "gapbench.runs.run",
    "proxy": "gapbench.proxies.registry",
    "run": "gapbench.running",
    "score_table": "gapbench_leaderboard.scores",
}
_MODULES = ("invariance", "measures", "symmetry")
__all__ = [*sorted((*_ORIGIN, *_MODULES)), "__version__"]

if TYPE_CHECKING:
    from gapbench import invariance as invariance
    from gapbench import measures as measures
    from gapbench import symmetry as symmetry
    from gapbench.foreign.measuring import measure_all as measure_all
    from gapbench.proxies.context import Context as Context
    from gapbench.proxies.measuring import measure as measure
    from gapbench.proxies.registry import list_proxies as list_proxies
    from gapbench.proxies.registry import proxy as proxy
    from gapbench.proxies.results import Estimate as Estimate
    from gapbench.proxies.results import Measurement as Measurement
    from gapbench.proxies.results import NotApplicable as NotApplicable
    from gapbench.running import run as run
    from gapbench.runs.run import Run as Run
    from gapbench.runs.run import open_run as open_run
    from gapbench.suites.suite import list_suites as list_suites
    from gapbench_base.errors import GapbenchError as GapbenchError
    from gapbench_leaderboard.scores import score_table as score_table
    from gapbench_models import build_model as build_model
    from gapbench_models import list_models as list_models
    from gapbench_tasks import list_tasks as list_tasks
    from gapbench_tasks import load_task as load_task


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gapbench.{name}")
    if name not in _ORIGIN:
        raise AttributeError(f"module 'gapbench' has no attribute {name!r}")
    value = getattr(importlib.import_module(_ORIGIN[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ORIGIN, *_MODULES})
