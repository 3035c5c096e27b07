// A proxy against the target, one point per network: colour by width, shape by family.
/** @type {Frame} */
const PLOT = { width: 900, height: 470, left: 70, right: 16, top: 12, bottom: 48 };

/** @type {(proxy: string, state: State) => ScatterPoint[] | null} */
function scatterPoints(proxy, state) {
  const values = measured(proxy);
  if (values === null) return null;
  const target = population[state.target] || [];
  return values
    .flatMap(([network, value, error]) => {
      const y = target[network];
      return typeof y === "number" ? [{ network, x: value, error, y, px: 0, py: 0, node: svg("path") }] : [];
    })
    .filter((point) => population.status[point.network] === "converged" || state.unconverged)
    .filter((point) => population.task[point.network] === state.plotTask)
    .filter((point) => !state.family || population.family?.[point.network] === state.family);
}

/** @type {(state: State) => void} */
function drawScatter(state) {
  drawScatterOf(byId("scatter"), byId("scatter-about"), state.proxy, state, PLOT);
}

/** @type {(place: HTMLElement, about: HTMLElement, proxy: string | null, state: State, frame: Frame) => void} */
function drawScatterOf(place, about, proxy, state, frame) {
  place.replaceChildren();
  const points = proxy === null ? [] : scatterPoints(proxy, state);
  if (points === null) {
    about.textContent = "The scorer makes this baseline from the configurations; it has no measurements to draw.";
    return;
  }
  if (!points.length) {
    about.textContent = "There is no network with a value of this proxy here.";
    return;
  }
  const positive = points.every((point) => point.x > 0);
  const log = positive && (state.log === "auto" ? spread(points) > 30 : state.log === "log");
  const name = proxy || "", entry = entryOf.get(name) || { label: name };
  const direction = entry.higher_means === "better" ? " A larger value predicts a smaller target." : "";
  about.textContent = `${plural(points.length, "network")} of ${state.plotTask}.${log ? " Logarithmic axis." : ""}${state.log === "log" && !positive ? " Not all values are positive, so the axis is linear." : ""}${direction}`;
  const x = scale(points.map((point) => point.x), frame.left, frame.width - frame.right, log);
  const y = scale(points.map((point) => point.y), frame.height - frame.bottom, frame.top, false);
  const picture = svg("svg", { viewBox: `0 0 ${frame.width} ${frame.height}`, width: frame.width, height: frame.height, role: "img", tabindex: 0, "aria-label": `${name} against ${state.target}, ${plural(points.length, "network")} of ${state.plotTask}; left and right arrow go from network to network` });
  axes(picture, x, y, name, state.target, frame);
  const widths = population.width || [];
  const colour = widthColours(widths);
  const families = [...new Set(points.map((point) => population.family ? population.family[point.network] : ""))].sort();
  const shapeOf = new Map(families.map((family) => [family, SHAPES[Math.max(0, board.families.indexOf(family)) % SHAPES.length]]));
  const layer = svg("g");
  for (const point of points) {
    point.px = x(point.x);
    point.py = y(point.y);
    const family = population.family ? population.family[point.network] : "";
    filled(point.node, { class: `point w${colour(widths[point.network])}`, d: shapeOf.get(family), transform: `translate(${point.px.toFixed(1)},${point.py.toFixed(1)})`, "data-cell": population.cell[point.network], "data-x": exact(point.x), "data-y": exact(point.y) }, []);
    layer.append(point.node);
  }
  picture.append(layer);
  hover(picture, points, (point) => describe(point, name, state), frame);
  place.append(scatterLegend(points, widths, colour, families, shapeOf), picture);
}

/** @type {(points: ScatterPoint[]) => number} */
function spread(points) {
  let low = Infinity, high = 0;
  for (const point of points) { low = Math.min(low, point.x); high = Math.max(high, point.x); }
  return high / low;
}

/** @type {(picture: SVGElement, x: Scale, y: Scale, xTitle: string, yTitle: string, frame: Frame) => void} */
function axes(picture, x, y, xTitle, yTitle, frame) {
  const right = frame.width - frame.right, bottom = frame.height - frame.bottom;
  for (const tick of x.ticks) {
    picture.append(svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: frame.top, y2: bottom }),
      svg("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, short(tick)));
  }
  for (const tick of y.ticks) {
    picture.append(svg("line", { class: "grid", x1: frame.left, x2: right, y1: y(tick), y2: y(tick) }),
      svg("text", { x: frame.left - 7, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  const most = Math.floor((right - frame.left) / 7);
  picture.append(svg("text", { class: "strong", x: (frame.left + right) / 2, y: frame.height - 8, "text-anchor": "middle" }, shortened(xTitle, most)),
    svg("text", { class: "strong", transform: `translate(15,${(frame.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yTitle));
}

/** @type {(picture: SVGElement, points: ScatterPoint[], tell: (point: ScatterPoint) => string, frame: Frame) => void} */
function hover(picture, points, tell, frame) {
  /** @type {ScatterPoint | null} */
  let near = null;
  const leave = () => {
    if (near) near.node.classList.remove("near");
    near = null;
    hideTip();
  };
  /** @type {(point: ScatterPoint | null) => void} */
  const mark = (point) => {
    if (point === near) return;
    leave();
    near = point;
    if (near) near.node.classList.add("near");
  };
  const ordered = [...points].sort((a, b) => a.px - b.px || a.py - b.py);
  picture.addEventListener("pointerleave", leave);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * frame.width, py = ((event.clientY - box.top) / box.height) * frame.height;
    let best = null, distance = 400;
    for (const point of points) {
      const squared = (point.px - px) ** 2 + (point.py - py) ** 2;
      if (squared < distance) { distance = squared; best = point; }
    }
    mark(best);
    if (near) showTip(tell(near), event.clientX, event.clientY);
  });
  picture.addEventListener("blur", leave);
  picture.addEventListener("keydown", (event) => {
    const last = points.length - 1, at = near ? ordered.indexOf(near) : -1;
    const to = { ArrowRight: Math.min(last, at + 1), ArrowLeft: Math.max(0, at - 1), Home: 0, End: last }[event.key];
    if (event.key === "Escape") leave();
    if (to === undefined) return;
    event.preventDefault();
    const point = ordered[to];
    mark(point);
    const box = point.node.getBoundingClientRect();
    showTip(tell(point), box.right, box.top);
  });
}

/** @type {(point: ScatterPoint, proxy: string, state: State) => string} */
function describe(point, proxy, state) {
  const lines = [`${proxy}: ${brief(point.x)}${typeof point.error === "number" ? ` ± ${short(point.error)}` : ""}`, `${state.target}: ${brief(point.y)}`];
  for (const name of ["family", "width", ...board.axes, "seed", "parameters", "train_error", "test_error", "status"]) {
    if (population[name] && !lines.some((line) => line.startsWith(`${name}: `))) lines.push(`${name}: ${brief(population[name][point.network])}`);
  }
  return lines.join("\n");
}

/** @type {(points: ScatterPoint[], widths: Cell[], colour: (width: Cell) => number, families: string[], shapeOf: Map<string, string>) => HTMLElement} */
function scatterLegend(points, widths, colour, families, shapeOf) {
  const legend = element("div", { class: "legend" });
  /** @type {(shape: string | undefined, name: string) => SVGElement} */
  const sample = (shape, name) => svg("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, svg("path", { class: name, d: shape }));
  const shown = [...new Set(points.map((point) => widths[point.network]))].filter((width) => typeof width === "number").sort((a, b) => a - b);
  for (let index = 0; index < COLOURS; index++) {
    const own = shown.filter((width) => colour(width) === index);
    if (own.length) legend.append(element("span", {}, sample(SHAPES[0], `w${index}`), `width ${short(own[0])}${own.length > 1 ? `–${short(own[own.length - 1])}` : ""}`));
  }
  if (families.length > 1) for (const family of families) legend.append(element("span", {}, sample(shapeOf.get(family), "strong"), family === null ? MISSING : family));
  return legend;
}
