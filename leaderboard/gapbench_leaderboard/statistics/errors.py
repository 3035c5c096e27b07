"""What is wrong with a table, as one exception type."""

from __future__ import annotations


class TableError(ValueError):
    """A table that cannot be scored; the message says what is wrong and where."""
