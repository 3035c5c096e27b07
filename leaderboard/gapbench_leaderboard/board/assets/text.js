// Numbers and words.
const MISSING = "–";

/** @type {(value: unknown, digits?: number) => string} */
function rounded(value, digits = 3) {
  if (typeof value !== "number") return value === null || value === undefined ? MISSING : String(value);
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

// Three significant digits, for quantities of any size.
/** @type {(value: unknown) => string} */
function short(value) {
  if (typeof value !== "number") return value === null || value === undefined ? MISSING : String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(3)));
}

/** @type {(value: unknown) => string} */
function exact(value) {
  if (Object.is(value, -0)) return "-0.0";
  return value === null || value === undefined ? "" : String(value);
}

// Six significant digits, for what appears on hover; the tables have all of them.
/** @type {(value: unknown) => string} */
function brief(value) {
  return typeof value === "number" ? exact(Number(value.toPrecision(6))) : exact(value);
}

/** @type {(low: unknown, high: unknown) => string} */
function interval(low, high) {
  return typeof low === "number" && typeof high === "number" ? `[${rounded(low)}, ${rounded(high)}]` : "";
}

const BASELINE_ABOUT = "Baselines, not ranked: known without any proxy, or made from the target (noisy_oracle). A proxy should beat them either way up: -0.2 is 0.2 for the reverse.";
const HEADLINE = "tau";

// A long name without its middle, in which names with options are alike least at their ends.
/** @type {(name: string, most: number) => string} */
function shortened(name, most) {
  const characters = [...name];
  if (characters.length <= most) return name;
  const end = Math.floor((most - 1) / 2), start = most - 1 - end;
  return `${characters.slice(0, start).join("")}…${characters.slice(-end).join("")}`;
}

/** @type {(p: number) => string} */
function pText(p) {
  return p < 0.001 ? "p < 0.001" : `p = ${rounded(p)}`;
}
