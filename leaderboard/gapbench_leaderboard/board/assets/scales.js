// From numbers to places.
/** @type {(low: number, high: number, count: number) => number[]} */
function niceTicks(low, high, count) {
  const raw = high / count - low / count || 1 / count; // no difference that could overflow
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999) || raw;
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  /** @type {number[]} */
  const ticks = [];
  if (!(last - first < 100) || Math.max(Math.abs(first), Math.abs(last)) > 1e12) return ticks; // finer than numbers are
  for (let k = first; k <= last; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks.filter(Number.isFinite);
}

/** @type {(low: number, high: number, count: number) => number[]} */
function logTicks(low, high, count) {
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((to - from) / count));
  const ticks = [];
  for (let power = from; power <= to; power += every) {
    for (const factor of every === 1 && 3 * (to - from) <= count ? [1, 2, 5] : [1]) ticks.push(factor * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick > 0 && tick < Infinity && tick >= low * 0.999 && tick <= high * 1.001);
  return inside.length >= 2 ? inside : niceTicks(low, high, 4).filter((tick) => tick > 0);
}

// A scale over [low, high] of the values, with a margin; a constant, which may be one but for rounding, gets room on
// both sides.
/** @type {(values: number[], from: number, to: number, log: boolean) => Scale} */
function scale(values, from, to, log) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  if (low > high) { low = log ? 1 : 0; high = log ? 10 : 1; }
  /** @type {(value: number) => number} */
  const forward = log ? Math.log10 : (value) => value;
  let a = forward(low), b = forward(high);
  const wide = b / 2 - a / 2 > Number.MAX_VALUE / 4; // so that differences are taken of halves
  const constant = !wide && b - a <= 1e-12 * Math.max(Math.abs(a), Math.abs(b), log ? 1 : 0);
  const room = constant ? Math.max(Math.abs(a) * 0.1, log ? 0.1 : 1e-6) : (b * 0.04 - a * 0.04);
  /** @type {(value: number) => number} */
  const finite = (value) => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value));
  a = finite(a - room); b = finite(b + room);
  const unit = wide ? 0.5 : 1, length = b * unit - a * unit;
  /** @type {(value: number) => number} */
  const place = (value) => from + ((forward(value) * unit - a * unit) / length) * (to - from);
  /** @type {(value: number) => number} */
  const back = (value) => (log ? Math.max(Number.MIN_VALUE, finite(10 ** value)) : value);
  const most = Math.max(3, Math.round(Math.abs(to - from) / (from > to ? 65 : 110)));
  return Object.assign(place, { ticks: log ? logTicks(back(a), back(b), most) : niceTicks(a, b, most) });
}

const SHAPES = [
  "M-4,0A4,4 0 1,0 4,0A4,4 0 1,0 -4,0Z",
  "M-3.6,-3.6H3.6V3.6H-3.6Z",
  "M0,-5L4.6,3.4H-4.6Z",
  "M0,-5L4.4,0L0,5L-4.4,0Z",
  "M0,5L4.6,-3.4H-4.6Z",
  "M-1.6,-4.8H1.6V-1.6H4.8V1.6H1.6V4.8H-1.6V1.6H-4.8V-1.6H-1.6Z",
  "M-4.6,-2.6L-2.6,-4.6L0,-2L2.6,-4.6L4.6,-2.6L2,0L4.6,2.6L2.6,4.6L0,2L-2.6,4.6L-4.6,2.6L-2,0Z",
  "M0,-5.2L1.5,-1.8L5,-1.6L2.3,.7L3.2,4.2L0,2.3L-3.2,4.2L-2.3,.7L-5,-1.6L-1.5,-1.8Z",
];
const COLOURS = 5;

// Width -> one of five colours by its logarithm.
/** @type {(widths: Cell[]) => (width: Cell) => number} */
function widthColours(widths) {
  const known = widths.flatMap((width) => (typeof width === "number" && width > 0 ? [width] : []));
  const low = Math.log(Math.min(...new Set(known))), high = Math.log(Math.max(...new Set(known)));
  return (width) => (typeof width !== "number" || width <= 0 || !(high > low) ? 0 : Math.round(((Math.log(width) - low) / (high - low)) * (COLOURS - 1)));
}
