"""What a user can do wrong, as one exception type that the command line prints without a traceback."""


class GapbenchError(ValueError):
    """Wrong usage or an unusable input; the message says what was wrong, where, and what to do."""


class DiskFull(GapbenchError):
    """A result could not be written for want of space; nothing finished is lost."""
