// Proxies against axes, tasks or families: a table whose cells are coloured by value.
const HEAT_KINDS = board.heat_maps;

// The columns of a heat map: title, and the row of scores of a proxy.
/** @type {(kind: HeatMap, state: State) => HeatColumn[]} */
function heatColumns(kind, state) {
  const { estimator } = kind;
  /** @type {(title: string, index: Scope, name: string) => HeatColumn} */
  const column = (title, index, name) => ({ title, row: (proxy) => scoreRow(index, name, proxy), pairs: (proxy) => score(index, `pairs:${name}`, proxy) });
  if (kind.columns === "task") return board.tasks.map((task) => column(task, scope(state.target, task, state.family), estimator));
  if (kind.columns === "family") return board.families.map((family) => column(family, scope(state.target, state.task, family), estimator));
  const tasks = kind.single_tasks && !state.task ? board.tasks : [state.task];
  const columns = [];
  for (const task of tasks) {
    const index = scope(state.target, task, kind.single_tasks ? "" : state.family);
    for (const name of index.keys()) {
      if (!name.startsWith(`${estimator}:`)) continue;
      const axis = name.slice(estimator.length + 1);
      columns.push(column(tasks.length > 1 ? `${axis} (${task})` : axis, index, name));
    }
  }
  return columns;
}

// Whether the interval of a row of scores leaves out 0: with few pairs, whether the sign test has p < 0.05.
/** @type {(row: number) => boolean} */
function firm(row) {
  const low = scores.low[row], high = scores.high[row];
  return typeof low === "number" && typeof high === "number" && low !== high && (low > 0 || high < 0);
}

/** @type {(row: number, pairs: Cell, title: string) => HTMLElement} */
function heatCell(row, pairs, title) {
  const value = row < 0 ? null : scores.value[row];
  const said = row < 0 ? "not defined" : `${rounded(value, 3)} ${interval(scores.low[row], scores.high[row])}, ${typeof pairs === "number" ? `${plural(pairs, "pair")} of ` : ""}${plural(scores.models[row], "network")}`;
  const cell = element("td", { "data-value": exact(value), class: row < 0 || firm(row) ? null : "weak", "aria-label": `${rounded(value, 2)}: ${said}` }, rounded(value, 2));
  /** @type {(event: MouseEvent) => void} */
  const tell = (event) => showTip(`${title}\n${said}`, event.clientX, event.clientY);
  cell.addEventListener("pointermove", tell);
  cell.addEventListener("pointerleave", hideTip);
  if (typeof value === "number") cell.style.backgroundColor = `color-mix(in srgb, var(--${value < 0 ? "negative" : "positive"}) ${((firm(row) ? 50 : 15) * Math.min(1, Math.abs(value))).toFixed(1)}%, transparent)`;
  return cell;
}

/** @type {(state: State) => void} */
function drawHeat(state) {
  const kind = HEAT_KINDS.find(({ key }) => key === state.heat) || HEAT_KINDS[0];
  byId("heat-about").textContent = `${kind.about} Pale: the interval contains 0, or there is none. Point at a cell for the number of pairs that it rests on.`;
  const columns = heatColumns(kind, state);
  const rows = sortedRanking(ranking(state.target, state.task, state.family).filter((row) => state.keeps(row)), state);
  const empty = !columns.length || !rows.length;
  byId("heat-empty").hidden = !empty;
  byId("heat").replaceChildren();
  if (empty) return;
  const head = element("tr", {}, element("th", { scope: "col", class: "text" }, "Proxy"), ...columns.map((column) => element("th", { scope: "col", class: "slim" }, breakable(column.title))));
  const body = element("tbody");
  for (const row of rows) {
    body.append(element("tr", { "data-proxy": row.proxy, class: row.proxy === state.proxy ? "chosen" : "" },
      element("th", { scope: "row", class: `text name${row.baseline ? " base" : ""}` }, breakable(row.proxy)),
      ...columns.map((column) => heatCell(column.row(row.proxy), column.pairs(row.proxy), `${row.proxy}, ${column.title}`))));
  }
  byId("heat").append(element("thead", {}, head), body);
  attribute(byId("heat-place"), "class", rows.length > TALL ? "wide tall" : "wide");
}
