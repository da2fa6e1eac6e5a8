/**
 * Checks that a value from JSON has the shape of a type, without copying it. A field that the type has not is an error, as
 * is one that is missing: what was not understood must not be passed over.
 *
 * @module
 */

/** Gives the value back with its type, or throws a `ShapeFault`. */
export type Shape<T> = (value: unknown) => T;

/** Where a value is not what it should be. */
export class ShapeFault extends Error {
  constructor(
    /** What should be there. */
    readonly expected: string,
    /** What is there, in a few words. */
    readonly found: string,
    /** The way to it, such as `.files[2].path`. */
    readonly where = '',
  ) {
    super(`${where || 'the whole'} must be ${expected}; it is ${found}`);
    this.name = 'ShapeFault';
  }
}

/** Longest piece of a value that a message shows, in characters. */
const MAX_SHOWN = 60;

type OptionalKeys<T> = { [K in keyof T]-?: object extends Pick<T, K> ? K : never }[keyof T];
type RequiredKeys<T> = Exclude<keyof T, OptionalKeys<T>>;

/** An object with exactly the fields of `T`: those it must have and those it may have. */
export function object<T extends object>(
  required: { readonly [K in RequiredKeys<T>]: Shape<T[K]> },
  optional: { readonly [K in OptionalKeys<T>]: Shape<Exclude<T[K], undefined>> },
): Shape<T> {
  const needed = new Map<string, Shape<unknown>>(Object.entries(required));
  const known = new Map<string, Shape<unknown>>([...needed, ...Object.entries<Shape<unknown>>(optional)]);
  return (value) => {
    const entries = Object.entries(plainObject(value));
    for (const [key, field] of entries) {
      const shape = known.get(key);
      if (!shape) throw new ShapeFault('absent', shown(field), `.${key}`);
      within(`.${key}`, () => shape(field));
    }
    for (const key of needed.keys())
      if (!Object.hasOwn(Object(value), key)) throw new ShapeFault('there', 'missing', `.${key}`);
    return value as T;
  };
}

/** One of several objects that are told apart by the text in one of their fields. */
export function tagged<T extends object, K extends keyof T & string>(
  key: K,
  shapes: { readonly [V in T[K] & string]: Shape<Extract<T, { readonly [P in K]: V }>> },
): Shape<T> {
  const byTag = new Map<unknown, Shape<T>>(Object.entries<Shape<T>>(shapes));
  return (value) => {
    const tag = plainObject(value)[key];
    const shape = byTag.get(tag);
    if (!shape) throw new ShapeFault(`one of ${[...byTag.keys()].join(', ')}`, shown(tag), `.${key}`);
    return shape(value);
  };
}

/** An object of one shape where it has the field `key`, else of the other. */
export function byField<A extends object, B extends object>(
  key: keyof A & string,
  a: Shape<A>,
  b: Shape<B>,
): Shape<A | B> {
  return (value) => (Object.hasOwn(plainObject(value), key) ? a(value) : b(value));
}

/** An object whose keys may be anything. */
export function dictionary<T>(item: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return (value) => {
    for (const [key, field] of Object.entries(plainObject(value))) within(`[${shown(key)}]`, () => item(field));
    return value as Readonly<Record<string, T>>;
  };
}

/** An array. */
export function array<T>(item: Shape<T>): Shape<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw new ShapeFault('an array', shown(value));
    for (const [index, element] of value.entries()) within(`[${index}]`, () => item(element));
    return value;
  };
}

/** Text without half a surrogate pair. */
export const text: Shape<string> = (value) => {
  if (typeof value === 'string' && value.isWellFormed()) return value;
  throw new ShapeFault('text', shown(value));
};

/** A finite number. */
export const finite: Shape<number> = (value) => {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new ShapeFault('a number', shown(value));
};

/** A whole number from 0 to 2^53 - 1. */
export const whole: Shape<number> = (value) => {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new ShapeFault('a whole number from 0', shown(value));
};

/** True or false. */
export const flag: Shape<boolean> = (value) => {
  if (typeof value === 'boolean') return value;
  throw new ShapeFault('true or false', shown(value));
};

/** Exactly this value. */
export function exactly<T extends string | number | boolean>(expected: T): Shape<T> {
  return (value) => {
    if (value === expected) return expected;
    throw new ShapeFault(String(expected), shown(value));
  };
}

/** One of the keys of a table. It has every member of the type, so that none can be forgotten here. */
export function oneOf<K extends string>(table: Readonly<Record<K, unknown>>): Shape<K> {
  const keys = new Set<unknown>(Object.keys(table));
  return (value) => {
    if (keys.has(value)) return value as K;
    throw new ShapeFault(`one of ${[...keys].join(', ')}`, shown(value));
  };
}

/** A shape, or null. */
export function orNull<T>(shape: Shape<T>): Shape<T | null> {
  return (value) => (value === null ? null : shape(value));
}

function plainObject(value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new ShapeFault('an object', shown(value));
}

/** Adds a step to the way of a fault. */
function within(step: string, check: () => unknown): void {
  try {
    check();
  } catch (error) {
    if (error instanceof ShapeFault) throw new ShapeFault(error.expected, error.found, step + error.where);
    throw error;
  }
}

function shown(value: unknown): string {
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  const json = JSON.stringify(value);
  return json.length > MAX_SHOWN ? `${json.slice(0, MAX_SHOWN)}…` : json;
}
