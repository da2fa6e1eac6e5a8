import { expect, test } from 'vitest';
import type { ConvertJob } from '../../../src/engine/backend.js';
import { checkJob } from '../../../src/engine/job.js';

const good: ConvertJob = {
  from: 'F32',
  to: 'F16',
  overflow: 'inf',
  input: new Uint8Array(20),
  pieces: [
    { input: 12, output: 0, count: 2, slot: 0 },
    { input: 1, output: 2, count: 1, slot: 1 },
  ],
  output: new Uint8Array(6),
  slots: 2,
};

test('a job that keeps the rules is taken', () => {
  expect(() => checkJob(good)).not.toThrow();
  expect(() => checkJob({ ...good, pieces: [], output: new Uint8Array(), slots: 0 })).not.toThrow();
});

const [first, second] = good.pieces as [ConvertJob['pieces'][number], ConvertJob['pieces'][number]];

test.each([
  { defect: 'a copy', job: { from: 'F16' }, message: 'converts F16 to itself' },
  {
    defect: 'a gap',
    job: { pieces: [first, { ...second, output: 3 }] },
    message: 'starts at element 3, the one before ends at 2',
  },
  { defect: 'an overlap', job: { pieces: [first, { ...second, output: 1 }] }, message: 'starts at element 1' },
  {
    defect: 'a piece beyond the input',
    job: { pieces: [{ ...first, input: 13 }, second] },
    message: '[13, 21) of 20 bytes',
  },
  {
    defect: 'a piece before the input',
    job: { pieces: [{ ...first, input: -1 }, second] },
    message: '[-1, 7) of 20 bytes',
  },
  { defect: 'a negative count', job: { pieces: [{ ...first, count: -1 }] }, message: 'has -1 elements' },
  { defect: 'an unknown slot', job: { slots: 1 }, message: 'names slot 1 of 1' },
  {
    defect: 'an output that is too long',
    job: { output: new Uint8Array(8) },
    message: 'make 6 bytes, the output has 8',
  },
  {
    defect: 'an output that is too short',
    job: { output: new Uint8Array(5) },
    message: 'make 6 bytes, the output has 5',
  },
] as const)('$defect is refused', ({ job, message }) => {
  expect(() => checkJob({ ...good, ...job })).toThrow(message);
});
