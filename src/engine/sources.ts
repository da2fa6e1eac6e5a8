import { assert, UnshardError } from '../base/errors.js';
import type { SourceFile } from '../checkpoints/inventory.js';
import type { ByteSource, FileTree } from '../io/types.js';

/** The sources of a plan, opened when they are first read and closed together. */
export class PlanSources {
  readonly #treeOf: (index: number) => FileTree;
  readonly #files: readonly SourceFile[];
  readonly #open = new Map<number, Promise<ByteSource>>();

  /** `treeOf` gives the folder that a source lies in. */
  constructor(treeOf: (index: number) => FileTree, files: readonly SourceFile[]) {
    this.#treeOf = treeOf;
    this.#files = files;
  }

  /** Reads from source `index`. A file that changed since the plan was made is refused. */
  async read(index: number, offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    let source = this.#open.get(index);
    if (!source) {
      source = this.#openFile(index);
      this.#open.set(index, source);
    }
    await (await source).read(offset, into, signal);
  }

  /** Closes every source that was opened. */
  async close(): Promise<void> {
    const open = await Promise.allSettled(this.#open.values());
    this.#open.clear();
    await Promise.all(open.map((result) => (result.status === 'fulfilled' ? result.value.close() : undefined)));
  }

  async #openFile(index: number): Promise<ByteSource> {
    const planned = this.#files[index];
    assert(planned, `the plan has no source ${index}`);
    const source = await this.#treeOf(index).open(planned.path);
    if (source.size === planned.size && source.modified === planned.modified) return source;
    await source.close();
    const what = source.size === planned.size ? 'time of change' : 'size';
    const expected = source.size === planned.size ? planned.modified : planned.size;
    const found = source.size === planned.size ? source.modified : source.size;
    throw new UnshardError({
      kind: 'source',
      code: 'source-changed',
      message: `${planned.path} changed since it was inspected: its ${what} was ${expected} and is ${found}.`,
      advice: 'Wait until nothing writes to the checkpoint any more, and inspect it again.',
      facts: { file: planned.path, expected, found },
    });
  }
}
