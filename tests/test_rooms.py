"""Imports flow one way: no circle of modules, none of rooms, in functions and for type checkers neither."""

import ast
import subprocess
import sys
import tomllib

import pytest

from script import ROOT, script


@pytest.fixture(scope="module")
def rooms():
    return script("rooms")


@pytest.fixture(scope="module")
def graph(rooms):
    return rooms.imports()


def test_every_import_of_the_packages_is_seen(rooms, graph):
    """Those within functions and under TYPE_CHECKING too, which run only sometimes."""
    assert len(graph) > 250
    assert "gapbench.population.worker" in graph["gapbench.population.inline"]  # within a function
    assert "gapbench.population.progress" in graph["gapbench.running"]  # for type checkers
    assert "gapbench_base.errors" in graph["gapbench_tasks.selection"]


def test_no_modules_import_each_other(rooms, graph):
    assert rooms.circles(graph) == []


def test_no_rooms_import_each_other(rooms, graph):
    assert rooms.circles(rooms.rooms(graph)) == []


def test_circles_are_found(rooms):
    assert rooms.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"e"}}) == [
        ["a", "b", "c"],
        ["e"],
    ]


def test_the_three_libraries_are_free_of_each_other(graph):
    libraries = {"gapbench_models", "gapbench_tasks", "gapbench_leaderboard"}
    for module, targets in graph.items():
        package = module.partition(".")[0]
        if package in libraries | {"gapbench_base"}:
            allowed = {package, "gapbench_base"}
            assert {target.partition(".")[0] for target in targets} <= allowed, module


def test_no_room_imports_one_above_it(rooms, graph):
    """The order is that of the contracts that import-linter checks too."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    for contract in contracts:
        for container in contract.get("containers", ()):
            height = {
                f"{container}.{room.strip()}": -number
                for number, layer in enumerate(contract["layers"])
                for room in layer.replace("|", ":").split(":")
            }
            for module, targets in graph.items():
                own = height.get(rooms.room_of(module))
                for target in targets:
                    there = height.get(rooms.room_of(target))
                    if own is not None and there is not None:
                        assert there <= own, f"{module} imports {target}"


def test_the_picture_in_the_documents_is_that_of_the_imports(rooms):
    document = rooms.DOCUMENT.read_text()
    assert rooms.written(document) == document, "python scripts/rooms.py draws it again"


def test_one_class_one_name(rooms):
    """No two public classes of the packages share a name."""
    seen: dict[str, str] = {}
    for module, file in rooms.modules().items():
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert node.name not in seen, f"{node.name}: {seen[node.name]} and {module}"
                seen[node.name] = module


def test_modules_and_functions_are_small(rooms):
    """At most 400 lines a module and 60 lines of code a function: docstring, comments, blank lines not counted."""
    for module, file in rooms.modules().items():
        text = file.read_text()
        lines = text.splitlines()
        assert len(lines) <= 400, module
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = lines[node.lineno - 1 : node.end_lineno]
                if ast.get_docstring(node, clean=False) is not None:
                    first = node.body[0]
                    del own[first.lineno - node.lineno : first.end_lineno - node.lineno + 1]
                code = [line.strip() for line in own]
                code = [line for line in code if line and not line.startswith("#")]
                assert len(code) <= 60, f"{module}.{node.name}: {len(code)}"


@pytest.mark.parametrize("package", ["gapbench_leaderboard", "gapbench_base"])
def test_no_torch_and_no_wandb_where_none_is_needed(package):
    code = (
        "import importlib, pkgutil, sys\n"
        f"import {package} as p\n"
        "for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.'): importlib.import_module(m.name)\n"
        "print(*sorted({'torch', 'wandb', 'timm', 'torchvision'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
