// What a proxy costs against how well it ranks.
/** @type {(state: State, choose: Choose) => void} */
function drawCost(state, choose) {
  const shown = ranking(state.target, state.task, state.family).filter((row) => state.keeps(row) && typeof row.seconds === "number" && row.seconds > 0 && typeof row.tau === "number");
  const rows = /** @type {CostRow[]} */ (shown);
  const place = byId("cost");
  place.replaceChildren();
  byId("cost-empty").hidden = rows.length > 0;
  if (!rows.length) return;
  const x = scale(rows.map((row) => row.seconds), PLOT.left, PLOT.width - PLOT.right - 10, true);
  const y = scale(rows.flatMap((row) => [row.tau, row.low ?? row.tau, row.high ?? row.tau, 0]), PLOT.height - PLOT.bottom, PLOT.top, false);
  const picture = svg("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, width: PLOT.width, height: PLOT.height, role: "group", "aria-label": "tau against seconds for each proxy" });
  axes(picture, x, y, "seconds for one network", "tau", PLOT);
  const front = rows.length > MOST_NAMED ? bestForCost(rows) : new Set(rows.map((row) => row.proxy));
  /** @type {[CostRow, number, number][]} */
  const labels = [];
  for (const row of rows) {
    const group = svg("g", { class: `entry${row.baseline ? " baseline" : ""}${row.proxy === state.proxy ? " now" : ""}`, tabindex: 0, role: "button", "aria-label": `${row.proxy}: tau ${rounded(row.tau)}, ${short(row.seconds)} seconds`, "data-proxy": row.proxy });
    if (typeof row.low === "number" && typeof row.high === "number") group.append(svg("line", { class: "interval thin", x1: x(row.seconds), x2: x(row.seconds), y1: y(row.low), y2: y(row.high) }));
    group.append(svg("circle", { class: "value", cx: x(row.seconds), cy: y(row.tau), r: 6 }));
    const tell = () => `${row.proxy}\ntau ${rounded(row.tau)} ${interval(row.low, row.high)}\n${short(row.seconds)} s for one network`;
    group.addEventListener("pointermove", (event) => showTip(tell(), event.clientX, event.clientY));
    group.addEventListener("pointerleave", hideTip);
    group.addEventListener("focus", () => { const box = group.getBoundingClientRect(); showTip(tell(), box.right, box.top); });
    group.addEventListener("blur", hideTip);
    group.addEventListener("click", () => choose(row.proxy));
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(row.proxy); } });
    picture.append(group);
    if (front.has(row.proxy)) labels.push([row, x(row.seconds), y(row.tau)]);
  }
  placeLabels(picture, labels, rows.map((row) => [x(row.seconds), y(row.tau)]));
  place.append(picture);
}

// Proxies than which no cheaper one ranks better.
/** @type {(rows: CostRow[]) => Set<string>} */
function bestForCost(rows) {
  const front = new Set();
  let best = -Infinity;
  for (const row of [...rows].sort((a, b) => a.seconds - b.seconds || b.tau - a.tau)) if (row.tau > best) { best = row.tau; front.add(row.proxy); }
  return front;
}

const MOST_NAMED = 30; // where more are shown, only the best for their cost are named
const LABEL = 13; // the height of a name
const ruler = document.createElement("canvas").getContext("2d");
// The width of a text of the plots, in pixels.
/** @type {(text: string) => number} */
function textWidth(text) {
  if (!ruler) return 6.6 * text.length;
  ruler.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;
  return ruler.measureText(text).width;
}

// Names at their points: on the side where they cover no other name and the fewest points; a name that finds no room
// there stands off, with a line to its point.
/** @type {(picture: SVGElement, labels: [CostRow, number, number][], points: [number, number][]) => void} */
function placeLabels(picture, labels, points) {
  /** @type {Box[]} */
  const taken = [];
  /** @type {(a: Box, b: Box) => boolean} */
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  /** @type {(box: Box) => number} */
  const covered = (box) => points.filter(([px, py]) => px > box.left - 6 && px < box.right + 6 && py > box.top - 6 && py < box.bottom + 6).length;
  for (const [row, px, py] of labels) {
    const text = shortened(row.proxy, PLOT.width < 600 ? 24 : 40), width = textWidth(text);
    /** @type {(left: number, top: number) => Box} */
    const box = (left, top) => ({ left, right: left + width, top, bottom: top + LABEL });
    const near = [box(px + 9, py - 7), box(px - 9 - width, py - 7), box(px - width / 2, py - 9 - LABEL), box(px - width / 2, py + 9), box(px + 6, py - 7 - LABEL), box(px + 6, py + 7), box(px - 6 - width, py - 7 - LABEL), box(px - 6 - width, py + 7)];
    const off = [1, 2, 3, 4, 5, 6].flatMap((k) => [box(px + 12, py - 7 - k * LABEL), box(px + 12, py - 7 + k * LABEL), box(px - 12 - width, py - 7 - k * LABEL), box(px - 12 - width, py - 7 + k * LABEL)]);
    /** @type {(found: Box) => boolean} */
    const free = (found) => found.left > PLOT.left && found.right < PLOT.width && found.top > 0 && found.bottom < PLOT.height - PLOT.bottom && !taken.some((other) => meet(found, other));
    const best = near.filter(free).sort((a, b) => covered(a) - covered(b))[0];
    const chosen = best || off.find(free);
    if (!chosen) continue; // it is told on hover and on focus
    taken.push(chosen);
    if (!best) picture.append(svg("line", { class: "grid", x1: px, y1: py, x2: chosen.left > px ? chosen.left - 2 : chosen.right + 2, y2: chosen.top + LABEL / 2 }));
    picture.append(svg("text", { class: "strong", x: chosen.left, y: chosen.top + LABEL - 3 }, text));
  }
}
