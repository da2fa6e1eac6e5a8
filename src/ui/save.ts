import type { FolderFile } from '../worker/protocol.js';
import { formatNames } from './format.js';

/** How long the address of a file is kept after the browser was asked to save it, in milliseconds: it may ask the user first. */
const ADDRESS_MS = 600_000;

/** Lets the browser save a file among its downloads. It does not tell when that is done. */
export function saveFile({ path, file }: FolderFile): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = path.slice(path.lastIndexOf('/') + 1);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), ADDRESS_MS);
}

/** A sentence on the files of a run that did not come to its end. */
export function savedText(saved: readonly string[]): string {
  return `The browser had saved ${formatNames(saved)} by then. They are not the whole model: remove them from its downloads.`;
}
