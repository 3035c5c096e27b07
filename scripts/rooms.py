"""The rooms of the packages and what they import, as the picture in docs/architecture.md.

    python scripts/rooms.py            draws the picture again
    python scripts/rooms.py --check    fails where it is not the one that is there

Every import statement counts: at the top of a module, within a function, for type checkers alone.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    "gapbench_base": "benchmark",
    "gapbench_models": "models",
    "gapbench_tasks": "tasks",
    "gapbench_leaderboard": "leaderboard",
    "gapbench": "benchmark",
}
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: made by scripts/rooms.py -->", "<!-- /rooms -->"
FACES = ("gapbench", "gapbench.__main__")
"""Import names of every room on behalf of users; no room imports them."""


def modules() -> dict[str, Path]:
    """Every module of the five packages and its file."""
    found = {}
    for package, source in SOURCES.items():
        for file in sorted((ROOT / source / package).rglob("*.py")):
            parts = file.relative_to(ROOT / source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _named(module: str, file: Path) -> Iterator[str]:
    """What a module's import statements name: modules, or members of modules."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
            parts = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imports() -> dict[str, set[str]]:
    """Module -> the modules of the packages that it imports."""
    known = modules()
    found: dict[str, set[str]] = {}
    for module, file in known.items():
        found[module] = set()
        for name in _named(module, file):
            target = name if name in known else name.rpartition(".")[0]
            if target in known and target != module:
                found[module].add(target)
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other, each sorted."""
    reached = {node: _reached(graph, node) for node in graph}
    groups = {
        tuple(sorted({node} | {other for other in reached[node] if node in reached.get(other, ())}))
        for node in graph
        if node in reached[node]
    }
    return [list(group) for group in sorted(groups)]


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found


def room_of(module: str) -> str:
    """`gapbench.curvature` for `gapbench.curvature.loss`; the libraries' rooms likewise."""
    return ".".join(module.split(".")[:2])


def rooms(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Room -> the rooms that it imports; the small libraries and the base are one room each."""

    def name(module: str) -> str:
        package = module.partition(".")[0]
        if package in ("gapbench_base", "gapbench_models", "gapbench_tasks"):
            return package
        return room_of(module)

    found: dict[str, set[str]] = defaultdict(set)
    for module, targets in graph.items():
        if module not in FACES and module != "gapbench_leaderboard":
            found[name(module)] |= {name(target) for target in targets} - {name(module)}
    return dict(found)


def reduced(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without arrows that another way of at least two arrows stands for."""
    return {
        node: {
            target
            for target in targets
            if not any(target in _reached(graph, other) for other in targets - {target})
        }
        for node, targets in graph.items()
    }


def picture() -> str:
    """The rooms as a Mermaid flowchart: an arrow from who imports to what is imported."""
    arrows = reduced(rooms(imports()))
    lines = ["```mermaid", "flowchart TD"]
    for room in sorted(arrows):
        shown = room.removeprefix("gapbench.") if room.startswith("gapbench.") else room
        lines.append(f'    {_identifier(room)}["{shown}"]')
    lines += [
        f"    {_identifier(room)} --> {_identifier(target)}"
        for room in sorted(arrows)
        for target in sorted(arrows[room])
    ]
    return "\n".join([*lines, "```"])


def _identifier(room: str) -> str:
    return room.replace(".", "_")


def written(document: str) -> str:
    """The document with the picture of today between its marks."""
    before, _, rest = document.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{DOCUMENT}: there is no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{picture()}\n\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where the picture is an old one"
    )
    check = parser.parse_args().check
    old = DOCUMENT.read_text(encoding="utf-8")
    new = written(old)
    if check and new != old:
        print(f"{DOCUMENT.relative_to(ROOT)} shows other imports than there are: python scripts/rooms.py")
        return 1
    if not check:
        DOCUMENT.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
