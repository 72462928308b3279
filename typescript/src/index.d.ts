// What the package exports, for programs in TypeScript.
import type { components } from "./contract.js";

type Schemas = components["schemas"];
export type ListedDataset = Schemas["ListedDataset"];
export type DatasetDescription = Schemas["DatasetDescription"];
export type IngestReceipt = Schemas["IngestReceipt"];
export type Problem = Schemas["Problem"];
export type DatasetPin = Schemas["DatasetPin"];
export type Verified = Schemas["Verified"];

/**
 * A value of a row. Whole numbers up to 2^53 are `number`, longer ones `bigint` (or `string`, by the
 * option `integers`). Decimals, dates, times and instants are `string` with all digits, bytes are
 * hexadecimal. `NaN` and infinities arrive as `null`, because JSON has no word for them.
 */
export type Value = null | boolean | number | bigint | string | Value[] | { [field: string]: Value };
export type Row = Record<string, Value>;

export interface Call {
  /** Ends the call; it rejects with the reason of the signal. */
  signal?: AbortSignal;
}

export interface NodeOptions {
  /** Sent with each request; a function is called before each. */
  token?: string | (() => string | undefined | Promise<string | undefined>);
  /** Instead of the global `fetch`. */
  fetch?: (url: string, init?: RequestInit) => Promise<Response>;
  /** Milliseconds until an answer begins; 60,000 by default. */
  timeout?: number;
  /** How often a request is sent to a busy node (429, 503), and rows to one that is away; 5 by default. */
  tries?: number;
  /** What whole numbers beyond 2^53 become; `"bigint"` by default. */
  integers?: "bigint" | "text";
}

export interface Search {
  /** Words that a dataset has in its alias, description, keywords, license or columns. */
  search?: string;
  kind?: "root" | "derivative";
  account?: string;
  visibility?: "public" | "private";
  keyword?: string;
  license?: string;
  since?: string | Date;
  sort?: "name" | "updated" | "rows" | "bytes" | "relevance";
  order?: "asc" | "desc";
  /** Also what the chains say: description, rows, bytes. */
  details?: boolean;
  /** Datasets in a page. */
  limit?: number;
}

export interface RowsOptions {
  /** `facts`, the current rows, by default; `state` are the last rows of each key, `changelog` is every row. */
  projection?: "facts" | "state" | "changelog";
  columns?: string[];
  /** `column:operator:value`; a row has to meet all. */
  filter?: string | string[];
  /** As it was known: a system time, or the hash of a block. */
  asAt?: string | Date;
  /** Events up to this event time. */
  asOf?: string | Date;
  skip?: number;
  limit?: number;
}

export interface PublishOptions {
  /** The name of the request: a repeat under it changes nothing, and has the first receipt. Made up if absent. */
  idempotencyKey?: string;
  sourceName?: string;
  /** Refused unless the head is this block. */
  expectedHead?: string;
  /** Of rows without one. */
  eventTime?: string | Date;
  dryRun?: boolean;
  changelog?: boolean;
  addColumns?: boolean;
  onBadRows?: "fail" | "quarantine";
  maxBadRows?: number;
  maxVanishPercent?: number;
}

export type Receipt = IngestReceipt & {
  /** Whether the node had this request before. */
  replayed: boolean;
  idempotencyKey: string;
};

/** Rows that are requested when you go through them, each time anew. */
export interface Rows<R = Row> extends AsyncIterable<R> {
  /** The block as of which they are read, once the answer has begun; `null` from `tail`. */
  readonly block: string | null;
  all(): Promise<R[]>;
}

export interface QueryOptions {
  /** What the name of a dataset alone means. */
  projection?: "facts" | "state" | "changelog";
  /** The datasets of an earlier answer: the same query gives the same rows again. */
  datasets?: DatasetPin[];
  skip?: number;
  /** Most rows; 100 by default. */
  limit?: number;
  /** Have the node sign the answer. */
  proof?: boolean;
}

export interface Answer<R = Row> {
  rows: R[];
  /** Columns with types, in ODF form; `null` with a proof. */
  schema: object | null;
  /** The blocks that it was computed from. */
  datasets: DatasetPin[];
  /** For `check`, of this node or another one. */
  proof: object | null;
}

export interface Progress {
  /** Blocks, files and bytes that were fetched and hashed. */
  blocks: number;
  files: number;
  bytes: number;
  /** Blocks in all; 0 until the first was read. */
  total: number;
  problems: Fault[];
}

export interface Fault {
  message: string;
  /** Path of what is wrong, below the dataset: `blocks/f1620…`, `data/f1620…`, `checkpoints/f1620…`. */
  file: string | null;
}

export interface Verification extends Progress {
  /** Whether every block, and every file, has the hash by which the next block names it, back from `head`. */
  ok: boolean;
  head: string;
  id: string;
}

export class Node {
  /** @param url of the node: `https://node.example` */
  constructor(url: string | URL, options?: NodeOptions);
  readonly url: string;
  /** A dataset by its alias: `cities`, or `alice/cities` of a node for many. Nothing is requested. */
  dataset(name: string): Dataset;
  info(call?: Call): Promise<{ appVersion: string; pythonVersion: string; tenancy: "single" | "multi" }>;
  /** Datasets that the caller may read, page by page. */
  datasets(search?: Search & Call): AsyncGenerator<ListedDataset, void, undefined>;
  /** One page of them. */
  page(search?: Search & { after?: string } & Call): Promise<{ datasets: ListedDataset[]; next: string | null; total: number }>;
  /** A new dataset from a manifest: an object, or a text in YAML. */
  create(manifest: object | string, options?: { visibility?: "private" | "public"; dryRun?: boolean } & Call): Promise<Schemas["DatasetSummary"] & { head?: string }>;
  /** The rows of one SELECT. */
  query<R = Row>(sql: string, options?: QueryOptions & Call): Promise<Answer<R>>;
  /** Have this node compute an answer again, and compare. */
  check(proof: object, call?: Call): Promise<Verified>;
}

export class Dataset {
  private constructor();
  readonly url: string;
  describe(call?: Call): Promise<DatasetDescription>;
  /** The hash of the newest block. */
  head(call?: Call): Promise<string>;
  /** Current rows by offset, as the node sends them: any number, none is kept. */
  rows<R = Row>(options?: RowsOptions & Call): Rows<R>;
  /** The last rows that were added, 100 by default. */
  tail<R = Row>(options?: { limit?: number; skip?: number } & Call): Rows<R>;
  /** Rows as a file, for libraries that read one: with `NaN`, and types. */
  file(options: RowsOptions & { format: "arrow" | "parquet" | "geoparquet" | "csv" | "ndjson" | "json" } & Call): Promise<Uint8Array>;
  /** Add rows by the push source of the dataset, once. */
  publish(rows: Iterable<object> | AsyncIterable<object>, options?: PublishOptions & Call): Promise<Receipt>;
  /** The same with a file of a type that the node reads, such as `text/csv`. */
  post(body: Blob | Uint8Array | string, type: string, options?: PublishOptions & Call): Promise<Receipt>;
  /**
   * Fetch blocks, and files unless `files` is false, and hash them here.
   * Pass `head` and `id` if you know them from somewhere else than this node.
   */
  verify(options?: { files?: boolean; head?: string; id?: string; onProgress?: (sofar: Progress) => void } & Call): Promise<Verification>;
}

/** The dataset at a URL. */
export function open(url: string | URL, options?: NodeOptions): Dataset;

/** What a node refused, or why it cannot be asked. */
export class OdfError extends Error {
  /**
   * The code of the problem, such as `InvalidQuery`; `Unauthenticated` or `Unauthorized` where the node says
   * no more; `Unreachable` for a node that is away or an answer that broke off.
   */
  readonly code: string;
  readonly status: number | null;
  readonly url: string;
  /** The problem document (RFC 9457) with its facts. */
  readonly problem: Problem | null;
  /** Seconds. */
  readonly retryAfter: number | null;
}
