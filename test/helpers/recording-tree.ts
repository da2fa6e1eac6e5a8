import type { FileTree } from '../../src/io/types.js';

/** A read of a file in a recorded folder. */
export interface TreeRead {
  readonly path: string;
  readonly offset: number;
  readonly length: number;
  readonly signal: AbortSignal | undefined;
}

/** A folder that remembers what was read from it. */
export interface RecordingTree extends FileTree {
  readonly reads: readonly TreeRead[];
  /** Files that were opened and not closed yet. */
  readonly unclosed: ReadonlySet<unknown>;
}

/** Records the reads of a folder. `onRead` is told before each how many there were with it. */
export function recordingTree(tree: FileTree, onRead?: (count: number) => void): RecordingTree {
  const reads: TreeRead[] = [];
  const opened = new Set<unknown>();
  return {
    name: tree.name,
    reads,
    unclosed: opened,
    list: (path) => tree.list(path),
    async open(path) {
      const source = await tree.open(path);
      opened.add(source);
      return {
        name: source.name,
        size: source.size,
        modified: source.modified,
        async read(offset, into, signal) {
          reads.push({ path, offset, length: into.byteLength, signal });
          onRead?.(reads.length);
          await source.read(offset, into, signal);
        },
        async close() {
          opened.delete(source);
          await source.close();
        },
      };
    },
  };
}
