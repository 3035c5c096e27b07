"""Read the families that the modules of a package declare, without running them: they import torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

from gapbench_base.errors import ModelError
from gapbench_models.family import Declaration, ModelFamily, family


def read_families(package: str) -> list[ModelFamily]:
    """All families declared with `@family(...)` in the modules of `package`, by place, then by name.

    Args:
        package: its dotted name.

    Returns:
        The families, each with the builder below its declaration.

    Raises:
        ModelError: naming a file without a family, or one that is no Python.
    """
    found: list[tuple[int, ModelFamily]] = []
    for file in sorted(files(package).iterdir(), key=lambda file: file.name):
        stem, dot, kind = file.name.rpartition(".")
        if dot and kind == "py" and not stem.startswith("_"):
            declarations = list(_declarations(file.read_text(encoding="utf-8"), file.name))
            if not declarations:
                raise ModelError(f"{file.name} declares no family: put @family(...) above a builder in it.")
            for function, declared in declarations:
                built = replace(declared.family, builder=f"{package}.{stem}:{function}")
                found.append((declared.place, built))
    found.sort(key=lambda item: (item[0], item[1].name))
    return [known for _, known in found]


def _declarations(source: str, name: str) -> Iterator[tuple[str, Declaration]]:
    """(builder, declaration) of each decorated function of a module."""
    try:
        body = ast.parse(source, name).body
    except SyntaxError as error:
        raise ModelError(f"{name}, line {error.lineno} is no Python: {error.msg}") from None
    for node in body:
        for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            called = call.func if isinstance(call, ast.Call) else None
            told = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if isinstance(call, ast.Call) and told == family.__name__:
                assert isinstance(node, ast.FunctionDef)
                yield node.name, _declaration(call, name)


def _declaration(call: ast.Call, name: str) -> Declaration:
    try:
        values = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError as error:
        raise ModelError(
            f"{name}, line {call.lineno}: a family is declared by literals only, since it is listed without "
            f"importing its library ({error})"
        ) from error
    try:
        return family(*values, **named)
    except TypeError as error:
        raise ModelError(f"{name}, line {call.lineno}: {error}") from error
