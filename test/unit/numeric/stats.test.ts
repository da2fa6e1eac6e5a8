import { expect, test } from 'vitest';
import { addStats, emptyStats, valueOfF32 } from '../../../src/numeric/stats.js';
import { F32_CASES } from '../../helpers/float-cases.js';

test('statistics add up, and the larger magnitude stays', () => {
  const total = emptyStats();
  addStats(total, { overflow: 1, underflow: 2, nan: 3, inf: 4, largest: 5 });
  addStats(total, { overflow: 10, underflow: 20, nan: 30, inf: 40, largest: 0.5 });
  expect(total).toEqual({ overflow: 11, underflow: 22, nan: 33, inf: 44, largest: 5 });
});

test.each(F32_CASES.filter(({ f32 }) => f32 < 0x7f800000))('the value of $name is that of the platform', ({ f32 }) => {
  expect(valueOfF32(f32)).toBe(new Float32Array(Uint32Array.of(f32).buffer)[0]);
});
