import { expose, proxy, wrap } from 'comlink';
import { afterEach, describe, expect, it } from 'vitest';
import { type ErrorDetail, type ErrorKind, isAbort, UnshardError } from '../../../../src/base/errors.js';
import { fromWire, registerErrorHandler, toWire } from '../../../../src/engine/threads/errors.js';

const ends: (() => void)[] = [];

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** What arrives on the other side of a channel when one side throws `thrown`. */
async function acrossChannel(thrown: unknown): Promise<unknown> {
  registerErrorHandler();
  const { port1, port2 } = new MessageChannel();
  ends.push(() => port1.close());
  expose(
    {
      async fail(): Promise<void> {
        throw thrown;
      },
    },
    port1,
  );
  const remote = wrap<{ fail(): Promise<void> }>(port2);
  return remote.fail().then(
    () => expect.fail('nothing was thrown'),
    (error) => error,
  );
}

function detail(kind: ErrorKind): ErrorDetail {
  return { kind, code: `${kind}-code`, message: 'a.pt holds 3 bytes, not 4.', advice: 'Copy it.', facts: { found: 3 } };
}

const KINDS: readonly ErrorKind[] = [
  'usage',
  'not-checkpoint',
  'missing-shard',
  'bad-file',
  'inconsistent',
  'unsupported',
  'overflow',
  'source',
  'sink',
  'gpu',
];

describe('an error that crosses a channel', () => {
  it.each(KINDS)('is an UnshardError with all its data: %s', async (kind) => {
    const error = await acrossChannel(new UnshardError(detail(kind)));
    expect(error).toBeInstanceOf(UnshardError);
    expect((error as UnshardError).detail).toEqual(detail(kind));
    expect((error as UnshardError).message).toBe('a.pt holds 3 bytes, not 4. Copy it.');
  });

  it('is an AbortError where it was a cancel', async () => {
    const controller = new AbortController();
    controller.abort();
    expect(isAbort(await acrossChannel(controller.signal.reason))).toBe(true);
  });

  it('keeps name, message and stack of any other error', async () => {
    const thrown = new RangeError('Invalid array length');
    const error = await acrossChannel(thrown);
    expect(isAbort(error)).toBe(false);
    expect(error).toMatchObject({ name: 'RangeError', message: 'Invalid array length', stack: thrown.stack });
  });

  it('is an error even where a string was thrown', async () => {
    expect(await acrossChannel('broken')).toMatchObject({ name: 'Error', message: 'broken' });
  });
});

it('leaves values that are returned and callbacks alone', async () => {
  registerErrorHandler();
  const { port1, port2 } = new MessageChannel();
  ends.push(() => port1.close());
  const twice = async (call: (n: number) => void): Promise<string> => {
    call(1);
    call(2);
    return 'done';
  };
  expose({ twice }, port1);
  const seen: number[] = [];
  const remote = wrap<{ twice(call: (n: number) => void): Promise<string> }>(port2);
  expect(await remote.twice(proxy((n: number) => void seen.push(n)))).toBe('done');
  await expect.poll(() => seen).toEqual([1, 2]);
});

it('turns errors into plain data and back', () => {
  const wire = toWire(new UnshardError(detail('sink')));
  expect(JSON.parse(JSON.stringify(wire))).toEqual(wire);
  expect(toWire(fromWire(wire))).toEqual(wire);
});
