"""Which networks are of one configuration and differ in their seed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping


def siblings(descriptions: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Key of each network -> key of its sibling: the same configuration at its next seed, after the last the first.

    Networks whose configuration has one seed have none.

    Args:
        descriptions: complete descriptions of networks (`plan.describe`) by their keys.

    Returns:
        The siblings' keys.
    """
    alike: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for key, description in descriptions.items():
        seed = description["seed"]
        assert isinstance(seed, int)
        alike[without_seed(description)].append((seed, key))
    found: dict[str, str] = {}
    for members in alike.values():
        ordered = [key for _, key in sorted(members)]
        if len(ordered) > 1:
            found |= dict(zip(ordered, [*ordered[1:], ordered[0]]))
    return found


def without_seed(description: Mapping[str, object]) -> str:
    """What the networks of one configuration have in common, as a text."""
    return json.dumps({name: value for name, value in description.items() if name != "seed"}, sort_keys=True)
