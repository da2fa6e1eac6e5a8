import { assert, UnshardError } from '../base/errors.js';
import type { SourceFile } from '../checkpoints/inventory.js';
import type { ByteSource, FileTree } from '../io/types.js';

/** Files open at once. A universal checkpoint has one for each parameter, and systems allow a process about a thousand. */
const MAX_OPEN = 128;

/** An open file and the reads of it that are under way. */
interface OpenFile {
  readonly source: Promise<ByteSource>;
  reads: number;
}

/** The sources of a plan, opened when they are read and closed together, or when others are needed more. */
export class PlanSources {
  readonly #treeOf: (index: number) => FileTree;
  readonly #files: readonly SourceFile[];
  /** The one that was read last comes last. */
  readonly #open = new Map<number, OpenFile>();

  /** `treeOf` gives the folder that a source lies in. */
  constructor(treeOf: (index: number) => FileTree, files: readonly SourceFile[]) {
    this.#treeOf = treeOf;
    this.#files = files;
  }

  /** Reads from source `index`. A file that changed since the plan was made is refused. */
  async read(index: number, offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const file = this.#open.get(index) ?? { source: this.#openFile(index), reads: 0 };
    file.reads++;
    this.#open.delete(index);
    this.#open.set(index, file);
    try {
      await (await file.source).read(offset, into, signal);
    } finally {
      file.reads--;
    }
    await this.#closeIdle();
  }

  /** Closes every source that is open. */
  async close(): Promise<void> {
    const open = await Promise.allSettled([...this.#open.values()].map(({ source }) => source));
    this.#open.clear();
    await Promise.all(open.map((result) => (result.status === 'fulfilled' ? result.value.close() : undefined)));
  }

  /** Closes the files that were not read for longest, where too many are open. */
  async #closeIdle(): Promise<void> {
    for (const [index, file] of this.#open) {
      if (this.#open.size <= MAX_OPEN) return;
      if (file.reads > 0) continue;
      this.#open.delete(index);
      await (await file.source).close();
    }
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
