// How alike two proxies rank the networks, as a clustered matrix on a canvas.
const agreementOf = new Map(board.agreement.proxies.map((proxy, index) => [proxy, index]));

let agreementDrawn = "";
function drawAgreement(state, choose) {
  const names = board.agreement.proxies.filter((proxy) => state.keeps({ proxy, entry: entryOf.get(proxy) || {}, seconds: score(scope(state.target, "", ""), "seconds", proxy) }));
  const place = byId("agreement");
  const drawn = JSON.stringify([names, state.proxy, place.clientWidth, matchMedia("(prefers-color-scheme: dark)").matches]);
  if (drawn === agreementDrawn) return;
  agreementDrawn = drawn;
  place.replaceChildren();
  const defined = names.some((name) => board.agreement.tau[agreementOf.get(name)].some((value) => typeof value === "number"));
  byId("agreement-empty").hidden = names.length > 1 && defined;
  if (names.length < 2 || !defined) return;
  const room = byId("agreement").clientWidth;
  const size = Math.max(3, Math.min(26, Math.floor(Math.min(640, room) / names.length)));
  const side = size * names.length, density = Math.min(3, devicePixelRatio || 1);
  const canvas = element("canvas", { width: Math.round(side * density), height: Math.round(side * density), role: "img", "aria-label": `Rank agreement of ${names.length} proxies; the text below the chosen proxy names those most alike.` });
  canvas.style.width = canvas.style.height = `${side}px`;
  const style = getComputedStyle(document.documentElement);
  const [positive, negative, raised] = ["--positive", "--negative", "--raised"].map((name) => style.getPropertyValue(name).trim().split(/\s+/).join(","));
  const context = canvas.getContext("2d");
  context.scale(density, density);
  const at = (row, column) => board.agreement.tau[agreementOf.get(names[row])][agreementOf.get(names[column])];
  for (let row = 0; row < names.length; row++) {
    for (let column = 0; column < names.length; column++) {
      const value = at(row, column);
      context.fillStyle = typeof value === "number" ? `rgba(${value < 0 ? negative : positive},${Math.abs(value).toFixed(3)})` : raised;
      context.fillRect(column * size, row * size, size > 6 ? size - 1 : size, size > 6 ? size - 1 : size);
    }
  }
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * names.length), column = Math.floor(((event.clientX - box.left) / box.width) * names.length);
    return row >= 0 && column >= 0 && row < names.length && column < names.length ? [row, column] : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const found = cellAt(event);
    if (found) showTip(`${names[found[0]]}\n${names[found[1]]}\ntau ${exact(at(...found)) || "not defined"}`, event.clientX, event.clientY);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => { const found = cellAt(event); if (found) choose(names[found[0]]); });
  const row = element("div", { class: "matrix" }, canvas);
  if (size >= 14 && room - side > 140) row.append(element("ol", { class: "labels" }, ...names.map((name) => {
    const item = element("li", { title: name, class: name === state.proxy ? "now" : "" }, name);
    item.style.height = item.style.lineHeight = `${size}px`;
    return item;
  })));
  place.append(row);
}

// The proxies that rank most like one, [label, tau].
function mostAlike(proxy, count) {
  if (!agreementOf.has(proxy)) return [];
  return board.agreement.tau[agreementOf.get(proxy)]
    .map((value, index) => [board.agreement.proxies[index], value])
    .filter(([name, value]) => name !== proxy && typeof value === "number")
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
    .slice(0, count);
}
