// Numbers and words.
const MISSING = "–";

function rounded(value, digits = 3) {
  if (typeof value !== "number") return value === null || value === undefined ? MISSING : String(value);
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

// Three significant digits, for quantities of any size.
function short(value) {
  if (typeof value !== "number") return value === null || value === undefined ? MISSING : String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(3)));
}

function exact(value) {
  if (Object.is(value, -0)) return "-0.0";
  return value === null || value === undefined ? "" : String(value);
}

// Six significant digits, for what appears on hover; the tables have all of them.
function brief(value) {
  return typeof value === "number" ? exact(Number(value.toPrecision(6))) : exact(value);
}

function interval(low, high) {
  return typeof low === "number" && typeof high === "number" ? `[${rounded(low)}, ${rounded(high)}]` : "";
}

const MARKS = {
  Simpson: "The pooled association is not borne out among networks of equal family and width: what the proxy sees may be the width.",
  width: "Orders the networks of a family much as their width does (tau of 0.8 or more either way): what it sees may be the width.",
  unreliable: "Fewer than 30 configurations: the interval is unreliable.",
  "low coverage": "Measured on less than 90 % of the networks, so it has no rank here.",
  "few values": "Hardly any distinct values.",
  "partly covered": "Of a quotient: the network's symmetry was only partly covered on some networks, so a part of it is still in the value.",
  "no symmetry found": "Of a quotient: no symmetry was found on some networks, where the quotient is the full space.",
  "not converged": "A worst-case ascent had not converged on some networks: doubling its steps gained more than 5 %.",
  verified: "Submitted, and measured again by gapbench verify, which bore it out; the details say on which networks.",
  "other population": "Submitted, and measured on other networks than those of this board.",
  claimed: "Submitted: measured by its author, not verified.",
  "not contradicted": "Submitted; its score on fresh networks is compatible with the claim, but its interval contains 0.",
  contradicted: "Submitted; its score on fresh networks is significantly smaller than claimed, or of the other sign.",
  refuted: "Submitted; measured again on the same networks with other values.",
  undecided: "Submitted; measured again, but its scores cannot be compared.",
};

const BASELINE_ABOUT = "Baselines, not ranked: known without any proxy, or made from the target (noisy_oracle). A proxy should beat them either way up: -0.2 is 0.2 for the reverse.";
