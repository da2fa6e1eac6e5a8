/**
 * Reads a pickle as data. The interpreter knows every opcode of protocols 0 to 5 and executes nothing: a class or
 * function is a name, and a call of one is a record of that name and its arguments.
 *
 * @module
 */

import type { Reducer } from './construct.js';
import { MAX_OPCODES, MAX_PICKLE_BYTES } from './limits.js';
import { Machine } from './machine.js';
import { OPCODES, STOP } from './opcodes.js';
import { PickleStream } from './stream.js';
import type { PyGlobal, PyValue } from './values.js';

export type { Reducer } from './construct.js';

/** How to read a pickle. */
export interface UnpickleOptions {
  /** Name for messages. */
  readonly file: string;
  /** First byte of the pickle. Default 0. */
  readonly start?: number;
  /** Gives the value that a persistent id stands for. Without it a persistent id is an error. */
  readonly persistentLoad?: (id: PyValue) => PyValue;
  /** What to make of calls, by `module.name` of what is called. Others stay `PyObject`s. */
  readonly reducers?: ReadonlyMap<string, Reducer>;
  /** A byte to look out for. */
  readonly watched?: number | undefined;
}

/** A pickle that was read. */
export interface Unpickled {
  readonly value: PyValue;
  /** The byte after the pickle. Others may follow. */
  readonly end: number;
  /** Every class and function that the pickle names, by `module.name`. */
  readonly globals: ReadonlyMap<string, PyGlobal>;
  /** Number of `PyObject`s. */
  readonly uninterpreted: number;
  /** Whether the watched byte is a part of a string, so that another one there changes that string and nothing else. */
  readonly isWatchedInString: boolean;
}

/**
 * Reads the pickle that starts at `start`.
 *
 * @throws UnshardError of kind `bad-file`. Its code is `pickle-truncated` where `bytes` end before the pickle does, so
 * that a caller who has read only a part can come back with more; a code of its own names every other defect.
 */
export function unpickle(bytes: Uint8Array, options: UnpickleOptions): Unpickled {
  const stream: PickleStream = new PickleStream(bytes, options.start ?? 0, options.file, options.watched);
  stream.limit('bytes of one pickle', bytes.length, MAX_PICKLE_BYTES);
  const machine = new Machine(stream, options);
  for (let count = 1; ; count++) {
    const code = stream.opcode();
    const opcode = OPCODES[code];
    if (!opcode) stream.fail('pickle-bad-opcode', `there is no opcode ${code}`, { found: code });
    stream.opcodeName = opcode.name;
    if (count > MAX_OPCODES) stream.limit('opcodes', count, MAX_OPCODES);
    opcode.run(machine);
    if (code === STOP) break;
  }
  const value = machine.finish();
  const { globals, uninterpreted } = machine;
  return { value, end: stream.at, globals, uninterpreted, isWatchedInString: stream.sawString };
}
