"""Why a network has no balanced representative."""

from gapbench_base.errors import NotDefined


class CannotBalance(NotDefined):
    """The orbit has no balanced representative that this code can reach; the message says why."""
