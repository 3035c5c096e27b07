// How alike two proxies rank the networks, as a clustered matrix on a canvas.
const agreementOf = new Map(board.agreement.proxies.map((proxy, index) => [proxy, index]));

// tau of a proxy with each, in the order of `board.agreement.proxies`; nothing for one that was not compared.
/** @type {(proxy: string | null) => (number | null)[]} */
function agreementRow(proxy) {
  return board.agreement.tau[agreementOf.get(proxy || "") ?? -1] || [];
}

let agreementDrawn = "";
/** @type {[number, number]} */
let agreementAt = [0, 0];
/** @type {(state: State, choose: Choose) => void} */
function drawAgreement(state, choose) {
  const names = board.agreement.proxies.filter((proxy) => state.keeps({ proxy, entry: entryOf.get(proxy) || { label: proxy }, seconds: score(scope(state.target, "", ""), "seconds", proxy) }));
  const place = byId("agreement");
  const drawn = JSON.stringify([names, state.proxy, place.clientWidth, getComputedStyle(place).color]);
  if (drawn === agreementDrawn) return;
  agreementDrawn = drawn;
  place.replaceChildren();
  const defined = names.some((name) => agreementRow(name).some((value) => typeof value === "number"));
  byId("agreement-empty").hidden = names.length > 1 && defined;
  if (names.length < 2 || !defined) return;
  const room = byId("agreement").clientWidth;
  const size = Math.max(3, Math.min(26, Math.floor(Math.min(640, room) / names.length)));
  const side = size * names.length, density = Math.min(3, devicePixelRatio || 1);
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { width: Math.round(side * density), height: Math.round(side * density), role: "img", tabindex: 0, "data-focus": "matrix", "aria-label": `Rank agreement of ${names.length} proxies; arrow keys go from cell to cell, Enter chooses the proxy of the row. The text about the chosen proxy names those most alike.` }));
  place.append(canvas);
  canvas.style.width = canvas.style.height = `${side}px`;
  const [positive, negative, raised] = ["--positive", "--negative", "--raised"].map((name) => { canvas.style.color = `var(${name})`; return getComputedStyle(canvas).color; });
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(density, density);
  /** @type {(row: number, column: number) => number | null} */
  const at = (row, column) => agreementRow(names[row])[agreementOf.get(names[column]) ?? -1];
  for (let row = 0; row < names.length; row++) {
    for (let column = 0; column < names.length; column++) {
      const value = at(row, column);
      const known = typeof value === "number";
      context.fillStyle = !known ? raised : value < 0 ? negative : positive;
      context.globalAlpha = known ? Math.abs(value) : 1;
      context.fillRect(column * size, row * size, size > 6 ? size - 1 : size, size > 6 ? size - 1 : size);
    }
  }
  /** @type {(event: MouseEvent) => [number, number] | null} */
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * names.length), column = Math.floor(((event.clientX - box.left) / box.width) * names.length);
    return row >= 0 && column >= 0 && row < names.length && column < names.length ? [row, column] : null;
  };
  /** @type {(found: [number, number], x: number, y: number) => void} */
  const tell = (found, x, y) => showTip(`${names[found[0]]}\n${names[found[1]]}\ntau ${brief(at(...found)) || "not defined"}`, x, y);
  canvas.addEventListener("pointermove", (event) => {
    const found = cellAt(event);
    if (found) tell(found, event.clientX, event.clientY);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => { const found = cellAt(event); if (found) choose(names[found[0]]); });
  const cursor = element("div", { class: "cursor", hidden: true });
  /** @type {(index: number) => number} */
  const inside = (index) => Math.max(0, Math.min(names.length - 1, index));
  const mark = () => {
    agreementAt = [inside(agreementAt[0]), inside(agreementAt[1])];
    const box = canvas.getBoundingClientRect(), [down, right] = agreementAt;
    Object.assign(cursor.style, { left: `${right * size - 1}px`, top: `${down * size - 1}px`, width: `${size + 1}px`, height: `${size + 1}px` });
    cursor.hidden = false;
    tell(agreementAt, box.left + (right + 1) * size, box.top + (down + 1) * size);
  };
  canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) mark(); });
  canvas.addEventListener("blur", () => { cursor.hidden = true; hideTip(); });
  canvas.addEventListener("keydown", (event) => {
    const step = new Map([["ArrowUp", [-1, 0]], ["ArrowDown", [1, 0]], ["ArrowLeft", [0, -1]], ["ArrowRight", [0, 1]]]).get(event.key);
    if (!step && event.key !== "Enter") return;
    event.preventDefault();
    if (step) { agreementAt = [agreementAt[0] + step[0], agreementAt[1] + step[1]]; mark(); } else choose(names[agreementAt[0]]);
  });
  const row = element("div", { class: "matrix" }, element("div", { class: "grid-place" }, canvas, cursor));
  if (size >= 14 && room - side > 140) {
    row.append(matrixLabels(names, state, "labels", "top", size, 42));
    place.append(matrixLabels(names, state, "labels columns", "left", size, 26));
  }
  place.append(row);
}

// The names along one side of the matrix.
/** @type {(names: string[], state: State, kind: string, side: "top" | "left", size: number, most: number) => HTMLElement} */
function matrixLabels(names, state, kind, side, size, most) {
  return element("ol", { class: kind }, ...names.map((name, position) => {
    const item = element("li", { title: name, class: name === state.proxy ? "now" : "" }, shortened(name, most));
    item.style[side] = `${position * size}px`;
    item.style.lineHeight = `${size}px`;
    return item;
  }));
}

// The proxies that rank most like one, [label, tau].
/** @type {(proxy: string | null, count: number) => [string, number][]} */
function mostAlike(proxy, count) {
  return agreementRow(proxy)
    .flatMap((value, index) => {
      const name = board.agreement.proxies[index];
      return typeof value === "number" && name !== proxy ? [/** @type {[string, number]} */ ([name, value])] : [];
    })
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
    .slice(0, count);
}
