// The head: the question, which networks answer it, and the verdict.
const TARGETS = new Map([["gap", "test error minus training error"], ["loss_gap", "test loss minus training loss"], ["test_error", "the error on test data"], ["gap_noisy", "test error minus training error, both under the same label noise"]]);
const MOST_NAMES = 6;

function drawHeader() {
  const suite = board.suite;
  byId("title").textContent = `gapbench board: ${suite.name || ""} ${suite.version === undefined || suite.version === null ? "" : `version ${suite.version}`}`.trim();
  byId("summary").textContent = suite.summary || "";
  const counts = new Map();
  for (const status of population.status) counts.set(status, (counts.get(status) || 0) + 1);
  const planned = suite.planned ? ` of ${suite.planned} planned` : "";
  byId("made-with").hidden = !(suite.made_with || []).length;
  byId("made-with").textContent = `Made with ${(suite.made_with || []).join("; ")}.`;
  if (suite.of_table) { // what it leaves out it says itself, and all others count as converged
    const left = [...counts].filter(([status]) => status !== "converged").map(([status, count]) => `${count} ${status}`);
    byId("facts").textContent = `${plural(population.cell.length, "network")}${left.length ? ` (${left.join(", ")})` : ""}; ${board.proxies.length} measures and baselines.`;
  } else byId("facts").textContent = `${planned ? `${population.cell.length}${planned} networks` : plural(population.cell.length, "network")} (${[...counts].map(([status, count]) => `${count} ${status}`).join(", ")}); ${plural(board.tasks.length, "task")}, ${board.families.length === 1 ? "1 family" : `${board.families.length} families`}, ${board.proxies.length} proxies and baselines${suite.samples ? `; proxies see ${suite.samples} training examples` : ""}.`;
  const known = suite.population;
  byId("population").hidden = !known;
  if (known) byId("population").textContent = `Population ${known.fingerprint}: ${known.words}${known.date ? `, ${known.date.slice(0, 10)}` : ""}.`;
  byId("notes").hidden = !board.notes.length;
  for (const note of board.notes) byId("notes").append(element("li", {}, ...withCommands(note)));
  drawDecides();
}

// What differences the population can show, and which of its gates it fails.
function drawDecides() {
  const { resolution, gates, target } = board.decision;
  const said = [];
  const smallest = resolution.smallest_difference, half = resolution.half_width;
  if (typeof smallest === "number" && smallest > 2) said.push("On these networks no difference of two taus can be significant.");
  else if (typeof smallest === "number") said.push(`Here two taus are typically told apart if they differ by ${rounded(smallest, 2)} or more${typeof half === "number" ? `; a typical interval is ± ${rounded(half, 2)}` : ""}${board.targets.length > 1 ? ` (${target})` : ""}.`);
  const failed = gates.filter((gate) => gate.passed === false).map((gate) => gate.name);
  byId("decides").hidden = !said.length && !failed.length;
  byId("decides").replaceChildren(...said.map((text) => `${text} `), ...(failed.length ? [`Of what a population should meet, this one misses: ${failed.join(", ")}. `] : []), element("a", { href: "#decision-title", onclick: toDecision }, "What it can decide"), ".");
}

// The fragment holds the view, so that no link within the page may replace it.
/** @type {(event: Event) => void} */
function toDecision(event) {
  event.preventDefault();
  goTo("decision-title");
}

// To a heading, which its section opens for.
/** @type {(id: string) => void} */
function goTo(id) {
  const heading = byId(id), fold = /** @type {HTMLDetailsElement | null} */ (heading.closest("details.fold"));
  if (fold) fold.open = true;
  heading.focus({ preventScroll: true });
  heading.scrollIntoView();
}

let verdictOn = "";
// It speaks of a target as a whole, so that no other filter changes it.
/** @type {(state: State, choose: Choose) => void} */
function drawVerdict(state, choose) {
  if (state.target === verdictOn) return;
  verdictOn = state.target;
  const about = TARGETS.get(state.target);
  const among = board.suite.of_table ? "among the networks of the table that learned from the same data, as far as its columns were said to tell" : "among networks of one family that learned from the same data, averaged over families and tasks";
  byId("question").replaceChildren("A ", element("b", {}, "proxy"), " is a number computed from a trained network and its training data that claims to predict the ", element("b", {}, state.target), `${about ? `, ${about}` : ""}. `, element("b", {}, "Tau"), ` is its rank correlation with the ${state.target} ${among}: 1 is a perfect order, 0 none, below 0 a reversed one.`);
  const rows = sortedRanking(ranking(state.target, "", "").filter((row) => !row.baseline), { sort: "rank", reverse: false });
  byId("verdict").replaceChildren(...[bestLine(rows, choose), ...board.tests.map((test) => testLine(state, rows, test, choose))].flatMap((line) => (line ? [element("li", {}, ...line)] : [])));
}

/** @type {(rows: RankingRow[], choose: Choose) => Child[]} */
function bestLine(rows, choose) {
  const inRank = rows.filter((row) => row.rank !== null);
  if (!inRank.length) return [element("b", {}, "No proxy could be ranked.")];
  const first = inRank[0];
  const lead = [" ", nameButton(first.proxy, choose), ` has tau ${rounded(first.tau)} ${interval(first.low, first.high)}, ${rankWords(first)}. `];
  if (inRank.length === 1) return [element("b", {}, "One proxy is ranked:"), ...lead];
  if (undecided(inRank)) return [element("b", {}, `No two of ${inRank.length} proxies can be told apart:`), " no difference is significant, so any may be the best. In front:", ...lead];
  const best = inRank.filter((row) => row.rankLow === 1);
  return [element("b", {}, "In front:"), ...lead, `${best.length} of ${inRank.length} may be the best: `, ...nameButtons(best.map((row) => row.proxy), choose), "."];
}

/** @type {(row: RankingRow) => string} */
function rankWords(row) {
  return row.rankLow === null || row.rankHigh === null ? `rank ${row.rank}` : row.rankLow === row.rankHigh ? `rank ${row.rank}, certain` : `rank ${row.rank}, between ${row.rankLow} and ${row.rankHigh}`;
}

/** @type {(target: string, proxy: string) => string} */
function tauOf(target, proxy) {
  const index = scope(target, "", "");
  return `${rounded(score(index, HEADLINE, proxy))} ${interval(score(index, HEADLINE, proxy, "low"), score(index, HEADLINE, proxy, "high"))}`.trim();
}

// Which proxies pass a test; nothing where it was not made.
/** @type {(state: State, rows: RankingRow[], test: Test, choose: Choose) => Child[] | null} */
function testLine(state, rows, test, choose) {
  const index = scope(state.target, "", "");
  const made = rows.filter((row) => score(index, test.estimator, row.proxy) !== null);
  if (!made.length) return null;
  const passed = made.filter((row) => score(index, test.estimator, row.proxy) === 1).map((row) => row.proxy);
  const about = test.against ? ` (tau ${tauOf(state.target, test.against)}; ${test.about})` : ` ${test.about}`;
  if (!passed.length) return [element("b", {}, `None of ${made.length} ${test.one}`), `${about}.`];
  return [element("b", {}, `${passed.length} of ${made.length} ${passed.length === 1 ? test.one : test.many}`), `${about}: `, ...nameButtons(passed, choose), "."];
}

/** @type {(proxy: string, choose: Choose) => HTMLElement} */
function nameButton(proxy, choose) {
  return element("button", { type: "button", class: "link", "data-focus": `verdict:${proxy}`, onclick: () => choose(proxy) }, shortened(proxy, 44));
}

// Before a comma a word joiner: no line may begin with it.
/** @type {(proxies: string[], choose: Choose) => Child[]} */
function nameButtons(proxies, choose) {
  const shown = proxies.length > MOST_NAMES + 1 ? proxies.slice(0, MOST_NAMES) : proxies;
  const listed = shown.flatMap((proxy, k) => [k ? "\u2060, " : "", nameButton(proxy, choose)]);
  return shown.length < proxies.length ? [...listed, ` and ${proxies.length - shown.length} more`] : listed;
}
