"""The checks of `gapbench check`, for the tests of whoever writes a proxy.

```python
from gapbench.testing import assert_valid

def test_my_proxy():
    assert_valid("my_proxy.py")
```
"""

from __future__ import annotations

from gapbench.checking.check import POINTS, check
from gapbench.checking.report import Point, Report

__all__ = ["POINTS", "Point", "Report", "assert_valid", "check"]


def assert_valid(file: str, **arguments: object) -> Report:
    """Check the proxy in `file` within a test.

    `arguments` are those of `check` (`proxy`, `options`, `limits`, `unsandboxed`).

    Returns:
        The report.

    Raises:
        AssertionError: with every failed point and what to change.
    """
    report = check(file, **arguments)  # type: ignore[arg-type]
    if not report.passed:
        raise AssertionError(f"{report.proxy} does not pass:\n{report.text()}")
    return report
