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

it.each([
  ['bad-file', 'global_step7/zero_pp_rank_1_mp_rank_00_optim_states.pt', true],
  ['bad-file', 'global_step7/zero_pp_rank_1_mp_rank_00_model_states.pt', true],
  ['bad-file', 'global_step7/mp_rank_00_model_states.pt', false],
  ['inconsistent', 'global_step7/zero_pp_rank_1_mp_rank_00_optim_states.pt', false],
] as const)('names a damaged file that can be done without (%s, %s)', (kind, file, isNamed) => {
  const error = new UnshardError({ kind, code: 'crc-mismatch', message: '', advice: '', facts: { file } });
  expect(failureOf(error).lostFile).toBe(isNamed ? file : undefined);
});

it.each([new TypeError('x is not a function'), 'x is not a function'])('calls everything else a defect', (thrown) => {
  expect(failureOf(thrown)).toMatchObject({ message: 'x is not a function', code: 'internal' });
});
