/**
 * Where the time of a run goes: into writing, into the closing of files, or into reading, which is all the rest. Several
 * of them are under way at once, and each moment is shared out among those that are, so that the parts add up to the
 * whole.
 *
 * @module
 */

import type { ByteSink, ByteSource, OutputTree } from '../index.js';
import { changedSink } from './sinks.js';

/** What a run waits for. */
export type Activity = 'read' | 'write' | 'close';

/** Bytes, and the seconds that were spent on them. */
export interface Cost {
  readonly bytes: number;
  readonly seconds: number;
}

/** What a run has cost. Reading is of the checkpoint, of the output that is read back, and all that is computed. */
export type Costs = Readonly<Record<Activity, Cost>>;

/** Counts what goes through the output that it watches. */
export interface Stopwatch {
  watch(tree: OutputTree): OutputTree;
  /** What was spent since the stopwatch was started. `inputBytes` were read of the checkpoint, by whatever threads. */
  costs(inputBytes: number): Costs;
}

/** Starts the time. `now` is a steady clock in milliseconds. */
export function startStopwatch(now: () => number = () => performance.now()): Stopwatch {
  const under: Record<Activity, number> = { read: 0, write: 0, close: 0 };
  const spent = { read: { bytes: 0, ms: 0 }, write: { bytes: 0, ms: 0 }, close: { bytes: 0, ms: 0 } };
  let last = now();

  /** Shares out the time since the last change. While no output is under way, the input is. */
  function settle(): void {
    const passed = now() - last;
    last += passed;
    const busy = ACTIVITIES.filter((activity) => under[activity] > 0);
    if (busy.length === 0) spent.read.ms += passed;
    for (const activity of busy) spent[activity].ms += passed / busy.length;
  }

  async function timed<T>(activity: Activity, bytes: number, work: () => Promise<T>): Promise<T> {
    settle();
    under[activity] += 1;
    try {
      const result = await work();
      spent[activity].bytes += bytes;
      return result;
    } finally {
      settle();
      under[activity] -= 1;
    }
  }

  function watchSource(source: ByteSource): ByteSource {
    return {
      name: source.name,
      size: source.size,
      modified: source.modified,
      read: (offset, into, signal) => timed('read', into.byteLength, () => source.read(offset, into, signal)),
      close: () => source.close(),
    };
  }

  function watchSink(sink: ByteSink, byteLength: number): ByteSink {
    const { read } = sink;
    return changedSink(sink, {
      write: (offset, bytes) => timed('write', bytes.byteLength, () => sink.write(offset, bytes)),
      ...(read ? { read: (offset, into) => timed('read', into.byteLength, () => read.call(sink, offset, into)) } : {}),
      close: () => timed('close', byteLength, () => sink.close()),
    });
  }

  return {
    watch: (tree) => ({
      name: tree.name,
      has: (path) => tree.has(path),
      create: async (path, byteLength) => watchSink(await tree.create(path, byteLength), byteLength),
      open: async (path) => watchSource(await tree.open(path)),
      remove: (path) => tree.remove(path),
    }),
    costs(inputBytes) {
      settle();
      const cost = ({ bytes, ms }: { bytes: number; ms: number }): Cost => ({ bytes, seconds: ms / 1000 });
      const read = { bytes: spent.read.bytes + inputBytes, ms: spent.read.ms };
      return { read: cost(read), write: cost(spent.write), close: cost(spent.close) };
    },
  };
}

const ACTIVITIES: readonly Activity[] = ['read', 'write', 'close'];
