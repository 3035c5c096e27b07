// The state of the page, kept in the URL's fragment, and what redraws when it changes.
const state = {
  target: board.targets.includes("gap") ? "gap" : board.targets[0] || "gap",
  task: "", family: "", search: "", sort: "rank", reverse: false,
  proxy: null, plotTask: board.tasks[0] || "", log: "auto", unconverged: false,
  keeps(row) {
    return !state.search || `${row.proxy} ${row.entry.summary || ""}`.toLowerCase().includes(state.search.toLowerCase());
  },
};
const KEPT = { target: state.target, task: "", family: "", search: "", sort: "rank", reverse: "", proxy: "", plotTask: state.plotTask, log: "auto", unconverged: "" };

function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const [name, otherwise] of Object.entries(KEPT)) {
    const value = given.has(name) ? given.get(name) : otherwise;
    state[name] = name === "reverse" || name === "unconverged" ? value === "1" : value;
  }
  if (!board.targets.includes(state.target)) state.target = KEPT.target;
  if (state.task && !board.tasks.includes(state.task)) state.task = "";
  if (state.family && !board.families.includes(state.family)) state.family = "";
  if (!board.tasks.includes(state.plotTask)) state.plotTask = KEPT.plotTask;
  if (!entryOf.has(state.proxy)) state.proxy = firstProxy();
}

function firstProxy() {
  const rows = sortedRanking(ranking(state.target, state.task, state.family), { sort: "rank", reverse: false });
  const first = rows.find((row) => rowsOfProxy.has(row.proxy));
  return first ? first.proxy : board.proxies.length ? board.proxies[0].label : null;
}

function writeFragment() {
  const kept = new URLSearchParams();
  for (const [name, otherwise] of Object.entries(KEPT)) {
    const value = typeof state[name] === "boolean" ? (state[name] ? "1" : "") : state[name] || "";
    if (value !== otherwise) kept.set(name, value);
  }
  history.replaceState(null, "", `#${kept}`);
}

function change(values) {
  Object.assign(state, values);
  writeFragment();
  draw();
}

function drawHeader() {
  const suite = board.suite;
  byId("title").textContent = `gapbench board: ${suite.name || ""} ${suite.version === undefined || suite.version === null ? "" : `version ${suite.version}`}`.trim();
  byId("summary").textContent = suite.summary || "";
  const counts = new Map();
  for (const status of population.status) counts.set(status, (counts.get(status) || 0) + 1);
  const planned = suite.planned ? ` of ${suite.planned} planned` : "";
  byId("facts").textContent = `${population.cell.length}${planned} networks (${[...counts].map(([status, count]) => `${count} ${status}`).join(", ")}); ${board.tasks.length} tasks, ${board.families.length} families, ${board.proxies.length} proxies and baselines${suite.samples ? `; proxies see ${suite.samples} training examples` : ""}.`;
  byId("notes").hidden = !board.notes.length;
  for (const note of board.notes) byId("notes").append(element("li", {}, note));
}

function drawControls() {
  const named = (names) => names.map((name) => [name, name]);
  byId("filters").replaceChildren(
    choice("target", "Target", named(board.targets), state.target, (target) => change({ target })),
    choice("task", "Task", [["", "all, averaged"], ...named(board.tasks)], state.task, (task) => change(task ? { task, plotTask: task } : { task })),
    choice("family", "Family", [["", "all"], ...named(board.families)], state.family, (family) => change({ family })),
    searchBox(),
  );
  byId("scatter-controls").replaceChildren(
    choice("plot-proxy", "Proxy", named(board.proxies.map((entry) => entry.label)), state.proxy, (proxy) => change({ proxy })),
    choice("plot-task", "Task", named(board.tasks), state.plotTask, (plotTask) => change({ plotTask })),
    choice("plot-log", "Proxy's axis", [["auto", "as it fits"], ["linear", "linear"], ["log", "logarithmic"]], state.log, (log) => change({ log })),
    checkbox("plot-unconverged", "with networks that did not converge", state.unconverged, (unconverged) => change({ unconverged }), "They are not ranked."),
  );
}

function searchBox() {
  const box = element("input", { type: "search", id: "search", placeholder: "name or summary", oninput: (event) => change({ search: event.target.value }) });
  box.value = state.search;
  return element("label", { for: "search" }, "Search", box);
}

function drawDetail() {
  const place = byId("detail");
  place.replaceChildren();
  const entry = entryOf.get(state.proxy);
  if (!entry) return;
  const facts = element("dl");
  const fact = (name, text) => text && facts.append(element("dt", {}, name), element("dd", {}, text));
  fact("proxy", entry.proxy && `${entry.proxy}${entry.version ? `, version ${entry.version}` : ""}`);
  fact("what it is", entry.summary);
  fact("reference", entry.reference);
  fact("a larger value predicts", entry.higher_means && (entry.higher_means === "better" ? "a smaller gap" : "a larger gap"));
  fact("options", entry.options && Object.entries(entry.options).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join(", "));
  for (const [text, count] of statuses(state.proxy)) fact(`${count} measurements`, text);
  const index = scope(state.target, state.task, state.family);
  const table = element("tbody");
  for (const [estimator, rows] of index) {
    if (!rows.has(state.proxy)) continue;
    const row = rows.get(state.proxy);
    table.append(element("tr", { "data-estimator": estimator }, element("td", { class: "text" }, estimator),
      number(scores.value[row], 4), number(scores.low[row], 4), number(scores.high[row], 4), element("td", {}, exact(scores.models[row]))));
  }
  const head = element("thead", {}, element("tr", {}, ...["estimator", "value", "low", "high", "networks"].map((name, k) => element("th", { scope: "col", class: k ? "" : "text" }, name))));
  place.append(element("h3", {}, entry.label), facts, element("details", {}, element("summary", {}, "All its scores in this view"), element("div", { class: "wide" }, element("table", { id: "estimators" }, head, table))));
}

function draw() {
  for (const [id, value] of [["target", state.target], ["task", state.task], ["family", state.family], ["plot-proxy", state.proxy], ["plot-task", state.plotTask], ["plot-log", state.log]]) {
    const control = byId(id);
    if (control.value !== value) control.value = value;
  }
  drawRanking(state, (proxy) => change({ proxy }), (key) => change({ reverse: state.sort === key ? !state.reverse : false, sort: key }));
  drawScatter(state);
  drawDetail();
}

readFragment();
drawHeader();
drawGlossary();
drawControls();
draw();
addEventListener("hashchange", () => { readFragment(); drawControls(); draw(); });
