// The board's tables, as written by document.py, with the look-ups that the page needs.
const board = JSON.parse(document.getElementById("data").textContent);

// A column of a table as an array of cells.
function cells(table, name) {
  const column = table[name];
  if (column === undefined || Array.isArray(column)) return column;
  return column.codes.map((code) => (code < 0 ? null : column.names[code]));
}

function decoded(table) {
  return Object.fromEntries(Object.keys(table).map((name) => [name, cells(table, name)]));
}

const population = decoded(board.population);
const measurements = decoded(board.measurements);
const scores = decoded(board.scores);
const entryOf = new Map(board.proxies.map((entry) => [entry.label, entry]));
const networkOf = new Map(population.cell.map((cell, index) => [cell, index]));

// Rows of scores by target, task and family.
const rowsOfScope = new Map();
for (let row = 0, last = null, rows = null; row < scores.value.length; row++) {
  const key = `${scores.target[row]}\u0000${scores.task[row] || ""}\u0000${scores.family[row] || ""}`;
  if (key !== last) {
    rows = rowsOfScope.get(key);
    if (!rows) rowsOfScope.set(key, (rows = []));
    last = key;
  }
  rows.push(row);
}

const scopeIndex = new Map();
// estimator -> proxy -> row of scores, within one scope.
function scope(target, task, family) {
  const key = `${target}\u0000${task || ""}\u0000${family || ""}`;
  if (!scopeIndex.has(key)) {
    const index = new Map();
    for (const row of rowsOfScope.get(key) || []) {
      const estimator = scores.estimator[row];
      if (!index.has(estimator)) index.set(estimator, new Map());
      index.get(estimator).set(scores.proxy[row] || "", row);
    }
    scopeIndex.set(key, index);
  }
  return scopeIndex.get(key);
}

function scoreRow(index, estimator, proxy) {
  const found = index.get(estimator);
  return found && found.has(proxy) ? found.get(proxy) : -1;
}

function score(index, estimator, proxy, column = "value") {
  const row = scoreRow(index, estimator, proxy);
  return row < 0 ? null : scores[column][row];
}

// The ranking of a scope: measured proxies by rank and headline, then the baselines.
function ranking(target, task, family) {
  const index = scope(target, task, family);
  const everywhere = scope(target, "", "");
  const rows = [];
  for (const [proxy, row] of index.get("tau") || []) {
    if (proxy === "") continue;
    const entry = entryOf.get(proxy) || { label: proxy };
    const shown = board.columns.filter((column) => column.estimator);
    rows.push({
      ...Object.fromEntries(shown.map((column) => [column.key, score(column.whole ? everywhere : index, column.estimator, proxy)])),
      proxy,
      entry,
      baseline: Boolean(entry.baseline),
      tau: scores.value[row],
      low: scores.low[row],
      high: scores.high[row],
      models: scores.models[row],
      coverage: score(index, "coverage", proxy),
      seconds: score(everywhere, "seconds", proxy),
      limits: (name) => { const row = scoreRow(index, name, proxy); return row < 0 ? "" : interval(scores.low[row], scores.high[row]); },
      marks: board.marks.filter((mark) => mark.estimator && applies(mark, score(mark.whole ? everywhere : index, mark.estimator, proxy), Boolean(entry.baseline))).map((mark) => mark.name),
    });
  }
  return rows;
}

// Whether a proxy with this value of a mark's estimator bears the mark.
function applies(mark, value, baseline) {
  if (typeof value !== "number" || (baseline && !mark.of_baselines)) return false;
  return (mark.at_least !== null && Math.abs(value) >= mark.at_least) || (mark.below !== null && value < mark.below);
}

// How many networks of a scope could be ranked at all.
function rankable(rows) {
  for (const row of rows) if (row.coverage > 0) return Math.round(row.models / row.coverage);
  return null;
}

function ceilings(target, task, family) {
  const index = scope(target, task, family);
  return ["network", "configuration"]
    .map((name) => ({ name, value: score(index, `ceiling_${name}`, ""), low: score(index, `ceiling_${name}`, "", "low"), high: score(index, `ceiling_${name}`, "", "high") }))
    .filter((ceiling) => typeof ceiling.value === "number");
}

const rowsOfProxy = new Map();
for (let row = 0; row < measurements.cell.length; row++) {
  const proxy = measurements.proxy[row];
  if (!rowsOfProxy.has(proxy)) rowsOfProxy.set(proxy, []);
  rowsOfProxy.get(proxy).push(row);
}

// [network, value, standard error] of every usable first measurement of a proxy; null where it has none of its own.
function measured(proxy) {
  const own = rowsOfProxy.get(proxy);
  if (!own) {
    if (proxy !== "width" || !population.width) return null;
    return population.width.map((value, network) => [network, value, null]).filter(([, value]) => typeof value === "number");
  }
  const found = [];
  for (const row of own) {
    if (measurements.repeat && measurements.repeat[row] > 0) continue;
    const value = measurements.value[row];
    if (measurements.status[row] !== "ok" || typeof value !== "number") continue;
    found.push([networkOf.get(measurements.cell[row]), value, measurements.standard_error ? measurements.standard_error[row] : null]);
  }
  return found;
}

// Counts of the statuses and reasons of a proxy's first measurements.
function statuses(proxy) {
  const counts = new Map();
  for (const row of rowsOfProxy.get(proxy) || []) {
    if (measurements.repeat && measurements.repeat[row] > 0) continue;
    const reason = (measurements.reason && measurements.reason[row]) || "";
    const status = measurements.status[row];
    const key = status === "ok" ? "ok" : reason ? `${status}: ${reason}` : status;
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
