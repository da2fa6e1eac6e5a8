import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { dropFolders, launchBrowser } from '../../helpers/page.js';
import type {} from '../browser/bare.page.js';
import type { BenchPages } from '../browser/serve.js';
import type { Baseline } from '../conversion.js';
import { settle, warm } from '../disk.js';
import { takeDownloads } from '../downloads.js';
import { SETTLE_MS } from '../memory.js';
import { below } from '../reads.js';
import type { Destination } from '../roads/page.js';

/**
 * A page that reads the same ranges and writes as many bytes to as many files of the same sizes, through the same APIs, in
 * a fresh browser. The time is that from the drop of the folders to the last finished file.
 */
export function barePage(pages: BenchPages, destination: Destination): Baseline {
  return {
    name: 'bare',
    async seconds({ work }, { checkpoint, transfer }, cache) {
      if (cache === 'cold') return undefined;
      const target = join(work, 'bare');
      mkdirSync(target);
      const browser = await launchBrowser({ gpu: false });
      try {
        await sleep(SETTLE_MS);
        await browser.page.goto(pages.url('bare.html'));
        await browser.page.evaluate((copy) => {
          window.bareCopy = copy;
        }, transfer);
        await settle(
          work,
          transfer.files.reduce((sum, { byteLength }) => sum + byteLength, 0),
        );
        warm(below(checkpoint.path, transfer.reads));
        const started = performance.now();
        await dropFolders(browser.page, '#drop', [checkpoint.path, ...(destination === 'folder' ? [target] : [])]);
        await browser.page.waitForFunction(() => window.bareCopied !== undefined);
        await browser.page.evaluate(() => window.bareCopied);
        while (destination === 'download' && browser.finishedDownloads.length < transfer.files.length) await sleep(10);
        const seconds = (performance.now() - started) / 1000;
        if (destination === 'download') takeDownloads(browser, target);
        return seconds;
      } finally {
        await browser.close();
        rmSync(target, { recursive: true });
      }
    },
  };
}
