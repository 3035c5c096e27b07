"""Plain JSON values: what is written to files and read back the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Plain JSON of nested values: numbers of numpy and torch as Python's, what is not finite as null.

    What is none of JSON's types stays as it is.

    Returns:
        The same in dictionaries, lists and plain values.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [plain(content) for content in value]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
