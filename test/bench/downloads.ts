import { copyFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestBrowser } from '../helpers/page.js';

/** Moves what a browser has downloaded to a folder. @throws where a download was not completed */
export function takeDownloads(
  { downloads, finishedDownloads }: Pick<TestBrowser, 'downloads' | 'finishedDownloads'>,
  folder: string,
): void {
  const failed = finishedDownloads.find(({ state }) => state !== 'completed');
  if (failed) throw new Error(`The download of ${failed.name} was ${failed.state}.`);
  for (const name of readdirSync(downloads)) {
    copyFileSync(join(downloads, name), join(folder, name));
    rmSync(join(downloads, name));
  }
}
