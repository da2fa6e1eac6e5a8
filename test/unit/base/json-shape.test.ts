import { describe, expect, test } from 'vitest';
import {
  array,
  byField,
  dictionary,
  exactly,
  finite,
  flag,
  object,
  oneOf,
  orNull,
  type Shape,
  ShapeFault,
  tagged,
  text,
  whole,
} from '../../../src/base/json-shape.js';

interface Box {
  readonly name: string;
  readonly sizes: readonly number[];
  readonly lid?: boolean;
}

const box: Shape<Box> = object({ name: text, sizes: array(whole) }, { lid: flag });

function faultOf<T>(shape: Shape<T>, value: unknown): { where: string; expected: string; found: string } {
  try {
    shape(value);
  } catch (error) {
    if (error instanceof ShapeFault) return { where: error.where, expected: error.expected, found: error.found };
    throw error;
  }
  throw new Error('the value was accepted');
}

test('a value of the shape is given back, not copied', () => {
  const values = [
    { name: 'a', sizes: [] },
    { name: 'b', sizes: [0, 2 ** 53 - 1], lid: false },
  ];
  for (const value of values) expect(box(value)).toBe(value);
});

test.each([
  [[], { where: '', expected: 'an object', found: 'an array of 0' }],
  [null, { where: '', expected: 'an object', found: 'null' }],
  ['box', { where: '', expected: 'an object', found: '"box"' }],
  [{ name: 'a' }, { where: '.sizes', expected: 'there', found: 'missing' }],
  [
    { name: 1, sizes: [] },
    { where: '.name', expected: 'text', found: '1' },
  ],
  [
    { name: 'a', sizes: {} },
    { where: '.sizes', expected: 'an array', found: 'an object' },
  ],
  [
    { name: 'a', sizes: [1, -1] },
    { where: '.sizes[1]', expected: 'a whole number from 0', found: '-1' },
  ],
  [
    { name: 'a', sizes: [0.5] },
    { where: '.sizes[0]', expected: 'a whole number from 0', found: '0.5' },
  ],
  [
    { name: 'a', sizes: [2 ** 53] },
    { where: '.sizes[0]', expected: 'a whole number from 0', found: '9007199254740992' },
  ],
  [
    { name: 'a', sizes: [], lid: 1 },
    { where: '.lid', expected: 'true or false', found: '1' },
  ],
  [
    { name: 'a', sizes: [], lid: null },
    { where: '.lid', expected: 'true or false', found: 'null' },
  ],
  [
    { name: 'a', sizes: [], colour: 'red' },
    { where: '.colour', expected: 'absent', found: '"red"' },
  ],
  [
    { name: '\ud800', sizes: [] },
    { where: '.name', expected: 'text', found: '"\\ud800"' },
  ],
  [
    { name: ['x'.repeat(99)], sizes: [] },
    { where: '.name', expected: 'text', found: 'an array of 1' },
  ],
])('the object %j is refused', (value, fault) => {
  expect(faultOf(box, value)).toEqual(fault);
});

test('a field with a name of JavaScript is a field like any other', () => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const value: unknown = JSON.parse(`{"name":"a","sizes":[],"${name}":{}}`);
    expect(faultOf(box, value)).toMatchObject({ where: `.${name}`, expected: 'absent' });
  }
  expect(faultOf(box, JSON.parse('{"__proto__":{"name":"a","sizes":[]}}'))).toMatchObject({ where: '.__proto__' });
});

test('what is long is shown in part', () => {
  expect(faultOf(box, { name: 'a', sizes: ['x'.repeat(1000)] }).found).toBe(`"${'x'.repeat(59)}…`);
});

describe('the small shapes', () => {
  test.each<[string, Shape<unknown>, unknown, unknown]>([
    ['a number', finite, -0.5, Number.POSITIVE_INFINITY],
    ['a constant', exactly(1), 1, '1'],
    ['a member', oneOf({ red: 1, blue: 1 }), 'blue', 'toString'],
    ['a shape or null', orNull(whole), null, 'null'],
    ['a dictionary', dictionary(whole), JSON.parse('{"__proto__": 1, "": 2}'), { a: 'b' }],
    ['one by its field', byField('a', object<{ a: number }>({ a: whole }, {}), box), { a: 1 }, { a: 1, name: 'x' }],
    ['the other', byField('a', object<{ a: number }>({ a: whole }, {}), box), { name: 'x', sizes: [] }, { sizes: [] }],
  ])('%s', (_, shape, good, bad) => {
    expect(shape(good)).toBe(good);
    expect(() => shape(bad)).toThrow(ShapeFault);
  });

  test('objects that a field tells apart', () => {
    type Way = { readonly by: 'foot'; readonly steps: number } | { readonly by: 'train'; readonly line: string };
    const way: Shape<Way> = tagged('by', {
      foot: object<Extract<Way, { by: 'foot' }>>({ by: exactly('foot'), steps: whole }, {}),
      train: object<Extract<Way, { by: 'train' }>>({ by: exactly('train'), line: text }, {}),
    });
    expect(way({ by: 'foot', steps: 2 })).toEqual({ by: 'foot', steps: 2 });
    expect(faultOf(way, { by: 'train', steps: 2 })).toMatchObject({ where: '.steps', expected: 'absent' });
    expect(faultOf(way, { by: 'air' })).toEqual({ where: '.by', expected: 'one of foot, train', found: '"air"' });
    expect(faultOf(way, {})).toMatchObject({ where: '.by', found: 'missing' });
  });
});
