/**
 * Regular expressions of Python, as `universal_checkpoint_info` names parameters with them. A checkpoint may hold any, so
 * they never reach JavaScript's own engine, which some expressions keep busy for years: all states are followed at once,
 * and the time is at most pattern times name.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';

/** Longest pattern. DeepSpeed writes one per parameter, and names are shorter. */
const MAX_LENGTH = 2 ** 12;
/** Most steps that a pattern may come to: `a{4000}{4000}` is short. */
const MAX_STEPS = 2 ** 14;
/** Deepest nesting of groups. */
const MAX_DEPTH = 32;

/** A pattern that can be asked about names. */
export interface PythonPattern {
  readonly text: string;
  /** True where `re.match` finds it: at the start of the name, which may go on behind it. */
  readonly matches: (name: string) => boolean;
}

/** One step of the search. Jumps are relative to the step itself. */
type Step =
  | { readonly kind: 'take'; readonly test: (char: string) => boolean }
  | { readonly kind: 'split'; readonly to: readonly [number, number] }
  | { readonly kind: 'jump'; readonly to: number }
  | { readonly kind: 'start' | 'end' };

/**
 * Reads a pattern.
 *
 * @throws UnshardError `pattern-unsupported` for what the names of parameters have no use for, such as a look-ahead.
 */
export function pythonPattern(text: string, file: string): PythonPattern {
  const literal = /^\^?((?:[^.^$*+?()[\]{}|\\]|\\[^A-Za-z0-9])*)(\$?)$/.exec(text);
  if (literal) {
    const start = (literal[1] ?? '').replaceAll(/\\(.)/gs, '$1');
    return { text, matches: literal[2] ? (name) => name === start : (name) => name.startsWith(start) };
  }
  const steps = new Reader(text, file).read();
  return { text, matches: (name) => search(steps, [...name]) };
}

/** Follows all states at once. */
function search(steps: readonly Step[], chars: readonly string[]): boolean {
  let states = new Set([0]);
  for (let at = 0; ; at++) {
    // A set can be added to while it is walked: this visits what is added, each state once.
    for (const state of states) {
      const step = steps[state];
      if (!step) return true;
      if (step.kind === 'split') for (const to of step.to) states.add(state + to);
      else if (step.kind === 'jump') states.add(state + step.to);
      else if (step.kind === 'start' ? at === 0 : step.kind === 'end' && at === chars.length) states.add(state + 1);
    }
    const char = chars[at];
    if (char === undefined || states.size === 0) return false;
    const next = new Set<number>();
    for (const state of states) {
      const step = steps[state];
      if (step?.kind === 'take' && step.test(char)) next.add(state + 1);
    }
    states = next;
  }
}

const isDigit = (char: string) => /^\p{Nd}$/u.test(char);
const isWord = (char: string) => /^[\p{L}\p{N}_]$/u.test(char);
const isSpace = (char: string) => /^\p{White_Space}$/u.test(char) || (char >= '\x1c' && char <= '\x1f');

/** Kinds of characters, which for Python are those of all scripts. */
const CLASSES: Readonly<Record<string, (char: string) => boolean>> = {
  d: isDigit,
  D: (char) => !isDigit(char),
  w: isWord,
  W: (char) => !isWord(char),
  s: isSpace,
  S: (char) => !isSpace(char),
};

/** Reads a pattern into steps, by recursive descent. Owns the place in the text. */
class Reader {
  readonly #text: string;
  readonly #file: string;
  #at = 0;

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  read(): Step[] {
    if (this.#text.length > MAX_LENGTH) throw this.#unsupported(`its ${this.#text.length} characters`);
    const steps = this.#alternatives(0);
    if (this.#at < this.#text.length) throw this.#unsupported('a closing bracket');
    return steps;
  }

  #alternatives(depth: number): Step[] {
    if (depth > MAX_DEPTH) throw this.#unsupported('so many groups in each other');
    const first = this.#sequence(depth);
    if (!this.#skip('|')) return first;
    const second = this.#alternatives(depth);
    return this.#limited([
      { kind: 'split', to: [1, first.length + 2] },
      ...first,
      { kind: 'jump', to: second.length + 1 },
      ...second,
    ]);
  }

  #sequence(depth: number): Step[] {
    const steps: Step[] = [];
    while (this.#at < this.#text.length && this.#text[this.#at] !== '|' && this.#text[this.#at] !== ')') {
      steps.push(...this.#repeated(this.#atom(depth)));
      this.#limited(steps);
    }
    return steps;
  }

  #atom(depth: number): Step[] {
    const char = this.#next();
    if (char === '(') return this.#group(depth);
    if (char === '[') return [{ kind: 'take', test: this.#set() }];
    if (char === '.') return [{ kind: 'take', test: (found) => found !== '\n' }];
    if (char === '^') return [{ kind: 'start' }];
    if (char === '$') return [{ kind: 'end' }];
    if (char === '\\') return this.#escape();
    if ('*+?{'.includes(char)) throw this.#unsupported(`a ${char} that repeats nothing`);
    return [{ kind: 'take', test: (found) => found === char }];
  }

  #group(depth: number): Step[] {
    if (this.#skip('?') && !this.#skip(':')) {
      const name = /^P<\w+>/.exec(this.#text.slice(this.#at, this.#at + MAX_LENGTH));
      if (!name) throw this.#unsupported('a group that looks around');
      this.#at += name[0].length;
    }
    const steps = this.#alternatives(depth + 1);
    if (!this.#skip(')')) throw this.#unsupported('a group that does not end');
    return steps;
  }

  #escape(): Step[] {
    const char = this.#next();
    const known = CLASSES[char];
    if (known) return [{ kind: 'take', test: known }];
    if (char === 'A') return [{ kind: 'start' }];
    if (char === 'Z') return [{ kind: 'end' }];
    if (/[A-Za-z0-9]/.test(char)) throw this.#unsupported(`\\${char}`);
    return [{ kind: 'take', test: (found) => found === char }];
  }

  /** A set of characters in square brackets. */
  #set(): (char: string) => boolean {
    const isNegated = this.#skip('^');
    const tests: ((char: string) => boolean)[] = [];
    do {
      const first = this.#next();
      const known = first === '\\' ? CLASSES[this.#text[this.#at] ?? ''] : undefined;
      if (known) {
        this.#at++;
        tests.push(known);
        continue;
      }
      const low = first === '\\' ? this.#next() : first;
      const isRange = this.#text[this.#at] === '-' && this.#text[this.#at + 1] !== ']';
      if (isRange) this.#at++;
      const high = isRange ? this.#next() : low;
      tests.push((char) => char >= low && char <= high);
    } while (!this.#skip(']'));
    return (char) => tests.some((test) => test(char)) !== isNegated;
  }

  /** Steps with the repetition that follows them. Whether it is greedy makes no difference to what matches. */
  #repeated(steps: readonly Step[]): readonly Step[] {
    let repeated = steps;
    for (;;) {
      const [least, most] = this.#count();
      if (most === 0) return repeated;
      this.#skip('?');
      repeated = this.#times(repeated, least, most);
    }
  }

  /** How often the next quantifier asks for; at most 0 times where there is none. */
  #count(): readonly [least: number, most: number] {
    if (this.#skip('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#skip('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#skip('?')) return [0, 1];
    if (this.#text[this.#at] !== '{') return [0, 0];
    const counts = /^\{(\d{1,5})(,?)(\d{0,5})\}/.exec(this.#text.slice(this.#at, this.#at + 16));
    if (!counts) throw this.#unsupported('a brace');
    this.#at += counts[0].length;
    const least = Number(counts[1]);
    const most = counts[2] === '' ? least : counts[3] === '' ? Number.POSITIVE_INFINITY : Number(counts[3]);
    if (most < 1 || most < least) throw this.#unsupported(counts[0]);
    return [least, most];
  }

  #times(steps: readonly Step[], least: number, most: number): Step[] {
    const copies = Number.isFinite(most) ? most : Math.max(least, 1);
    if (copies * (steps.length + 1) > MAX_STEPS) throw this.#unsupported('so many repetitions');
    const made: Step[] = [];
    for (let copy = 0; copy < copies; copy++) {
      if (copy >= least) made.push({ kind: 'split', to: [1, steps.length + 1] });
      made.push(...steps);
    }
    if (Number.isFinite(most)) return made;
    // Round again, over the split in front where the steps may be left out altogether.
    made.push({ kind: 'split', to: [-steps.length, 1] });
    if (least === 0) made[0] = { kind: 'split', to: [1, made.length] };
    return made;
  }

  #limited(steps: Step[]): Step[] {
    if (steps.length > MAX_STEPS) throw this.#unsupported('so many steps');
    return steps;
  }

  #next(): string {
    const char = String.fromCodePoint(this.#text.codePointAt(this.#at) ?? 0);
    if (this.#at >= this.#text.length) throw this.#unsupported('an end that is missing');
    this.#at += char.length;
    return char;
  }

  #skip(char: string): boolean {
    const isNext = this.#text[this.#at] === char;
    if (isNext) this.#at++;
    return isNext;
  }

  #unsupported(what: string): UnshardError {
    const pattern = this.#text.slice(0, 200);
    return new UnshardError({
      kind: 'unsupported',
      code: 'pattern-unsupported',
      message: `${this.#file}: the pattern ${JSON.stringify(pattern)} in universal_checkpoint_info has ${what}, which Unshard does not read.`,
      advice: 'Give the rule of those parameters yourself.',
      facts: { file: this.#file, pattern, what },
    });
  }
}
