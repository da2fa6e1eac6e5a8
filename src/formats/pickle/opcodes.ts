/**
 * The opcodes of pickle protocols 0 to 5: code, name, and what the interpreter does. The names are those of Python's
 * `pickletools`.
 *
 * @module
 */

import { MAX_GLOBAL_NAME_BYTES, MAX_NUMBER_BYTES, MAX_STRING_BYTES } from './limits.js';
import type { Machine } from './machine.js';
import type { PickleStream } from './stream.js';
import {
  decodeLatin1,
  decodeLong,
  decodeRawUnicode,
  decodeRepr,
  decodeUtf8,
  parseFloat64,
  parseInteger,
  textOrBytes,
} from './text.js';
import type { PyValue } from './values.js';

/** Ends the pickle; the loop handles it. */
export const STOP = 0x2e;

/** Newest protocol there is. */
const NEWEST_PROTOCOL = 5;

/** One opcode. */
export interface Opcode {
  readonly name: string;
  readonly run: (machine: Machine) => void;
}

/** Opcodes by code; undefined where there is none. */
export const OPCODES: readonly (Opcode | undefined)[] = table([
  [0x80, 'PROTO', (m) => protocol(m.stream)],
  [0x95, 'FRAME', (m) => m.stream.enterFrame(m.stream.u64())],
  [STOP, 'STOP', (m) => m.stream.leaveFrame()],

  [0x28, 'MARK', (m) => m.mark()],
  [0x30, 'POP', (m) => m.drop()],
  [0x31, 'POP_MARK', (m) => void m.popMark()],
  [0x32, 'DUP', (m) => m.push(m.top())],

  [0x4e, 'NONE', (m) => m.push(null)],
  [0x88, 'NEWTRUE', (m) => m.push(true)],
  [0x89, 'NEWFALSE', (m) => m.push(false)],
  [0x49, 'INT', (m) => m.push(intOrBool(m.stream))],
  [0x4a, 'BININT', (m) => m.push(m.stream.i32())],
  [0x4b, 'BININT1', (m) => m.push(m.stream.u8())],
  [0x4d, 'BININT2', (m) => m.push(m.stream.u16())],
  [0x4c, 'LONG', (m) => m.push(longLine(m.stream))],
  [0x8a, 'LONG1', (m) => m.push(long(m.stream, m.stream.u8()))],
  [0x8b, 'LONG4', (m) => m.push(long(m.stream, m.stream.i32()))],
  [0x46, 'FLOAT', (m) => m.push(number(m.stream, parseFloat64(numberLine(m.stream))))],
  [0x47, 'BINFLOAT', (m) => m.push(m.stream.f64())],

  [0x53, 'STRING', (m) => m.push(textOrBytes(text(m.stream, decodeRepr(line(m.stream)))))],
  [0x54, 'BINSTRING', (m) => m.push(textOrBytes(m.stream.string(length(m.stream, m.stream.i32()))))],
  [0x55, 'SHORT_BINSTRING', (m) => m.push(textOrBytes(m.stream.string(m.stream.u8())))],
  [0x56, 'UNICODE', (m) => m.push(text(m.stream, decodeRawUnicode(line(m.stream))))],
  [0x58, 'BINUNICODE', (m) => m.push(unicode(m.stream, m.stream.u32()))],
  [0x8c, 'SHORT_BINUNICODE', (m) => m.push(unicode(m.stream, m.stream.u8()))],
  [0x8d, 'BINUNICODE8', (m) => m.push(unicode(m.stream, m.stream.u64()))],
  [0x42, 'BINBYTES', (m) => m.pushBytes(m.stream.string(m.stream.u32()))],
  [0x43, 'SHORT_BINBYTES', (m) => m.pushBytes(m.stream.string(m.stream.u8()))],
  [0x8e, 'BINBYTES8', (m) => m.pushBytes(m.stream.string(m.stream.u64()))],
  [0x96, 'BYTEARRAY8', (m) => m.pushBytes(m.stream.string(m.stream.u64()))],

  [0x5d, 'EMPTY_LIST', (m) => m.pushList([])],
  [0x6c, 'LIST', (m) => m.pushList(m.popMark())],
  [0x61, 'APPEND', (m) => m.append(pop(m, 1))],
  [0x65, 'APPENDS', (m) => m.append(m.popMark())],
  [0x29, 'EMPTY_TUPLE', (m) => m.pushTuple([])],
  [0x85, 'TUPLE1', (m) => m.pushTuple(pop(m, 1))],
  [0x86, 'TUPLE2', (m) => m.pushTuple(pop(m, 2))],
  [0x87, 'TUPLE3', (m) => m.pushTuple(pop(m, 3))],
  [0x74, 'TUPLE', (m) => m.pushTuple(m.popMark())],
  [0x7d, 'EMPTY_DICT', (m) => m.pushDict([])],
  [0x64, 'DICT', (m) => m.pushDict(m.popMark())],
  [0x73, 'SETITEM', (m) => m.setItems(pop(m, 2))],
  [0x75, 'SETITEMS', (m) => m.setItems(m.popMark())],
  [0x8f, 'EMPTY_SET', (m) => m.pushSet()],
  [0x90, 'ADDITEMS', (m) => m.add(m.popMark())],
  [0x91, 'FROZENSET', (m) => m.pushFrozenSet(m.popMark())],

  [0x70, 'PUT', (m) => m.remember(memoLine(m.stream))],
  [0x71, 'BINPUT', (m) => m.remember(m.stream.u8())],
  [0x72, 'LONG_BINPUT', (m) => m.remember(m.stream.u32())],
  [0x94, 'MEMOIZE', (m) => m.remember()],
  [0x67, 'GET', (m) => m.recall(memoLine(m.stream))],
  [0x68, 'BINGET', (m) => m.recall(m.stream.u8())],
  [0x6a, 'LONG_BINGET', (m) => m.recall(m.stream.u32())],

  [0x63, 'GLOBAL', (m) => m.pushGlobal(globalLine(m.stream), globalLine(m.stream))],
  [0x93, 'STACK_GLOBAL', stackGlobal],
  [0x52, 'REDUCE', reduce],
  [0x81, 'NEWOBJ', reduce],
  [0x92, 'NEWOBJ_EX', reduceWithKeywords],
  [0x62, 'BUILD', (m) => m.build(m.pop())],
  [0x51, 'BINPERSID', (m) => m.persistent(m.pop())],

  [0x50, 'PERSID', refuse],
  [0x69, 'INST', refuse],
  [0x6f, 'OBJ', refuse],
  [0x82, 'EXT1', refuse],
  [0x83, 'EXT2', refuse],
  [0x84, 'EXT4', refuse],
  [0x97, 'NEXT_BUFFER', refuse],
  [0x98, 'READONLY_BUFFER', refuse],
]);

function table(rows: readonly (readonly [code: number, name: string, run: (machine: Machine) => void])[]): Opcode[] {
  const opcodes = new Array<Opcode>(256);
  for (const [code, name, run] of rows) opcodes[code] = { name, run };
  return opcodes;
}

function protocol(stream: PickleStream): void {
  if (stream.opcodeAt !== stream.start) stream.fail('pickle-protocol', 'the protocol is named in the middle');
  const found = stream.u8();
  if (found > NEWEST_PROTOCOL) {
    stream.fail('pickle-protocol', `protocol ${found} is newer than ${NEWEST_PROTOCOL}`, { found });
  }
}

/** Instances of Python 2, registered extensions, ids that are text and buffers kept elsewhere: no torch file has any. */
function refuse(machine: Machine): never {
  machine.stream.fail('pickle-refused-opcode', 'no checkpoint uses this opcode');
}

/** Takes the top `count` values, lowest first. */
function pop(machine: Machine, count: number): PyValue[] {
  const values: PyValue[] = [];
  while (values.length < count) values.push(machine.pop());
  return values.reverse();
}

function reduce(machine: Machine): void {
  const args = machine.pop();
  machine.reduce(machine.pop(), args);
}

function reduceWithKeywords(machine: Machine): void {
  const keywords = machine.pop();
  const args = machine.pop();
  machine.reduce(machine.pop(), args, keywords);
}

function stackGlobal(machine: Machine): void {
  const name = machine.pop();
  const module = machine.pop();
  if (typeof module !== 'string' || typeof name !== 'string') {
    machine.stream.fail('pickle-global', 'the name of a global must be two strings');
  }
  for (const part of [module, name]) {
    machine.stream.limit('characters in the name of a global', part.length, MAX_GLOBAL_NAME_BYTES);
  }
  machine.pushGlobal(module, name);
}

function globalLine(stream: PickleStream): string {
  return text(stream, decodeUtf8(stream.line(MAX_GLOBAL_NAME_BYTES)));
}

function unicode(stream: PickleStream, length: number): string {
  return text(stream, decodeUtf8(stream.string(length)));
}

function line(stream: PickleStream): string {
  return decodeLatin1(stream.line(MAX_STRING_BYTES));
}

function numberLine(stream: PickleStream): string {
  return decodeLatin1(stream.line(MAX_NUMBER_BYTES));
}

function text<T extends string | Uint8Array>(stream: PickleStream, decoded: T | undefined): T {
  if (decoded === undefined) stream.fail('pickle-bad-text', 'its text is not encoded as Python encodes it');
  return decoded;
}

function number<T extends number | bigint>(stream: PickleStream, parsed: T | undefined): T {
  if (parsed === undefined) stream.fail('pickle-bad-number', 'its number is not written as Python writes it');
  return parsed;
}

/** Protocols 0 and 1 have no booleans: they are the ints that start with a zero. */
function intOrBool(stream: PickleStream): number | bigint | boolean {
  const digits = numberLine(stream);
  if (digits === '00' || digits === '01') return digits === '01';
  return number(stream, parseInteger(digits));
}

function longLine(stream: PickleStream): number | bigint {
  return number(stream, parseInteger(numberLine(stream).replace(/L$/, '')));
}

function long(stream: PickleStream, bytes: number): number | bigint {
  stream.limit('bytes of one number', length(stream, bytes), MAX_NUMBER_BYTES);
  return decodeLong(stream.take(bytes));
}

/** A length that Python stores with a sign. */
function length(stream: PickleStream, found: number): number {
  if (found < 0) stream.fail('pickle-bad-length', `the length is ${found}`, { found });
  return found;
}

function memoLine(stream: PickleStream): number {
  const index = number(stream, parseInteger(numberLine(stream)));
  if (typeof index !== 'number' || index < 0) stream.fail('pickle-memo', `a value cannot be remembered as ${index}`);
  return index;
}
