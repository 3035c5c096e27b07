"""What a user can do wrong, as one family of exceptions that the command line prints without a traceback."""


class GapbenchError(ValueError):
    """Wrong usage or an unusable input; the message says what was wrong, where, and what to do."""


class TaskError(GapbenchError):
    """A task cannot be loaded as asked."""


class ModelError(GapbenchError):
    """A network cannot be built as asked."""


class TableError(GapbenchError):
    """A table that cannot be scored."""


class DiskFull(GapbenchError):
    """A result could not be written for want of space; nothing finished is lost."""


class NotDefined(ValueError):
    """A quantity that this network or task does not have, or that cannot be computed rightly, with the reason."""
