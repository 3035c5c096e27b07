"""Where published tables, reference cases and real data are found; tests that need them skip without."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("GAPBENCH_ORACLES", Path(__file__).parents[1] / ".." / "shared")).resolve()


def oracle(*parts: str) -> Path:
    """Path of an oracle file; skips the test where it is absent."""
    path = ROOT.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs the oracle {'/'.join(parts)} (set GAPBENCH_ORACLES to the folder that has it)")
    return path


def reference_cases() -> dict[str, dict[str, Any]]:
    """The closed-form and brute-force cases by name."""
    cases = json.loads(oracle("reference", "cases.json").read_text())["cases"]
    return {case["name"]: case for case in cases}


def reference_network(case: dict[str, Any]) -> Any:
    """(network, inputs, targets, loss) of a case, or None where it is no network."""
    path = oracle("reference", "nets.py")
    spec = importlib.util.spec_from_file_location("reference_nets", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build(case)


def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the real CIFAR-10 and MNIST: GAPBENCH_DATA, or made once from the oracles."""
    if os.environ.get("GAPBENCH_DATA"):
        return Path(os.environ["GAPBENCH_DATA"])
    script = oracle("data", "make_root.py")
    import subprocess

    root = tmp_path_factory.mktemp("data")
    subprocess.run([sys.executable, str(script), str(root)], check=True, capture_output=True)
    return root
