"""Fixtures shared by all tests."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
import torch

from oracles import data_root

torch.set_num_threads(1)  # many threads on a busy machine cost more than they give


@pytest.fixture(scope="session")
def check_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the networks of `gapbench check`, made once for all processes of a test run."""
    from gapbench.checking.population import check_population

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "check-cache"
    with folder.with_suffix(".lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        patch.setenv("GAPBENCH_CACHE", str(folder))
        check_population()
    return folder


@pytest.fixture(scope="session")
def real_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the official CIFAR-10 and MNIST; skips where they are not to be had."""
    return data_root(tmp_path_factory)
