// The board's tables, as written by document.py, with the look-ups that the page needs.
/** @type {Board} */
const board = JSON.parse(document.getElementById("data")?.textContent || "");

// A column of a table as an array of cells.
/** @type {(table: StoredTable, name: string) => Cell[]} */
function cells(table, name) {
  const column = table[name];
  if (column === undefined || Array.isArray(column)) return column;
  return column.codes.map((code) => (code < 0 ? null : column.names[code]));
}

/** @type {(table: StoredTable) => Table} */
function decoded(table) {
  return Object.fromEntries(Object.keys(table).map((name) => [name, cells(table, name)]));
}

const population = /** @type {Population} */ (decoded(board.population));
const measurements = /** @type {Measurements} */ (decoded(board.measurements));
const scores = /** @type {Scores} */ (decoded(board.scores));
const entryOf = new Map(board.proxies.map((entry) => [entry.label, entry]));
const networkOf = new Map(population.cell.map((cell, index) => [cell, index]));

// Rows of scores by target, task and family.
/** @type {Map<string, number[]>} */
const rowsOfScope = new Map();
for (let row = 0, last = "", rows = /** @type {number[]} */ ([]); row < scores.value.length; row++) {
  const key = `${scores.target[row]}\u0000${scores.task[row] || ""}\u0000${scores.family[row] || ""}`;
  if (key !== last) {
    rows = rowsOfScope.get(key) || [];
    rowsOfScope.set(key, rows);
    last = key;
  }
  rows.push(row);
}

/** @type {Map<string, Scope>} */
const scopeIndex = new Map();
// estimator -> proxy -> row of scores, within one scope.
/** @type {(target: string, task: string, family: string) => Scope} */
function scope(target, task, family) {
  const key = `${target}\u0000${task || ""}\u0000${family || ""}`;
  const known = scopeIndex.get(key);
  if (known) return known;
  /** @type {Scope} */
  const index = new Map();
  for (const row of rowsOfScope.get(key) || []) {
    const estimator = scores.estimator[row];
    const rows = index.get(estimator) || new Map();
    index.set(estimator, rows);
    rows.set(scores.proxy[row] || "", row);
  }
  scopeIndex.set(key, index);
  return index;
}

/** @type {(index: Scope, estimator: string, proxy: string) => number} */
function scoreRow(index, estimator, proxy) {
  return index.get(estimator)?.get(proxy) ?? -1;
}

/** @type {(index: Scope, estimator: string, proxy: string, column?: "value" | "low" | "high") => number | null} */
function score(index, estimator, proxy, column = "value") {
  const row = scoreRow(index, estimator, proxy);
  return row < 0 ? null : scores[column][row];
}

/** @type {Map<string, RankingRow[]>} */
const rankingOfScope = new Map();
// The rows of a scope, in no order; made once, and not to be changed.
/** @type {(target: string, task: string, family: string) => RankingRow[]} */
function ranking(target, task, family) {
  const key = `${target}\u0000${task || ""}\u0000${family || ""}`;
  const rows = rankingOfScope.get(key) || rankingRows(target, task, family);
  rankingOfScope.set(key, rows);
  return rows;
}

/** @type {(target: string, task: string, family: string) => RankingRow[]} */
function rankingRows(target, task, family) {
  const index = scope(target, task, family);
  const everywhere = scope(target, "", "");
  const rows = [];
  for (const [proxy, row] of index.get("tau") || []) {
    if (proxy === "") continue;
    const entry = entryOf.get(proxy) || { label: proxy };
    rows.push({
      ...Object.fromEntries(board.columns.map((column) => [column.key, column.estimator ? score(column.whole ? everywhere : index, column.estimator, proxy) : null])),
      proxy,
      entry,
      baseline: Boolean(entry.baseline),
      tau: scores.value[row],
      low: scores.low[row],
      high: scores.high[row],
      models: scores.models[row],
      rank: score(index, "rank", proxy),
      rankLow: score(index, "rank", proxy, "low"),
      rankHigh: score(index, "rank", proxy, "high"),
      coverage: score(index, "coverage", proxy),
      seconds: score(everywhere, "seconds", proxy),
      limits: (/** @type {string} */ name) => { const row = scoreRow(index, name, proxy); return row < 0 ? "" : interval(scores.low[row], scores.high[row]); },
      marks: board.marks.filter((mark) => mark.estimator && applies(mark, score(mark.whole ? everywhere : index, mark.estimator, proxy), Boolean(entry.baseline))).map((mark) => mark.name),
    });
  }
  return rows;
}

// Whether a proxy with this value of a mark's estimator bears the mark.
/** @type {(mark: ScoredMark, value: number | null, baseline: boolean) => boolean} */
function applies(mark, value, baseline) {
  if (typeof value !== "number" || (baseline && !mark.of_baselines)) return false;
  return (mark.at_least !== null && Math.abs(value) >= mark.at_least) || (mark.below !== null && value < mark.below);
}

// How many networks of a scope could be ranked at all.
/** @type {(rows: RankingRow[]) => number | null} */
function rankable(rows) {
  for (const row of rows) if (row.coverage) return Math.round(row.models / row.coverage);
  return null;
}

// How many networks of a scope there are, whatever became of them; those under a shift are no part of any ranking.
/** @type {Map<string, number>} */
const trainedIn = new Map();
/** @type {(task: string, family: string) => number} */
function trained(task, family) {
  const key = `${task}\u0000${family}`;
  let count = trainedIn.get(key);
  if (count === undefined) {
    count = 0;
    for (let network = 0; network < population.cell.length; network++) {
      const shifted = population.shift && Number(population.shift[network]) > 0;
      if (!shifted && (!task || population.task[network] === task) && (!family || population.family?.[network] === family)) count++;
    }
    trainedIn.set(key, count);
  }
  return count;
}

/** @type {(target: string, task: string, family: string) => Ceiling[]} */
function ceilings(target, task, family) {
  const index = scope(target, task, family);
  return ["network", "configuration"]
    .map((name) => ({ name, value: score(index, `ceiling_${name}`, ""), low: score(index, `ceiling_${name}`, "", "low"), high: score(index, `ceiling_${name}`, "", "high") }))
    .flatMap(({ value, ...ceiling }) => (value === null ? [] : [{ ...ceiling, value }]));
}

/** @type {Map<string, number[]>} */
const rowsOfProxy = new Map();
for (let row = 0; row < measurements.cell.length; row++) {
  const proxy = measurements.proxy[row];
  const rows = rowsOfProxy.get(proxy);
  if (rows) rows.push(row);
  else rowsOfProxy.set(proxy, [row]);
}

// [network, value, standard error] of every usable first measurement of a proxy; null where it has none of its own.
/** @type {(proxy: string) => [number, number, Cell][] | null} */
function measured(proxy) {
  const own = rowsOfProxy.get(proxy);
  if (!own) {
    if (proxy !== "width" || !population.width) return null;
    return population.width.flatMap((value, network) => (typeof value === "number" ? [/** @type {[number, number, Cell]} */ ([network, value, null])] : []));
  }
  /** @type {[number, number, Cell][]} */
  const found = [];
  for (const row of own) {
    if (measurements.repeat && Number(measurements.repeat[row]) > 0) continue;
    const value = measurements.value[row];
    if (measurements.status[row] !== "ok" || typeof value !== "number") continue;
    found.push([networkOf.get(measurements.cell[row]) ?? -1, value, measurements.standard_error ? measurements.standard_error[row] : null]);
  }
  return found;
}

// Counts of the statuses and reasons of a proxy's first measurements.
/** @type {(proxy: string | null) => [string, number][]} */
function statuses(proxy) {
  const counts = new Map();
  for (const row of rowsOfProxy.get(proxy || "") || []) {
    if (measurements.repeat && Number(measurements.repeat[row]) > 0) continue;
    const reason = (measurements.reason && measurements.reason[row]) || "";
    const status = measurements.status[row];
    const key = status === "ok" ? "ok" : reason ? `${status}: ${reason}` : status;
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
