// The state of the page, kept in the URL's fragment, and what redraws when it changes.
/** @type {State} */
const state = {
  target: board.targets.includes("gap") ? "gap" : board.targets[0] || "gap",
  task: "", family: "", search: "", sort: "rank", reverse: false,
  proxy: null, against: "", pins: [], plotTask: board.tasks[0] || "", log: "auto", unconverged: false, heat: "axis", verified: false, cost: "", invariant: "", theme: "",
  keeps(row) {
    if (state.invariant !== "" && !row.entry.baseline && !invariantTo(row.entry, state.invariant)) return false;
    if (state.verified && !row.entry.verified && !row.entry.baseline) return false;
    if (state.cost !== "" && !row.entry.made_by_scorer && !(typeof row.seconds === "number" && row.seconds <= Number(state.cost))) return false;
    return !state.search || `${row.proxy} ${row.entry.summary || ""}`.toLowerCase().includes(state.search.toLowerCase());
  },
};
/** @type {Record<string, string>} */
const KEPT = { target: state.target, task: "", family: "", search: "", sort: "rank", reverse: "", proxy: "", against: "", plotTask: state.plotTask, log: "auto", unconverged: "", heat: "axis", verified: "", cost: "", invariant: "", theme: "" };
const auditKinds = [...new Set(board.proxies.flatMap((entry) => (entry.audit || []).map((result) => result.kind)))].sort();
const hasVerified = board.proxies.some((entry) => "verified" in entry);

// The part of the state that the address keeps, by name.
const stateOf = /** @type {Record<string, any>} */ (/** @type {unknown} */ (state));

function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const [name, otherwise] of Object.entries(KEPT)) {
    const value = given.has(name) ? given.get(name) : otherwise;
    stateOf[name] = ["reverse", "unconverged", "verified"].includes(name) ? value === "1" : value;
  }
  if (!board.targets.includes(state.target)) state.target = KEPT.target;
  if (state.task && !board.tasks.includes(state.task)) state.task = "";
  if (state.family && !board.families.includes(state.family)) state.family = "";
  if (!["all", ...auditKinds].includes(state.invariant)) state.invariant = "";
  if (!["light", "dark"].includes(state.theme)) state.theme = "";
  if (!board.tasks.includes(state.plotTask)) state.plotTask = KEPT.plotTask;
  // What no control can show would filter unseen.
  if (!COLUMNS.some((column) => column.key === state.sort)) state.sort = KEPT.sort;
  if (!["auto", "linear", "log"].includes(state.log)) state.log = KEPT.log;
  if (!HEAT_KINDS.some(({ key }) => key === state.heat)) state.heat = KEPT.heat;
  if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(state.cost) || !Number.isFinite(Number(state.cost))) state.cost = "";
  if (!hasVerified) state.verified = false;
  if (!entryOf.has(state.proxy || "")) state.proxy = firstProxy();
  if (!entryOf.has(state.against)) state.against = "";
  state.pins = [...new Set(given.getAll("pin"))].filter((name) => entryOf.has(name));
}

/** @type {() => string | null} */
function firstProxy() {
  const rows = sortedRanking(ranking(state.target, state.task, state.family), { sort: "rank", reverse: false });
  const first = rows.find((row) => rowsOfProxy.has(row.proxy));
  return first ? first.proxy : board.proxies.length ? board.proxies[0].label : null;
}

// The fragment of this view; `more` says where on the page it opens.
/** @type {(more?: Record<string, string>) => string} */
function fragment(more = {}) {
  const kept = new URLSearchParams(more);
  for (const [name, otherwise] of Object.entries(KEPT)) {
    const value = typeof stateOf[name] === "boolean" ? (stateOf[name] ? "1" : "") : stateOf[name] || "";
    if (value !== otherwise) kept.set(name, value);
  }
  for (const name of state.pins) kept.append("pin", name);
  return `#${kept}`;
}

/** @type {(values: Partial<State>) => void} */
function change(values) {
  Object.assign(state, values);
  history.replaceState(null, "", fragment());
  draw();
}

// After a link was followed: the chosen row in a long ranking, and the proxy where the link asks for it.
function reveal() {
  const place = byId("ranking-place"), chosen = /** @type {HTMLElement | null} */ (place.querySelector("tr.chosen"));
  if (chosen && place.classList.contains("tall")) place.scrollTop = Math.max(0, chosen.offsetTop - place.clientHeight / 2);
  if (new URLSearchParams(location.hash.slice(1)).get("at") === "proxy") goTo("detail-title");
}

function drawControls() {
  /** @type {(names: string[]) => [string, string][]} */
  const named = (names) => names.map((name) => [name, name]);
  const labels = board.proxies.map((entry) => entry.label);
  byId("filters").replaceChildren(
    choice("target", "Target", named(board.targets), state.target, (target) => change({ target })),
    choice("task", "Task", [["", "all, averaged"], ...named(board.tasks)], state.task, (task) => change(task ? { task, plotTask: task } : { task })),
    choice("family", "Family", [["", "all"], ...named(board.families)], state.family, (family) => change({ family })),
    costBox(),
    auditKinds.length ? choice("invariant", "Unchanged by", [["", "(no filter)"], ["all", "all that applies"], ...named(auditKinds)], state.invariant, (invariant) => change({ invariant })) : "",
    hasVerified ? checkbox("verified", "verified entries only", state.verified, (verified) => change({ verified }), "Entries that gapbench verify confirmed, by their author or another (see the mark); baselines stay.") : "",
    searchBox(),
  );
  byId("appearance").replaceChildren(choice("theme", "Appearance", [["", "as the system"], ["light", "light"], ["dark", "dark"]], state.theme, (theme) => change({ theme })));
  byId("heat-controls").replaceChildren(choice("heat-kind", "Columns", HEAT_KINDS.map(({ key, title }) => [key, title]), state.heat, (heat) => change({ heat })));
  byId("scatter-controls").replaceChildren(
    choice("plot-proxy", "Proxy", named(labels), state.proxy, (proxy) => change({ proxy })),
    choice("plot-task", "Task", named(board.tasks), state.plotTask, (plotTask) => change({ plotTask })),
    choice("plot-log", "Proxy's axis", [["auto", "as it fits"], ["linear", "linear"], ["log", "logarithmic"]], state.log, (log) => change({ log })),
    !board.suite.of_table || population.status.some((status) => status !== "converged") ? checkbox("plot-unconverged", "with networks that did not converge", state.unconverged, (unconverged) => change({ unconverged }), "They are not ranked.") : "",
  );
  byId("compare-controls").replaceChildren(
    choice("compare-first", "Proxy", named(labels), state.proxy, (proxy) => change({ proxy })),
    choice("compare-second", "beside", [["", "(choose)"], ...named(labels)], state.against, (against) => change({ against })),
  );
}

/** @type {() => HTMLElement} */
function searchBox() {
  const box = /** @type {HTMLInputElement} */ (element("input", { type: "search", id: "search", placeholder: "name or summary", oninput: (event) => change({ search: event.target.value }) }));
  box.value = state.search;
  return element("label", { for: "search" }, "Search", box);
}

/** @type {() => HTMLElement} */
function costBox() {
  const box = /** @type {HTMLInputElement} */ (element("input", { type: "number", id: "cost-limit", min: "0", step: "any", placeholder: "any", oninput: (event) => change({ cost: event.target.value }) }));
  box.value = state.cost;
  return element("label", { for: "cost-limit", title: "Mean seconds to measure one network" }, "At most, seconds", box);
}

/** @type {() => number} */
function fit() {
  const width = byId("content").clientWidth;
  PLOT.width = Math.max(300, Math.min(900, width));
  PLOT.height = PLOT.width < 600 ? 340 : 470;
  PLOT.left = PLOT.width < 600 ? 52 : 70;
  BAR = width < NARROW ? 130 : 210;
  arrangeColumns(width < NARROW);
  return width;
}

// Redraw a part of the page; what had the keyboard's focus has it again.
/** @type {(id: string, redraw: () => void) => void} */
function keepingFocus(id, redraw) {
  const active = document.activeElement && byId(id).contains(document.activeElement) ? document.activeElement : null;
  const found = active && (active.hasAttribute("data-sort") ? active : active.closest("[data-proxy], [data-focus]"));
  const kind = found && ["data-sort", "data-proxy", "data-focus"].find((name) => found.hasAttribute(name));
  const key = found && kind && found.getAttribute(kind);
  redraw();
  if (!kind) return;
  const places = /** @type {NodeListOf<HTMLElement>} */ (byId(id).querySelectorAll(`[${kind}]`));
  const again = [...places].find((place) => place.getAttribute(kind) === key);
  if (again) (again.tabIndex >= 0 ? again : again.querySelector("button"))?.focus({ preventScroll: true });
}

const LARGE = 100000, NARROW = 640;
let pending = 0;

function draw() {
  document.documentElement.dataset.theme = state.theme;
  drawnAt = fit();
  for (const [id, value] of /** @type {[string, string][]} */ ([["target", state.target], ["task", state.task], ["family", state.family], ["plot-proxy", state.proxy || ""], ["compare-first", state.proxy || ""], ["compare-second", state.against], ["plot-task", state.plotTask], ["plot-log", state.log], ["heat-kind", state.heat], ["search", state.search], ["cost-limit", state.cost], ["invariant", state.invariant], ["theme", state.theme]])) {
    const control = /** @type {HTMLInputElement | null} */ (document.getElementById(id));
    if (control && control.value !== value) control.value = value;
  }
  /** @type {Choose} */
  const choose = (proxy) => change({ proxy });
  /** @type {Choose} */
  const pin = (proxy) => change({ pins: state.pins.includes(proxy) ? state.pins.filter((name) => name !== proxy) : [...state.pins, proxy] });
  keepingFocus("verdict", () => drawVerdict(state, choose));
  keepingFocus("ranking", () => drawRanking(state, choose, (key) => change({ reverse: state.sort === key ? !state.reverse : false, sort: key }), pin));
  drawDetail(state, change);
  const rest = () => {
    if (unfolded("scatter")) drawScatter(state);
    if (unfolded("compare")) drawCompare(state);
    if (unfolded("heat")) drawHeat(state);
    if (unfolded("cost")) keepingFocus("cost", () => drawCost(state, choose));
    if (unfolded("agreement")) keepingFocus("agreement", () => drawAgreement(state, choose));
  };
  clearTimeout(pending);
  if (board.proxies.length * population.cell.length > LARGE) pending = setTimeout(rest, 0); // the ranking answers first
  else rest();
}

// Whether a part of the page is to be seen; it is drawn when its section is opened.
/** @type {(id: string) => boolean} */
function unfolded(id) {
  const fold = /** @type {HTMLDetailsElement | null} */ (byId(id).closest("details.fold"));
  return !fold || fold.open;
}

// The tables of other views, made while nothing else is to be done, so that the first change of a filter is quick too.
/** @type {(scopes: [string, string, string][]) => void} */
function warmUp(scopes) {
  if (!scopes.length) return;
  const later = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  later(() => { scope(...scopes[0]); warmUp(scopes.slice(1)); });
}

let drawnAt = 0;
// The fragment holds the view, so that the link to the ranking must not replace it.
document.querySelector("a.skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  byId("ranking-title").focus();
  byId("ranking-title").scrollIntoView();
});
readFragment();
// On a narrow screen the evidence opens where it is asked for.
if (innerWidth < NARROW) for (const fold of document.querySelectorAll("details.fold")) /** @type {HTMLDetailsElement} */ (fold).open = false;
drawHeader();
drawGlossary();
drawDecision();
drawControls();
drawExports(state);
draw();
reveal();
/** @type {[string, string, string][]} */
const views = board.targets.flatMap((target) => [...board.tasks.map((task) => /** @type {[string, string, string]} */ ([target, task, ""])), ...board.families.map((family) => /** @type {[string, string, string]} */ ([target, state.task, family]))]);
warmUp(views);
for (const fold of document.querySelectorAll("details.fold")) fold.addEventListener("toggle", () => { if (/** @type {HTMLDetailsElement} */ (fold).open) draw(); });
addEventListener("resize", () => requestAnimationFrame(() => { if (byId("content").clientWidth !== drawnAt) draw(); }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("hashchange", () => { readFragment(); drawControls(); draw(); reveal(); });
