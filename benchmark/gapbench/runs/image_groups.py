"""Which test examples show the same image, as a run keeps it of every network."""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import NDArray


def packed(groups: NDArray[np.int64]) -> str:
    """The image that each test example shows (m,), as a short text: compressed steps from one to the next."""
    steps = np.diff(groups, prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode("ascii")


def unpacked(text: str) -> NDArray[np.int64]:
    """What `packed` made a text of.

    Returns:
        The image of each test example (m,).

    Raises:
        ValueError: for any other text.
    """
    try:
        steps = np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), dtype="<i8")
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"no packed test groups: {error}") from None
    return np.cumsum(steps).astype(np.int64)
