"""What a shell may complete: suites, proxies, runs, entries. Names are read without importing torch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

MOST_FOLDERS = 500  # folders that are looked through for runs


def _beginning(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def suites(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of suites, and files."""
    from gapbench.suites.suite import list_suites

    return [*_beginning(list_suites(), incomplete), CompletionItem(incomplete, type="file")]


def proxies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of proxies, the last of several separated by commas."""
    from gapbench.proxies.registry import GROUPS, list_proxies

    before, comma, last = incomplete.rpartition(",")
    chosen = set(before.split(","))
    names = [name for name in (*GROUPS, *list_proxies()) if name.startswith(last) and name not in chosen]
    return [CompletionItem(f"{before}{comma}{name}") for name in names]


def names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of proxies, suites, families and tasks, and files of suites."""
    from gapbench.proxies.registry import list_proxies
    from gapbench.suites.suite import list_suites
    from gapbench_models import list_models
    from gapbench_tasks import list_tasks

    known = [*list_suites(), *list_proxies(), *list_models(), *list_tasks()]
    return [*_beginning(known, incomplete), CompletionItem(incomplete, type="file")]


def runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders of runs below this one, and others."""
    found = []
    for pattern in ("*/run.sqlite", "*/*/run.sqlite"):
        for _, path in zip(range(MOST_FOLDERS), Path().glob(pattern)):
            found.append(str(path.parent))
    return [*_beginning(sorted(found), incomplete), CompletionItem(incomplete, type="dir")]


def entries(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Labels of the entries of the run that is named before, and files."""
    run = context.params.get("run") or next(iter(context.args), None)  # an argument is not taken up yet
    labels = []
    for path in sorted(Path(run).joinpath("entries").glob("*.json")) if run else ():
        try:
            labels.append(str(json.loads(path.read_text(encoding="utf-8"))["label"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return [*_beginning(labels, incomplete), CompletionItem(incomplete, type="file")]
