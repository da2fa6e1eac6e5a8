import { assert, UnshardError } from '../base/errors.js';
import type { SourceFile } from '../checkpoints/inventory.js';
import { SourcePool } from '../io/pool.js';
import type { ByteSource, FileTree } from '../io/types.js';

/** The sources of a plan, opened when they are read and closed together. */
export class PlanSources {
  readonly #treeOf: (index: number) => FileTree;
  readonly #files: readonly SourceFile[];
  readonly #pool = new SourcePool((index) => this.#openFile(index));

  /** `treeOf` gives the folder that a source lies in. */
  constructor(treeOf: (index: number) => FileTree, files: readonly SourceFile[]) {
    this.#treeOf = treeOf;
    this.#files = files;
  }

  /** Reads from source `index`. A file that changed since the plan was made is refused. */
  read(index: number, offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    return this.#pool.read(index, offset, into, signal);
  }

  /** Closes every source that is open. */
  close(): Promise<void> {
    return this.#pool.close();
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
