"""Names that were nearly right."""

import difflib
from collections.abc import Iterable

NEAR = 3
"""Names that are suggested, at most."""
MOST_OTHERS = 40
"""Names that are listed beside them, at most."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest of `known`, or nothing."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def near_and_others(name: object, known: Iterable[str]) -> str:
    """What a name could have been: the near ones first, then all others.

    Args:
        name: what was given.
        known: what there is.

    Returns:
        ` Did you mean 'x' or 'y'? The others: a, b.`, or ` Known: a, b, x, y.` where none is near. Many others are
        counted.
    """
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(str(name), names, n=NEAR)
    if not near and len(names) > MOST_OTHERS:
        return f" There are {len(names)}, none of which is near."
    if not near:
        return f" Known: {', '.join(names) or 'none'}."
    others = [other for other in names if other not in near]
    meant = f" Did you mean {' or '.join(map(repr, near))}?"
    if len(others) > MOST_OTHERS:
        return f"{meant} There are {len(others)} others."
    return f"{meant} The others: {', '.join(others)}." if others else meant
