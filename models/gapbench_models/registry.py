"""The names of the model families and what is known of each without building it. Imports no torch."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from re import fullmatch

from gapbench_base import plugins
from gapbench_base.errors import ModelError
from gapbench_base.scanning import by_name
from gapbench_models.declarations import read_families
from gapbench_models.family import ModelFamily

FAMILIES = "gapbench_models.families"
"""The package whose modules declare the built-in families."""


NAME = r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*"


def list_models() -> list[str]:
    """Names of all families, plain ones first, then by library and name."""
    return list(_known()[0])


def broken_plugins() -> list[tuple[str, str]]:
    """(name, reason) of installed plug-ins for model families that cannot be used."""
    return list(_known()[1])


@cache
def _known() -> tuple[dict[str, ModelFamily], list[tuple[str, str]]]:
    """Families by name, those of plug-ins last, and (name, reason) of plug-ins that cannot be used."""
    own = read_families(FAMILIES)
    wrong = [family.name for family in own if not fullmatch(NAME, family.name)]
    if wrong:
        raise ModelError(
            f"The family {wrong[0]!r} must be called library/architecture in lower-case letters."
        )
    families = by_name("model family", ((family.name, family.builder, family) for family in own))
    broken: list[tuple[str, str]] = []
    objects, failed = plugins.load("gapbench.models")
    broken += failed
    for found in objects:
        if not isinstance(found, ModelFamily):
            broken.append((str(found)[:100], f"a {type(found).__name__}, not a gapbench_models.ModelFamily"))
        elif not fullmatch(NAME, found.name):
            broken.append((found.name, "its name must be library/architecture in lower-case letters"))
        elif found.name in families:
            broken.append((found.name, "there is already a family of this name"))
        else:
            families[found.name] = found
    return families, broken


def describe(name: str) -> ModelFamily:
    """What is known of a family.

    Returns:
        Its description.

    Raises:
        ModelError: an unknown name; the message suggests near ones.
    """
    try:
        return _known()[0][name]
    except (KeyError, TypeError):
        raise ModelError(_unknown(name)) from None


def _unknown(name: object) -> str:
    families = _known()[0]
    wanted = str(name).strip().lower()
    architecture = wanted.rpartition("/")[2]
    near = [known for known in families if known.rpartition("/")[2] == architecture]
    near += [known for known in get_close_matches(wanted, families, n=3, cutoff=0.6) if known not in near]
    by_architecture = {known.rpartition("/")[2]: known for known in families}
    near += [
        by_architecture[close]
        for close in get_close_matches(architecture, by_architecture, n=2, cutoff=0.6)
        if by_architecture[close] not in near
    ]
    near = list(dict.fromkeys(near))
    if not near:
        return f"There is no model family {name!r}. Known: {', '.join(families)}."
    meant, others = " or ".join(map(repr, near)), [known for known in families if known not in near]
    return f"There is no model family {name!r}. Did you mean {meant}? The others: {', '.join(others)}."
