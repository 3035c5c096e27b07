// Elements with text content only: nothing from the data is ever parsed as HTML.
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

// A name that may break after underscores and slashes, at most three lines; the whole of it on hover.
function breakable(name) {
  const long = name.length > 60;
  const place = element("span", { class: long ? "clip" : null, title: long ? name : null });
  for (const part of name.split(/(?<=[_/])/)) place.append(part, element("wbr"));
  return place;
}

// An attribute or a text, written only where it differs: what is written is laid out again.
function attribute(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

function words(node, text) {
  if (node.textContent !== text) node.textContent = text;
  return node;
}

function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function byId(id) {
  return document.getElementById(id);
}

// A labelled choice; `options` are [value, text] pairs.
function choice(id, label, options, value, onchange) {
  const select = element("select", { id, onchange: (event) => onchange(event.target.value) });
  for (const [key, text] of options) select.append(element("option", { value: key }, text));
  select.value = value;
  return element("label", { for: id }, label, select);
}

function checkbox(id, label, value, onchange, explanation) {
  const box = element("input", { id, type: "checkbox", onchange: (event) => onchange(event.target.checked) });
  box.checked = value;
  return element("label", { for: id, class: "inline", title: explanation }, box, label);
}

function showTip(text, x, y) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}
