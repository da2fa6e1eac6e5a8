import { describe, expect, it } from 'vitest';
import { type Reducer, unpickle } from '../../../../src/formats/pickle/read.js';
import { PyGlobal, PyObject, type PyValue } from '../../../../src/formats/pickle/values.js';
import { call, dict, global, int, type PicklePart, pickle, tuple, u32, u64, unicode } from '../../../helpers/pickle.js';

function read(...parts: readonly PicklePart[]): PyValue {
  return unpickle(pickle(...parts), { file: 'test.pkl' }).value;
}

/**
 * One object as CPython 3.11 pickles it, `pickle.dumps(value, protocol)`:
 *
 *     x = [1]; cycle = []; cycle.append(cycle)
 *     value = {"ints": [0, 255, 256, 65535, 65536, -1, 2**31-1, 2**31, -2**31, -2**63, 2**70],
 *       "floats": [0.1, -0.0, math.inf, -math.inf, 1e300], "text": "größe 😀\n\\u0041", "flags": [True, False, None],
 *       "tuples": [(), (1,), (1,2), (1,2,3), (1,2,3,4)], "set": {7}, "frozen": frozenset([8]), "bytes": b"\x00\xff",
 *       "bytearray": bytearray(b"ab"), "ordered": OrderedDict(a=1), "shared": [x, x], "cycle": cycle, "surrogate": "\ud800"}
 */
const BY_PROTOCOL = [
  'KGRwMApWaW50cwpwMQoobHAyCkkwCmFJMjU1CmFJMjU2CmFJNjU1MzUKYUk2NTUzNgphSS0xCmFJMjE0NzQ4MzY0NwphTDIxNDc0ODM2NDhMCmFJLTIxNDc0ODM2NDgKYUwtOTIyMzM3MjAzNjg1NDc3NTgwOEwKYUwxMTgwNTkxNjIwNzE3NDExMzAzNDI0TAphc1ZmbG9hdHMKcDMKKGxwNApGMC4xCmFGLTAuMAphRmluZgphRi1pbmYKYUYxZSszMDAKYXNWdGV4dApwNQpWZ3L232UgXFUwMDAxZjYwMFx1MDAwYVx1MDA1Y3UwMDQxCnA2CnNWZmxhZ3MKcDcKKGxwOApJMDEKYUkwMAphTmFzVnR1cGxlcwpwOQoobHAxMAoodGEoSTEKdHAxMQphKEkxCkkyCnRwMTIKYShJMQpJMgpJMwp0cDEzCmEoSTEKSTIKSTMKSTQKdHAxNAphc1ZzZXQKcDE1CmNfX2J1aWx0aW5fXwpzZXQKcDE2CigobHAxNwpJNwphdHAxOApScDE5CnNWZnJvemVuCnAyMApjX19idWlsdGluX18KZnJvemVuc2V0CnAyMQooKGxwMjIKSTgKYXRwMjMKUnAyNApzVmJ5dGVzCnAyNQpjX2NvZGVjcwplbmNvZGUKcDI2CihWXHUwMDAw/wpwMjcKVmxhdGluMQpwMjgKdHAyOQpScDMwCnNWYnl0ZWFycmF5CnAzMQpjX19idWlsdGluX18KYnl0ZWFycmF5CnAzMgooZzI2CihWYWIKcDMzCmcyOAp0cDM0ClJwMzUKdHAzNgpScDM3CnNWb3JkZXJlZApwMzgKY2NvbGxlY3Rpb25zCk9yZGVyZWREaWN0CnAzOQoodFJwNDAKVmEKcDQxCkkxCnNzVnNoYXJlZApwNDIKKGxwNDMKKGxwNDQKSTEKYWFnNDQKYXNWY3ljbGUKcDQ1CihscDQ2Cmc0Ngphc1ZzdXJyb2dhdGUKcDQ3ClZcdWQ4MDAKcDQ4CnMu',
  'fXEAKFgEAAAAaW50c3EBXXECKEsAS/9NAAFN//9KAAABAEr/////Sv///39MMjE0NzQ4MzY0OEwKSgAAAIBMLTkyMjMzNzIwMzY4NTQ3NzU4MDhMCkwxMTgwNTkxNjIwNzE3NDExMzAzNDI0TAplWAYAAABmbG9hdHNxA11xBChHP7mZmZmZmZpHgAAAAAAAAABHf/AAAAAAAABH//AAAAAAAABHfjfkPIgAdZxlWAQAAAB0ZXh0cQVYEwAAAGdyw7bDn2Ug8J+YgApcdTAwNDFxBlgFAAAAZmxhZ3NxB11xCChJMDEKSTAwCk5lWAYAAAB0dXBsZXNxCV1xCigpKEsBdHELKEsBSwJ0cQwoSwFLAksDdHENKEsBSwJLA0sEdHEOZVgDAAAAc2V0cQ9jX19idWlsdGluX18Kc2V0CnEQKF1xEUsHYXRxElJxE1gGAAAAZnJvemVucRRjX19idWlsdGluX18KZnJvemVuc2V0CnEVKF1xFksIYXRxF1JxGFgFAAAAYnl0ZXNxGWNfY29kZWNzCmVuY29kZQpxGihYAwAAAADDv3EbWAYAAABsYXRpbjFxHHRxHVJxHlgJAAAAYnl0ZWFycmF5cR9jX19idWlsdGluX18KYnl0ZWFycmF5CnEgKGgaKFgCAAAAYWJxIWgcdHEiUnEjdHEkUnElWAcAAABvcmRlcmVkcSZjY29sbGVjdGlvbnMKT3JkZXJlZERpY3QKcScpUnEoWAEAAABhcSlLAXNYBgAAAHNoYXJlZHEqXXErKF1xLEsBYWgsZVgFAAAAY3ljbGVxLV1xLmguYVgJAAAAc3Vycm9nYXRlcS9YAwAAAO2ggHEwdS4=',
  'gAJ9cQAoWAQAAABpbnRzcQFdcQIoSwBL/00AAU3//0oAAAEASv////9K////f4oFAAAAgABKAAAAgIoIAAAAAAAAAICKCQAAAAAAAAAAQGVYBgAAAGZsb2F0c3EDXXEEKEc/uZmZmZmZmkeAAAAAAAAAAEd/8AAAAAAAAEf/8AAAAAAAAEd+N+Q8iAB1nGVYBAAAAHRleHRxBVgTAAAAZ3LDtsOfZSDwn5iAClx1MDA0MXEGWAUAAABmbGFnc3EHXXEIKIiJTmVYBgAAAHR1cGxlc3EJXXEKKClLAYVxC0sBSwKGcQxLAUsCSwOHcQ0oSwFLAksDSwR0cQ5lWAMAAABzZXRxD2NfX2J1aWx0aW5fXwpzZXQKcRBdcRFLB2GFcRJScRNYBgAAAGZyb3plbnEUY19fYnVpbHRpbl9fCmZyb3plbnNldApxFV1xFksIYYVxF1JxGFgFAAAAYnl0ZXNxGWNfY29kZWNzCmVuY29kZQpxGlgDAAAAAMO/cRtYBgAAAGxhdGluMXEchnEdUnEeWAkAAABieXRlYXJyYXlxH2NfX2J1aWx0aW5fXwpieXRlYXJyYXkKcSBoGlgCAAAAYWJxIWgchnEiUnEjhXEkUnElWAcAAABvcmRlcmVkcSZjY29sbGVjdGlvbnMKT3JkZXJlZERpY3QKcScpUnEoWAEAAABhcSlLAXNYBgAAAHNoYXJlZHEqXXErKF1xLEsBYWgsZVgFAAAAY3ljbGVxLV1xLmguYVgJAAAAc3Vycm9nYXRlcS9YAwAAAO2ggHEwdS4=',
  'gAN9cQAoWAQAAABpbnRzcQFdcQIoSwBL/00AAU3//0oAAAEASv////9K////f4oFAAAAgABKAAAAgIoIAAAAAAAAAICKCQAAAAAAAAAAQGVYBgAAAGZsb2F0c3EDXXEEKEc/uZmZmZmZmkeAAAAAAAAAAEd/8AAAAAAAAEf/8AAAAAAAAEd+N+Q8iAB1nGVYBAAAAHRleHRxBVgTAAAAZ3LDtsOfZSDwn5iAClx1MDA0MXEGWAUAAABmbGFnc3EHXXEIKIiJTmVYBgAAAHR1cGxlc3EJXXEKKClLAYVxC0sBSwKGcQxLAUsCSwOHcQ0oSwFLAksDSwR0cQ5lWAMAAABzZXRxD2NidWlsdGlucwpzZXQKcRBdcRFLB2GFcRJScRNYBgAAAGZyb3plbnEUY2J1aWx0aW5zCmZyb3plbnNldApxFV1xFksIYYVxF1JxGFgFAAAAYnl0ZXNxGUMCAP9xGlgJAAAAYnl0ZWFycmF5cRtjYnVpbHRpbnMKYnl0ZWFycmF5CnEcQwJhYnEdhXEeUnEfWAcAAABvcmRlcmVkcSBjY29sbGVjdGlvbnMKT3JkZXJlZERpY3QKcSEpUnEiWAEAAABhcSNLAXNYBgAAAHNoYXJlZHEkXXElKF1xJksBYWgmZVgFAAAAY3ljbGVxJ11xKGgoYVgJAAAAc3Vycm9nYXRlcSlYAwAAAO2ggHEqdS4=',
  'gASVlQEAAAAAAAB9lCiMBGludHOUXZQoSwBL/00AAU3//0oAAAEASv////9K////f4oFAAAAgABKAAAAgIoIAAAAAAAAAICKCQAAAAAAAAAAQGWMBmZsb2F0c5RdlChHP7mZmZmZmZpHgAAAAAAAAABHf/AAAAAAAABH//AAAAAAAABHfjfkPIgAdZxljAR0ZXh0lIwTZ3LDtsOfZSDwn5iAClx1MDA0MZSMBWZsYWdzlF2UKIiJTmWMBnR1cGxlc5RdlCgpSwGFlEsBSwKGlEsBSwJLA4eUKEsBSwJLA0sEdJRljANzZXSUj5QoSweQjAZmcm96ZW6UKEsIkZSMBWJ5dGVzlEMCAP+UjAlieXRlYXJyYXmUjAhidWlsdGluc5SMCWJ5dGVhcnJheZSTlEMCYWKUhZRSlIwHb3JkZXJlZJSMC2NvbGxlY3Rpb25zlIwLT3JkZXJlZERpY3SUk5QpUpSMAWGUSwFzjAZzaGFyZWSUXZQoXZRLAWFoJGWMBWN5Y2xllF2UaCZhjAlzdXJyb2dhdGWUjAPtoICUdS4=',
  'gAWVfwEAAAAAAAB9lCiMBGludHOUXZQoSwBL/00AAU3//0oAAAEASv////9K////f4oFAAAAgABKAAAAgIoIAAAAAAAAAICKCQAAAAAAAAAAQGWMBmZsb2F0c5RdlChHP7mZmZmZmZpHgAAAAAAAAABHf/AAAAAAAABH//AAAAAAAABHfjfkPIgAdZxljAR0ZXh0lIwTZ3LDtsOfZSDwn5iAClx1MDA0MZSMBWZsYWdzlF2UKIiJTmWMBnR1cGxlc5RdlCgpSwGFlEsBSwKGlEsBSwJLA4eUKEsBSwJLA0sEdJRljANzZXSUj5QoSweQjAZmcm96ZW6UKEsIkZSMBWJ5dGVzlEMCAP+UjAlieXRlYXJyYXmUlgIAAAAAAAAAYWKUjAdvcmRlcmVklIwLY29sbGVjdGlvbnOUjAtPcmRlcmVkRGljdJSTlClSlIwBYZRLAXOMBnNoYXJlZJRdlChdlEsBYWgfZYwFY3ljbGWUXZRoIWGMCXN1cnJvZ2F0ZZSMA+2ggJR1Lg==',
];

describe('unpickle reads what CPython pickles', () => {
  it.each(BY_PROTOCOL.map((base64, protocol) => ({ protocol, base64 })))('in protocol $protocol', ({ base64 }) => {
    const bytes = new Uint8Array(Buffer.from(base64, 'base64'));
    const { value, end, uninterpreted } = unpickle(bytes, { file: 'test.pkl' });
    if (!(value instanceof Map)) throw new Error('no dict');
    const { shared, cycle, ...rest } = Object.fromEntries(value);
    expect(rest).toStrictEqual({
      ints: [0, 255, 256, 65535, 65536, -1, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), -(2n ** 63n), 2n ** 70n],
      floats: [0.1, -0, Infinity, -Infinity, 1e300],
      text: 'größe 😀\n\\u0041',
      flags: [true, false, null],
      tuples: [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4]],
      set: new Set([7]),
      frozen: new Set([8]),
      bytes: Uint8Array.of(0, 255),
      bytearray: Uint8Array.of(97, 98),
      ordered: new Map([['a', 1]]),
      surrogate: '\ud800',
    });
    expect(shared).toEqual([[1], [1]]);
    expect(shared[0]).toBe(shared[1]);
    expect(cycle[0]).toBe(cycle);
    expect(end).toBe(bytes.length);
    expect(uninterpreted).toBe(0);
  });

  it('keeps an object of an unknown class as a record', () => {
    // pickle.dumps([l, D(a=1)], 2) with `class L(list)`, `class D(dict)`, l = L([1, 2]), l.x = 1
    const base64 =
      'gAJdcQAoY19fbWFpbl9fCkwKcQEpgXECKEsBSwJlfXEDWAEAAAB4cQRLAXNiY19fbWFpbl9fCkQKcQUpgXEGWAEAAABhcQdLAXNlLg==';
    const { value, globals, uninterpreted } = unpickle(new Uint8Array(Buffer.from(base64, 'base64')), { file: 't' });
    const [list, dictionary] = value as PyObject[];
    expect(list).toMatchObject({ type: { path: '__main__.L' }, args: [], items: [1, 2], state: new Map([['x', 1]]) });
    expect(dictionary).toMatchObject({ type: { path: '__main__.D' }, entries: new Map([['a', 1]]), state: undefined });
    expect([...globals.keys()]).toEqual(['__main__.L', '__main__.D']);
    expect(uninterpreted).toBe(2);
  });

  it('keeps an object whose class lies in a class as a record of the call that finds it', () => {
    // pickle.dumps(A.B(), 2) with `class A: class B: pass`
    const base64 = 'gAJjX19idWlsdGluX18KZ2V0YXR0cgpxAGNfX21haW5fXwpBCnEBWAEAAABCcQKGcQNScQQpgXEFLg==';
    const { value } = unpickle(new Uint8Array(Buffer.from(base64, 'base64')), { file: 't' });
    expect(value).toBeInstanceOf(PyObject);
    const { type, args } = value as PyObject;
    expect(type.path).toBe('__builtin__.getattr');
    expect(args[0]).toMatchObject({ args: [{ path: '__main__.A' }, 'B'] });
  });

  it('keeps keyword arguments of a constructor', () => {
    // pickle.dumps(C(), 4) with `class C: def __getnewargs_ex__(self): return (1,), {"k": 2}`
    const base64 = 'gASVIQAAAAAAAACMCF9fbWFpbl9flIwBQ5STlEsBhZR9lIwBa5RLAnOSlC4=';
    const { value } = unpickle(new Uint8Array(Buffer.from(base64, 'base64')), { file: 't' });
    expect(value).toMatchObject({ type: { path: '__main__.C' }, args: [[1], new Map([['k', 2]])] });
  });
});

describe('unpickle reads byte strings of Python 2', () => {
  it('as text where they are ASCII, else as bytes', () => {
    expect(read('\x80\x02U\x01a.')).toBe('a');
    expect(read('\x80\x02T', u32(2), 'ab.')).toBe('ab');
    expect(read('\x80\x02U\x01\xe9.')).toEqual(Uint8Array.of(0xe9));
  });

  it('from their repr in protocol 0', () => {
    expect(read(String.raw`S'it\'s \\ "\x41"\n'`, '\n.')).toBe('it\'s \\ "A"\n');
    expect(read(String.raw`S"it's\t\xe9"`, '\n.')).toEqual(
      Uint8Array.of(...[..."it's\t\u00e9"].map((c) => c.charCodeAt(0))),
    );
  });

  it('as keys, which are the same keys as text', () => {
    expect(read('\x80\x02}U\x01aK\x01s.')).toEqual(new Map([['a', 1]]));
  });

  it('in a dict of the constructor with pairs, as Python 2 pickles an OrderedDict', () => {
    expect(read(call('collections', 'OrderedDict', '](](U\x01aK\x01e](U\x01bK\x02ee'), '.')).toEqual(
      new Map([
        ['a', 1],
        ['b', 2],
      ]),
    );
  });
});

describe('unpickle reads numbers', () => {
  it.each([
    ['INT', 'I-7\n', -7],
    ['INT that is a bool', 'I01\n', true],
    ['INT beyond 2^53', 'I9007199254740993\n', 9007199254740993n],
    ['LONG without its suffix', 'L12\n', 12],
    ['LONG1 of no bytes', '\x8a\x00', 0],
    ['LONG1 of one byte', '\x8a\x01\xff', -1],
    ['LONG1 of the largest exact integer', '\x8a\x07\xff\xff\xff\xff\xff\xff\x1f', Number.MAX_SAFE_INTEGER],
    ['LONG1 of the next one', '\x8a\x07\x00\x00\x00\x00\x00\x00\x20', 2n ** 53n],
    ['LONG4', '\x8b\x02\x00\x00\x00\x00\x80', -32768],
    ['FLOAT', 'F1.5e3\n', 1500],
    ['FLOAT that is no number', 'Fnan\n', Number.NaN],
  ])('%s', (_, bytes, expected) => {
    expect(read(bytes, '.')).toBe(expected);
  });
});

describe('unpickle follows the stack machine', () => {
  it.each([
    ['DUP', 'K\x012\x86.', [1, 1]],
    ['POP', 'K\x01K\x020.', 1],
    ['POP of a mark', 'K\x01(0.', 1],
    ['POP_MARK', 'K\x01(K\x02K\x031.', 1],
    ['LIST', '(K\x01K\x02l.', [1, 2]],
    ['DICT', '(K\x01K\x02d.', new Map([[1, 2]])],
    ['an APPENDS of nothing', '](e.', []],
    ['a memo index that is used twice', 'K\x01q\x000K\x02q\x000h\x00.', 2],
    ['the largest memo index', 'K\x01r\xff\xff\xff\xff0j\xff\xff\xff\xff.', 1],
    ['memo indexes out of order', 'K\x01q\x020K\x02q\x000K\x03q\x010K\x04q\x02\x940h\x03h\x02\x86.', [4, 4]],
    ['a MEMOIZE after a PUT', 'K\x01q\x05\x940h\x01.', 1],
    ['BINUNICODE8', ['\x8d', u64(1n), 'a.'], 'a'],
    ['BINBYTES', ['B', u32(1), '\xff.'], Uint8Array.of(255)],
    ['BINBYTES8', ['\x8e', u64(1n), '\xff.'], Uint8Array.of(255)],
    ['opcodes between frames', ['\x80\x04\x95', u64(2n), 'K\x01', 'K\x02', '\x95', u64(2n), '\x86.'], [1, 2]],
  ] as const)('%s', (_, bytes, expected) => {
    expect(read(...(typeof bytes === 'string' ? [bytes] : bytes))).toEqual(expected);
  });

  it('takes the name of a STACK_GLOBAL from the memo', () => {
    const value = read('\x8c\x01a\x94\x8c\x01b\x9400h\x00h\x01\x93.');
    expect(value).toBeInstanceOf(PyGlobal);
    expect(value).toMatchObject({ module: 'a', name: 'b' });
  });

  it('gives one object for a global that is named twice', () => {
    const [first, second] = read('(', global('a', 'b'), global('a', 'b'), 't.') as PyValue[];
    expect(first).toBe(second);
  });
});

describe("unpickle makes plain values of Python's own classes", () => {
  it.each([
    ['a dict of another', call('builtins', 'dict', dict({ a: int(1) })), new Map([['a', 1]])],
    ['a Counter', call('collections', 'Counter', dict({ a: int(2) })), new Map([['a', 2]])],
    [
      'a defaultdict',
      [call('collections', 'defaultdict', global('builtins', 'list')), 'K\x01K\x02s'],
      new Map([[1, 2]]),
    ],
    ['a list of a tuple', call('builtins', 'list', 'K\x01\x85'), [1]],
    ['a tuple of a list', call('__builtin__', 'tuple', ']K\x01a'), [1]],
    ['no bytes', call('__builtin__', 'bytes'), new Uint8Array(0)],
    ['an empty set', call('__builtin__', 'set'), new Set()],
    ['NEWOBJ in place of REDUCE', [global('collections', 'OrderedDict'), ')\x81'], new Map()],
  ] as const)('%s', (_, parts, expected) => {
    const bytes = parts instanceof Uint8Array ? pickle(parts, '.') : pickle(...parts, '.');
    expect(unpickle(bytes, { file: 't' })).toMatchObject({ value: expected, uninterpreted: 0 });
  });

  it('ignores the metadata that torch sets on the OrderedDict of a state dict', () => {
    expect(read(call('collections', 'OrderedDict'), 'K\x01K\x02s', dict({ _metadata: '}' }), 'b.')).toEqual(
      new Map([[1, 2]]),
    );
  });

  it.each([
    ['complex', call('__builtin__', 'complex', 'G', [0x3f, 0xf0, 0, 0, 0, 0, 0, 0])],
    ['a set of what is no list', call('__builtin__', 'set', dict({}))],
    ['a dict of what are no pairs', call('builtins', 'dict', ']K\x01a')],
    ['bytes of another encoding', call('_codecs', 'encode', unicode('a'), unicode('utf-16'))],
    ['bytes of a character that Latin-1 has not', call('_codecs', 'encode', unicode('ā'), unicode('latin1'))],
  ])('but leaves %s uninterpreted', (_, bytes) => {
    const { value, uninterpreted } = unpickle(pickle(bytes, '.'), { file: 't' });
    expect(value).toBeInstanceOf(PyObject);
    expect(uninterpreted).toBe(1);
  });
});

describe('unpickle leaves to its caller', () => {
  it('what a persistent id stands for', () => {
    const bytes = pickle('\x80\x02', tuple(unicode('storage'), int(7)), 'Q.');
    const seen: PyValue[] = [];
    const options = {
      file: 't',
      persistentLoad: (id: PyValue) => {
        seen.push(id);
        return 'found';
      },
    };
    expect(unpickle(bytes, options).value).toBe('found');
    expect(seen).toEqual([['storage', 7]]);
  });

  it('what a call makes, where the caller has a reducer for it', () => {
    const double: Reducer = ([value]) => (typeof value === 'number' ? value * 2 : undefined);
    const options = { file: 't', reducers: new Map([['a.double', double]]) };
    expect(unpickle(pickle(call('a', 'double', int(4)), '.'), options).value).toBe(8);
    expect(unpickle(pickle(call('a', 'double', unicode('x')), '.'), options).value).toBeInstanceOf(PyObject);
  });

  it('the bytes after the pickle, and where in the bytes it starts', () => {
    const bytes = pickle('K\x01.', 'K\x02.', 'rest');
    const first = unpickle(bytes, { file: 't' });
    const second = unpickle(bytes, { file: 't', start: first.end });
    expect([first.value, first.end, second.value, second.end]).toEqual([1, 3, 2, 6]);
  });
});
