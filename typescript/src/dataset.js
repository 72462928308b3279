// @ts-check
// A dataset of a node: its rows, new rows, and whether all of it is what its head names.
import { line, parse } from "./numbers.js";
import { OdfError, pause, pieces, whole } from "./transport.js";
import { walk } from "./walk.js";

const MAX_LINE = 64 * 2 ** 20; // characters of a row
const MAX_FILE_BYTES = 1024 * 2 ** 20;
const MAX_HEAD_BYTES = 1000;
const POLL_MS = 500;
const WAIT_S = 30; // how long a post is waited for in one request
const PART = 2 ** 20; // characters of rows that are put together
const NDJSON = "application/x-ndjson";

/** @typedef {import("./index.js").RowsOptions} RowsOptions */
/** @typedef {import("./index.js").PublishOptions} PublishOptions */
/** @typedef {import("./transport.js").Transport} Transport */
/** @typedef {import("./transport.js").Asked} Asked */

export class Dataset {
  #transport;

  /**
   * @param {string} url
   * @param {Transport} transport
   */
  constructor(url, transport) {
    this.url = url.replace(/\/+$/, "");
    this.#transport = transport;
  }

  /** @param {import("./index.js").Call} [call] */
  describe({ signal } = {}) {
    return this.#transport.json(this.url, { signal, headers: { accept: "application/json" } });
  }

  /** @param {import("./index.js").Call} [call] */
  async head({ signal } = {}) {
    const url = `${this.url}/refs/head`;
    return (await whole(await this.#transport.send(url, { signal }), url, MAX_HEAD_BYTES, signal)).trim();
  }

  /** @param {RowsOptions & import("./index.js").Call} [options] */
  rows({ signal, ...options } = {}) {
    const url = `${this.url}/read?${query({ ...options, format: "ndjson" })}`;
    return new Rows(this.#transport, url, signal, lines);
  }

  /** @param {{ limit?: number, skip?: number } & import("./index.js").Call} [options] */
  tail({ signal, ...options } = {}) {
    return new Rows(this.#transport, `${this.url}/tail?${query(options)}`, signal, page);
  }

  /** @param {RowsOptions & { format: string } & import("./index.js").Call} options */
  async file({ signal, ...options }) {
    const url = `${this.url}/read?${query(options)}`;
    const answer = await this.#transport.send(url, { signal }), parts = [];
    let size = 0;
    for await (const part of pieces(answer, url, signal)) {
      size += part.length;
      if (size > MAX_FILE_BYTES) throw new OdfError("AnswerTooLong", `the answer has more than ${MAX_FILE_BYTES} bytes`, { url });
      parts.push(/** @type {BlobPart} */ (part));
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  /**
   * @param {Iterable<object> | AsyncIterable<object>} rows
   * @param {PublishOptions & import("./index.js").Call} [options]
   */
  async publish(rows, options) {
    const parts = [];
    let number = 0, text = "";
    for await (const row of rows) {
      text += `${line(row, ++number)}\n`;
      if (text.length < PART) continue;
      parts.push(new Blob([text]));
      text = "";
    }
    return await this.post(new Blob([...parts, text]), NDJSON, options);
  }

  /**
   * @param {Blob | Uint8Array | string} body
   * @param {string} type
   * @param {PublishOptions & import("./index.js").Call} [options]
   */
  async post(body, type, { signal, idempotencyKey = made(), eventTime, ...options } = {}) {
    /** @type {Record<string, string>} */
    const headers = { "content-type": type, "idempotency-key": idempotencyKey, prefer: `wait=${WAIT_S}` };
    if (eventTime !== undefined) headers["odf-event-time"] = instant(eventTime);
    const url = `${this.url}/ingest?${query(options)}`;
    const asked = { method: "POST", body: /** @type {BodyInit} */ (body), headers, signal, repeatable: true };
    const answer = await this.#transport.send(url, asked);
    const replayed = answer.headers.get("idempotent-replayed") === "true";
    const told = parse(await whole(answer, url, MAX_LINE, signal), this.#transport.integers);
    const receipt = answer.status === 202 ? await this.#ended(told.url, signal) : told;
    return { ...receipt, replayed, idempotencyKey };
  }

  /** @param {{ files?: boolean, head?: string, id?: string, onProgress?: (sofar: any) => void } & import("./index.js").Call} [options] */
  async verify({ files = true, head, id, onProgress, signal } = {}) {
    const from = head ?? (await this.head({ signal }));
    const known = id ?? (await this.describe({ signal })).id;
    const fetch = (/** @type {string} */ url, /** @type {RequestInit} */ init) => this.#transport.fetch(url, init);
    const tell = onProgress && ((/** @type {object} */ told) => onProgress(structuredClone(told)));
    const told = await walk({ at: this.url, head: from, id: known, files, fetch, tell, signal });
    return { ok: told.problems.length === 0, head: from, id: known, ...told };
  }

  /**
   * @param {string} url
   * @param {AbortSignal} [signal]
   */
  async #ended(url, signal) {
    // A node behind a proxy may name another host than the one it was reached by.
    const { pathname, search } = new URL(url);
    const job = new URL(this.url).origin + pathname + search;
    for (;;) {
      const told = await this.#transport.json(job, { signal, repeatable: true });
      if (told.status === "succeeded") return told.result;
      if (told.status === "failed" || told.status === "cancelled") {
        const problem = told.problem ?? {}, code = String(problem.type ?? told.status).replace(/^.*:/, "");
        throw new OdfError(code, String(problem.message ?? `the job was ${told.status}`), { url: job, problem, status: problem.status ?? null });
      }
      await pause(POLL_MS, signal);
    }
  }
}

/** Rows that are asked for once somebody goes through them, each time anew. */
class Rows {
  #transport;
  #url;
  #signal;
  #read;
  /** @type {string | null} */
  block = null;

  /**
   * @param {Transport} transport
   * @param {string} url
   * @param {AbortSignal | undefined} signal
   * @param {(answer: Response, url: string, signal: AbortSignal | undefined, integers: "bigint" | "text") => AsyncGenerator<any>} read
   */
  constructor(transport, url, signal, read) {
    this.#transport = transport;
    this.#url = url;
    this.#signal = signal;
    this.#read = read;
  }

  async *[Symbol.asyncIterator]() {
    const answer = await this.#transport.send(this.#url, { signal: this.#signal });
    this.block = answer.headers.get("odf-block");
    yield* this.#read(answer, this.#url, this.#signal, this.#transport.integers);
  }

  async all() {
    const rows = [];
    for await (const row of this) rows.push(row);
    return rows;
  }
}

/**
 * @param {Response} answer
 * @param {string} url
 * @param {AbortSignal | undefined} signal
 * @param {"bigint" | "text"} integers
 */
async function* lines(answer, url, signal, integers) {
  const decoder = new TextDecoder();
  let kept = "";
  for await (const part of pieces(answer, url, signal)) {
    const found = (kept + decoder.decode(part, { stream: true })).split("\n");
    kept = found.pop() ?? "";
    if (kept.length > MAX_LINE) throw new OdfError("AnswerTooLong", `a row has more than ${MAX_LINE} characters`, { url });
    for (const each of found) if (each) yield parse(each, integers);
  }
  // Each row ends its line: what is left was cut off.
  if (kept) throw new OdfError("Unreachable", "the answer broke off and is not complete", { url });
}

/**
 * @param {Response} answer
 * @param {string} url
 * @param {AbortSignal | undefined} signal
 * @param {"bigint" | "text"} integers
 */
async function* page(answer, url, signal, integers) {
  yield* parse(await whole(answer, url, MAX_FILE_BYTES, signal), integers).data;
}

/**
 * Options as the query of a URL. Instants may be dates, columns a list; a list of filters is a
 * parameter each.
 * @param {object} options
 */
export function query(options) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    const many = name === "columns" && Array.isArray(value) ? [value.join(",")] : [value].flat();
    for (const each of many) made.append(name, each instanceof Date ? each.toISOString() : String(each));
  }
  return made.toString();
}

/** @param {Date | string} time */
const instant = (time) => (time instanceof Date ? time.toISOString() : time);

/** A name for one request, which no other has. */
function made() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
