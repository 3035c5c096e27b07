// Elements with text content only: nothing from the data is ever parsed as HTML.
/** @type {(name: string, attributes?: Attributes, ...children: Child[]) => HTMLElement} */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** @type {(name: string, attributes?: Attributes, ...children: Child[]) => SVGElement} */
function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/** @type {<Kind extends Element>(node: Kind, attributes: Attributes, children: Child[]) => Kind} */
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

// A name that may break after underscores and slashes, at most three lines; the whole of it on hover.
/** @type {(name: string) => HTMLElement} */
function breakable(name) {
  const long = name.length > 60;
  const place = element("span", { class: long ? "clip" : null, title: long ? name : null });
  for (const part of name.split(/(?<=[_/])/)) place.append(part, element("wbr"));
  return place;
}

// A text whose parts between backticks are commands; one that opens none stays as it is.
/** @type {(text: string) => Child[]} */
function withCommands(text) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return [text];
  return parts.map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

// An attribute or a text, written only where it differs: what is written is laid out again.
/** @type {(node: Element, name: string, value: unknown) => void} */
function attribute(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** @type {(node: HTMLElement, text: string) => HTMLElement} */
function words(node, text) {
  if (node.textContent !== text) node.textContent = text;
  return node;
}

/** @type {(count: number, noun: string) => string} */
function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** @type {(id: string) => HTMLElement} */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

// A labelled choice; `options` are [value, text] pairs.
/** @type {(id: string, label: string, options: [string, string][], value: string | null, onchange: (value: string) => void) => HTMLElement} */
function choice(id, label, options, value, onchange) {
  const select = /** @type {HTMLSelectElement} */ (element("select", { id, onchange: (event) => onchange(event.target.value) }));
  for (const [key, text] of options) select.append(element("option", { value: key }, text));
  select.value = value ?? "";
  return element("label", { for: id }, label, select);
}

/** @type {(id: string, label: string, value: boolean, onchange: (value: boolean) => void, explanation: string) => HTMLElement} */
function checkbox(id, label, value, onchange, explanation) {
  const box = /** @type {HTMLInputElement} */ (element("input", { id, type: "checkbox", onchange: (event) => onchange(event.target.checked) }));
  box.checked = value;
  return element("label", { for: id, class: "inline", title: explanation }, box, label);
}

/** @type {(text: string, x: number, y: number) => void} */
function showTip(text, x, y) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
}

/** @type {() => void} */
function hideTip() {
  byId("tip").hidden = true;
}
