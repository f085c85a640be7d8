import type { JsonObject, JsonValue } from '@triplock/payments';
import { isUtf8 } from 'node:buffer';
import { jsonPointer } from './problem.ts';

/**
 * What reading bytes as strict JSON gives. `pointer` names the place, `detail` says what is wrong.
 */
export type StrictJson =
  { outcome: 'value'; value: JsonValue } | { outcome: 'refused'; pointer: string; detail: string };

/** Levels of objects and arrays; the outermost is the first. Bodies here need two. */
const jsonDepthMax = 16;

/**
 * Reads one JSON text (RFC 8259) so that two readers can never understand it differently, as I-JSON
 * (RFC 7493) asks: UTF-8 without a BOM, no duplicate names, no lone surrogates, and numbers only as
 * integers in plain digits within ±(2^53 − 1). The name `__proto__` is refused. Never throws.
 *
 * `JSON.parse` would round 2^53 + 1, keep the last of two names and pass a lone surrogate on.
 */
export function parseStrictJson(bytes: Buffer): StrictJson {
  if (!isUtf8(bytes)) return refusal('', 'is not valid UTF-8');
  const text = bytes.toString('utf8');
  if (text.charCodeAt(0) === byteOrderMark) return refusal('', 'begins with a byte order mark');
  const reader = new Reader(text, jsonDepthMax);
  try {
    return { outcome: 'value', value: reader.readDocument() };
  } catch (error) {
    if (error !== malformed) throw error;
    return refusal(jsonPointer(reader.path), `${reader.complaint}, at character ${reader.at + 1}`);
  }
}

function refusal(pointer: string, detail: string): StrictJson {
  return { outcome: 'refused', pointer: pointer || '#', detail };
}

const byteOrderMark = 0xfeff;
// Thrown to unwind the recursion; one object for all, because making an error captures a stack.
const malformed = new Error('malformed');

const [tab, lineFeed, carriageReturn, space] = [0x09, 0x0a, 0x0d, 0x20] as const;
const [quote, comma, minus, zero, nine, colon] = [0x22, 0x2c, 0x2d, 0x30, 0x39, 0x3a] as const;
const [openArray, backslash, closeArray] = [0x5b, 0x5c, 0x5d] as const;
const [openObject, closeObject] = [0x7b, 0x7d] as const;
const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/** Recursive descent over the text in one pass; depth is bounded by `depthMax`, so is the stack. */
class Reader {
  at = 0;
  complaint = '';
  /** Names and indexes down to the value being read, for the pointer of a refusal. */
  readonly path: (string | number)[] = [];
  readonly #text: string;
  readonly #depthMax: number;
  #depth = 0;

  constructor(text: string, depthMax: number) {
    this.#text = text;
    this.#depthMax = depthMax;
  }

  readDocument(): JsonValue {
    const value = this.#readValue(this.#skipSpace());
    if (!Number.isNaN(this.#skipSpace())) this.#refuse('something follows the JSON value');
    return value;
  }

  #readValue(first: number): JsonValue {
    if (first === quote) return this.#readString();
    if (first === minus || (first >= zero && first <= nine)) return this.#readInteger();
    if (first === openObject) return this.#readObject();
    if (first === openArray) return this.#readArray();
    if (this.#text.startsWith('true', this.at)) return this.#skipWord('true', true);
    if (this.#text.startsWith('false', this.at)) return this.#skipWord('false', false);
    if (this.#text.startsWith('null', this.at)) return this.#skipWord('null', null);
    return this.#refuse(Number.isNaN(first) ? 'the text ends too early' : 'a value is expected');
  }

  #readObject(): JsonObject {
    this.#enter();
    const object: Record<string, JsonValue> = {};
    let next = this.#skipSpace();
    while (next !== closeObject) {
      if (next !== quote) this.#refuse('a name in double quotes is expected');
      const name = this.#readString();
      this.path.push(name);
      if (Object.hasOwn(object, name)) this.#refuse('the name appears twice');
      // Assigning to it would set the prototype instead of making a member.
      if (name === '__proto__') this.#refuse('this name is not allowed');
      if (this.#skipSpace() !== colon) this.#refuse('a colon is expected');
      this.at += 1;
      object[name] = this.#readValue(this.#skipSpace());
      this.path.pop();
      next = this.#nextMember(closeObject);
    }
    this.#leave();
    return object;
  }

  #readArray(): JsonValue[] {
    this.#enter();
    const array: JsonValue[] = [];
    let next = this.#skipSpace();
    while (next !== closeArray) {
      this.path.push(array.length);
      array.push(this.#readValue(next));
      this.path.pop();
      next = this.#nextMember(closeArray);
    }
    this.#leave();
    return array;
  }

  #enter(): void {
    this.#depth += 1;
    if (this.#depth > this.#depthMax) this.#refuse(`more than ${this.#depthMax} levels deep`);
    this.at += 1;
  }

  #leave(): void {
    this.#depth -= 1;
    this.at += 1;
  }

  /** After a member: the closing bracket, or the first character of the next member. */
  #nextMember(close: number): number {
    const next = this.#skipSpace();
    if (next === close) return close;
    if (next !== comma) this.#refuse('a comma or a closing bracket is expected');
    this.at += 1;
    const first = this.#skipSpace();
    if (first === close) this.#refuse('a comma with nothing after it');
    return first;
  }

  #readInteger(): number {
    const start = this.at;
    if (this.#text.charCodeAt(start) === minus) this.at += 1;
    const firstDigit = this.at;
    while (isDigit(this.#text.charCodeAt(this.at))) this.at += 1;
    const digits = this.at - firstDigit;
    if (digits === 0) this.#refuse('a digit is expected');
    const leadingZero = this.#text.charCodeAt(firstDigit) === zero;
    if (leadingZero && digits > 1) this.#refuse('a number with a leading zero');
    if (leadingZero && firstDigit > start) this.#refuse('minus zero is not an integer');
    // '.', 'E' and 'e' can only go on with this number.
    if (/[.Ee]/.test(this.#text.charAt(this.at))) {
      this.#refuse('an integer written in plain digits is expected');
    }
    const value = Number(this.#text.slice(start, this.at));
    if (!Number.isSafeInteger(value)) this.#refuse('an integer beyond 2^53 - 1');
    return value;
  }

  #readString(): string {
    const text = this.#text;
    const start = this.at + 1;
    let at = start;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === quote) {
        this.at = at + 1;
        return text.slice(start, at);
      }
      if (code === backslash) return this.#readEscaped(start, at);
      if (!(code >= space)) return this.#refuseInString(at);
      at += 1;
    }
  }

  /** The rest of a string from its first backslash on. */
  #readEscaped(start: number, backslashAt: number): string {
    let value = this.#text.slice(start, backslashAt);
    this.at = backslashAt;
    for (;;) {
      const code = this.#text.charCodeAt(this.at);
      if (code === quote) break;
      if (!(code >= space)) this.#refuseInString(this.at);
      value += code === backslash ? this.#readEscape() : this.#text.charAt(this.at);
      this.at += 1;
    }
    this.at += 1;
    // Valid UTF-8 holds no surrogates, so only an escape can have brought a lone one in.
    if (!value.isWellFormed()) this.#refuse('an escaped surrogate without its other half');
    return value;
  }

  /** From a backslash to the escape's last character. */
  #readEscape(): string {
    this.at += 1;
    const letter = this.#text.charAt(this.at);
    if (letter !== 'u') return escapes[letter] ?? this.#refuse('an unknown escape');
    const hex = this.#text.slice(this.at + 1, this.at + 5);
    if (!/^[0-9A-Fa-f]{4}$/.test(hex)) this.#refuse('four hexadecimal digits are expected');
    this.at += 4;
    return String.fromCharCode(Number.parseInt(hex, 16));
  }

  #refuseInString(at: number): never {
    this.at = at;
    const ended = at >= this.#text.length;
    return this.#refuse(ended ? 'the text ends in a string' : 'a control character in a string');
  }

  #skipWord<Value>(word: string, value: Value): Value {
    this.at += word.length;
    return value;
  }

  /** Skips white space and returns the next character's code; NaN at the end. */
  #skipSpace(): number {
    for (;;) {
      const code = this.#text.charCodeAt(this.at);
      if (code !== space && code !== lineFeed && code !== carriageReturn && code !== tab) {
        return code;
      }
      this.at += 1;
    }
  }

  #refuse(complaint: string): never {
    this.complaint = complaint;
    throw malformed;
  }
}

function isDigit(code: number): boolean {
  return code >= zero && code <= nine;
}
