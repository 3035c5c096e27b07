"""Derivatives of an architecture are tested as a whole once in a process, of its other networks in part.

Whether automatic differentiation gives the derivatives of a network is a matter of its operations, which networks
of one family, width and depth share; every network is still tested along random directions
(`curvature.loss.Landscape.findings`). Families of plug-ins may do other things at other parameters: they are tested
as a whole each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.curvature.derivatives import DerivativeDefects
from gapbench.proxies.context import TRUSTED, Context
from gapbench_models import describe

if TYPE_CHECKING:
    from gapbench.population.jobs import Setup
    from gapbench.suites.configuration import Configuration

OWN = ("gapbench_models", "timm", "torchvision")
"""Packages whose networks do the same at all parameters."""
MOST = 256
"""Architectures that are remembered."""
PASSED = DerivativeDefects(None, None)
_PASSED: dict[tuple[object, ...], DerivativeDefects] = {}


def trust_tested(configuration: Configuration, setup: Setup, context: Context) -> None:
    """Let the network of a context be tested in part where another one of its architecture passed all tests."""
    before = _PASSED.get(_architecture(configuration, setup, context))
    if before is not None:
        context._cache[TRUSTED] = before


def note_tested(configuration: Configuration, setup: Setup, context: Context) -> None:
    """Remember that the network of a context passed all tests, if it was tested and did."""
    package = describe(configuration.family).builder.partition(".")[0].partition(":")[0]
    landscape = context.__dict__.get("landscape")
    found = None if landscape is None else landscape._findings  # None where nothing needed derivatives
    if package in OWN and found == PASSED and len(_PASSED) < MOST:
        _PASSED.setdefault(_architecture(configuration, setup, context), found)


def _architecture(configuration: Configuration, setup: Setup, context: Context) -> tuple[object, ...]:
    """All that decides which operations a network consists of."""
    training = configuration.training
    example = (tuple(context.inputs.shape[1:]), context.inputs.dtype, tuple(context.targets.shape[1:]))
    shapes = tuple((name, tuple(p.shape), p.dtype) for name, p in context.model.named_parameters())
    return (
        configuration.family,
        configuration.width,
        training.depth,
        training.activation,
        setup.loss,
        *example,
        shapes,
    )
