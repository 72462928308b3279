// SHA3-256 (FIPS 202), a piece at a time. Browsers have no SHA-3 of their own.
const RATE = 136; // bytes of a block: 1600 bits without twice 256
const WORDS = RATE / 4;
const ROUNDS = 24;
const CONSTANTS = constants();

/** `update` with bytes as often as you like, then `hex` once. */
export class Sha3 {
  #state = new Int32Array(50); // lane n is the words 2n (low) and 2n + 1 (high)
  #moved = new Int32Array(50);
  #block = new Uint8Array(RATE);
  #words = new Int32Array(this.#block.buffer); // little-endian, as all machines with browsers are
  #filled = 0;

  update(bytes) {
    for (let at = 0; at < bytes.length; ) {
      const taken = Math.min(RATE - this.#filled, bytes.length - at);
      this.#block.set(bytes.subarray(at, at + taken), this.#filled);
      this.#filled += taken;
      at += taken;
      if (this.#filled === RATE) this.#absorb();
    }
    return this;
  }

  hex() {
    this.#block.fill(0, this.#filled);
    this.#block[this.#filled] ^= 0x06;
    this.#block[RATE - 1] ^= 0x80;
    this.#absorb();
    const digest = new Uint8Array(this.#state.buffer, 0, 32);
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  #absorb() {
    const state = this.#state, words = this.#words;
    for (let n = 0; n < WORDS; n++) state[n] ^= words[n];
    permute(state, this.#moved);
    this.#filled = 0;
  }
}

function permute(a, b) {
  for (let round = 0; round < ROUNDS; round++) {
    // theta: each lane takes the parities of two columns, here the low words p and high words q
    const p0 = a[0] ^ a[10] ^ a[20] ^ a[30] ^ a[40], q0 = a[1] ^ a[11] ^ a[21] ^ a[31] ^ a[41];
    const p1 = a[2] ^ a[12] ^ a[22] ^ a[32] ^ a[42], q1 = a[3] ^ a[13] ^ a[23] ^ a[33] ^ a[43];
    const p2 = a[4] ^ a[14] ^ a[24] ^ a[34] ^ a[44], q2 = a[5] ^ a[15] ^ a[25] ^ a[35] ^ a[45];
    const p3 = a[6] ^ a[16] ^ a[26] ^ a[36] ^ a[46], q3 = a[7] ^ a[17] ^ a[27] ^ a[37] ^ a[47];
    const p4 = a[8] ^ a[18] ^ a[28] ^ a[38] ^ a[48], q4 = a[9] ^ a[19] ^ a[29] ^ a[39] ^ a[49];
    const g0 = p4 ^ ((p1 << 1) | (q1 >>> 31)), h0 = q4 ^ ((q1 << 1) | (p1 >>> 31));
    const g1 = p0 ^ ((p2 << 1) | (q2 >>> 31)), h1 = q0 ^ ((q2 << 1) | (p2 >>> 31));
    const g2 = p1 ^ ((p3 << 1) | (q3 >>> 31)), h2 = q1 ^ ((q3 << 1) | (p3 >>> 31));
    const g3 = p2 ^ ((p4 << 1) | (q4 >>> 31)), h3 = q2 ^ ((q4 << 1) | (p4 >>> 31));
    const g4 = p3 ^ ((p0 << 1) | (q0 >>> 31)), h4 = q3 ^ ((q0 << 1) | (p0 >>> 31));
    // rho and pi: each lane turns by its own number of bits and goes to its own place
    let l, h;
    l = a[0] ^ g0, h = a[1] ^ h0, b[0] = l, b[1] = h;
    l = a[2] ^ g1, h = a[3] ^ h1, b[20] = (l << 1) | (h >>> 31), b[21] = (h << 1) | (l >>> 31);
    l = a[5] ^ h2, h = a[4] ^ g2, b[40] = (l << 30) | (h >>> 2), b[41] = (h << 30) | (l >>> 2);
    l = a[6] ^ g3, h = a[7] ^ h3, b[10] = (l << 28) | (h >>> 4), b[11] = (h << 28) | (l >>> 4);
    l = a[8] ^ g4, h = a[9] ^ h4, b[30] = (l << 27) | (h >>> 5), b[31] = (h << 27) | (l >>> 5);
    l = a[11] ^ h0, h = a[10] ^ g0, b[32] = (l << 4) | (h >>> 28), b[33] = (h << 4) | (l >>> 28);
    l = a[13] ^ h1, h = a[12] ^ g1, b[2] = (l << 12) | (h >>> 20), b[3] = (h << 12) | (l >>> 20);
    l = a[14] ^ g2, h = a[15] ^ h2, b[22] = (l << 6) | (h >>> 26), b[23] = (h << 6) | (l >>> 26);
    l = a[17] ^ h3, h = a[16] ^ g3, b[42] = (l << 23) | (h >>> 9), b[43] = (h << 23) | (l >>> 9);
    l = a[18] ^ g4, h = a[19] ^ h4, b[12] = (l << 20) | (h >>> 12), b[13] = (h << 20) | (l >>> 12);
    l = a[20] ^ g0, h = a[21] ^ h0, b[14] = (l << 3) | (h >>> 29), b[15] = (h << 3) | (l >>> 29);
    l = a[22] ^ g1, h = a[23] ^ h1, b[34] = (l << 10) | (h >>> 22), b[35] = (h << 10) | (l >>> 22);
    l = a[25] ^ h2, h = a[24] ^ g2, b[4] = (l << 11) | (h >>> 21), b[5] = (h << 11) | (l >>> 21);
    l = a[26] ^ g3, h = a[27] ^ h3, b[24] = (l << 25) | (h >>> 7), b[25] = (h << 25) | (l >>> 7);
    l = a[29] ^ h4, h = a[28] ^ g4, b[44] = (l << 7) | (h >>> 25), b[45] = (h << 7) | (l >>> 25);
    l = a[31] ^ h0, h = a[30] ^ g0, b[46] = (l << 9) | (h >>> 23), b[47] = (h << 9) | (l >>> 23);
    l = a[33] ^ h1, h = a[32] ^ g1, b[16] = (l << 13) | (h >>> 19), b[17] = (h << 13) | (l >>> 19);
    l = a[34] ^ g2, h = a[35] ^ h2, b[36] = (l << 15) | (h >>> 17), b[37] = (h << 15) | (l >>> 17);
    l = a[36] ^ g3, h = a[37] ^ h3, b[6] = (l << 21) | (h >>> 11), b[7] = (h << 21) | (l >>> 11);
    l = a[38] ^ g4, h = a[39] ^ h4, b[26] = (l << 8) | (h >>> 24), b[27] = (h << 8) | (l >>> 24);
    l = a[40] ^ g0, h = a[41] ^ h0, b[28] = (l << 18) | (h >>> 14), b[29] = (h << 18) | (l >>> 14);
    l = a[42] ^ g1, h = a[43] ^ h1, b[48] = (l << 2) | (h >>> 30), b[49] = (h << 2) | (l >>> 30);
    l = a[45] ^ h2, h = a[44] ^ g2, b[18] = (l << 29) | (h >>> 3), b[19] = (h << 29) | (l >>> 3);
    l = a[47] ^ h3, h = a[46] ^ g3, b[38] = (l << 24) | (h >>> 8), b[39] = (h << 24) | (l >>> 8);
    l = a[48] ^ g4, h = a[49] ^ h4, b[8] = (l << 14) | (h >>> 18), b[9] = (h << 14) | (l >>> 18);
    // chi: each lane takes from the next two of its row
    for (let row = 0; row < 50; row += 10) {
      const b0 = b[row], b1 = b[row + 1], b2 = b[row + 2], b3 = b[row + 3];
      for (let n = row; n < row + 6; n++) a[n] = b[n] ^ (~b[n + 2] & b[n + 4]);
      a[row + 6] = b[row + 6] ^ (~b[row + 8] & b0);
      a[row + 7] = b[row + 7] ^ (~b[row + 9] & b1);
      a[row + 8] = b[row + 8] ^ (~b0 & b2);
      a[row + 9] = b[row + 9] ^ (~b1 & b3);
    }
    a[0] ^= CONSTANTS[2 * round];
    a[1] ^= CONSTANTS[2 * round + 1];
  }
}

/** The 64 bits of each round, low word first, out of a shift register. */
function constants() {
  const words = new Int32Array(2 * ROUNDS);
  for (let round = 0, register = 1; round < ROUNDS; round++)
    for (let power = 0; power < 7; power++) {
      const bit = 2 ** power - 1;
      if (register & 1) words[2 * round + (bit >> 5)] ^= 1 << (bit & 31);
      register = (register << 1) ^ (register >> 7) * 0x171;
    }
  return words;
}
