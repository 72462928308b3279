// @ts-check
// JSON without a lost digit: whole numbers that a `number` cannot hold are BigInt, or text.
//
// `JSON.parse` of Node 20 does not say how a number was written. So those numbers are marked as
// texts before it reads them, with a character that JSON itself must escape.

const LONG = /\d{16}/; // shorter numbers are all safe
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WHOLE = /^-?\d+$/;
const QUOTE = 34, BACKSLASH = 92, COLON = 58, MINUS = 45, ZERO = 48, NINE = 57;
const MARK = "\u0001", ESCAPED = "\\u0001", IS_NUMBER = "n", IS_TEXT = "s";
const BLANK = /\s/;

/**
 * What `JSON.parse` gives, but for whole numbers beyond 2^53.
 * @param {string} text
 * @param {"bigint" | "text"} [integers] what these become
 * @returns {any}
 */
export function parse(text, integers = "bigint") {
  if (!LONG.test(text)) return JSON.parse(text);
  return JSON.parse(marked(text), (_, value) => {
    if (typeof value !== "string" || value[0] !== MARK) return value;
    const rest = value.slice(2);
    return value[1] === IS_TEXT || integers === "text" ? rest : BigInt(rest);
  });
}

/** @param {string} text */
function marked(text) {
  const parts = [];
  let kept = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfText(text, at);
      // Names of fields are no values: nobody would take the mark off them.
      if (text.startsWith(ESCAPED, at + 1) && !isName(text, end)) {
        parts.push(text.slice(kept, at + 1), ESCAPED, IS_TEXT);
        kept = at + 1;
      }
      at = end;
    } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      NUMBER.lastIndex = at;
      const [found] = NUMBER.exec(text) ?? [text[at]];
      if (WHOLE.test(found) && !Number.isSafeInteger(Number(found))) {
        parts.push(text.slice(kept, at), `"${ESCAPED}${IS_NUMBER}${found}"`);
        kept = at + found.length;
      }
      at += found.length;
    } else at++;
  }
  return parts.join("") + text.slice(kept);
}

/**
 * Where the text that begins at a quote has ended.
 * @param {string} text
 * @param {number} start
 */
function endOfText(text, start) {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at++;
    else if (code === QUOTE) return at + 1;
  }
  return text.length; // which JSON.parse refuses
}

/**
 * @param {string} text
 * @param {number} at
 */
function isName(text, at) {
  while (at < text.length && BLANK.test(text[at])) at++;
  return text.charCodeAt(at) === COLON;
}

/**
 * A row as a line of JSON. Dates become instants, BigInt its digits; fields that are undefined are
 * left out. Throws `TypeError` and `RangeError` for what JSON has no word for, and names its place.
 * @param {object} row
 * @param {number} number of the row, for messages
 */
export function line(row, number) {
  if (row === null || typeof row !== "object" || Array.isArray(row))
    throw new TypeError(`row ${number} is no object with a value for each column`);
  return written(row, `row ${number}`);
}

/**
 * Any value as JSON, by the same rules.
 * @param {any} value
 */
export const stringify = (value) => written(value, "value");

/**
 * @param {any} value
 * @param {string} place
 * @returns {string}
 */
function written(value, place) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value);
    case "bigint":
      return `${value}`;
    case "number":
      if (!Number.isFinite(value)) throw new RangeError(`${place}: JSON has no ${value}; send such rows as Arrow or Parquet`);
      return Object.is(value, -0) ? "-0.0" : `${value}`;
    case "object":
      return value === null ? "null" : structure(value, place);
    default:
      throw new TypeError(`${place}: a ${typeof value} is no value`);
  }
}

/**
 * @param {any} value
 * @param {string} place
 */
function structure(value, place) {
  if (value instanceof Date && Number.isNaN(value.getTime())) throw new RangeError(`${place}: an invalid date`);
  if (Array.isArray(value)) return `[${Array.from(value, (each, at) => written(each, `${place}[${at}]`)).join()}]`;
  if (typeof value.toJSON === "function") return written(value.toJSON(), place);
  const shape = Object.getPrototypeOf(value);
  if (shape !== Object.prototype && shape !== null)
    throw new TypeError(`${place}: a ${value.constructor?.name ?? "value"} has no form in JSON; make it a text, a number, an array or an object`);
  const fields = Object.entries(value).filter(([, each]) => each !== undefined);
  return `{${fields.map(([name, each]) => `${JSON.stringify(name)}:${written(each, `${place}.${name}`)}`).join()}}`;
}
