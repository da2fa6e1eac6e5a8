import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { emitPickle } from '../../../../src/formats/pickle/emit.js';
import { unpickle } from '../../../../src/formats/pickle/read.js';
import { PyGlobal } from '../../../../src/formats/pickle/values.js';

describe('emitPickle writes the bytes of CPython 3.11', () => {
  it('for integers of every size', () => {
    const ints = [0, 255, 256, 65535, 65536, -1, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), -(2 ** 31) - 1, 2 ** 40 + 3];
    // pickle.dumps((0, …, 2**40+3, 2**53-1, -(2**53-1)), 2)
    expect(Buffer.from(emitPickle([...ints, 2 ** 53 - 1, -(2 ** 53 - 1)])).toString('hex')).toBe(
      '8002284b004bff4d00014dffff4a000001004affffffff4affffff7f8a0500000080004a000000808a05ffffff7fff8a060300000000018a07ffffffffffff1f8a07010000000000e07471002e',
    );
  });

  it('for bools, tuples of every length, and a string that comes again', () => {
    // pickle.dumps((True, False, (), (1,), (1,2), (1,2,3), "größe 😀", "a", "a"), 2)
    expect(
      Buffer.from(emitPickle([true, false, [], [1], [1, 2], [1, 2, 3], 'größe 😀', 'a', 'a'])).toString('hex'),
    ).toBe(
      '8002288889294b018571004b014b028671014b014b024b03877102580c0000006772c3b6c39f6520f09f98807103580100000061710468047471052e',
    );
  });

  // hashlib.sha256(pickle.dumps(OrderedDict((f"k{i}", i) for i in range(n)), 2)).hexdigest()
  it.each([
    [1, '177a3a4da00fb461f8e34ccc86b5a610c588c1f430205e10b6996f40e1759706'],
    [1000, '8c6154e46f97293e6b325be218e6d1a18f32eabac50e9789b02101826a5d6f77'],
    [1001, '483776ab88c2cc8834f344a14175ac58a1c699a735e7538a5c73b2a7933f66ab'],
    [2001, '507c30e20c87fb51ef1c95b9879d211bfec41afccc4a7e8a1f21bcb3be16f373'],
  ])('for an OrderedDict of %i items, in batches', (n, sha256) => {
    const dict = new Map(Array.from({ length: n }, (_, i) => [`k${i}`, i]));
    expect(createHash('sha256').update(emitPickle(dict)).digest('hex')).toBe(sha256);
  });
});

describe('emitPickle', () => {
  it('writes what unpickle reads back', () => {
    const storage = { persistentId: ['storage', new PyGlobal('torch', 'FloatStorage'), '0', 'cpu', 6] };
    const bytes = emitPickle(new Map([['w', { callable: new PyGlobal('a', 'make'), args: [storage, 0, [2, 3]] }]]));
    const { value, end } = unpickle(bytes, {
      file: 't',
      persistentLoad: (id) => id,
      reducers: new Map([['a.make', (args) => [...args]]]),
    });
    const id = ['storage', new PyGlobal('torch', 'FloatStorage'), '0', 'cpu', 6];
    expect(value).toEqual(new Map([['w', [id, 0, [2, 3]]]]));
    expect(end).toBe(bytes.length);
  });

  it('refuses what it cannot write exactly', () => {
    expect(() => emitPickle('\ud800')).toThrow('no Unicode text');
    expect(() => emitPickle(2 ** 53)).toThrow('no exact integer');
    expect(() => emitPickle(0.5)).toThrow('no exact integer');
  });
});
