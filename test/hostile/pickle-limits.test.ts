import { describe, expect, it } from 'vitest';
import {
  MAX_CONTAINERS,
  MAX_GLOBAL_NAME_BYTES,
  MAX_MARKS,
  MAX_NUMBER_BYTES,
  MAX_OPCODES,
  MAX_PICKLE_BYTES,
  MAX_STACK,
  MAX_STRING_BYTES,
} from '../../src/formats/pickle/limits.js';
import { unpickle } from '../../src/formats/pickle/read.js';
import type { PyValue } from '../../src/formats/pickle/values.js';
import { call, global, int, pickle, tuple, u32, u64 } from '../helpers/pickle.js';
import { refusalOf } from '../helpers/refusal.js';

function read(bytes: Uint8Array): PyValue {
  return unpickle(bytes, { file: 'a.pkl' }).value;
}

/** `head`, then `count` times `part`, then `tail`. */
function repeated(head: string, part: string, count: number, tail: string): Uint8Array {
  const [start, unit, end] = [head, part, tail].map((text) => Buffer.from(text, 'latin1'));
  return new Uint8Array(
    Buffer.concat([start as Buffer, Buffer.alloc((unit as Buffer).length * count, unit), end as Buffer]),
  );
}

describe('a length beyond the stream or the limit', () => {
  it.each([
    ['BINUNICODE of 4 GiB', pickle('X', u32(0xffffffff), '.'), 'pickle-limit'],
    ['BINUNICODE one byte over the limit', pickle('X', u32(MAX_STRING_BYTES + 1), '.'), 'pickle-limit'],
    ['BINUNICODE at the limit, without the bytes', pickle('X', u32(MAX_STRING_BYTES), '.'), 'pickle-truncated'],
    ['BINUNICODE8 of 2^63', pickle('\x8d', u64(2n ** 63n), '.'), 'pickle-limit'],
    ['BINBYTES8 of 2^64 - 1', pickle('\x8e', u64(2n ** 64n - 1n), '.'), 'pickle-limit'],
    ['BYTEARRAY8 of 2^40', pickle('\x96', u64(2n ** 40n), '.'), 'pickle-limit'],
    ['BINSTRING of -1', pickle('T', u32(0xffffffff), '.'), 'pickle-bad-length'],
    ['LONG4 of 1 GB', pickle('\x8b', u32(1e9), '.'), 'pickle-limit'],
    ['LONG4 of -1', pickle('\x8b', u32(0xffffffff), '.'), 'pickle-bad-length'],
    ['SHORT_BINUNICODE past the end', pickle('\x8c\x05ab'), 'pickle-truncated'],
    ['LONG1 past the end', pickle('\x8a\x05ab'), 'pickle-truncated'],
    ['INT of 2,000 digits', pickle('I', '1'.repeat(2000), '\n.'), 'pickle-limit'],
    ['a line without an end', pickle('I12'), 'pickle-truncated'],
    ['GLOBAL without an end', pickle('cos\nsystem'), 'pickle-truncated'],
    ['GLOBAL of 1 MB', pickle('c', 'a'.repeat(1_000_000), '\nb\n.'), 'pickle-limit'],
    ['STACK_GLOBAL of a long name', pickle('\x8c\x01aX', u32(1025), 'b'.repeat(1025), '\x93.'), 'pickle-limit'],
    ['no bytes', pickle(), 'pickle-truncated'],
    ['no STOP', pickle('N'), 'pickle-truncated'],
  ])('%s is refused before anything is allocated', async (_, bytes, code) => {
    expect(await refusalOf(() => read(bytes))).toMatchObject({ kind: 'bad-file', code });
  });

  it('at the limit is taken', () => {
    const name = 'a'.repeat(MAX_GLOBAL_NAME_BYTES);
    expect(read(pickle(global(name, name), '.'))).toMatchObject({ module: name, name });
    const number = '1'.repeat(MAX_NUMBER_BYTES - 1);
    expect(read(pickle('L', number, 'L\n.'))).toBe(BigInt(number));
  });
});

describe('text that Python does not write', () => {
  it.each([
    ['UTF-8 that breaks off', pickle('\x8c\x01\xc3.')],
    ['a byte that UTF-8 has not', pickle('\x8c\x01\xff.')],
    ['an overlong slash', pickle('\x8c\x02\xc0\xaf.')],
    ['a pair of surrogates, which is one character in JavaScript', pickle('\x8c\x06\xed\xa0\xbd\xed\xb8\x80.')],
    ['the name of a global in Latin-1', pickle('c\xe9\nb\n.')],
    ['a repr without quotes', pickle('Sabc\n.')],
    ['a repr with an unknown escape', pickle("S'\\q'\n.")],
    ['a character beyond Unicode', pickle('V\\U00110000\n.')],
    ['an escape that breaks off', pickle('V\\u12\n.')],
  ])('%s is refused', async (_, bytes) => {
    expect(await refusalOf(() => read(bytes))).toMatchObject({ code: 'pickle-bad-text' });
  });

  it.each(['0x10', '1_000', '', ' 1', '1.0', '--1'])('the integer %j is refused', async (digits) => {
    expect(await refusalOf(() => read(pickle('I', digits, '\n.')))).toMatchObject({ code: 'pickle-bad-number' });
  });

  it.each(['', '1e', '0x1p3', 'infinite'])('the float %j is refused', async (digits) => {
    expect(await refusalOf(() => read(pickle('F', digits, '\n.')))).toMatchObject({ code: 'pickle-bad-number' });
  });

  it.each([
    ['a NUL', '\x8c\x02a\x00.', 'a\0'],
    ['a byte order mark', '\x8c\x04\xef\xbb\xbfa.', '\ufeffa'],
    ['a lone low surrogate', '\x8c\x05a\xed\xb8\x80b.', 'a\ude00b'],
    ['two high surrogates', '\x8c\x06\xed\xa0\xbd\xed\xa0\xbd.', '\ud83d\ud83d'],
    ['a composed letter', '\x8c\x02\xc3\xa9.', '\u00e9'],
    ['a letter and its accent', '\x8c\x03e\xcc\x81.', 'e\u0301'],
    ['a right-to-left mark', '\x8c\x03\xe2\x80\x8f.', '\u200f'],
  ])('%s is kept as it is', (_, bytes, expected) => {
    expect(read(pickle(bytes))).toBe(expected);
  });

  it.each([
    ['numbers', 'K\x01K\x02\x93.'],
    ['None', 'NN\x93.'],
    ['bytes', 'C\x01aC\x01b\x93.'],
  ])('a STACK_GLOBAL of %s is refused', async (_, bytes) => {
    expect(await refusalOf(() => read(pickle(bytes)))).toMatchObject({ code: 'pickle-global' });
  });
});

describe('a pickle that is made to cost much', () => {
  it('of 10 million opcodes is read', () => {
    expect(read(repeated('', 'N0', 5_000_000, 'N.'))).toBeNull();
  });

  it.each([
    ['opcodes', () => repeated('', 'N0', MAX_OPCODES / 2, 'N.'), MAX_OPCODES],
    ['values on the stack', () => repeated('', 'N', MAX_STACK + 1, '.'), MAX_STACK],
    ['open marks', () => repeated('', '(', MAX_MARKS + 1, '.'), MAX_MARKS],
    ['containers', () => repeated('', ')0', MAX_CONTAINERS + 1, 'N.'), MAX_CONTAINERS],
    ['bytes of one pickle', () => new Uint8Array(MAX_PICKLE_BYTES + 1), MAX_PICKLE_BYTES],
  ])('by too many %s is refused', async (what, make, limit) => {
    const detail = await refusalOf(() => read(make()));
    expect(detail).toMatchObject({ code: 'pickle-limit', facts: { limit, found: limit + 1 } });
    expect(detail.message).toContain(what);
  });

  it('by nesting 100,000 lists is read without recursion', () => {
    let value = read(pickle(']'.repeat(100_000), 'a'.repeat(99_999), '.'));
    let depth = 0;
    while (Array.isArray(value)) {
      value = value[0] ?? null;
      depth++;
    }
    expect(depth).toBe(100_000);
  });

  it('by doubling a list 60 times is read, each list once', () => {
    let value = read(pickle(']', 'q\x000(h\x00h\x00l'.repeat(60), '.'));
    let depth = 0;
    while (Array.isArray(value) && value.length === 2) {
      expect(value[0]).toBe(value[1]);
      value = value[0] ?? null;
      depth++;
    }
    expect(depth).toBe(60);
  });

  it('by a list that holds itself is read', () => {
    const value = read(pickle(']q\x00h\x00a.'));
    expect(Array.isArray(value) && value[0]).toBe(value);
  });

  it.each([
    ['a set of a remembered list', ']q\x00(', 'h\x00\x85', global('builtins', 'set')],
    ['a list of a remembered list', ']q\x00(', 'h\x00\x85', global('builtins', 'list')],
    ['a dict of a remembered dict', '}q\x00(', 'h\x00\x85', global('builtins', 'dict')],
  ])('by making %s over and over is refused', async (_, head, args, callable) => {
    const items = Array.from({ length: 1000 }, (_, i) => (head.startsWith('}') ? pickle(int(i), 'N') : int(i)));
    const filled = pickle(head, ...items, head.startsWith('}') ? 'u' : 'e', callable, 'q\x01');
    const again = pickle(`h\x01${args}R0`);
    const detail = await refusalOf(() => read(pickle(filled, ...Array.from({ length: 50 }, () => again), '.')));
    expect(detail).toMatchObject({ code: 'pickle-limit' });
    expect(detail.message).toContain('copied items');
  });

  it('by making bytes of a remembered text over and over is refused', async () => {
    const head = pickle(
      'X',
      u32(1000),
      'a'.repeat(1000),
      'q\x000',
      '\x8c\x06latin1q\x010',
      global('_codecs', 'encode'),
    );
    const again = pickle('q\x02(h\x00h\x01tR0h\x02');
    const detail = await refusalOf(() => read(pickle(head, ...Array.from({ length: 50 }, () => again), '.')));
    expect(detail.message).toContain('copied items');
  });

  it('control: one conversion of each copies no more than was pickled for it', () => {
    const list = pickle('](', ...Array.from({ length: 1000 }, (_, i) => int(i)), 'e');
    const value = read(pickle('(', call('builtins', 'set', list), call('builtins', 'list', list), 't.'));
    expect(value).toMatchObject([{ size: 1000 }, { length: 1000 }]);
  });
});

it('an error names the file, the opcode and its place', async () => {
  const detail = await refusalOf(() => unpickle(pickle('\x80\x02', tuple('N'), 'a.'), { file: 'dir/a.pt' }));
  expect(detail).toMatchObject({ kind: 'bad-file', facts: { file: 'dir/a.pt', offset: 5, opcode: 'APPEND' } });
  expect(detail.message).toContain('dir/a.pt: the pickle is broken at byte 5 (APPEND)');
});
