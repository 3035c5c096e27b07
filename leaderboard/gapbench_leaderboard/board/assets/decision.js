// What the population can decide: the verdicts, and the numbers behind them.
function drawDecision() {
  const said = board.decision;
  byId("decision-about").textContent = `Of ${said.target}, with ${plural(said.networks, "network")}, whatever target, task and family are chosen above.`;
  const verdicts = element("tbody");
  for (const gate of said.gates) verdicts.append(element("tr", { "data-gate": gate.name }, textCell(gate.name), element("td", { class: "text" }, element("span", { class: gate.passed === null ? "quiet" : gate.passed ? "mark good" : "mark" }, gate.outcome)), textCell(gate.words, "prose")));
  if (said.survivorship.words) verdicts.append(element("tr", { "data-gate": "survivors" }, textCell("survivors"), textCell(""), textCell(said.survivorship.words, "prose")));
  byId("decision").replaceChildren(heads(["verdict of", "", "what was found"], 3), verdicts);
  const levels = element("tbody");
  for (const level of said.levels) levels.append(element("tr", {}, textCell(level.by), textCell(level.level), element("td", {}, `${level.kept}/${level.networks}`)));
  byId("decision-levels").replaceChildren(heads(["by", "level", "ranked"], 2), levels);
  const axes = [...new Set(said.strata.flatMap((stratum) => Object.keys(stratum.shares)))];
  const strata = element("tbody");
  for (const stratum of said.strata) {
    const numbers = [stratum.networks, stratum.configurations, rounded(stratum.spread, 4), rounded(stratum.noise, 4), rounded(stratum.ratio, 1), rounded(stratum.between_seeds, 4), rounded(stratum.seeds, 2), ...axes.map((axis) => rounded(own(stratum.shares, axis), 2))];
    strata.append(element("tr", {}, textCell(stratum.name), ...numbers.map((value) => element("td", {}, String(value)))));
  }
  byId("decision-strata").replaceChildren(heads(["problem and family", "networks", "configurations", "spread", "test noise", "spread / noise", "between seeds", "share of seeds", ...axes.map((axis) => `share of ${axis}`)], 1), strata);
}

/** @type {(values: Record<string, Cell>, name: string) => Cell} */
function own(values, name) {
  return Object.hasOwn(values, name) ? values[name] : null;
}

/** @type {(value: unknown, kind?: string) => HTMLElement} */
function textCell(value, kind = "") {
  return element("td", { class: `text ${kind}`.trim() }, exact(value));
}

/** @type {(names: string[], texts: number) => HTMLElement} */
function heads(names, texts) {
  return element("thead", {}, element("tr", {}, ...names.map((name, position) => element("th", { scope: "col", class: position < texts ? "text" : "slim" }, breakable(name)))));
}
