/**
 * A strict reader of the JSON that a safetensors header may hold: objects, strings, arrays of unsigned integers. Unlike
 * `JSON.parse` it shows repeated keys to the caller, and builds no object with a key that a file chose.
 *
 * @module
 */

/** What is wrong with a text, and where. */
export class JsonFault extends Error {
  constructor(
    message: string,
    /** Index into the text, in UTF-16 units. */
    readonly at: number,
  ) {
    super(message);
    this.name = 'JsonFault';
  }
}

const WHITESPACE = /[ \t\n\r]*/y;
const DIGITS = /[0-9]+/y;

/** A cursor over one JSON text. Each method reads what it names, after any whitespace, or throws a `JsonFault`. */
export class JsonCursor {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Reads an object, calling `member` in front of each value, which it must read. */
  object(member: (key: string) => void): void {
    this.#list('{', '}', () => {
      const key = this.string();
      this.#expect(':');
      member(key);
    });
  }

  /** Reads an array, calling `item` in front of each value, which it must read. */
  array(item: () => void): void {
    this.#list('[', ']', item);
  }

  string(): string {
    this.#skipWhitespace();
    const start = this.#at;
    this.#expect('"');
    let end = this.#at;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === '\\' ? 2 : 1;
    let value: string;
    try {
      value = JSON.parse(this.#text.slice(start, end + 1)) as string;
    } catch {
      throw this.fault('a string does not end, or has a character or an escape that JSON forbids');
    }
    if (!value.isWellFormed()) throw this.fault('a string has half of a surrogate pair');
    this.#at = end + 1;
    return value;
  }

  /** Reads an unsigned integer of at most 2^53 - 1. */
  unsigned(): number {
    this.#skipWhitespace();
    const digits = this.#match(DIGITS);
    if (digits === '' || (digits.length > 1 && digits.startsWith('0'))) {
      throw this.fault('an unsigned integer was expected');
    }
    const value = Number(digits);
    if (!Number.isSafeInteger(value)) throw this.fault('a number is larger than 2^53 - 1');
    return value;
  }

  /** Reads `null` where it is next, and says whether it was. */
  skipNull(): boolean {
    this.#skipWhitespace();
    if (!this.#text.startsWith('null', this.#at)) return false;
    this.#at += 4;
    return true;
  }

  /** Reads the end of the text. */
  end(): void {
    this.#skipWhitespace();
    if (this.#at < this.#text.length) throw this.fault('something follows the JSON object');
  }

  /** The error for what was read last. */
  fault(message: string): JsonFault {
    return new JsonFault(message, this.#at);
  }

  #list(open: string, close: string, item: () => void): void {
    this.#expect(open);
    if (this.#accept(close)) return;
    do item();
    while (this.#accept(','));
    this.#expect(close);
  }

  #expect(character: string): void {
    if (!this.#accept(character)) throw this.fault(`'${character}' was expected`);
  }

  #accept(character: string): boolean {
    this.#skipWhitespace();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #skipWhitespace(): void {
    this.#match(WHITESPACE);
  }

  /** What the sticky `pattern` matches at the cursor, which moves behind it; empty where nothing does. */
  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const token = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += token.length;
    return token;
  }
}
