// A check of a dataset: fetches its blocks from the head back, and the files they name, hashes all
// of them, and tells how far it is and what is wrong. Pages run it in a worker; the package for
// TypeScript has it too.
import { readBlock, Unreadable } from "./blocks.js";
import { Sha3 } from "./sha3.js";

const SHA3_256 = "f1620"; // how the text of such a hash begins: base16, algorithm, 32 bytes
const MAX_BLOCK_BYTES = 64 * 2 ** 20;
const MAX_PROBLEMS = 20;
const TELL_MS = 200;
const TRIES = 5, BUSY = [429, 503], WAIT_S = 1, MAX_WAIT_S = 30;

/** What is wrong with a file; `file` is its path below the dataset. */
class Problem extends Error {
  constructor(file, message) {
    super(message);
    this.file = file;
  }
}

/**
 * Check the dataset at the URL `at` from the block `head` back, and its files if `files` is true.
 * `id` is the one that its chain must begin with. `fetch` is the browser's unless another is given;
 * `tell` is called now and then with what was done so far.
 *
 * Returns blocks, files and bytes that were read, the number of blocks (`total`), and `problems`,
 * each with a `message` and perhaps the `file` that has it: none if all is whole. Throws only the
 * reason of `signal`, once that is aborted.
 */
export async function walk(asked) {
  return await new Walk(asked).run();
}

class Walk {
  #told = { blocks: 0, files: 0, bytes: 0, total: 0, problems: [] };
  #seen = new Set();
  #last = 0;
  #asked;

  constructor({ fetch = (...given) => globalThis.fetch(...given), tell = () => {}, ...asked }) {
    this.#asked = { fetch, tell, ...asked };
  }

  async run() {
    try {
      await this.#blocks();
    } catch (error) {
      this.#note(error);
    }
    return this.#told;
  }

  async #blocks() {
    const { head, id, files } = this.#asked;
    let newer = null, newerData = null, first = "";
    for (let hash = head; hash !== null; hash = newer.prev) {
      const file = `blocks/${hash}`, found = await this.#readable(hash, file);
      if (newer) require(found.number === newer.number - 1n, file, `block ${hash} has the number ${found.number}`);
      else this.#told.total = Number(found.number) + 1;
      const begins = found.prev === null;
      require(begins === (found.number === 0n), file, `block ${hash} is not the first, and nothing is before it`);
      if (begins) require(`did:odf:f${found.id}` === id, file, "the chain begins with another dataset");
      if (found.data) {
        continues(found.data, newerData, hash, file);
        newerData = found.data;
        first = file;
        if (files) await this.#objects(found.data);
      }
      this.#told.blocks++;
      this.#tell();
      newer = found;
    }
    const whole = newerData === null || newerData.prevOffset === null;
    require(whole, first, "the first rows say that there were others before");
  }

  async #readable(hash, file) {
    const { name, bytes } = await this.#hashed(file, MAX_BLOCK_BYTES, true);
    require(name === hash, file, `block ${hash} has the bytes of ${name}`);
    try {
      return readBlock(bytes);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      throw new Problem(file, `block ${hash} cannot be read: ${error.message}`);
    }
  }

  async #objects({ slice, checkpoint }) {
    for (const [folder, one] of [["data", slice], ["checkpoints", checkpoint]]) {
      if (!one || this.#seen.has(one.hash)) continue;
      this.#seen.add(one.hash);
      const file = `${folder}/${one.hash}`;
      try {
        const { name, size } = await this.#hashed(file, Number(one.size), false);
        require(BigInt(size) === one.size, file, `${file} has ${size} bytes, not ${one.size}`);
        require(name === one.hash, file, `${file} has the bytes of ${name}`);
        this.#told.files++;
      } catch (error) {
        this.#note(error); // other files may still be whole
      }
    }
  }

  /** The hash, size and, if they are to be kept, bytes of a file: `most` at most. */
  async #hashed(file, most, keep) {
    const url = `${this.#asked.at}/${file}`, hash = new Sha3(), pieces = [];
    let size = 0;
    try {
      const answer = await this.#answer(url, file), reader = answer.body.getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        size += part.value.length;
        this.#told.bytes += part.value.length;
        if (size > most) {
          await reader.cancel();
          throw new Problem(file, `${url} has more than ${most} bytes`);
        }
        hash.update(part.value);
        if (keep) pieces.push(part.value);
        this.#tell();
      }
    } catch (error) {
      throw error instanceof Problem ? error : new Problem(file, `${url}: ${error.message}`);
    }
    const bytes = keep ? new Uint8Array(await new Blob(pieces).arrayBuffer()) : null;
    return { name: SHA3_256 + hash.hex(), size, bytes };
  }

  async #answer(url, file) {
    const { fetch, signal } = this.#asked;
    for (let tries = 1; ; tries++) {
      signal?.throwIfAborted();
      const answer = await fetch(url, { cache: "no-store", credentials: "omit", redirect: "error", signal });
      if (answer.ok) return answer;
      await answer.body?.cancel();
      if (!BUSY.includes(answer.status) || tries === TRIES)
        throw new Problem(file, `${url}: the node answers ${answer.status}`);
      const seconds = Math.min(MAX_WAIT_S, Number(answer.headers.get("retry-after")) || WAIT_S);
      await new Promise((go) => {
        setTimeout(go, 1000 * seconds);
        signal?.addEventListener("abort", go, { once: true });
      });
    }
  }

  #note(error) {
    this.#asked.signal?.throwIfAborted();
    const { message, file = null } = error;
    if (this.#told.problems.length < MAX_PROBLEMS) this.#told.problems.push({ message, file });
  }

  #tell() {
    if (performance.now() - this.#last < TELL_MS) return;
    this.#last = performance.now();
    this.#asked.tell(this.#told);
  }
}

/** Offsets go on where those of the block before end. */
function continues(data, newer, hash, file) {
  const first = data.prevOffset === null ? 0n : data.prevOffset + 1n;
  if (data.slice) require(data.start === first && data.end >= first, file, `offsets of block ${hash} leave a gap`);
  const end = data.slice ? data.end : data.prevOffset;
  if (newer) require(newer.prevOffset === end, file, `the rows behind block ${hash} do not go on where it ends`);
}

function require(holds, file, otherwise) {
  if (!holds) throw new Problem(file, otherwise);
}
