// The card of the chosen proxy: what it is, who made it, what is known of its values, and all its scores.
/** @type {(state: State, change: (values: Partial<State>) => void) => void} */
function drawDetail(state, change) {
  const place = byId("detail");
  place.replaceChildren();
  const entry = entryOf.get(state.proxy || "");
  if (!entry) return;
  const facts = element("dl");
  /** @type {(name: string, said: string | false | null | undefined | Child[]) => void} */
  const fact = (name, said) => { if (said && said.length) facts.append(element("dt", {}, name), element("dd", {}, ...(typeof said === "string" ? [said] : said))); };
  fact("proxy", entry.proxy && `${entry.proxy}${entry.version ? `, version ${entry.version}` : ""}`);
  fact("what it is", entry.summary);
  fact("reference", referenceParts(entry));
  fact("a larger value predicts", entry.higher_means && `a ${entry.higher_means === "better" ? "smaller" : "larger"} ${state.target}`);
  fact("options", entry.options && Object.entries(entry.options).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join(", "));
  fact("authors", entry.authors);
  fact("submitted", entry.submitted_at && entry.submitted_at.slice(0, 10));
  fact("source", entry.source_sha256 && `SHA-256 ${entry.source_sha256}`);
  if (entry.standing && entry.standing.kind !== "baseline") fact("standing", entry.standing.words);
  for (const found of entry.verifications || []) fact(`${found.outcome} ${(found.date || "").slice(0, 10)}`, `on ${found.kind}${found.by ? ` by ${found.by}` : ""}`);
  fact("measured on", measuredOn(entry));
  if (entry.sandbox) fact("measured in", entry.sandbox);
  if (entry.doubts) fact("beware", Object.values(entry.doubts.marks).join("; "));
  fact("verdict", entry.verdicts && (entry.verdicts[state.target] || []).join("; "));
  fact("invariant to", entry.invariances && entry.invariances.join(", "));
  for (const result of entry.audit || []) fact("audit", auditText(result));
  for (const [text, count] of statuses(state.proxy)) fact(`${count} measurement${count === 1 ? "" : "s"}`, text);
  for (const [reason, count] of leftOut(state)) fact(`${count} left out`, reason);
  fact("closest rankings (negative: opposite)", mostAlike(state.proxy, 5).flatMap(([name, tau], k) => [k ? ", " : "", besideButton(name, change), ` (${rounded(tau)})`]));
  const link = element("p", {}, element("a", { id: "proxy-link", href: fragment({ at: "proxy" }), title: "The address of this proxy in this view, to copy or to bookmark" }, "Link to this proxy"));
  place.append(element("h3", {}, entry.label), facts, link, element("details", {}, element("summary", {}, "All its scores in this view"), element("div", { class: "wide", role: "region", "aria-label": "All scores of the proxy", tabindex: 0 }, estimatorsTable(state, entry))));
}

// A reference with its publications as links.
/** @type {(entry: Entry) => Child[]} */
function referenceParts(entry) {
  /** @type {Child[]} */
  const parts = [];
  let rest = entry.reference || "";
  for (const source of entry.sources || []) {
    const at = rest.indexOf(source.text);
    if (at < 0 || !/^https?:/.test(source.url)) continue;
    parts.push(rest.slice(0, at), element("a", { href: source.url, rel: "noreferrer", target: "_blank" }, source.text));
    rest = rest.slice(at + source.text.length);
  }
  return rest || parts.length ? [...parts, rest] : [];
}

/** @type {(entry: Entry) => string} */
function measuredOn(entry) {
  const found = entry.measured_on;
  if (!found || !found.fingerprint) return "";
  const made = (found.gapbench || []).length ? `, with gapbench ${(found.gapbench || []).join(", ")}` : "";
  return `population ${found.fingerprint}${found.networks ? `, ${plural(found.networks, "network")}` : ""}${made}`;
}

/** @type {(name: string, change: (values: Partial<State>) => void) => HTMLElement} */
function besideButton(name, change) {
  return element("button", { type: "button", class: "link", title: `See ${name} beside this proxy`, onclick: () => { change({ against: name }); goTo("compare-title"); } }, shortened(name, 60));
}

/** @type {(state: State, entry: Entry) => HTMLElement} */
function estimatorsTable(state, entry) {
  const table = element("tbody");
  for (const [estimator, rows] of scope(state.target, state.task, state.family)) {
    const row = rows.get(entry.label);
    if (row === undefined) continue;
    table.append(element("tr", { "data-estimator": estimator }, element("td", { class: "text", title: meaningOf(estimator) }, estimator),
      number(scores.value[row], 4), number(scores.low[row], 4), number(scores.high[row], 4), element("td", {}, exact(scores.models[row]))));
  }
  const head = element("thead", {}, element("tr", {}, ...["estimator", "value", "low", "high", "networks"].map((name, k) => element("th", { scope: "col", class: k ? "" : "text" }, name))));
  return element("table", { id: "estimators" }, head, table);
}

// What a row of scores is: `pairs:` counts the pairs of an estimator, and what follows a colon says of which axis, proxy or reason.
/** @type {(row: string) => string | undefined} */
function meaningOf(row) {
  const about = board.meanings[row.replace(/^pairs:/, "").split(":")[0]];
  return about && row.startsWith("pairs:") ? `Pairs that it is a mean over: ${about}` : about;
}

// Networks that the scores leave out, by reason.
/** @type {(state: State) => [string, Cell][]} */
function leftOut(state) {
  /** @type {[string, Cell][]} */
  const found = [];
  for (const [estimator, rows] of scope(state.target, state.task, state.family)) {
    const count = scores.value[rows.get(state.proxy || "") ?? -1];
    if (estimator.startsWith("left_out:") && count) found.push([estimator.slice(9), count]);
  }
  return found;
}
