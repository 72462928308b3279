// A worker: fetches the blocks of a dataset from the head back, and the files they name, hashes all
// of them, and tells how far it is and what is wrong.
import { readBlock, Unreadable } from "./blocks.js";
import { Sha3 } from "./sha3.js";

const SHA3_256 = "f1620"; // how the text of such a hash begins: base16, algorithm, 32 bytes
const MAX_BLOCK_BYTES = 64 * 2 ** 20;
const MAX_PROBLEMS = 20;
const TELL_MS = 200;
const TRIES = 5, BUSY = [429, 503], WAIT_S = 1, MAX_WAIT_S = 30;

class Problem extends Error {}

const told = { blocks: 0, files: 0, bytes: 0, total: 0, problems: [] };
let last = 0;

onmessage = async ({ data: asked }) => {
  try {
    await walk(asked);
  } catch (error) {
    note(error);
  }
  postMessage({ ...told, done: true });
};

async function walk({ at, head, id, files }) {
  const seen = new Set();
  let newer = null, newerData = null;
  for (let hash = head; hash !== null; hash = newer.prev) {
    const found = await readable(at, hash);
    if (newer) require(found.number === newer.number - 1n, `block ${hash} has the number ${found.number}`);
    else told.total = Number(found.number) + 1;
    require((found.prev === null) === (found.number === 0n), `block ${hash} is not the first, and nothing is before it`);
    if (found.prev === null) require(`did:odf:f${found.id}` === id, "the chain begins with another dataset");
    if (found.data) {
      continues(found.data, newerData, hash);
      newerData = found.data;
      if (files) await objects(at, found.data, seen);
    }
    told.blocks++;
    tell();
    newer = found;
  }
  require(newerData === null || newerData.prevOffset === null, "the first rows say that there were others before");
}

async function readable(at, hash) {
  const { name, bytes } = await hashed(`${at}/blocks/${hash}`, MAX_BLOCK_BYTES, true);
  require(name === hash, `block ${hash} has the bytes of ${name}`);
  try {
    return readBlock(bytes);
  } catch (error) {
    throw error instanceof Unreadable ? new Problem(`block ${hash} cannot be read: ${error.message}`) : error;
  }
}

/** Offsets go on where those of the block before end. */
function continues(data, newer, hash) {
  const first = data.prevOffset === null ? 0n : data.prevOffset + 1n;
  if (data.slice) require(data.start === first && data.end >= first, `offsets of block ${hash} leave a gap`);
  const end = data.slice ? data.end : data.prevOffset;
  if (newer) require(newer.prevOffset === end, `the rows behind block ${hash} do not go on where it ends`);
}

async function objects(at, { slice, checkpoint }, seen) {
  for (const [folder, one] of [["data", slice], ["checkpoints", checkpoint]]) {
    if (!one || seen.has(one.hash)) continue;
    seen.add(one.hash);
    try {
      const { name, size } = await hashed(`${at}/${folder}/${one.hash}`, Number(one.size), false);
      require(BigInt(size) === one.size, `${folder}/${one.hash} has ${size} bytes, not ${one.size}`);
      require(name === one.hash, `${folder}/${one.hash} has the bytes of ${name}`);
      told.files++;
    } catch (error) {
      note(error); // other files may still be whole
    }
  }
}

/** The hash, size and, if they are to be kept, bytes of what is at an address: `most` at most. */
async function hashed(url, most, keep) {
  const answer = await asked(url), reader = answer.body.getReader();
  const hash = new Sha3(), pieces = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    told.bytes += part.value.length;
    if (size > most) {
      await reader.cancel();
      throw new Problem(`${url} has more than ${most} bytes`);
    }
    hash.update(part.value);
    if (keep) pieces.push(part.value);
    tell();
  }
  const bytes = keep ? new Uint8Array(await new Blob(pieces).arrayBuffer()) : null;
  return { name: SHA3_256 + hash.hex(), size, bytes };
}

async function asked(url) {
  for (let tries = 1; ; tries++) {
    const answer = await fetch(url, { cache: "no-store", credentials: "omit", redirect: "error" });
    if (answer.ok) return answer;
    if (!BUSY.includes(answer.status) || tries === TRIES) throw new Problem(`${url}: the node answers ${answer.status}`);
    const seconds = Math.min(MAX_WAIT_S, Number(answer.headers.get("retry-after")) || WAIT_S);
    await new Promise((go) => setTimeout(go, 1000 * seconds));
  }
}

function require(holds, otherwise) {
  if (!holds) throw new Problem(otherwise);
}

function note(error) {
  if (told.problems.length < MAX_PROBLEMS) told.problems.push(error.message);
}

function tell() {
  if (performance.now() - last < TELL_MS) return;
  last = performance.now();
  postMessage(told);
}
