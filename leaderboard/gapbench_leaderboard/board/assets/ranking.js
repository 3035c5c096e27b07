// The table of the ranking.
let BAR = 230;
const TALL = 30; // a longer table scrolls by itself, under its head, so that what is below stays near
let COLUMNS = board.columns;
const MARKS = new Map(board.marks.map((mark) => [mark.name, mark.about]));

/** @type {(rows: RankingRow[], state: Pick<State, "sort" | "reverse">) => RankingRow[]} */
function sortedRanking(rows, state) {
  const column = COLUMNS.find((candidate) => candidate.key === state.sort) || COLUMNS[0];
  const key = column.sort || column.key;
  const sign = (column.ascending ? 1 : -1) * (state.reverse ? -1 : 1);
  /** @type {(a: RankingRow, b: RankingRow) => number} */
  const order = (a, b) => {
    const x = sortValue(a, key), y = sortValue(b, key);
    /** @type {(value: unknown) => boolean} */
    const missing = (value) => value === null || value === undefined;
    if (missing(x) !== missing(y)) return missing(x) ? 1 : -1;
    if (x !== y && !missing(x)) return sign * (x < y ? -1 : 1);
    if (b.tau !== a.tau) return (b.tau === null ? -2 : b.tau) - (a.tau === null ? -2 : a.tau);
    return a.proxy < b.proxy ? -1 : 1;
  };
  return rows.filter((row) => !row.baseline).sort(order).concat(rows.filter((row) => row.baseline).sort(order));
}

/** @type {(row: RankingRow, key: string) => any} */
function sortValue(row, key) {
  if (key === "invariances") return -(row.entry.invariances || []).length;
  if (key === "audit") return row.entry.audit_mark || null;
  return row[key];
}

/** @type {(row: RankingRow) => string[]} */
function marksOf(row) {
  const marks = [...row.marks, ...Object.keys((row.entry.doubts || { marks: {} }).marks)];
  const standing = (row.entry.standing || {}).kind;
  if (standing && standing !== "baseline" && standing !== "built_in") marks.push(standing);
  if (row.entry.other_population) marks.push("other population");
  return marks;
}

// What a mark of a proxy says on hover: its own words where it has some.
/** @type {(mark: string, entry: Entry) => string | undefined} */
function markText(mark, entry) {
  const about = MARKS.get(mark);
  if (entry.standing && entry.standing.kind === mark) return entry.standing.words;
  if (mark === "other population") return entry.other_population;
  const told = entry.doubts && entry.doubts.marks[mark];
  return told ? `${told}. ${about}` : about;
}

// On a narrow screen numbers come before pictures; the cells of the rows are then made anew.
/** @type {(narrow: boolean) => void} */
function arrangeColumns(narrow) {
  const bar = board.columns.findIndex((column) => column.key === "bar"), tau = board.columns.findIndex((column) => column.key === HEADLINE);
  const columns = [...board.columns];
  if (narrow && bar >= 0 && tau === bar + 1) [columns[bar], columns[tau]] = [columns[tau], columns[bar]];
  if (columns.every((column, position) => column === COLUMNS[position])) return;
  COLUMNS = columns;
  rowOf.clear();
}

// The rows of the ranking in this view: those kept on top, then the others, the baselines last.
/** @type {(state: State) => RankingRow[]} */
function shownRows(state) {
  const rows = sortedRanking(ranking(state.target, state.task, state.family).filter((row) => state.keeps(row)), state);
  if (!state.pins.length) return rows;
  const pinned = rows.filter((row) => state.pins.includes(row.proxy));
  return [...pinned, ...rows.filter((row) => !state.pins.includes(row.proxy))];
}

// What a ranking's bars are read against: the ceilings, and the oracle.
/** @type {(state: State) => Guides} */
function guidesOf(state) {
  return { ceilings: ceilings(state.target, state.task, state.family), oracle: score(scope(state.target, state.task, state.family), HEADLINE, board.oracle) };
}

/** @type {(rows: RankingRow[], guides: Guides) => Scale} */
function barScale(rows, guides) {
  let low = 0, high = 0;
  for (const row of rows) for (const value of [row.tau, row.low, row.high]) if (typeof value === "number") { low = Math.min(low, value); high = Math.max(high, value); }
  for (const ceiling of guides.ceilings) high = Math.max(high, ceiling.value);
  low = Math.max(-1, Math.floor(low * 5) / 5); high = Math.min(1, Math.ceil(high * 5) / 5) || 0.2;
  /** @type {(value: number) => number} */
  const at = (value) => 14 + ((value - low) / (high - low)) * (BAR - 28);
  return Object.assign(at, { ticks: niceTicks(low, high, BAR > 200 ? 4 : 2) });
}

// The parts of a bar, to be set by `setBar`: made once for each proxy.
/** @type {() => Bar} */
function newBar() {
  const parts = { zero: svg("line", { class: "zero", y1: 0, y2: 20 }), ceiling: svg("path", { class: "ceiling" }), oracle: svg("path", { class: "oracle" }), interval: svg("line", { class: "interval", y1: 10, y2: 10 }), value: svg("circle", { class: "value", cy: 10, r: 5 }) };
  return { ...parts, picture: svg("svg", { height: 20, role: "img" }, parts.zero, parts.ceiling, parts.oracle, parts.interval, parts.value) };
}

/** @type {(parts: Bar, row: RankingRow, place: Scale, guides: Guides) => void} */
function setBar(parts, row, place, guides) {
  /** @type {(value: number) => string} */
  const at = (value) => place(value).toFixed(1);
  attribute(parts.picture, "width", BAR);
  attribute(parts.picture, "aria-label", `tau ${rounded(row.tau)} ${interval(row.low, row.high)}`);
  attribute(parts.zero, "x1", at(0));
  attribute(parts.zero, "x2", at(0));
  attribute(parts.ceiling, "d", guides.ceilings.map((ceiling) => `M${at(ceiling.value)},0V20`).join(""));
  attribute(parts.oracle, "d", guides.oracle === null ? "" : `M${at(guides.oracle)},0V20`);
  const known = typeof row.low === "number" && typeof row.high === "number";
  attribute(parts.interval, "x1", known ? at(Number(row.low)) : 0);
  attribute(parts.interval, "x2", known ? at(Number(row.high)) : 0);
  attribute(parts.interval, "visibility", known ? "visible" : "hidden");
  attribute(parts.value, "cx", typeof row.tau === "number" ? at(row.tau) : 0);
  attribute(parts.value, "visibility", typeof row.tau === "number" ? "visible" : "hidden");
}

/** @type {(place: Scale, guides: Guides) => SVGElement} */
function barAxis(place, guides) {
  const picture = svg("svg", { width: BAR, height: 28, "aria-hidden": "true" });
  for (const tick of place.ticks) picture.append(svg("text", { x: place(tick), y: 11, "text-anchor": "middle" }, String(tick)));
  if (guides.oracle !== null) picture.append(svg("text", { class: "of-oracle", x: Math.max(22, Math.min(BAR - 22, place(guides.oracle))), y: 24, "text-anchor": "middle" }, "oracle"));
  return picture;
}

/** @type {(value: unknown, digits?: number) => HTMLElement} */
function number(value, digits = 3) {
  return setNumber(element("td"), value, digits);
}

/** @type {(cell: HTMLElement, value: unknown, digits?: number, title?: string) => HTMLElement} */
function setNumber(cell, value, digits = 3, title = exact(value)) {
  return words(setExact(cell, value, title), rounded(value, digits));
}

/** @type {(cell: HTMLElement, value: unknown, title?: string) => HTMLElement} */
function setExact(cell, value, title = exact(value)) {
  attribute(cell, "data-value", exact(value));
  attribute(cell, "title", title);
  return cell;
}

/** @type {(rows: RankingRow[]) => boolean} */
function undecided(rows) {
  const ranks = rows.map((row) => row.rankLow).filter((rank) => typeof rank === "number");
  return ranks.length > 1 && ranks.every((rank) => rank === 1);
}

/** @type {(state: State, choose: Choose, sortBy: (key: string) => void, pin: Choose) => void} */
function drawRanking(state, choose, sortBy, pin) {
  const all = ranking(state.target, state.task, state.family);
  const guides = guidesOf(state), rows = shownRows(state);
  const place = barScale(all, guides), count = trained(state.task, state.family);
  const head = element("tr");
  for (const column of COLUMNS) {
    const sorted = state.sort === column.key ? (Boolean(column.ascending) !== state.reverse ? "ascending" : "descending") : null;
    const arrow = sorted === null ? "" : sorted === "ascending" ? " ▲" : " ▼";
    const cell = element("th", { scope: "col", class: column.text ? "text" : column.key === "rank" ? "" : "head", "aria-sort": sorted },
      element("button", { type: "button", title: column.about, "data-sort": column.key, onclick: () => sortBy(column.key) }, column.title + arrow));
    if (column.key === "bar") cell.append(barAxis(place, guides));
    head.append(cell);
  }
  const lines = [];
  let baselines = false;
  for (const row of rows) {
    if (row.baseline && !baselines && !state.pins.includes(row.proxy)) {
      baselines = true;
      lines.push(element("tr", { class: "divider" }, element("td", { colspan: COLUMNS.length }, element("span", {}, BASELINE_ABOUT))));
    }
    lines.push(rankingRow(row, place, guides, count, state, choose, pin));
  }
  const table = /** @type {HTMLTableElement} */ (byId("ranking"));
  const body = table.tBodies[0] || table.createTBody();
  (table.tHead || table.createTHead()).replaceChildren(head);
  if (lines.length !== body.rows.length || lines.some((line, k) => line !== body.rows[k])) body.replaceChildren(...lines);
  attribute(byId("ranking-place"), "class", lines.length > TALL ? "wide tall" : "wide");
  byId("ranking-empty").hidden = rows.length > 0;
  byId("ranking-empty").textContent = all.length ? "No proxy passes the filters." : "No proxy could be ranked here.";
  byId("ranking-about").textContent = rankingAbout(state, all, guides, count);
}

/** @type {(state: State, all: RankingRow[], guides: Guides, count: number) => string} */
function rankingAbout(state, all, guides, count) {
  const networks = rankable(all);
  const tops = guides.ceilings.map((ceiling) => `${ceiling.name} ceiling ${rounded(ceiling.value)} ${interval(ceiling.low, ceiling.high)}`).join(", ");
  const oracle = guides.oracle === null ? "" : ` Line: the hyper-parameter oracle, ${rounded(guides.oracle)}.`;
  return `By tau with ${state.target}, ${viewWords(state)}${networks === null ? "" : `, ${networks} of ${plural(count, "network")} ranked`}.${tops ? ` Dashed: ${tops}.` : ""}${oracle}${undecided(all) ? " No two proxies can be told apart: no difference is significant, so any may be the best." : bestText(all)}`;
}

// Task and family of the view.
/** @type {(state: State) => string} */
function viewWords(state) {
  const only = board.tasks.length === 1 ? board.tasks[0] : state.task;
  return `${only ? `task ${only}` : "mean over tasks"}${state.family ? `, family ${state.family}` : ""}`;
}

// The row of each proxy is made once; after a change of the filters only what differs is written.
/** @type {Map<string, RowParts>} */
const rowOf = new Map();
/** @type {Record<string, string>} */
const CELL = { proxy: "text name", bar: "text", invariances: "text name", audit: "text" };

/** @type {(row: RankingRow, choose: Choose, pin: Choose) => RowParts} */
function newRow(row, choose, pin) {
  const star = element("button", { type: "button", class: "pin", "data-focus": `pin:${row.proxy}`, "aria-label": `Keep ${row.proxy} on top`, title: "Keep on top", onclick: () => pin(row.proxy) }, "☆");
  const button = element("button", { type: "button", title: row.entry.summary, onclick: () => choose(row.proxy) }, breakable(row.proxy));
  const cells = new Map(COLUMNS.map((column) => [column.key, element("td", CELL[column.kind] ? { class: CELL[column.kind] } : {})]));
  const parts = { button, star, bar: newBar(), cells, marks: element("span", { class: "marks" }), marked: null, line: element("tr", { "data-proxy": row.proxy }, ...cells.values()) };
  cells.get("proxy")?.append(button, star, parts.marks);
  cells.get("bar")?.append(parts.bar.picture);
  cells.get("invariances")?.append((row.entry.invariances || []).join(", "));
  if (row.entry.audit_mark) cells.get("audit")?.append(auditMark(row.entry));
  return parts;
}

// A rank with the set that it lies in.
/** @type {(row: RankingRow, between: (low: number, high: number) => string) => string} */
function rankText(row, between) {
  if (row.rank === null) return MISSING;
  return `${row.rank}${row.rankLow === null || row.rankHigh === null ? "" : between(row.rankLow, row.rankHigh)}`;
}

// The proxies that may be the best: no other is significantly better.
/** @type {(rows: RankingRow[]) => string} */
function bestText(rows) {
  const best = sortedRanking(rows.filter((row) => row.rankLow === 1), { sort: "rank", reverse: false }).map((row) => row.proxy);
  return best.length && rows.some((row) => (row.rankLow || 0) > 1) ? ` May be the best: ${best.join(", ")}.` : "";
}

// How the cell of a column is set, by the column's kind.
/** @type {Record<string, (cell: HTMLElement, row: RankingRow, column: Column, count: number, draw: () => void) => void>} */
const SET = {
  rank: (cell, row) => {
    attribute(cell, "data-value", exact(row.rank));
    attribute(cell, "title", rankText(row, (low, high) => `, between ${low} and ${high}`));
    words(cell, rankText(row, (low, high) => ` (${low}-${high})`));
  },
  bar: (cell, row, column, count, draw) => {
    attribute(cell, "title", `${exact(row.tau)} [${exact(row.low)}, ${exact(row.high)}]`);
    attribute(cell, "data-low", exact(row.low));
    attribute(cell, "data-high", exact(row.high));
    draw();
  },
  number: (cell, row, column) => setNumber(cell, row[column.key], 3, `${exact(row[column.key])} ${row.limits(column.estimator || "")}`.trim()),
  count: (cell, row, column) => setNumber(cell, row[column.key], 0),
  quantity: (cell, row, column) => words(setExact(cell, row[column.key]), short(row[column.key])),
  models: (cell, row, column, count) => words(cell, `${row.models} of ${count}`),
};

/** @type {(row: RankingRow, place: Scale, guides: Guides, count: number, state: State, choose: Choose, pin: Choose) => HTMLElement} */
function rankingRow(row, place, guides, count, state, choose, pin) {
  const parts = rowOf.get(row.proxy) || newRow(row, choose, pin);
  rowOf.set(row.proxy, parts);
  const chosen = row.proxy === state.proxy, pinned = state.pins.includes(row.proxy);
  attribute(parts.line, "class", [row.baseline ? "baseline" : "", chosen ? "chosen" : "", pinned ? "pinned" : ""].filter(Boolean).join(" "));
  attribute(parts.button, "aria-pressed", chosen);
  attribute(parts.star, "aria-pressed", pinned);
  words(parts.star, pinned ? "★" : "☆");
  for (const column of COLUMNS) {
    const cell = parts.cells.get(column.key);
    if (cell && column.kind in SET) SET[column.kind](cell, row, column, count, () => setBar(parts.bar, row, place, guides));
  }
  const marks = marksOf(row), key = marks.join();
  if (parts.marked !== key) parts.marks.replaceChildren(...marks.map((mark) => element("span", { class: `mark ${mark === "verified" ? "good" : ""}`.trim(), title: markText(mark, row.entry) }, mark)));
  parts.marked = key;
  return parts.line;
}

/** @type {(result: AuditResult) => string} */
function auditText(result) {
  const change = typeof result.relative_change === "number" ? `, median relative change ${exact(result.relative_change)}` : "";
  const tau = typeof result.rank_correlation === "number" ? `, tau before/after ${exact(result.rank_correlation)}` : "";
  return `${result.kind} (strength ${exact(result.strength)}): ${result.verdict}${change}${tau}${result.reason ? ` (${result.reason})` : ""}`;
}

// Whether the audit found the proxy unchanged by a kind of transformation, or by all that apply to it.
/** @type {(entry: Entry, kind: string) => boolean} */
function invariantTo(entry, kind) {
  const found = (entry.audit || []).filter((result) => (kind === "all" || result.kind === kind) && result.verdict !== "not applicable");
  return found.length > 0 && found.every((result) => result.verdict === "invariant");
}

/** @type {(entry: Entry) => HTMLElement} */
function auditMark(entry) {
  return element("span", { class: "mark audit", title: (entry.audit || []).map(auditText).join("\n") }, entry.audit_mark);
}

function drawGlossary() {
  const list = byId("glossary").querySelector("dl");
  if (!list) return;
  for (const column of COLUMNS) {
    list.append(element("dt", {}, column.title), element("dd", {}, column.about));
  }
  for (const [name, text] of MARKS) list.append(element("dt", {}, `mark: ${name}`), element("dd", {}, text));
}
