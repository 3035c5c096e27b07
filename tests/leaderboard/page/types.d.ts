// What the page's scripts work with: the board's document (document.py) and what they make of it.

/** A cell of a table: "inf" and whole numbers beyond 2^53 are texts. */
type Cell = string | number | boolean | null;
/** A table by column. */
type Table = Record<string, Cell[]>;
/** A column as it stands in the document; text that repeats is coded, -1 where missing. */
type StoredColumn = Cell[] | { names: string[]; codes: number[] };
type StoredTable = Record<string, StoredColumn>;
type Population = Table & { cell: string[]; task: string[]; status: string[]; family?: string[] };
type Measurements = Table & { cell: string[]; proxy: string[]; status: string[] };
type Scores = Table & {
  task: (string | null)[];
  family: (string | null)[];
  target: string[];
  proxy: (string | null)[];
  estimator: string[];
  models: number[];
  value: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
};

interface AuditResult {
  kind: string;
  strength: Cell;
  relative_change: Cell;
  rank_correlation: Cell;
  verdict: string;
  reason?: string | null;
}

interface Entry {
  label: string;
  baseline?: boolean;
  made_by_scorer?: boolean;
  proxy?: string;
  version?: Cell;
  summary?: string;
  reference?: string | null;
  sources?: { text: string; url: string; bibtex: string }[];
  higher_means?: string;
  options?: Record<string, unknown>;
  authors?: string;
  submitted_at?: string;
  source_sha256?: string;
  sandbox?: string;
  standing?: { kind: string; words: string };
  verified?: boolean;
  verifications?: { outcome: string; kind: string; date?: string; by?: string }[];
  measured_on?: { fingerprint?: string; networks?: number; gapbench?: string[] };
  other_population?: string;
  doubts?: { marks: Record<string, string> };
  invariances?: string[];
  audit?: AuditResult[];
  audit_mark?: string;
  verdicts?: Record<string, string[]>;
}

/** A column of the ranking (columns.py). */
interface Column {
  key: string;
  kind: "rank" | "proxy" | "bar" | "number" | "quantity" | "count" | "models" | "invariances" | "audit";
  title: string;
  about: string;
  estimator?: string;
  whole?: boolean;
  text?: boolean;
  ascending?: boolean;
  sort?: string;
}

/** A mark (marks.py): entries say it, or a value of an estimator does. */
interface SaidMark {
  name: string;
  about: string;
  estimator?: undefined;
}
interface ScoredMark {
  name: string;
  about: string;
  estimator: string;
  whole: boolean;
  at_least: number | null;
  below: number | null;
  of_baselines: boolean;
}

interface HeatMap {
  key: string;
  title: string;
  about: string;
  estimator: string;
  columns: "axis" | "task" | "family";
  single_tasks: boolean;
}

/** A test that the head tells the outcome of (verdicts.py). */
interface Test {
  estimator: string;
  one: string;
  many: string;
  about: string;
  against?: string;
}

interface Suite {
  name?: string;
  version?: Cell;
  summary?: string;
  planned?: number;
  samples?: number;
  made_with?: string[];
  of_table?: boolean;
  population?: { fingerprint: string; words: string; date?: string };
}

/** What the population can decide (deciding.py). */
interface Decision {
  target: string;
  networks: number;
  kept: number;
  levels: { by: string; level: string; kept: number; networks: number; share: number | null }[];
  strata: {
    name: string;
    networks: number;
    configurations: number;
    spread: Cell;
    noise: Cell;
    ratio: Cell;
    between_seeds: Cell;
    seeds: Cell;
    shares: Record<string, Cell>;
  }[];
  resolution: Record<string, Cell>;
  survivorship: Record<string, Cell>;
  gates: { name: string; passed: boolean | null; outcome: string; words: string }[];
}

interface Board {
  suite: Suite;
  notes: string[];
  axes: string[];
  problem: string[];
  within: string;
  targets: string[];
  tasks: string[];
  families: string[];
  columns: Column[];
  marks: (SaidMark | ScoredMark)[];
  heat_maps: HeatMap[];
  meanings: Record<string, string>;
  tests: Test[];
  difference: { value: string; p: string };
  oracle: string;
  proxies: Entry[];
  agreement: { proxies: string[]; tau: (number | null)[][] };
  decision: Decision;
  population: StoredTable;
  measurements: StoredTable;
  scores: StoredTable;
}

/** Estimator -> proxy -> row of the scores, within one scope. */
type Scope = Map<string, Map<string, number>>;

/** A proxy in the ranking of a scope; further keys are those of the columns. */
interface RankingRow {
  proxy: string;
  entry: Entry;
  baseline: boolean;
  rank: number | null;
  rankLow: number | null;
  rankHigh: number | null;
  tau: number | null;
  low: number | null;
  high: number | null;
  models: number;
  coverage: number | null;
  seconds: number | null;
  marks: string[];
  limits: (estimator: string) => string;
  [column: string]: unknown;
}

interface Ceiling {
  name: string;
  value: number;
  low: number | null;
  high: number | null;
}

/** What a ranking's bars are read against. */
interface Guides {
  ceilings: Ceiling[];
  oracle: number | null;
}

/** The size of a plot and its margins. */
interface Frame {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** The difference of two headlines. */
interface Difference {
  value: number;
  low: number | null;
  high: number | null;
  p: number | null;
  networks: number;
}

/** Where two proxies and the target place a network among those of its problem and family. */
interface Placed {
  network: number;
  one: number;
  other: number;
  truth: number;
}

/** From a number to a place. */
type Scale = ((value: number) => number) & { ticks: number[] };

/** A network with a value of a proxy in the scatter. */
interface ScatterPoint {
  network: number;
  x: number;
  y: number;
  error: Cell;
  /** Where it is drawn, and as what; set when it is. */
  px: number;
  py: number;
  node: SVGElement;
}

/** What the filters and choices say; the keys but `keeps` are kept in the address. */
interface State {
  target: string;
  task: string;
  family: string;
  search: string;
  sort: string;
  reverse: boolean;
  proxy: string | null;
  against: string;
  pins: string[];
  plotTask: string;
  log: string;
  unconverged: boolean;
  heat: string;
  verified: boolean;
  cost: string;
  invariant: string;
  theme: string;
  keeps: (row: Pick<RankingRow, "proxy" | "entry" | "seconds">) => boolean;
}

type Choose = (proxy: string) => void;

/** The parts of a bar, made once for each proxy. */
interface Bar {
  picture: SVGElement;
  zero: SVGElement;
  ceiling: SVGElement;
  oracle: SVGElement;
  interval: SVGElement;
  value: SVGElement;
}

interface RowParts {
  line: HTMLElement;
  button: HTMLElement;
  star: HTMLElement;
  bar: Bar;
  cells: Map<string, HTMLElement>;
  marks: HTMLElement;
  marked: string | null;
}

/** What an element is given: attributes (left out where nullish or false), and listeners under `on...`. */
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;
type Child = Node | string | null | undefined;

type CostRow = RankingRow & { tau: number; seconds: number };

/** A column of a heat map: of a proxy its row of the scores, -1 for none, and the number of its pairs. */
interface HeatColumn {
  title: string;
  row: (proxy: string) => number;
  pairs: (proxy: string) => Cell;
}
