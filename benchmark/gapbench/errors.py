"""What a user can do wrong, as one exception type that the command line prints without a traceback."""

import difflib
from collections.abc import Iterable


class GapbenchError(ValueError):
    """Wrong usage or an unusable input; the message says what was wrong, where, and what to do."""


class DiskFull(GapbenchError):
    """A result could not be written for want of space; nothing finished is lost."""


class NotDefined(ValueError):
    """A quantity that this network does not have, or that cannot be computed rightly; the message says why."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest of `known`, or nothing."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
