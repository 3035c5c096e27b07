"""The board as Markdown, for a repository's README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from gapbench_leaderboard.board.content import Content
from gapbench_leaderboard.board.decision_markdown import decision_lines
from gapbench_leaderboard.board.document import baseline_labels
from gapbench_leaderboard.board.doubts import Doubts, doubts_of
from gapbench_leaderboard.board.escaping import escape as escape
from gapbench_leaderboard.board.marks import marks_of, meanings
from gapbench_leaderboard.board.numbers import exact, plain_text, rounded
from gapbench_leaderboard.board.ranked import Ranked, rank_text, ranked, text_of
from gapbench_leaderboard.board.terminal import UNDECIDED
from gapbench_leaderboard.board.trained import networks_text
from gapbench_leaderboard.board.verdicts import stratified
from gapbench_leaderboard.scoring.registry import DIGITS, HEADLINE, MARKDOWN, NETWORKS_AT
from gapbench_leaderboard.scoring.registry import columns as columns_of


def markdown_text(
    content: Content, population: pd.DataFrame, measurements: pd.DataFrame, scores: pd.DataFrame
) -> str:
    """The rankings as Markdown: of every target over all tasks, and of the first target per task.

    Args:
        content: the board's document.
        population: one row per network.
        measurements: one row per network and proxy.
        scores: the long form.

    Returns:
        The text, with the statuses of the measurements, and the same rankings in full precision folded away.
    """
    suite = content["suite"]
    labels, doubts = baseline_labels(content["proxies"]), doubts_of(measurements)
    lines = [f"# gapbench board: {escape(suite.get('name', ''))} {escape(suite.get('version', ''))}".rstrip()]
    if suite.get("summary"):
        lines += ["", escape(suite["summary"])]
    lines += ["", _networks(population, suite.get("planned"))]
    if suite.get("population"):
        known = suite["population"]
        date = f", {escape(known['date'][:10])}" if known.get("date") else ""
        lines += ["", f"Population {escape(known['fingerprint'])}: {escape(known['words'])}{date}."]
    lines += ["", *(f"- {escape(note)}" for note in content["notes"])] if content["notes"] else []
    if suite.get("made_with"):
        lines += ["", f"Made with {'; '.join(map(escape, suite['made_with']))}."]
    full: list[str] = []
    audit = {entry["label"]: entry["audit_mark"] for entry in content["proxies"] if "audit_mark" in entry}
    status = {
        entry["label"]: [
            entry["standing"]["kind"],
            *(["other population"] if entry.get("other_population") else []),
        ]
        for entry in content["proxies"]
        if entry["standing"]["kind"] not in ("baseline", "built_in")
    }
    for target, task in _scopes(content):
        found = ranked(scores, target=target, task=task, baselines=labels)
        if found is None:
            continue
        named = task or (content["tasks"][0] if len(content["tasks"]) == 1 else "")
        title = f"{escape(target)}, " + (f"task {escape(named)}" if named else "mean over tasks")
        lines += [
            "",
            f"## Ranked by tau with {title}",
            "",
            *_table(found, audit, status, doubts, content["within"]),
            "",
            *_legend(found, doubts, content["within"]),
        ]
        full += ["", f"### {title}", "", *_exact_table(found, content["within"])]
    if not full:
        lines += ["", "No proxy could be ranked."]
    lines += decision_lines(content["decision"])
    lines += _verdicts(content)
    lines += _standings(content)
    lines += ["", "## Measurements", "", *_statuses(content, measurements)]
    if full:
        lines += ["", "<details><summary>The rankings in full precision</summary>", *full, "", "</details>"]
    return "\n".join(lines) + "\n"


def _verdicts(content: Content) -> list[str]:
    """What the tests say of each proxy by the first target."""
    target = next(iter(content["targets"]), "")
    told = [
        (e["label"], e["verdicts"][target]) for e in content["proxies"] if target in e.get("verdicts", {})
    ]
    if not told:
        return []
    return [
        "",
        "## Verdicts",
        "",
        f"Of tests at 5 % each, with {escape(target)}, over all tasks.",
        "",
        *(f"- {escape(label)}: {'; '.join(map(escape, words))}." for label, words in told),
    ]


def _standings(content: Content) -> list[str]:
    """What stands behind each submitted proxy."""
    told = [e for e in content["proxies"] if e["standing"]["kind"] not in ("baseline", "built_in")]
    if not told:
        return []
    return [
        "",
        "## Submitted",
        "",
        *(f"- {escape(e['label'])}: {escape(e['standing']['words'])}" for e in told),
    ]


def _scopes(content: Content) -> list[tuple[str, str]]:
    targets: Sequence[str] = content["targets"]
    tasks: Sequence[str] = content["tasks"]
    scopes = [(target, "") for target in targets]
    if len(tasks) > 1 and targets:
        scopes[1:1] = [(targets[0], task) for task in tasks]
    return scopes


def _networks(population: pd.DataFrame, planned: int | None) -> str:
    counts = population["status"].value_counts()
    text = f"Networks: {len(population)}" + (f" of {planned} planned" if planned else "")
    return text + " (" + ", ".join(f"{count} {escape(status)}" for status, count in counts.items()) + ")."


def _table(
    found: Ranked,
    audit: Mapping[str, str],
    status: Mapping[str, list[str]],
    doubts: Mapping[str, Doubts],
    within: str,
) -> list[str]:
    shown = found.filled(columns_of(MARKDOWN))
    split = sum(column.order < NETWORKS_AT for column in shown)
    headings = [escape(stratified(column.heading_in(MARKDOWN), within)) for column in shown]
    headings[split:split] = ["networks"]
    lead, last = ["rank", "proxy", HEADLINE, "95 % interval"], ["marks", *(["audit"] if audit else [])]
    lines = ["| " + " | ".join([*lead, *headings, *last]) + " |"]
    lines.append("|---:|---|---:|---|" + "---:|" * len(headings) + "---|" * len(last))
    for row in found.table.to_dict("records"):
        interval = "" if row["low"] != row["low"] else f"[{rounded(row['low'])}, {rounded(row['high'])}]"
        name = escape(row["proxy"])
        numbers = [text_of(column, row[column.key]) for column in shown]
        numbers[split:split] = [networks_text(row)]
        cells = [
            rank_text(row),
            f"*{name}*" if row["baseline"] else name,
            rounded(row["value"]),
            interval,
            *numbers,
            " ".join([*marks_of(row, doubts), *status.get(plain_text(str(row["proxy"])), [])]),
        ]
        if audit:
            cells.append(audit.get(plain_text(str(row["proxy"])), ""))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _legend(found: Ranked, doubts: Mapping[str, Doubts], within: str) -> list[str]:
    used = {mark for row in found.table.to_dict("records") for mark in marks_of(row, doubts)}
    lines = [
        f"Ceiling, {name}: {rounded(value)}" + (f" [{rounded(low)}, {rounded(high)}]." if low == low else ".")
        for name, (value, low, high) in found.ceilings.items()
    ]
    lines += [
        f"{mark}: {stratified(meaning, within)}." for mark, meaning in meanings().items() if mark in used
    ]
    for label in found.table["proxy"]:
        told = doubts[str(label)].sentences if str(label) in doubts else []
        lines += [f"{escape(label)}: {'; '.join(told)}."] if told else []
    if found.competing > 1:
        names = ", ".join(map(escape, found.best))
        lines.append(UNDECIDED if not found.told_apart else f"May be the best: {names}.")
    lines.append(
        "Rank: 1 + the number of proxies that are better, baselines not counted; in brackets the ranks that it may "
        "have, with a confidence of 95 % for all proxies at once. Baselines in italics, without a rank. A dash: no "
        "rank, or not defined. Networks: ranked, of all that were trained."
    )
    return [f"- {line}" for line in lines]


def _exact_table(found: Ranked, within: str) -> list[str]:
    headings = {"value": HEADLINE, "low": "low", "high": "high"}
    for column in found.filled(columns_of(DIGITS)):
        headings[column.key] = escape(stratified(column.heading_in(DIGITS), within))
    lines = ["| proxy | " + " | ".join(headings.values()) + " |", "|---" * (1 + len(headings)) + "|"]
    for row in found.table.to_dict("records"):
        cells = [escape(row["proxy"]), *(exact(row[name]) for name in headings)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _statuses(content: Content, measurements: pd.DataFrame) -> list[str]:
    if "repeat" in measurements.columns:
        measurements = measurements[~(pd.to_numeric(measurements["repeat"], errors="coerce") > 0)]
    lines = ["| proxy | ok | not applicable | failed | most frequent reason |", "|---|---:|---:|---:|---|"]
    for entry in content["proxies"]:
        if entry["made_by_scorer"]:
            continue
        own = measurements[measurements["proxy"].astype(str) == entry["label"]]
        counts = own["status"].value_counts()
        cells = [str(int(counts.get(status, 0))) for status in ("ok", "not_applicable", "failed")]
        reasons = own["reason"].dropna().astype(str) if "reason" in own.columns else pd.Series(dtype=str)
        reasons = reasons[reasons != ""]
        reason = escape(plain_text(reasons.value_counts().index[0])) if len(reasons) else ""
        lines.append(f"| {escape(entry['label'])} | " + " | ".join(cells) + f" | {reason} |")
    return lines
