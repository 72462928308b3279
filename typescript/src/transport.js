// @ts-check
// Requests to a node, and its errors: tokens, time limits, repeats while it is busy.
import { parse } from "./numbers.js";

const BUSY = [429, 503], GATEWAYS = [502, 504];
const TRIES = 5, WAIT_S = 1, MAX_WAIT_S = 30;
const TIMEOUT_MS = 60_000;
const MAX_PROBLEM_BYTES = 64 * 2 ** 10;
const MAX_ANSWER_BYTES = 256 * 2 ** 20;
const URN = "urn:odf-node:problem:";
const INVALID = "invalid_token", NO_TOKEN = "the node does not take this token";
/** Of answers without a document, as gateways and the layer of access send them. */
const CODES = /** @type {Record<number, string>} */ ({ 401: "Unauthenticated", 403: "Unauthorized", 404: "NotFound" });

/** @typedef {import("./index.js").NodeOptions} NodeOptions */
/** @typedef {{ method?: string, headers?: Record<string, string>, body?: BodyInit, signal?: AbortSignal, repeatable?: boolean, takes?: number }} Asked */

export class OdfError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ status?: number | null, url?: string, problem?: object | null, retryAfter?: number | null, cause?: unknown }} [facts]
   */
  constructor(code, message, { status = null, url = "", problem = null, retryAfter = null, cause } = {}) {
    super(message, { cause });
    this.name = "OdfError";
    this.code = code;
    this.status = status;
    this.url = url;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

export class Transport {
  #fetch;
  #token;
  #timeout;
  #tries;

  /** @param {NodeOptions} [options] */
  constructor({ token, fetch = (...given) => globalThis.fetch(...given), timeout = TIMEOUT_MS, tries = TRIES, integers = "bigint" } = {}) {
    if (!Number.isInteger(tries) || tries < 1) throw new RangeError("tries is a whole number from 1");
    if (!(timeout > 0)) throw new RangeError("timeout is a number of milliseconds above 0");
    if (integers !== "bigint" && integers !== "text") throw new RangeError("integers is bigint or text");
    this.#fetch = fetch;
    this.#token = token;
    this.#timeout = timeout;
    this.#tries = tries;
    this.integers = integers;
  }

  /**
   * The answer to a request, once it is a success; its body is still to be read. A busy node is
   * asked again; one that only may have taken the request is if that is `repeatable`. `takes` is a
   * status beside those of success whose JSON is an answer. Throws `OdfError`, and the reason of
   * `signal`.
   * @param {string} url
   * @param {Asked} [asked]
   * @returns {Promise<Response>}
   */
  async send(url, asked = {}) {
    for (let tries = 1; ; tries++) {
      const [answer, error] = await this.#once(url, asked);
      if (answer && (answer.ok || (answer.status === asked.takes && isJson(answer)))) return answer;
      const refused = answer ? await problem(answer, url) : /** @type {OdfError} */ (error);
      const again = answer ? BUSY.includes(answer.status) || (asked.repeatable && GATEWAYS.includes(answer.status)) : asked.repeatable;
      if (!again || tries >= this.#tries) throw refused;
      await pause(1000 * Math.min(MAX_WAIT_S, refused.retryAfter ?? WAIT_S), asked.signal);
    }
  }

  /**
   * `fetch` with the token of this node, for whoever repeats by itself.
   * @param {string} url
   * @param {RequestInit} [init]
   */
  async fetch(url, init = {}) {
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    const headers = new Headers(init.headers);
    if (token) headers.set("authorization", `Bearer ${token}`);
    return await this.#fetch(url, { credentials: "omit", ...init, headers });
  }

  /**
   * The JSON of an answer, with all digits.
   * @param {string} url
   * @param {Asked} [asked]
   * @returns {Promise<any>}
   */
  async json(url, asked = {}) {
    const answer = await this.send(url, asked);
    const text = await whole(answer, url, MAX_ANSWER_BYTES, asked.signal);
    try {
      return parse(text, this.integers);
    } catch (cause) {
      throw new OdfError("NotANode", `${url} does not answer with JSON`, { status: answer.status, url, cause });
    }
  }

  /**
   * @param {string} url
   * @param {Asked} asked
   * @returns {Promise<[Response | null, OdfError | null]>}
   */
  async #once(url, { method = "GET", headers = {}, body, signal }) {
    signal?.throwIfAborted();
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), this.#timeout);
    const either = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
    try {
      return [await this.fetch(url, { method, headers, body, signal: either }), null];
    } catch (cause) {
      signal?.throwIfAborted();
      const why = late.signal.aborted ? `did not answer within ${this.#timeout} ms` : "cannot be reached";
      return [null, new OdfError("Unreachable", `${new URL(url).origin} ${why}`, { url, cause })];
    } finally {
      clearTimeout(timer); // it counts until the headers are there
    }
  }
}

/**
 * Pieces of the body of an answer. Throws `OdfError` if it breaks off.
 * @param {Response} answer
 * @param {string} url
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Uint8Array>}
 */
export async function* pieces(answer, url, signal) {
  if (!answer.body) return;
  const reader = answer.body.getReader(), stopped = ended(signal);
  try {
    for (;;) {
      const part = await Promise.race([reader.read(), stopped.promise]);
      if (part.done) return;
      yield part.value;
    }
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof OdfError) throw cause;
    throw new OdfError("Unreachable", "the answer broke off and is not complete", { status: answer.status, url, cause });
  } finally {
    stopped.forget();
    reader.cancel().catch(() => {}); // whoever stopped early wants no more of it
  }
}

/**
 * A promise that rejects when a signal is aborted: Node 20 may go on waiting for a body then.
 * @param {AbortSignal} [signal]
 */
function ended(signal) {
  let stop = () => {};
  const promise = /** @type {Promise<never>} */ (new Promise((_, reject) => {
    stop = () => reject(signal?.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  }));
  promise.catch(() => {}); // where nobody waits for it any more
  return { promise, forget: () => signal?.removeEventListener("abort", stop) };
}

/**
 * @param {Response} answer
 * @param {string} url
 * @param {number} most
 * @param {AbortSignal} [signal]
 */
export async function whole(answer, url, most, signal) {
  const decoder = new TextDecoder(), parts = [];
  let size = 0;
  for await (const part of pieces(answer, url, signal)) {
    size += part.length;
    if (size > most) throw new OdfError("AnswerTooLong", `the answer has more than ${most} bytes`, { status: answer.status, url });
    parts.push(decoder.decode(part, { stream: true }));
  }
  return parts.join("") + decoder.decode();
}

/** @param {Response} answer */
const isJson = (answer) => /^application\/json\b/.test(answer.headers.get("content-type") ?? "");

/**
 * @param {Response} answer
 * @param {string} url
 */
async function problem(answer, url) {
  const { status, headers } = answer;
  const text = await whole(answer, url, MAX_PROBLEM_BYTES).catch(() => "");
  const after = Number(headers.get("retry-after") || NaN);
  const facts = { status, url, retryAfter: Number.isFinite(after) ? after : null };
  if (headers.get("content-type")?.startsWith("application/problem+json"))
    try {
      const told = parse(text);
      const message = String(told.message ?? told.detail ?? told.title);
      // To whoever has no valid token, a private dataset is hidden.
      if (String(told.challenge).includes(INVALID)) return new OdfError(CODES[401], `${NO_TOKEN}: ${message}`, { ...facts, problem: told });
      const code = String(told.type).startsWith(URN) ? told.type.slice(URN.length) : String(told.type);
      return new OdfError(code, message, { ...facts, problem: told });
    } catch {
      // said below
    }
  const [said] = text.trim().split("\n", 1);
  return new OdfError(CODES[status] ?? `Status${status}`, `the node answers ${status}${said ? `: ${said.slice(0, 300)}` : ""}`, facts);
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 */
export async function pause(ms, signal) {
  signal?.throwIfAborted();
  await new Promise((go) => {
    const timer = setTimeout(go, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), go(null)), { once: true });
  });
  signal?.throwIfAborted();
}
