import { expect, test } from 'vitest';
import { inNaturalOrder } from '../../../src/base/natural-order.js';

const order = (...names: string[]) => inNaturalOrder(names, (name) => name);

test('numbers in names are ordered by their value, however they are written', () => {
  expect(order('rank_10_mp_00', 'rank_9_mp_01', 'rank_9_mp_00', 'rank_100_mp_00')).toEqual([
    'rank_9_mp_00',
    'rank_9_mp_01',
    'rank_10_mp_00',
    'rank_100_mp_00',
  ]);
  expect(order('b007', 'b12', 'b0', 'b00001', 'b99999999999999999999', 'b100000000000000000000')).toEqual([
    'b0',
    'b00001',
    'b007',
    'b12',
    'b99999999999999999999',
    'b100000000000000000000',
  ]);
});

test('what is no number is ordered by code units, and what starts another name comes before it', () => {
  expect(order('zero', 'bf16_zero', 'ä', 'Zero', 'zero_1', '')).toEqual([
    '',
    'Zero',
    'bf16_zero',
    'zero',
    'zero_1',
    'ä',
  ]);
  expect(order('1x', 'x1', 'x', 'x1x', 'x0x')).toEqual(['1x', 'x', 'x0x', 'x1', 'x1x']);
});

test('names that are the same but for zeros have one order, and equal ones keep theirs', () => {
  expect(order('rank_01', 'rank_1')).toEqual(order('rank_1', 'rank_01'));
  const items = [{ name: 'a' }, { name: 'a' }];
  expect(inNaturalOrder(items, ({ name }) => name)[0]).toBe(items[0]);
});
