"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from oracles import data_root

torch.set_num_threads(1)  # many threads on a busy machine cost more than they give


@pytest.fixture(scope="session")
def real_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the official CIFAR-10 and MNIST; skips where they are not to be had."""
    return data_root(tmp_path_factory)
