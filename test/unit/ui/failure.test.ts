import { expect, it } from 'vitest';
import { UnshardError } from '../../../src/base/errors.js';
import { failureOf } from '../../../src/ui/failure.js';

it('takes an error of the family apart', () => {
  const error = new UnshardError({
    kind: 'bad-file',
    code: 'zip-crc-mismatch',
    message: 'a.pt has another CRC.',
    advice: 'Copy it again.',
    facts: { file: 'a.pt' },
  });
  expect(failureOf(error)).toEqual({
    message: 'a.pt has another CRC.',
    advice: 'Copy it again.',
    code: 'zip-crc-mismatch',
    kind: 'bad-file',
  });
});

it.each([new TypeError('x is not a function'), 'x is not a function'])('calls everything else a defect', (thrown) => {
  expect(failureOf(thrown)).toMatchObject({ message: 'x is not a function', code: 'internal' });
});
