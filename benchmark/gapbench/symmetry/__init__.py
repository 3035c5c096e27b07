"""Continuous symmetries of networks: `find`, then project, transform, certify, balance."""

from gapbench.symmetry.find import Symmetry, find

__all__ = ["Symmetry", "find"]
