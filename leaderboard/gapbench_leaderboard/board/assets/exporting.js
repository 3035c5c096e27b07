// The ranking of this view as a file: CSV, LaTeX, a picture, and the sources of its proxies.
const EXPORTED = { width: 860, row: 22, name: 330, bar: 300, left: 70 };

/** @type {(state: State) => void} */
function drawExports(state) {
  /** @type {[string, string, () => void][]} */
  const kinds = [
    ["CSV", "This ranking as a table, in full precision", () => save(fileName(state, "csv"), csv(viewTable(state)), "text/csv")],
    ["LaTeX", "This ranking as a LaTeX table (booktabs)", () => save(fileName(state, "tex"), latex(state), "application/x-tex")],
    ["SVG", "This ranking with its intervals as a picture", () => save(fileName(state, "svg"), rankingPicture(state), "image/svg+xml")],
    ["BibTeX", "The sources that the proxies of this view name", () => save("sources.bib", bibtex(state), "application/x-bibtex")],
  ];
  byId("exports").replaceChildren("This view: ", ...kinds.map(([name, title, onclick]) => element("button", { type: "button", class: "plain", title, "data-export": name, onclick }, name)));
}

/** @type {(state: State, ending: string) => string} */
function fileName(state, ending) {
  const words = [board.suite.name || "board", state.target, state.task, state.family].filter(Boolean).join(" ");
  return `${words.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "board"}.${ending}`;
}

// The rows as a table: every number of the ranking, with the limits of the headline.
/** @type {(state: State) => Table} */
function viewTable(state) {
  const rows = shownRows(state), count = trained(state.task, state.family);
  /** @type {Table} */
  const table = { rank: rows.map((row) => row.rank), rank_low: rows.map((row) => row.rankLow), rank_high: rows.map((row) => row.rankHigh), proxy: rows.map((row) => row.proxy), tau: rows.map((row) => row.tau), tau_low: rows.map((row) => row.low), tau_high: rows.map((row) => row.high) };
  for (const column of board.columns) {
    if (column.estimator && column.kind !== "rank" && column.key !== HEADLINE) table[column.title] = rows.map((row) => /** @type {Cell} */ (row[column.key]));
  }
  table.networks = rows.map((row) => row.models);
  table.of = rows.map(() => count);
  return table;
}

// What a view is, in one line.
/** @type {(state: State) => string} */
function viewTitle(state) {
  const suite = board.suite;
  return `${suite.name || "board"}${suite.version === undefined || suite.version === null ? "" : ` version ${suite.version}`}: tau with ${state.target}, ${viewWords(state)}`;
}

/** @type {(text: string) => string} */
function latexText(text) {
  /** @type {Record<string, string>} */
  const special = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" };
  return text.replace(/[\\{}$&#_%~^]/g, (character) => special[character] || `\\${character}`).replace(/\s+/g, " ");
}

/** @type {(state: State) => string} */
function latex(state) {
  const columns = board.columns.filter((column) => column.kind === "number" && column.key !== HEADLINE);
  const count = trained(state.task, state.family), rows = shownRows(state);
  /** @type {(row: RankingRow) => string} */
  const line = (row) => `${[rankText(row, (low, high) => ` (${low}--${high})`).replace(MISSING, "--"), `\\texttt{${latexText(row.proxy)}}`, rounded(row.tau), interval(row.low, row.high), ...columns.map((column) => rounded(row[column.key])), `${row.models} of ${count}`].map((text) => text.replaceAll(MISSING, "--").replace(/(?<![\w-])-(?=\d)/g, "$-$")).join(" & ")} \\\\`;
  const headings = ["rank", "proxy", "tau", "95\\,\\% interval", ...columns.map((column) => latexText(column.title)), "networks"];
  const [measured, baselines] = [rows.filter((row) => !row.baseline), rows.filter((row) => row.baseline)];
  return `% ${viewTitle(state).replace(/\s+/g, " ")}\n% needs \\usepackage{booktabs}\n\\begin{tabular}{rlrl${"r".repeat(columns.length + 1)}}\n\\toprule\n${headings.join(" & ")} \\\\\n\\midrule\n${measured.map(line).join("\n")}\n${baselines.length ? `\\midrule\n${baselines.map(line).join("\n")}\n` : ""}\\bottomrule\n\\end{tabular}\n`;
}

/** @type {(state: State) => string} */
function bibtex(state) {
  /** @type {Set<string>} */
  const found = new Set();
  for (const row of shownRows(state)) for (const source of row.entry.sources || []) found.add(source.bibtex);
  return found.size ? [...found].join("\n") : "% The proxies of this view name no publication.\n";
}

// A picture that stands alone: its colours do not depend on the page.
/** @type {(state: State) => string} */
function rankingPicture(state) {
  const rows = shownRows(state), guides = guidesOf(state), { width, row: step, name, bar, left } = EXPORTED;
  const height = 64 + step * rows.length, from = left + name, bottom = height - 8;
  let low = 0, high = 0.2;
  for (const value of [...rows.flatMap((row) => [row.tau, row.low, row.high]), guides.oracle, ...guides.ceilings.map((ceiling) => ceiling.value)]) if (typeof value === "number") { low = Math.min(low, value); high = Math.max(high, value); }
  /** @type {(value: number) => string} */
  const at = (value) => (from + ((value - low) / (high - low)) * bar).toFixed(1);
  /** @type {(x: string | number, y: number, text: string, more?: Attributes) => SVGElement} */
  const write = (x, y, text, more = {}) => svg("text", { x, y, fill: "#16191d", ...more }, text);
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "DejaVu Sans, Helvetica, Arial, sans-serif", "font-size": 12 }, svg("rect", { width, height, fill: "#ffffff" }), write(8, 18, viewTitle(state), { "font-weight": 600 }));
  for (const tick of niceTicks(low, high, 4)) picture.append(svg("line", { x1: at(tick), x2: at(tick), y1: 46, y2: bottom, stroke: tick === 0 ? "#555c66" : "#d5d9df" }), write(at(tick), 40, String(tick), { "text-anchor": "middle", fill: "#555c66" }));
  for (const ceiling of guides.ceilings) picture.append(svg("line", { x1: at(ceiling.value), x2: at(ceiling.value), y1: 46, y2: bottom, stroke: "#8a4b00", "stroke-dasharray": "3 2" }));
  if (guides.oracle !== null) picture.append(svg("line", { x1: at(guides.oracle), x2: at(guides.oracle), y1: 46, y2: bottom, stroke: "#2f7d32", "stroke-width": 1.5 }), write(at(guides.oracle), 54, "oracle", { "text-anchor": "middle", fill: "#2f7d32", "font-size": 10 }));
  rows.forEach((row, k) => {
    const y = 64 + step * k + step / 2, colour = row.baseline ? "#59606c" : "#0b5cad";
    picture.append(write(left - 10, y + 4, rankText(row, (from, to) => ` (${from}–${to})`), { "text-anchor": "end" }), write(left, y + 4, shortened(row.proxy, 46), row.baseline ? { "font-style": "italic", fill: colour } : {}));
    if (typeof row.low === "number" && typeof row.high === "number") picture.append(svg("line", { x1: at(row.low), x2: at(row.high), y1: y, y2: y, stroke: colour, "stroke-width": 3, "stroke-linecap": "round" }));
    if (typeof row.tau === "number") picture.append(svg("circle", { cx: at(row.tau), cy: y, r: 4.5, fill: colour, stroke: "#ffffff" }));
    picture.append(write(width - 8, y + 4, `${rounded(row.tau)} ${interval(row.low, row.high)}`, { "text-anchor": "end" }));
  });
  return `${new XMLSerializer().serializeToString(picture)}\n`;
}
