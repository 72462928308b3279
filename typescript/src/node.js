// @ts-check
// A node: which datasets it has, new ones, and queries over several of them.
import { Dataset, query } from "./dataset.js";
import { stringify } from "./numbers.js";
import { Transport } from "./transport.js";

const JSON_TYPE = "application/json";

/** @typedef {import("./index.js").NodeOptions} NodeOptions */
/** @typedef {import("./index.js").Call} Call */

/**
 * The dataset at a URL.
 * @param {string | URL} url
 * @param {NodeOptions} [options]
 */
export const open = (url, options) => new Dataset(address(url), new Transport(options));

export class Node {
  #transport;

  /**
   * @param {string | URL} url
   * @param {NodeOptions} [options]
   */
  constructor(url, options) {
    this.url = address(url);
    this.#transport = new Transport(options);
  }

  /** @param {string} name */
  dataset(name) {
    const path = name.split("/").map(encodeURIComponent).join("/");
    return new Dataset(`${this.url}/${path}`, this.#transport);
  }

  /** @param {Call} [call] */
  info({ signal } = {}) {
    return this.#transport.json(`${this.url}/system/info`, { signal });
  }

  /** @param {import("./index.js").Search & { after?: string } & Call} [search] */
  page({ signal, ...search } = {}) {
    return this.#transport.json(`${this.url}/datasets?${query(search)}`, { signal });
  }

  /** @param {import("./index.js").Search & Call} [search] */
  async *datasets(search = {}) {
    /** @type {string | undefined} */
    let after;
    do {
      const page = await this.page({ ...search, after });
      yield* page.datasets;
      after = page.next ?? undefined;
    } while (after);
  }

  /**
   * @param {object | string} manifest
   * @param {{ visibility?: "private" | "public", dryRun?: boolean } & Call} [options]
   */
  create(manifest, { signal, ...options } = {}) {
    const isText = typeof manifest === "string";
    const body = isText ? manifest : stringify(manifest);
    const headers = { "content-type": isText ? "application/yaml" : JSON_TYPE };
    return this.#transport.json(`${this.url}/datasets?${query(options)}`, { method: "POST", body, headers, signal });
  }

  /**
   * @param {string} sql
   * @param {import("./index.js").QueryOptions & Call} [options]
   */
  async query(sql, { signal, proof = false, ...options } = {}) {
    const asked = { query: sql, ...options, include: ["Input", proof ? "Proof" : "Schema"], schemaFormat: proof ? null : "OdfJson" };
    const told = await this.#sent("/query", asked, signal);
    const { output, ...rest } = told;
    const document = proof ? { input: rest.input, subQueries: rest.subQueries, commitment: rest.commitment, proof: rest.proof } : null;
    return { rows: output.data, schema: output.schema ?? null, datasets: rest.input.datasets, proof: document };
  }

  /**
   * @param {object} proof
   * @param {Call} [call]
   */
  check(proof, { signal } = {}) {
    return this.#sent("/verify", proof, signal, 400); // which says what does not hold
  }

  /**
   * @param {string} path
   * @param {object} body
   * @param {AbortSignal} [signal]
   * @param {number} [takes]
   */
  #sent(path, body, signal, takes) {
    const headers = { "content-type": JSON_TYPE, accept: JSON_TYPE };
    return this.#transport.json(this.url + path, { method: "POST", body: stringify(body), headers, signal, takes });
  }
}

/** @param {string | URL} url */
function address(url) {
  const made = new URL(url);
  if (!/^https?:$/.test(made.protocol)) throw new TypeError(`${made.protocol} is neither http: nor https:`);
  if (made.username || made.password) throw new TypeError("a token is an option, and no part of a URL");
  return made.origin + made.pathname.replace(/\/+$/, "");
}
