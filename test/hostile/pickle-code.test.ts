import { describe, expect, it } from 'vitest';
import { classifyGlobal } from '../../src/formats/pickle/globals.js';
import { unpickle } from '../../src/formats/pickle/read.js';
import { PyObject } from '../../src/formats/pickle/values.js';
import { call, dict, global, pickle, tuple, unicode } from '../helpers/pickle.js';
import { refusalOf } from '../helpers/refusal.js';

/** Pickles that run a command in a program that executes them. */
const PAYLOADS = [
  ['os.system', call('os', 'system', unicode('touch /tmp/pwned'))],
  ['posix.system', call('posix', 'system', unicode('id'))],
  ['builtins.eval', call('builtins', 'eval', unicode('1'))],
  ['__builtin__.exec', call('__builtin__', 'exec', unicode('1'))],
  ['pkgutil.resolve_name', call('pkgutil', 'resolve_name', unicode('os:system'))],
  ['pip.main', call('pip', 'main', pickle(']', unicode('install'), 'a'))],
  ['builtins.getattr', call('builtins', 'getattr', global('os', 'path'), unicode('join'))],
  ['runpy._run_code', call('runpy', '_run_code', unicode('x'), dict({}))],
  ['torch.load', call('torch', 'load', unicode('x.pt'))],
  ['subprocess.Popen', pickle(global('subprocess', 'Popen'), tuple(unicode('id')), '\x81')],
  ['os.system', pickle('\x8c\x02os\x8c\x06system\x93', tuple(unicode('id')), 'R')],
  ['os.system', pickle('\x8c\x02os\x94\x8c\x06system\x9400h\x00h\x01\x93', tuple(unicode('id')), 'R')],
] as const;

describe('a pickle that calls functions', () => {
  it.each(PAYLOADS)('runs nothing and names %s', (path, payload) => {
    const { value, globals, uninterpreted } = unpickle(pickle(payload, '.'), { file: 'a.pkl' });
    expect(value).toBeInstanceOf(PyObject);
    expect((value as PyObject).type.path).toBe(path);
    expect([...globals.values()].map(classifyGlobal)).toContain('dangerous');
    expect(uninterpreted).toBe(1);
  });

  it('is seen where its result is dropped, so that nothing of it is left in the object', () => {
    const bytes = pickle(call('os', 'system', unicode('id')), '0', dict({}), '.');
    const { value, globals } = unpickle(bytes, { file: 'a.pkl' });
    expect(value).toEqual(new Map());
    expect([...globals.keys()]).toEqual(['os.system']);
  });

  it('is seen where a function is called that a call has found', () => {
    const getattr = call('builtins', 'getattr', global('os', 'path'), unicode('system'));
    const { value, globals } = unpickle(pickle(getattr, tuple(unicode('id')), 'R.'), { file: 'a.pkl' });
    expect((value as PyObject).args[0]).toBeInstanceOf(PyObject);
    expect([...globals.keys()]).toEqual(['builtins.getattr', 'os.path']);
  });

  it('is refused where the stream breaks after the call, with the place of the break', async () => {
    const payload = call('os', 'system', unicode('id'));
    const bytes = pickle(payload, [0xff], '.');
    expect(await refusalOf(() => unpickle(bytes, { file: 'a.pkl' }))).toMatchObject({
      kind: 'bad-file',
      code: 'pickle-bad-opcode',
      facts: { file: 'a.pkl', offset: payload.length, found: 0xff },
    });
  });
});

describe('an opcode that no checkpoint has', () => {
  it.each([
    ['INST', pickle('(', unicode('id'), 'ios\nsystem\n.')],
    ['OBJ', pickle('(', global('os', 'system'), unicode('id'), 'o.')],
    ['PERSID', pickle('Pabc\n.')],
    ['EXT1', pickle('\x82\x01.')],
    ['EXT2', pickle('\x83\x01\x00.')],
    ['EXT4', pickle('\x84\x01\x00\x00\x00.')],
    ['NEXT_BUFFER', pickle('\x97.')],
    ['READONLY_BUFFER', pickle('C\x00\x98.')],
  ])('%s is refused', async (opcode, bytes) => {
    expect(await refusalOf(() => unpickle(bytes, { file: 'a.pkl' }))).toMatchObject({
      code: 'pickle-refused-opcode',
      facts: { opcode },
    });
  });
});

describe('names that mean something to JavaScript', () => {
  const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'then', 'valueOf'];

  it.each(NAMES)('%s is a key like any other', (name) => {
    const { value } = unpickle(
      pickle(dict({ [`${name}x`]: '}' }), '0', '}', unicode(name), dict({ x: 'K\x01' }), 's.'),
      {
        file: 'a.pkl',
      },
    );
    expect(value).toEqual(new Map([[name, new Map([['x', 1]])]]));
    expect(({} as Record<string, unknown>)['x']).toBeUndefined();
  });

  it.each(NAMES)('%s is a module and a class like any other', (name) => {
    const { value, globals } = unpickle(pickle(call(name, name), dict({ [name]: 'N' }), 'b.'), { file: 'a.pkl' });
    expect(value).toBeInstanceOf(PyObject);
    expect(value).toMatchObject({ state: new Map([[name, null]]) });
    expect([...globals.keys()]).toEqual([`${name}.${name}`]);
  });
});
