/**
 * A page that offers the adapters to a test over real folders: an input and an output folder that are dropped on it, a
 * folder that is picked, and the browser's own storage in a worker.
 *
 * @module
 */

import { type Remote, wrap } from 'comlink';
import { isUnshardError } from '../../src/base/errors.js';
import { fileListTree } from '../../src/io/files.js';
import { directoryOutput, directoryTree } from '../../src/io/handles.js';
import type { FileTree, OutputTree } from '../../src/io/types.js';
import type { OpfsApi } from '../contract/opfs.worker.js';

/** What the test calls in the page. */
export interface Adapters {
  /** The two folders, once they have been dropped. */
  readonly dropped: Promise<{ readonly input: FileTree; readonly output: OutputTree }>;
  /** The folder that is in the file input now. */
  picked(): FileTree;
  readonly opfs: Remote<OpfsApi>;
  /** The code of the `UnshardError` that a promise rejects with; undefined where it resolves. */
  failureOf(promise: Promise<unknown>): Promise<string | undefined>;
}

declare global {
  interface Window {
    adapters: Adapters;
  }
}

const drop = document.querySelector('#drop');
const pick = document.querySelector('#pick');

function nextDrop(): Adapters['dropped'] {
  return new Promise((resolve, reject) => {
    drop?.addEventListener('dragover', (event) => event.preventDefault());
    drop?.addEventListener('drop', (event) => {
      event.preventDefault();
      if (event instanceof DragEvent) foldersOf(event).then(resolve, reject);
    });
  });
}

async function foldersOf(event: DragEvent): Promise<{ input: FileTree; output: OutputTree }> {
  const items = [...(event.dataTransfer?.items ?? [])];
  const [input, output] = await Promise.all(items.map((item) => item.getAsFileSystemHandle?.()));
  if (!(input instanceof FileSystemDirectoryHandle && output instanceof FileSystemDirectoryHandle)) {
    throw new Error('Two folders are to be dropped.');
  }
  return { input: directoryTree(input), output: directoryOutput(output) };
}

window.adapters = {
  dropped: nextDrop(),
  picked() {
    if (!(pick instanceof HTMLInputElement && pick.files)) throw new Error('There is no file input.');
    return fileListTree(pick.files);
  },
  opfs: wrap(new Worker(new URL('../contract/opfs.worker.ts', import.meta.url), { type: 'module' })),
  async failureOf(promise) {
    try {
      await promise;
    } catch (error) {
      if (isUnshardError(error)) return error.detail.code;
      throw error;
    }
    return undefined;
  },
};
