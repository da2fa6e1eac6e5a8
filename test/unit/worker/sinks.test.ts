import { expect, it } from 'vitest';
import type { ByteSink } from '../../../src/io/types.js';
import { changedSink } from '../../../src/worker/sinks.js';

/** A sink that notes its calls. */
function noting(): { sink: ByteSink; calls: string[] } {
  const calls: string[] = [];
  const note = (name: string) => async (): Promise<void> => void calls.push(name);
  return { sink: { write: note('write'), read: note('read'), close: note('close'), abort: note('abort') }, calls };
}

it('a changed sink does all else as before', async () => {
  const { sink, calls } = noting();
  const changed = changedSink(sink, { close: async () => void calls.push('changed') });
  await changed.write(0, new Uint8Array(1));
  await changed.read?.(0, new Uint8Array(1));
  await changed.close();
  await changed.abort();
  expect(calls).toEqual(['write', 'read', 'changed', 'abort']);
});

it('a changed sink can be read before it is closed where the sink can', () => {
  const { read: _, ...unreadable } = noting().sink;
  expect(changedSink(unreadable, {})).not.toHaveProperty('read');
  expect(changedSink(noting().sink, {})).toHaveProperty('read');
});
