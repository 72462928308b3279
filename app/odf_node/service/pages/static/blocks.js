// What a check needs to know of a block: two FlatBuffers, one inside of the other.
const KIND = 0x400000n;
const VERSIONS = [2, 3];
// Numbers of the variants of events, and the slots of their fields.
const ADD_DATA = 1, EXECUTE_TRANSFORM = 2, SEED = 3;
const SLOTS = {
  [ADD_DATA]: { prevOffset: 1, slice: 2, checkpoint: 3 },
  [EXECUTE_TRANSFORM]: { prevOffset: 2, slice: 3, checkpoint: 4 },
};

export class Unreadable extends Error {}

/**
 * Sequence number, hash of the block before, dataset id of a Seed; of a block with data its offsets
 * and objects. Hashes are text, numbers are BigInt; what is absent is null.
 * Throws `Unreadable`.
 */
export function readBlock(bytes) {
  try {
    return block(bytes);
  } catch (error) {
    throw error instanceof RangeError ? new Unreadable("it ends too early") : error;
  }
}

function block(bytes) {
  const outer = root(bytes);
  if (outer.u64(0) !== KIND || !VERSIONS.includes(outer.i32(1)))
    throw new Unreadable("it is of no kind or version that this page knows");
  const inner = root(outer.bytes(2));
  const kind = inner.u8(3), event = inner.table(4), slots = SLOTS[kind];
  if (!event) throw new Unreadable("it has no event");
  return {
    number: inner.u64(2),
    prev: inner.multihash(1),
    id: kind === SEED ? hex(event.bytes(0)) : null,
    data: slots ? dataOf(event, slots) : null,
  };
}

function dataOf(event, slots) {
  const slice = event.table(slots.slice), checkpoint = event.table(slots.checkpoint);
  const interval = slice?.table(2);
  return {
    prevOffset: event.has(slots.prevOffset) ? event.u64(slots.prevOffset) : null,
    start: interval ? interval.u64(0) : null,
    end: interval ? interval.u64(1) : null,
    slice: slice && { hash: slice.multihash(1), size: slice.u64(3) },
    checkpoint: checkpoint && { hash: checkpoint.multihash(0), size: checkpoint.u64(1) },
  };
}

class Table {
  constructor(bytes, at) {
    this.all = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = at;
    this.slots = at - this.view.getInt32(at, true);
    this.size = this.view.getUint16(this.slots, true);
  }

  /** Where the field of a slot is; 0 if it is absent. */
  place(slot) {
    const entry = 4 + 2 * slot;
    const found = entry < this.size ? this.view.getUint16(this.slots + entry, true) : 0;
    return found && this.at + found;
  }

  has = (slot) => this.place(slot) !== 0;
  u8 = (slot) => (this.has(slot) ? this.view.getUint8(this.place(slot)) : 0);
  i32 = (slot) => (this.has(slot) ? this.view.getInt32(this.place(slot), true) : 0);
  u64 = (slot) => (this.has(slot) ? this.view.getBigUint64(this.place(slot), true) : 0n);

  target(slot) {
    return this.place(slot) + this.view.getUint32(this.place(slot), true);
  }

  table(slot) {
    return this.has(slot) ? new Table(this.all, this.target(slot)) : null;
  }

  bytes(slot) {
    if (!this.has(slot)) throw new Unreadable("a field is missing");
    const start = this.target(slot), count = this.view.getUint32(start, true);
    if (start + 4 + count > this.all.length) throw new RangeError();
    return this.all.subarray(start + 4, start + 4 + count);
  }

  multihash(slot) {
    return this.has(slot) ? `f${hex(this.bytes(slot))}` : null;
  }
}

function root(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return new Table(bytes, view.getUint32(0, true));
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
