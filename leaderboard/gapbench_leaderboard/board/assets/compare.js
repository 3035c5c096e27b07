// Two proxies side by side: whether they differ, and where.
const MOST_ROWS = 12;

/** @type {(state: State) => void} */
function drawCompare(state) {
  const place = byId("compare"), about = byId("compare-about");
  place.replaceChildren();
  const first = state.proxy, second = state.against;
  if (!first || !second || first === second) {
    about.textContent = first ? `Choose a second proxy to see it beside ${first}.` : "There is no proxy to compare.";
    return;
  }
  about.textContent = differenceText(state, first, second);
  const room = place.clientWidth, wide = room > 760;
  /** @type {Frame} */
  const frame = { ...PLOT, width: Math.max(280, Math.min(640, wide ? Math.floor(room / 2) - 10 : room)), height: 320, left: 56 };
  const pair = element("div", { class: "pair" });
  for (const proxy of [first, second]) {
    const plot = element("div", { class: "plot", "data-proxy": proxy }), words = element("p", { class: "quiet" });
    pair.append(element("div", {}, element("h3", {}, shortened(proxy, 60)), words, plot));
    drawScatterOf(plot, words, proxy, state, frame);
  }
  place.append(pair, scopesTable(state, first, second), networksTable(state, first, second));
}

// The difference of two headlines over all tasks, as the scores have it: under the one that comes first in the table.
/** @type {(target: string, first: string, second: string) => Difference | null} */
function differenceOf(target, first, second) {
  const index = scope(target, "", "");
  for (const [one, other, sign] of /** @type {[string, string, number][]} */ ([[first, second, 1], [second, first, -1]])) {
    const row = scoreRow(index, `${board.difference.value}:${other}`, one);
    const value = row < 0 ? null : scores.value[row];
    if (value === null) continue;
    const [low, high] = sign > 0 ? [scores.low[row], scores.high[row]] : [scores.high[row], scores.low[row]];
    /** @type {(limit: number | null) => number | null} */
    const turned = (limit) => (limit === null ? null : sign * limit);
    return { value: sign * value, low: turned(low), high: turned(high), p: score(index, `${board.difference.p}:${other}`, one), networks: scores.models[row] };
  }
  return null;
}

/** @type {(state: State, first: string, second: string) => string} */
function differenceText(state, first, second) {
  const found = differenceOf(state.target, first, second);
  if (!found) return `The difference of ${first} and ${second} is not defined: too few networks have both.`;
  const apart = found.low === null || found.high === null ? "" : found.low > 0 || found.high < 0 ? " By this test of the one pair they differ" : " By this test of the one pair they are not told apart";
  const p = found.p === null ? "" : `, ${pText(found.p)}`;
  return `tau of ${first} less that of ${second}: ${rounded(found.value)} ${interval(found.low, found.high)}${p}, with ${state.target}, over all tasks, on the ${plural(found.networks, "network")} that both measured.${apart ? `${apart}; the sets of ranks say what holds for all pairs at once.` : ""}`;
}

/** @type {(state: State, first: string, second: string) => HTMLElement} */
function scopesTable(state, first, second) {
  /** @type {{ name: string, one: number, other: number, index: Scope }[]} */
  const found = [];
  for (const task of board.tasks) {
    for (const family of ["", ...board.families]) {
      const index = scope(state.target, task, family);
      const one = score(index, HEADLINE, first), other = score(index, HEADLINE, second);
      if (one !== null && other !== null) found.push({ name: family ? `${task}, ${family}` : task, one, other, index });
    }
  }
  found.sort((a, b) => Math.abs(b.one - b.other) - Math.abs(a.one - a.other));
  const body = element("tbody");
  for (const { name, one, other, index } of found.slice(0, MOST_ROWS)) {
    /** @type {(proxy: string, value: number) => string} */
    const limits = (proxy, value) => `${rounded(value)} ${interval(score(index, HEADLINE, proxy, "low"), score(index, HEADLINE, proxy, "high"))}`;
    body.append(element("tr", {}, textCell(name), element("td", {}, limits(first, one)), element("td", {}, limits(second, other)), element("td", { "data-value": exact(one - other) }, rounded(one - other))));
  }
  const head = heads(["where they differ most", `tau of ${shortened(first, 30)}`, `tau of ${shortened(second, 30)}`, "difference"], 1);
  return element("div", { class: "wide", role: "region", "aria-label": "Where two proxies differ most", tabindex: 0 }, element("table", { id: "compare-scopes" }, head, body));
}

// The share of networks of one problem and family that each is placed above: of the first, of the second, of the target.
/** @type {(state: State, first: string, second: string) => Placed[]} */
function placedApart(state, first, second) {
  const target = population[state.target] || [];
  const [ofFirst, ofSecond] = [first, second].map((proxy) => new Map((measured(proxy) || []).map(([network, value]) => [network, (entryOf.get(proxy) || {}).higher_means === "better" ? -value : value])));
  /** @type {Map<string, number[]>} */
  const strata = new Map();
  for (const network of ofFirst.keys()) {
    if (!ofSecond.has(network) || population.status[network] !== "converged" || typeof target[network] !== "number") continue;
    if ((state.task && population.task[network] !== state.task) || (state.family && population.family?.[network] !== state.family)) continue;
    const key = [population.task[network], population.family?.[network], ...board.problem.map((name) => exact(population[name]?.[network]))].join("\u0000");
    strata.set(key, [...(strata.get(key) || []), network]);
  }
  /** @type {Placed[]} */
  const placed = [];
  for (const networks of strata.values()) {
    if (networks.length < 3) continue;
    const [one, other, truth] = [ofFirst, ofSecond, new Map(networks.map((network) => [network, Number(target[network])]))].map((values) => shares(networks, values));
    networks.forEach((network, k) => placed.push({ network, one: one[k], other: other[k], truth: truth[k] }));
  }
  return placed.sort((a, b) => Math.abs(b.one - b.other) - Math.abs(a.one - a.other));
}

// The mean rank of each value from 0, the smallest, to 1.
/** @type {(networks: number[], values: Map<number, number>) => number[]} */
function shares(networks, values) {
  const own = networks.map((network) => values.get(network) ?? NaN), sorted = [...own].sort((a, b) => a - b);
  /** @type {Map<number, [number, number]>} */
  const runs = new Map();
  sorted.forEach((value, k) => runs.set(value, [runs.get(value)?.[0] ?? k, k]));
  return own.map((value) => { const [from, to] = runs.get(value) ?? [0, 0]; return (from + to) / 2 / (own.length - 1); });
}

/** @type {(state: State, first: string, second: string) => HTMLElement} */
function networksTable(state, first, second) {
  const placed = placedApart(state, first, second).slice(0, MOST_ROWS);
  const told = ["task", "family", "width", ...board.axes.filter((axis) => !["task", "family", "width"].includes(axis))].filter((name) => population[name] && new Set(placed.map(({ network }) => population[name][network])).size > 1);
  const body = element("tbody");
  for (const { network, one, other, truth } of placed) {
    const settings = told.map((name) => `${name} ${brief(population[name][network])}`).join(", ");
    body.append(element("tr", { "data-cell": population.cell[network] }, textCell(settings || population.cell[network], "prose"), ...[one, other, truth].map((value) => element("td", { "data-value": exact(value) }, rounded(value, 2)))));
  }
  const head = heads(["networks that they place most differently", shortened(first, 30), shortened(second, 30), state.target], 1);
  const words = element("p", { class: "quiet" }, "Places among the networks of one problem and family: 0 the smallest, 1 the largest.");
  return element("div", { class: "wide", role: "region", "aria-label": "Networks that two proxies place most differently", tabindex: 0 }, words, element("table", { id: "compare-networks" }, head, body));
}
