import type { ByteSink } from '../index.js';

/** A sink that does what another one does, but for `changes`. */
export function changedSink(sink: ByteSink, changes: Partial<ByteSink>): ByteSink {
  const { read } = sink;
  return {
    write: (offset, bytes) => sink.write(offset, bytes),
    ...(read ? { read: (offset, into) => read.call(sink, offset, into) } : {}),
    close: () => sink.close(),
    abort: () => sink.abort(),
    ...changes,
  };
}
