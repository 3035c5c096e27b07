"""`gapbench list`."""

from __future__ import annotations

import json

import click

KINDS = ("tasks", "models", "proxies", "suites", "estimators")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_command(kind: str, as_json: bool) -> None:
    """List tasks, models, proxies, suites or estimators with one line of explanation each."""
    rows = {
        "tasks": _tasks,
        "models": _models,
        "proxies": _proxies,
        "suites": _suites,
        "estimators": _estimators,
    }[kind]()
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    costs = max(len(row.get("cost", "")) for row in rows)
    for row in rows:
        name = f"{row['name']:{width}}  {row['cost']:{costs}}" if costs else f"{row['name']:{width}}"
        more = " A larger value predicts a smaller gap." if row.get("higher_means") == "better" else ""
        source = f" ({row['reference']})" if row.get("reference") else ""
        click.echo(f"{name}  {row['summary']}{more}{source}")
    if kind == "proxies":
        click.echo(f"\n{_groups()}")
    for name, reason in _broken(kind):
        click.echo(f"The plug-in {name} cannot be used: {reason}", err=True)


def _broken(kind: str) -> list[tuple[str, str]]:
    """Installed plug-ins that cannot be used; none for suites."""
    if kind == "tasks":
        from gapbench_tasks import broken_plugins as tasks

        return tasks()
    if kind == "models":
        from gapbench_models import broken_plugins as models

        return models()
    if kind == "proxies":
        from gapbench.proxies.registry import broken_plugins as proxies

        return proxies()
    if kind == "estimators":
        from gapbench_leaderboard.scoring.registry import broken_plugins as estimators

        return estimators()
    return []


def _tasks() -> list[dict[str, str]]:
    from gapbench_tasks import list_tasks, task_entry

    return [{"name": name, "summary": task_entry(name).summary} for name in list_tasks()]


def _models() -> list[dict[str, str]]:
    from gapbench_models import describe, list_models

    return [{"name": name, "summary": describe(name).description} for name in list_models()]


def _proxies() -> list[dict[str, str]]:
    from gapbench.proxies.registry import list_proxies, proxy_entry

    rows = []
    for name in list_proxies():
        entry = proxy_entry(name)
        options = ", ".join(f"{k}={v}" for k, v in entry.options.items())
        rows.append(
            {
                "name": name,
                "summary": entry.summary + (f" [{options}]" if options else ""),
                "higher_means": entry.higher_means,
                "reference": entry.reference or "",
                "cost": entry.cost,
                "central": "yes" if entry.central else "no",
            }
        )
    return rows


def _groups() -> str:
    """What the cost classes mean, and the words that stand for several proxies."""
    from gapbench.proxies.registry import COSTS, GROUPS, expanded

    costs = "; ".join(f"{cost}: {meaning}" for cost, meaning in COSTS.items())
    groups = "; ".join(f"{group}: {meaning} ({len(expanded([group]))})" for group, meaning in GROUPS.items())
    return f"Costs: {costs}.\nFor --proxies, {groups}."


def _suites() -> list[dict[str, str]]:
    from gapbench.suites.suite import list_suites, load_suite

    rows = []
    for name in list_suites():
        suite = load_suite(name)
        tasks = ", ".join(sorted({c.task for c in suite.configurations}))
        rows.append(
            {"name": name, "summary": f"{len(suite.configurations)} networks on {tasks}. {suite.summary}"}
        )
    return rows


def _estimators() -> list[dict[str, str]]:
    from gapbench_leaderboard.scoring.registry import estimators

    return [{"name": known.name, "summary": " ".join(known.meaning.split())} for known in estimators()]
