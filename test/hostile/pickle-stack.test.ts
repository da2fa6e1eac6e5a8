import { describe, expect, it } from 'vitest';
import { unpickle } from '../../src/formats/pickle/read.js';
import { call, dict, global, pickle, u64 } from '../helpers/pickle.js';
import { refusalOf } from '../helpers/refusal.js';

function codeOf(bytes: Uint8Array): Promise<string> {
  return refusalOf(() => unpickle(bytes, { file: 'a.pkl', persistentLoad: (id) => id })).then(({ code }) => code);
}

describe('an opcode without the values it needs', () => {
  const NEEDS: readonly (readonly [name: string, opcode: string, values: number])[] = [
    ['STOP', '.', 1],
    ['POP', '0', 1],
    ['DUP', '2', 1],
    ['BUILD', 'b', 2],
    ['APPEND', 'a', 2],
    ['SETITEM', 's', 3],
    ['TUPLE1', '\x85', 1],
    ['TUPLE2', '\x86', 2],
    ['TUPLE3', '\x87', 3],
    ['BINPERSID', 'Q', 1],
    ['PUT', 'p0\n', 1],
    ['BINPUT', 'q\x00', 1],
    ['LONG_BINPUT', 'r\x00\x00\x00\x00', 1],
    ['MEMOIZE', '\x94', 1],
    ['STACK_GLOBAL', '\x93', 2],
    ['REDUCE', 'R', 2],
    ['NEWOBJ', '\x81', 2],
    ['NEWOBJ_EX', '\x92', 3],
  ];

  it.each(NEEDS)('%s is refused', async (_, opcode, values) => {
    const short = ')'.repeat(values - 1);
    expect(await codeOf(pickle(short, opcode, '.'))).toBe('pickle-stack-underflow');
  });

  it.each(NEEDS.filter(([name]) => name !== 'POP'))('%s does not reach below a mark', async (_, opcode, values) => {
    const fenced = `${')'.repeat(values)}(${')'.repeat(values - 1)}`;
    expect(await codeOf(pickle(fenced, opcode, '.'))).toBe('pickle-stack-underflow');
  });

  it.each([
    ['APPENDS', 'e'],
    ['SETITEMS', 'u'],
    ['ADDITEMS', '\x90'],
    ['FROZENSET', '\x91'],
    ['TUPLE', 't'],
    ['LIST', 'l'],
    ['DICT', 'd'],
    ['POP_MARK', '1'],
  ])('%s is refused without a mark', async (_, opcode) => {
    expect(await codeOf(pickle(']', opcode, '.'))).toBe('pickle-no-mark');
  });

  it('a second value at the end is refused', async () => {
    expect(await codeOf(pickle('NN.'))).toBe('pickle-leftover');
    expect(await codeOf(pickle('(N.'))).toBe('pickle-leftover');
  });
});

describe('an opcode on a value of another type', () => {
  it.each([
    ['APPEND on a tuple', pickle(')Na')],
    ['APPENDS on a tuple', pickle(')(Ne')],
    ['APPEND on a dict', pickle('}Na')],
    ['APPEND on None', pickle('NNa')],
    ['SETITEM on a list', pickle(']NNs')],
    ['SETITEMS on None', pickle('N(NNu')],
    ['ADDITEMS on a list', pickle('](N\x90')],
    ['ADDITEMS on a frozenset', pickle('(\x91(N\x90')],
    ['BUILD on a list', pickle(']}b')],
    ['BUILD on a plain dict', pickle('}}b')],
    ['BUILD on None', pickle('N}b')],
    ['BUILD on a class', pickle(global('a', 'b'), '}b')],
    ['REDUCE with a list of arguments', pickle(global('a', 'b'), ']R')],
    ['REDUCE with None for arguments', pickle(global('a', 'b'), 'NR')],
    ['REDUCE of a string', pickle('\x8c\x01a)R')],
    ['NEWOBJ of a dict', pickle('})\x81')],
  ])('%s is refused', async (_, bytes) => {
    expect(await codeOf(pickle(bytes, '.'))).toBe('pickle-wrong-type');
  });

  it('a tensor cannot have items set, appended or built', async () => {
    for (const tail of ['NNs', 'Na', '}b', '(N\x90']) {
      expect(await codeOf(pickle('NQ', tail, '.'))).toBe('pickle-wrong-type');
    }
  });

  it('the same opcodes are taken on values of their own type', () => {
    const bytes = pickle('(', ']Na', '}NNs', '\x8f(N\x90', call('a', 'b'), '}b', 't.');
    expect(unpickle(bytes, { file: 'a.pkl' }).value).toHaveLength(4);
  });
});

describe('a memo index that was never set', () => {
  it.each([
    ['GET', 'g7\n'],
    ['BINGET', 'h\x07'],
    ['LONG_BINGET', 'j\x07\x00\x00\x00'],
  ])('%s is refused', async (_, opcode) => {
    expect(await codeOf(pickle(opcode, '.'))).toBe('pickle-memo');
  });

  it('a negative one is refused', async () => {
    expect(await codeOf(pickle('Np-1\n.'))).toBe('pickle-memo');
  });
});

describe('a frame', () => {
  const FRAME = '\x80\x04\x95';

  it.each([
    ['that is longer than the stream', pickle(FRAME, u64(3n), 'N.'), 'pickle-truncated'],
    ['of 2^63 bytes', pickle(FRAME, u64(2n ** 63n), 'N.'), 'pickle-limit'],
    ['that ends inside an opcode', pickle(FRAME, u64(2n), 'J\x01\x00\x00\x00.'), 'pickle-frame'],
    ['that ends inside a string', pickle(FRAME, u64(3n), '\x8c\x05hello.'), 'pickle-frame'],
    ['in a frame', pickle(FRAME, u64(11n), '\x95', u64(2n), 'N.'), 'pickle-frame'],
    ['that goes on after the end', pickle(FRAME, u64(3n), 'N.N'), 'pickle-frame'],
  ])('%s is refused', async (_, bytes, code) => {
    expect(await codeOf(bytes)).toBe(code);
  });

  it('that ends with the pickle is taken', () => {
    expect(unpickle(pickle(FRAME, u64(2n), 'N.'), { file: 'a.pkl' }).value).toBeNull();
  });
});

describe('a protocol', () => {
  it.each([
    ['above 5', pickle('\x80\x06N.')],
    ['of 255', pickle('\x80\xffN.')],
    ['named twice', pickle('\x80\x02\x80\x02N.')],
    ['named after a value', pickle('N\x80\x02.')],
  ])('%s is refused', async (_, bytes) => {
    expect(await codeOf(bytes)).toBe('pickle-protocol');
  });

  it('that is not named is protocol 0 or 1', () => {
    expect(unpickle(pickle('N.'), { file: 'a.pkl' }).value).toBeNull();
  });
});

describe('keys of a dict', () => {
  it.each([
    ['the same string', dict({ a: 'N' })],
    ['the same number', pickle('}K\x01Ns')],
    ['a byte string of Python 2 and the same text', pickle('}U\x01aNs')],
  ])('%s twice is refused', async (_, bytes) => {
    const again = bytes.subarray(1);
    expect(await codeOf(pickle(bytes, again, '.'))).toBe('pickle-duplicate-key');
  });

  it('twice in the pairs of a constructor are refused', async () => {
    expect(await codeOf(pickle(call('collections', 'OrderedDict', ']](K\x01Nea](K\x01Nea'), '.'))).toBe(
      'pickle-duplicate-key',
    );
  });

  it.each([
    ['a list', ']'],
    ['a dict', '}'],
    ['a set', '\x8f'],
  ])('that are %s are refused, as in a set', async (_, key) => {
    expect(await codeOf(pickle('}', key, 'Ns.'))).toBe('pickle-unhashable');
    expect(await codeOf(pickle('\x8f(', key, '\x90.'))).toBe('pickle-unhashable');
    expect(await codeOf(pickle(call('builtins', 'set', `](${key}e`), '.'))).toBe('pickle-unhashable');
  });

  it('that are tuples, frozensets, bytes, numbers or None are taken', () => {
    const bytes = pickle('}(', ')N', '(\x91N', 'C\x00N', 'G', [0x7f, 0xf8, 0, 0, 0, 0, 0, 0], 'N', 'NN', 'u.');
    expect(unpickle(bytes, { file: 'a.pkl' }).value).toHaveProperty('size', 5);
  });

  it('without a value are refused', async () => {
    expect(await codeOf(pickle('}(Nu.'))).toBe('pickle-odd-items');
    expect(await codeOf(pickle('(Nd.'))).toBe('pickle-odd-items');
  });
});

it('a persistent id is refused where nothing is kept outside of the pickle', async () => {
  expect(await refusalOf(() => unpickle(pickle('NQ.'), { file: 'a.pkl' }))).toMatchObject({
    code: 'pickle-persistent-id',
  });
});
