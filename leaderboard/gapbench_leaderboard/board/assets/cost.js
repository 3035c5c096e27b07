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
  axes(picture, x, y, "seconds for one network", "tau");
  const front = bestForCost(rows);
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
  placeLabels(picture, labels);
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

// Names beside their points, moved apart where they would cover each other.
/** @type {(picture: SVGElement, labels: [CostRow, number, number][]) => void} */
function placeLabels(picture, labels) {
  /** @type {{ at: number, from: number, to: number }[]} */
  const taken = [];
  for (const [row, px, py] of labels) {
    const text = row.proxy.length > 34 ? `${row.proxy.slice(0, 33)}…` : row.proxy;
    const width = 6.6 * text.length, right = px + 10 + width < PLOT.width;
    const from = right ? px + 10 : px - 10 - width;
    let at = py + 4;
    while (taken.some((box) => Math.abs(box.at - at) < 14 && box.from < from + width && from < box.to)) at += 14;
    taken.push({ at, from, to: from + width });
    picture.append(svg("text", { class: "strong", x: right ? from : from + width, y: at, "text-anchor": right ? "start" : "end" }, text));
  }
}
