/**
 * A page that copies bytes as plainly as a page can: what the product is measured against.
 *
 * @module
 */

import type { BareTask } from './bare.worker.js';
import type { BareCopy } from './bare-copy.js';

declare global {
  interface Window {
    /** What to copy with the next drop: an input folder, and an output folder or, without one, downloads. */
    bareCopy: BareCopy | undefined;
    /** Settles when the copy is done, or the downloads have begun. */
    bareCopied: Promise<void> | undefined;
  }
}

const drop = document.querySelector('#drop');
drop?.addEventListener('dragover', (event) => event.preventDefault());
drop?.addEventListener('drop', (event) => {
  event.preventDefault();
  if (event instanceof DragEvent) window.bareCopied = copyFolders([...(event.dataTransfer?.items ?? [])]);
});

async function copyFolders(items: readonly DataTransferItem[]): Promise<void> {
  const [input, output] = await Promise.all(items.map((item) => item.getAsFileSystemHandle?.()));
  const copy = window.bareCopy;
  if (!(input instanceof FileSystemDirectoryHandle) || !copy) throw new Error('There is nothing to copy.');
  const folder = output instanceof FileSystemDirectoryHandle ? output : undefined;
  const worker = new Worker(new URL('./bare.worker.ts', import.meta.url), { type: 'module' });
  const files = await new Promise<readonly File[]>((resolve, reject) => {
    worker.addEventListener('message', ({ data }: MessageEvent<{ files?: File[]; error?: string }>) => {
      if (data.files) resolve(data.files);
      else reject(new Error(data.error));
    });
    worker.addEventListener('error', ({ message }) => reject(new Error(message)));
    worker.postMessage({ copy, input, output: folder } satisfies BareTask);
  });
  for (const file of files) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(file);
    link.download = file.name;
    link.click();
    // Several at once are asked about.
    await new Promise((done) => setTimeout(done, DOWNLOAD_PAUSE_MS));
  }
}

/** Time between the starts of two downloads, in milliseconds. */
const DOWNLOAD_PAUSE_MS = 50;
