// The table of the ranking.
let BAR = 230;
const NUMBERS = [["tau", "tau"], ["within", "tau_within"], ["pooled", "tau_b"], ["partial", "tau_partial"], ["withWidth", "tau_with_width"], ["repeatability", "repeatability"]];
const LIKE_WIDTH = 0.8; // |tau| with the width, as in ranked.py
const TALL = 30; // a longer table scrolls by itself, under its head, so that what is below stays near

const COLUMNS = [
  { key: "rank", title: "Rank", about: "1 + the number of proxies that are significantly better by the headline; baselines are not counted and have no rank (paired bootstrap over configurations, Holm's correction). Proxies that share a rank cannot be told apart. A dash: measured on less than 90 % of the networks, a baseline, or a view of one family within one task, in which nothing is ranked.", ascending: true },
  { key: "proxy", title: "Proxy", about: "The label of the entry. Choose it to see it below: its definition, its measurements and its scatter.", text: true, ascending: true },
  { key: "bar", title: "tau with its 95 % interval", about: "The headline as a point, its bootstrap interval over configurations as a bar; 1 is a perfect ranking, 0 none. Dashed: the ceilings that test sampling and seeds leave to any proxy.", text: true, sort: "tau" },
  { key: "tau", title: "tau", about: "The headline by which proxies are ranked: Kendall's tau-b between proxy and target among the networks of one task and family, of all widths, averaged over families by pairs and over tasks. Not a correlation pooled over unlike networks." },
  { key: "within", title: "within width", about: "The same among networks of equal family and equal width, where knowing the width does not help. If this vanishes, the proxy may only have seen the width." },
  { key: "pooled", title: "pooled", about: "tau-b over all networks of a task together, families and widths mixed, averaged over tasks. Easily misleading: compare it with the two columns before." },
  { key: "partial", title: "partial", about: "tau given family and log number of parameters." },
  { key: "withWidth", title: "with width", about: "tau-b between the proxy and the width itself, within families. Near 1 or -1 the proxy orders networks as their width does, and its score is that of the width, or of its reverse." },
  { key: "repeatability", title: "repeatable", about: "tau-b within families between two independent measurements of the proxy: other random numbers and other training examples. What is missing to 1 is chance in the measurement.", shown: scores.estimator.includes("repeatability") },
  { key: "models", title: "networks", about: "n/N: networks that it was measured on, of all that can be ranked. What is missing is never filled in; the reasons are below." },
  { key: "seconds", title: "seconds", about: "Mean seconds to measure it on one network, of all tasks and families whatever the filters. Submitted proxies are timed within their sandbox, which adds some hundredths.", ascending: true },
  { key: "invariances", title: "invariant to", about: "Changes of the parameters that leave the network's function and, for this proxy, its value unchanged.", text: true, shown: board.proxies.some((entry) => entry.invariances) },
  { key: "audit", title: "audit", about: "Transformations that leave a network's function unchanged: under how many of those that apply the proxy's value stays too. The kinds appear on hover and in the details.", text: true, shown: board.proxies.some((entry) => entry.audit) },
].filter((column) => column.shown !== false);

function sortedRanking(rows, state) {
  const column = COLUMNS.find((candidate) => candidate.key === state.sort) || COLUMNS[0];
  const key = column.sort || column.key;
  const sign = (column.ascending ? 1 : -1) * (state.reverse ? -1 : 1);
  const order = (a, b) => {
    const x = sortValue(a, key), y = sortValue(b, key);
    const missing = (value) => value === null || value === undefined;
    if (missing(x) !== missing(y)) return missing(x) ? 1 : -1;
    if (x !== y && !missing(x)) return sign * (x < y ? -1 : 1);
    if (b.tau !== a.tau) return (b.tau === null ? -2 : b.tau) - (a.tau === null ? -2 : a.tau);
    return a.proxy < b.proxy ? -1 : 1;
  };
  return rows.filter((row) => !row.baseline).sort(order).concat(rows.filter((row) => row.baseline).sort(order));
}

function sortValue(row, key) {
  if (key === "invariances") return -(row.entry.invariances || []).length;
  if (key === "audit") return row.entry.audit_mark || null;
  return row[key];
}

function marksOf(row) {
  const marks = [];
  if (row.simpson) marks.push("Simpson");
  if (!row.baseline && typeof row.withWidth === "number" && Math.abs(row.withWidth) >= LIKE_WIDTH) marks.push("width");
  if (row.unreliable) marks.push("unreliable");
  if (row.coverage !== null && row.coverage < 0.9 && !row.baseline) marks.push("low coverage");
  marks.push(...Object.keys((row.entry.doubts || { marks: {} }).marks));
  if (row.fewDistinct) marks.push("few values");
  const standing = (row.entry.standing || {}).kind;
  if (standing && standing !== "baseline" && standing !== "built_in") marks.push(standing);
  if (row.entry.other_population) marks.push("other population");
  return marks;
}

// What a mark of a proxy says on hover: its own words where it has some.
function markText(mark, entry) {
  if (entry.standing && entry.standing.kind === mark) return entry.standing.words;
  if (mark === "other population") return entry.other_population;
  const told = entry.doubts && entry.doubts.marks[mark];
  return told ? `${told}. ${MARKS[mark]}` : MARKS[mark];
}

function barScale(rows, limits) {
  let low = 0, high = 0;
  for (const row of rows) for (const value of [row.tau, row.low, row.high]) if (typeof value === "number") { low = Math.min(low, value); high = Math.max(high, value); }
  for (const ceiling of limits) high = Math.max(high, ceiling.value);
  low = Math.max(-1, Math.floor(low * 5) / 5); high = Math.min(1, Math.ceil(high * 5) / 5) || 0.2;
  const place = (value) => 14 + ((value - low) / (high - low)) * (BAR - 28);
  place.ticks = niceTicks(low, high, BAR > 200 ? 4 : 2);
  return place;
}

// The parts of a bar, to be set by `setBar`: made once for each proxy.
function newBar() {
  const parts = { zero: svg("line", { class: "zero", y1: 0, y2: 20 }), ceiling: svg("path", { class: "ceiling" }), interval: svg("line", { class: "interval", y1: 10, y2: 10 }), value: svg("circle", { class: "value", cy: 10, r: 5 }) };
  parts.picture = svg("svg", { height: 20, role: "img" }, parts.zero, parts.ceiling, parts.interval, parts.value);
  return parts;
}

function setBar(parts, row, place, limits) {
  const at = (value) => place(value).toFixed(1);
  attribute(parts.picture, "width", BAR);
  attribute(parts.picture, "aria-label", `tau ${rounded(row.tau)} ${interval(row.low, row.high)}`);
  attribute(parts.zero, "x1", at(0));
  attribute(parts.zero, "x2", at(0));
  attribute(parts.ceiling, "d", limits.map((ceiling) => `M${at(ceiling.value)},0V20`).join(""));
  const known = typeof row.low === "number" && typeof row.high === "number";
  attribute(parts.interval, "x1", known ? at(row.low) : 0);
  attribute(parts.interval, "x2", known ? at(row.high) : 0);
  attribute(parts.interval, "visibility", known ? "visible" : "hidden");
  attribute(parts.value, "cx", typeof row.tau === "number" ? at(row.tau) : 0);
  attribute(parts.value, "visibility", typeof row.tau === "number" ? "visible" : "hidden");
}

function barAxis(place) {
  const picture = svg("svg", { width: BAR, height: 16, "aria-hidden": "true" });
  for (const tick of place.ticks) picture.append(svg("text", { x: place(tick), y: 12, "text-anchor": "middle" }, String(tick)));
  return picture;
}

function number(value, digits = 3) {
  return setNumber(element("td"), value, digits);
}

function setNumber(cell, value, digits = 3, title = exact(value)) {
  attribute(cell, "data-value", exact(value));
  attribute(cell, "title", title);
  return words(cell, rounded(value, digits));
}

function undecided(rows) {
  const ranks = rows.map((row) => row.rank).filter((rank) => typeof rank === "number");
  return ranks.length > 1 && ranks.every((rank) => rank === 1);
}

function drawRanking(state, choose, sortBy) {
  const all = ranking(state.target, state.task, state.family);
  const limits = ceilings(state.target, state.task, state.family);
  const networks = rankable(all);
  const rows = sortedRanking(all.filter((row) => state.keeps(row)), state);
  const place = barScale(all, limits);
  const head = element("tr");
  for (const column of COLUMNS) {
    const sorted = state.sort === column.key ? (Boolean(column.ascending) !== state.reverse ? "ascending" : "descending") : null;
    const arrow = sorted === null ? "" : sorted === "ascending" ? " ▲" : " ▼";
    const cell = element("th", { scope: "col", class: column.text ? "text" : "", "aria-sort": sorted },
      element("button", { type: "button", title: column.about, "data-sort": column.key, onclick: () => sortBy(column.key) }, column.title + arrow));
    if (column.key === "bar") cell.append(barAxis(place));
    head.append(cell);
  }
  const lines = [];
  let baselines = false;
  for (const row of rows) {
    if (row.baseline && !baselines) {
      baselines = true;
      lines.push(element("tr", { class: "divider" }, element("td", { colspan: COLUMNS.length }, element("span", {}, BASELINE_ABOUT))));
    }
    lines.push(rankingRow(row, place, limits, networks, state, choose));
  }
  const table = byId("ranking");
  if (!table.tBodies.length) table.append(element("thead"), element("tbody"));
  table.tHead.replaceChildren(head);
  const body = table.tBodies[0];
  if (lines.length !== body.rows.length || lines.some((line, k) => line !== body.rows[k])) body.replaceChildren(...lines);
  attribute(byId("ranking-place"), "class", lines.length > TALL ? "wide tall" : "wide");
  byId("ranking-empty").hidden = rows.length > 0;
  byId("ranking-empty").textContent = all.length ? "No proxy passes the filters." : "No proxy could be ranked here.";
  const only = board.tasks.length === 1 ? board.tasks[0] : state.task;
  const where = only ? `task ${only}` : "mean over tasks";
  const family = state.family ? `, family ${state.family}` : "";
  const tops = limits.map((ceiling) => `${ceiling.name} ceiling ${rounded(ceiling.value)} ${interval(ceiling.low, ceiling.high)}`).join(", ");
  byId("ranking-about").textContent = `By tau with ${state.target}, ${where}${family}${networks === null ? "" : `, ${plural(networks, "network")}`}. ${tops ? `Dashed: ${tops}.` : ""}${undecided(all) ? " No two proxies can be told apart: no difference is significant, so all have rank 1." : ""}`;
}

// The row of each proxy is made once; after a change of the filters only what differs is written.
const rowOf = new Map();
const SHOWN = new Set(COLUMNS.map((column) => column.key));

function newRow(row, choose) {
  const cell = (kind = "") => element("td", kind ? { class: kind } : {});
  const button = element("button", { type: "button", title: row.entry.summary, onclick: () => choose(row.proxy) }, breakable(row.proxy));
  const parts = { button, bar: newBar(), rank: cell(), tau: cell(), within: cell(), pooled: cell(), partial: cell(), withWidth: cell(), repeatability: cell(), models: cell(), seconds: cell(), marks: element("span", { class: "marks" }), barCell: cell("text"), marked: null };
  parts.barCell.append(parts.bar.picture);
  parts.line = element("tr", { "data-proxy": row.proxy },
    parts.rank, element("td", { class: "text name" }, button, parts.marks), parts.barCell, parts.tau, parts.within, parts.pooled, parts.partial, parts.withWidth, SHOWN.has("repeatability") ? parts.repeatability : null, parts.models, parts.seconds,
    SHOWN.has("invariances") ? element("td", { class: "text name" }, (row.entry.invariances || []).join(", ")) : null,
    SHOWN.has("audit") ? auditCell(row.entry) : null);
  return parts;
}

function rankingRow(row, place, limits, networks, state, choose) {
  if (!rowOf.has(row.proxy)) rowOf.set(row.proxy, newRow(row, choose));
  const parts = rowOf.get(row.proxy);
  const chosen = row.proxy === state.proxy;
  attribute(parts.line, "class", [row.baseline ? "baseline" : "", chosen ? "chosen" : ""].join(" ").trim());
  attribute(parts.button, "aria-pressed", chosen);
  attribute(parts.rank, "data-value", exact(row.rank));
  words(parts.rank, row.rank === null ? MISSING : String(row.rank));
  attribute(parts.barCell, "title", `${exact(row.tau)} [${exact(row.low)}, ${exact(row.high)}]`);
  attribute(parts.barCell, "data-low", exact(row.low));
  attribute(parts.barCell, "data-high", exact(row.high));
  setBar(parts.bar, row, place, limits);
  for (const [key, estimator] of NUMBERS) {
    if (SHOWN.has(key)) setNumber(parts[key], row[key], 3, `${exact(row[key])} ${row.limits(estimator)}`.trim());
  }
  words(parts.models, `${row.models}/${networks === null ? "?" : networks}`);
  attribute(parts.seconds, "data-value", exact(row.seconds));
  attribute(parts.seconds, "title", exact(row.seconds));
  words(parts.seconds, short(row.seconds));
  const marks = marksOf(row), key = marks.join();
  if (parts.marked !== key) parts.marks.replaceChildren(...marks.map((mark) => element("span", { class: `mark ${mark === "verified" ? "good" : ""}`.trim(), title: markText(mark, row.entry) }, mark)));
  parts.marked = key;
  return parts.line;
}

function auditText(result) {
  const change = typeof result.relative_change === "number" ? `, median relative change ${exact(result.relative_change)}` : "";
  const tau = typeof result.rank_correlation === "number" ? `, tau before/after ${exact(result.rank_correlation)}` : "";
  return `${result.kind} (strength ${exact(result.strength)}): ${result.verdict}${change}${tau}${result.reason ? ` (${result.reason})` : ""}`;
}

// Whether the audit found the proxy unchanged by a kind of transformation, or by all that apply to it.
function invariantTo(entry, kind) {
  const found = (entry.audit || []).filter((result) => (kind === "all" || result.kind === kind) && result.verdict !== "not applicable");
  return found.length > 0 && found.every((result) => result.verdict === "invariant");
}

function auditCell(entry) {
  const cell = element("td", { class: "text" });
  if (entry.audit_mark) cell.append(element("span", { class: "mark audit", title: entry.audit.map(auditText).join("\n") }, entry.audit_mark));
  return cell;
}

function drawGlossary() {
  const list = byId("glossary").querySelector("dl");
  for (const column of COLUMNS) {
    list.append(element("dt", {}, column.title), element("dd", {}, column.about));
  }
  for (const [name, text] of Object.entries(MARKS)) list.append(element("dt", {}, `mark: ${name}`), element("dd", {}, text));
}
