/**
 * Pickles of protocol 2 as CPython writes them, with every value remembered, so that reading them costs what reading real
 * ones does. Fast enough for state dicts of many ten thousand tensors.
 *
 * @module
 */

/** A value to pickle: an array is a list, a `Map` a dict. */
export type Value =
  | null
  | boolean
  | number
  | string
  | readonly Value[]
  | ReadonlyMap<string | number, Value>
  | Float
  | Tuple
  | Made
  | StorageRef;

/** A float, also where its value is whole. */
export class Float {
  constructor(readonly value: number) {}
}

/** A tuple. */
export class Tuple {
  constructor(readonly items: readonly Value[]) {}
}

/** What a class or function makes of its arguments. `items` are set on it as on a dict, `state` are its attributes. */
export class Made {
  constructor(
    readonly path: string,
    readonly args: readonly Value[] = [],
    readonly more: { readonly items?: ReadonlyMap<string, Value>; readonly state?: Value } = {},
  ) {}
}

/** A storage that a tensor is a view of. Its key is the number of storages that were met before it. */
export class StorageRef {
  constructor(
    readonly className: string,
    readonly elements: number,
    readonly location: string,
  ) {}
}

/** Items of a dict or list that CPython writes with one opcode. */
const BATCH = 1000;

/** A pickle and its storages, in the order of their keys. */
export interface Pickled {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly storages: readonly StorageRef[];
}

/** Pickles a value. */
export function pickleValue(value: Value): Pickled {
  // One character for each byte: appending to a string is the fastest way there is.
  let out = '\x80\x02';
  let remembered = 0;
  const memo = new Map<string, number>();
  const keys = new Map<StorageRef, number>();

  const remember = (key?: string): void => {
    const index = remembered++;
    if (key !== undefined) memo.set(key, index);
    out += index < 256 ? `q${String.fromCharCode(index)}` : `r${u32(index)}`;
  };
  const recall = (key: string): boolean => {
    const index = memo.get(key);
    if (index === undefined) return false;
    out += index < 256 ? `h${String.fromCharCode(index)}` : `j${u32(index)}`;
    return true;
  };
  const text = (string: string): void => {
    if (recall(`'${string}`)) return;
    const utf8 = Buffer.from(string).toString('latin1');
    out += `X${u32(utf8.length)}${utf8}`;
    remember(`'${string}`);
  };
  const global = (path: string): void => {
    if (recall(path)) return;
    const dot = path.lastIndexOf('.');
    out += `c${path.slice(0, dot)}\n${path.slice(dot + 1)}\n`;
    remember(path);
  };
  const tuple = (items: readonly Value[]): void => {
    if (items.length === 0) {
      out += ')';
      return;
    }
    if (items.length > 3) out += '(';
    items.forEach(write);
    out += items.length > 3 ? 't' : String.fromCharCode(0x84 + items.length);
    remember();
  };
  const setItems = (map: ReadonlyMap<string | number, Value>): void => {
    const items = [...map];
    for (let from = 0; from < items.length; from += BATCH) {
      out += '(';
      for (const [key, item] of items.slice(from, from + BATCH)) {
        write(key);
        write(item);
      }
      out += 'u';
    }
  };
  const list = (items: readonly Value[]): void => {
    out += ']';
    remember();
    for (let from = 0; from < items.length; from += BATCH) {
      out += '(';
      items.slice(from, from + BATCH).forEach(write);
      out += 'e';
    }
  };
  const storage = (ref: StorageRef): void => {
    const key = keys.get(ref) ?? keys.size;
    keys.set(ref, key);
    out += '(';
    text('storage');
    global(`torch.${ref.className}`);
    text(String(key));
    text(ref.location);
    write(ref.elements);
    out += 't';
    remember();
    out += 'Q';
  };
  const made = ({ path, args, more }: Made): void => {
    global(path);
    tuple(args);
    out += 'R';
    remember();
    if (more.items) setItems(more.items);
    if (more.state === undefined) return;
    write(more.state);
    out += 'b';
  };
  function write(item: Value): void {
    if (item === null) out += 'N';
    else if (typeof item === 'boolean') out += item ? '\x88' : '\x89';
    else if (typeof item === 'number') out += int(item);
    else if (typeof item === 'string') text(item);
    else if (item instanceof Float) out += `G${float(item.value)}`;
    else if (item instanceof Tuple) tuple(item.items);
    else if (item instanceof Made) made(item);
    else if (item instanceof StorageRef) storage(item);
    else if (item instanceof Map) {
      out += '}';
      remember();
      setItems(item);
    } else list(item as readonly Value[]);
  }

  write(value);
  return { bytes: new Uint8Array(Buffer.from(`${out}.`, 'latin1')), storages: [...keys.keys()] };
}

function u32(value: number): string {
  return String.fromCharCode(value & 255, (value >> 8) & 255, (value >> 16) & 255, value >>> 24);
}

function int(value: number): string {
  if (value >= 0 && value < 256) return `K${String.fromCharCode(value)}`;
  if (value >= 0 && value < 65_536) return `M${String.fromCharCode(value & 255, value >> 8)}`;
  if (value >= -(2 ** 31) && value < 2 ** 31) return `J${u32(value >>> 0)}`;
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  return `\x8a\x08${bytes.toString('latin1')}`;
}

function float(value: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes.toString('latin1');
}
