import { mapBounded } from '../base/concurrent.js';
import { assert, UnshardError } from '../base/errors.js';
import type { SourceFile } from '../checkpoints/inventory.js';
import { SourcePool } from '../io/pool.js';
import type { ByteSource } from '../io/types.js';

/** Files that are opened at once, to ask for their places. More is not faster. */
const OPENED_AT_ONCE = 16;

/** The sources of a plan, opened when they are read and closed together. */
export class PlanSources {
  readonly #openPath: (path: string, index: number) => Promise<ByteSource>;
  readonly #files: readonly SourceFile[];
  readonly #pool = new SourcePool((index) => this.#openFile(index));

  /** `openPath` opens the file of a source. */
  constructor(openPath: (path: string, index: number) => Promise<ByteSource>, files: readonly SourceFile[]) {
    this.#openPath = openPath;
    this.#files = files;
  }

  /** Reads from source `index`. A file that changed since the plan was made is refused. */
  read(index: number, offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    return this.#pool.read(index, offset, into, signal);
  }

  /** Where another thread finds each source; undefined where one of them can be read on this thread alone. */
  async places(): Promise<readonly unknown[] | undefined> {
    const indices = [...this.#files.keys()];
    const places = await mapBounded(indices, OPENED_AT_ONCE, (index) =>
      this.#pool.use(index, async (source) => source.place),
    );
    return places.includes(undefined) ? undefined : places;
  }

  /** Closes every source that is open. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  async #openFile(index: number): Promise<ByteSource> {
    const planned = this.#files[index];
    assert(planned, `the plan has no source ${index}`);
    const source = await this.#openPath(planned.path, index);
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
