"""Compilation of the inner loops with numba, with or without a place to keep the machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Whole = NDArray[np.integer[Any]]
"""Whole numbers of any width: the loops are compiled for that which they get."""


def compiled(function: Function) -> Function:
    """Compile `function` without the interpreter lock; keep the machine code on disk where that is possible.

    numba refuses `cache=True` at once when neither the package's folder nor the user's cache folder can be
    written (a read-only container, no home directory). The function then is compiled anew in every process.

    Returns:
        The compiled function.
    """  # noqa: DOC501
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return cast(Function, numba.njit(nogil=True)(function))
