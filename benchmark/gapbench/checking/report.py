"""What `gapbench check` found, point by point."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from gapbench_base.wrapping import broken

LEAST = 20
"""Columns that the text of a point needs beside its name, at least."""
PASS, FAIL, WARNING, INFORMATION = "pass", "fail", "warning", "information"


@dataclass(frozen=True)
class Point:
    """One thing that was looked at. `status`: pass, fail, warning or information; `advice` says what to change."""

    name: str
    status: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Report:
    """All points, in the order of `gapbench.checking.check.POINTS`, without those that could not be looked at.

    `printed` is what the proxy printed, as lines, with where.
    """

    proxy: str
    points: tuple[Point, ...]
    sandboxed: bool
    seconds: float = 0.0
    printed: str = ""

    @property
    def passed(self) -> bool:
        """Whether no point failed."""
        return not any(point.status == FAIL for point in self.points)

    def point(self, name: str) -> Point:
        """One point by name. Raises `KeyError` if it was not looked at."""
        for point in self.points:
            if point.name == name:
                return point
        raise KeyError(name)

    def text(self, columns: int | None = None) -> str:
        """For people, in lines of at most so many columns where there is room for that."""
        width = max(len(point.name) for point in self.points)
        lines = []
        for point in self.points:
            mark = {PASS: "ok", FAIL: "FAIL", WARNING: "note", INFORMATION: "    "}[point.status]
            head, *rest = point.text.split("\n")
            if point.status == INFORMATION and rest and not self.passed:  # else hard to see what failed
                head, rest = f"{1 + len(rest)} lines, left out here: --json has them", []
            texts = [head, *rest]
            if point.advice and point.status in (FAIL, WARNING):
                texts.append(f"-> {point.advice}")
            said = f"{mark:>4}  {point.name:<{width}}  "
            for text in texts:
                room = (columns or 0) >= len(said) + LEAST
                lines.append(broken(said + text, columns, len(said)) if columns and room else said + text)
                said = " " * len(said)
        lines += ["", *self.printed.splitlines()] if self.printed else []
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """As plain JSON."""
        return {
            "proxy": self.proxy,
            "passed": self.passed,
            "sandboxed": self.sandboxed,
            "seconds": self.seconds,
            "printed": self.printed,
            "points": [asdict(point) for point in self.points],
        }
