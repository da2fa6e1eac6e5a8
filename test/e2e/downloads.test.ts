import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Report } from '../../src/index.js';
import { expectedOf as expectedIn } from '../helpers/deepspeed/convert.js';
import { small } from '../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { dropFolders } from '../helpers/page.js';
import { readSafetensors } from '../helpers/safetensors.js';
import { inTime, openPage, pressStart, reachStage, readReport, setOptions } from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession({ noPickers: true, gpu: false, isolation: true });

const NAME = 'hf-trainer-t5-zero3-bf16-w2';

/** How long the browser may take to save files. */
const SAVED = { timeout: 120_000 };

/** Waits until the browser has saved every file of a report, all of them whole. `before` had ended before the run. */
async function allSaved(report: Report, before: number): Promise<void> {
  const { finishedDownloads } = session.browser;
  await expect.poll(() => finishedDownloads.length, SAVED).toBe(before + report.files.length);
  const ended = finishedDownloads.slice(before);
  expect(ended.map(({ name }) => name).sort()).toEqual(report.files.map(({ path }) => path).sort());
  expect(ended.every(({ state }) => state === 'completed')).toBe(true);
}

/** Starts the conversion of the plan stage as downloads, and waits until all are on the disk. */
async function download(): Promise<Report> {
  const { page, browser } = session;
  const before = browser.finishedDownloads.length;
  await page.getByRole('button', { name: 'Download the files' }).click();
  await pressStart(page, false);
  const report = await readReport(page);
  await allSaved(report, before);
  return report;
}

/** Names in the browser's own storage, and the number of files in each. */
async function stored(): Promise<Record<string, number>> {
  return session.page.evaluate(async () => {
    const folders: Record<string, number> = {};
    for await (const [name, handle] of (await navigator.storage.getDirectory()).entries()) {
      let files = 0;
      if (handle instanceof FileSystemDirectoryHandle) for await (const _ of handle.keys()) files += 1;
      folders[name] = files;
    }
    return folders;
  });
}

/** Opens the page, and waits until the browser has ended the workers of the pages before: each holds a lock till then. */
async function openAnew(): Promise<void> {
  const { page, url } = session;
  await openPage(page, url);
  await expect.poll(() => page.evaluate(async () => (await navigator.locks.query()).held)).toEqual([]);
}

/** Opens a checkpoint by the file input of the page. */
async function openFolder(path: string): Promise<void> {
  await openAnew();
  await session.page.locator('input[type="file"][name="folder"]').setInputFiles(path);
  await reachStage(session.page, 'plan');
}

function expectModel(file: string, precision: 'fp32' | 'bf16'): void {
  const { tensors } = readSafetensors(readFileSync(file));
  const expected = Object.entries(expectedOf(NAME).tensors).map(([name, { sha256 }]) => [name, sha256[precision]]);
  expect([...tensors].map(([name, { sha256 }]) => [name, sha256]).sort()).toEqual(expected.sort());
}

describe('a browser without folder pickers', () => {
  it('reads a folder by file input and gives the files as downloads', async () => {
    const { page, browser } = session;
    await openFolder(checkpointPath(NAME));
    expect(await page.evaluate(() => 'showDirectoryPicker' in globalThis)).toBe(false);
    expect(await page.getByRole('button', { name: 'Choose where to write' }).count()).toBe(0);
    const report = await download();
    expect(report.backend.name).toBe('cpu');
    expect(readdirSync(browser.downloads).sort()).toEqual(report.files.map(({ path }) => path).sort());
    expectModel(join(browser.downloads, 'model.safetensors'), 'fp32');
    expect(JSON.parse(readFileSync(join(browser.downloads, 'config.json'), 'utf8'))).toMatchObject({
      model_type: 't5',
    });
  });

  it('converts again with other choices, from the same folder', async () => {
    const { page, browser } = session;
    await openFolder(checkpointPath(NAME));
    await download();
    expectModel(join(browser.downloads, 'model.safetensors'), 'fp32');
    await page.getByRole('button', { name: 'Convert again' }).click();
    await reachStage(page, 'plan');
    await setOptions(page, { dtype: 'bf16' });
    await download();
    expectModel(join(browser.downloads, 'model.safetensors'), 'bf16');
  });

  it('saves a file once more from its copy, until the copies are removed', async () => {
    const { page, browser } = session;
    await openAnew();
    await page.getByRole('button', { name: 'Try a sample' }).click();
    await reachStage(page, 'plan');
    await download();
    const before = browser.finishedDownloads.length;
    await page.getByTestId('downloads').getByRole('link', { name: 'Save model.safetensors' }).click();
    await expect.poll(() => browser.finishedDownloads.length, SAVED).toBe(before + 1);
    expect(browser.finishedDownloads.at(-1)).toEqual({ name: 'model.safetensors', state: 'completed' });
    expect(Object.values(await stored()).some((files) => files > 0)).toBe(true);
    await page.getByRole('button', { name: 'All are saved: remove the copies' }).click();
    expect(await page.getByTestId('written-files').textContent()).toContain('model.safetensors');
    await expect.poll(stored).toEqual({ [Object.keys(await stored())[0] ?? '']: 0 });
  });

  it('keeps nothing in its own storage of tabs that are gone', async () => {
    await openFolder(checkpointPath(NAME));
    await download();
    const [left] = Object.keys(await stored());
    expect(left).toMatch(/^unshard-downloads-/);
    await openFolder(checkpointPath(NAME));
    await download();
    const now = Object.keys(await stored());
    expect(now).toHaveLength(1);
    expect(now).not.toContain(left);
  });

  it('says that no GPU can be used, and does not start on one', async () => {
    const { page } = session;
    await openFolder(checkpointPath(NAME));
    await page.getByRole('button', { name: 'Download the files' }).click();
    await setOptions(page, { backend: 'gpu' });
    await expect(pressStart(page, false)).rejects.toThrow('This browser offers no GPU.');
  });
});

describe('the report', () => {
  it('can be saved as a file', async () => {
    const { page, browser } = session;
    await openAnew();
    await page.getByRole('button', { name: 'Try a sample' }).click();
    await reachStage(page, 'plan');
    const report = await download();
    const before = browser.finishedDownloads.length;
    await page.getByRole('link', { name: 'Save report' }).click();
    await expect.poll(() => browser.finishedDownloads.length).toBe(before + 1);
    expect(JSON.parse(readFileSync(join(browser.downloads, 'unshard-report.json'), 'utf8'))).toEqual(report);
  });
});

describe('a folder that is dropped', () => {
  it('is read as well', async () => {
    const { page } = session;
    await openAnew();
    await dropFolders(page, 'main', [checkpointPath(NAME)]);
    await reachStage(page, 'plan');
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('checkpoint');
  });
});

describe('little storage', () => {
  /** Six tensors of 4 MiB. Chromium grants its storage by the megabyte. */
  const written = writeCheckpoint({
    ...small(2),
    ranks: 1,
    groups: [Array.from({ length: 6 }, (_, i) => ({ name: `layers.${i}.weight`, shape: [1024, 1024] }))],
  });

  /** Opens the checkpoint in a browser that gives the page so many bytes. The limit holds while its session is open. */
  async function openWith(quotaSize: number): Promise<void> {
    const { page, url } = session;
    const folder = emptyFolder();
    for (const [path, bytes] of Object.entries(written.files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), bytes);
    }
    await openFolder(folder);
    const devTools = await page.context().newCDPSession(page);
    await devTools.send('Storage.overrideQuotaForOrigin', { origin: new URL(url).origin, quotaSize });
    onTestFinished(() => devTools.detach());
  }

  /** What the page shows of a run at one moment. */
  interface Look {
    readonly stage: string | undefined;
    /** Absent while nothing waits for space. */
    readonly notice: string | undefined;
    readonly canGoOn: boolean;
    /** Files that were given to the browser. */
    readonly given: number;
  }

  /** Looks at everything at once: asked one after another, the run may have gone on in between. */
  function look(): Promise<Look> {
    return session.page.evaluate(() => {
      const facts = [...document.querySelectorAll('.facts div')].map(({ textContent }) => textContent);
      const notice = document.querySelector('main [role="alert"]');
      return {
        stage: document.querySelector('main')?.dataset['state'],
        notice: notice?.textContent,
        canGoOn: notice?.querySelector('button')?.disabled === false,
        given: Number(facts.join().match(/Files given to the browser(\d+) of/)?.[1]),
      };
    });
  }

  /** The next look at which the run asks for space; undefined when it has ended without. */
  async function nextQuestion(): Promise<Look | undefined> {
    for (;;) {
      const now = await look();
      if (now.stage !== 'running') return;
      if (isAsking(now)) return now;
      await session.page.waitForTimeout(20);
    }
  }

  function isAsking({ notice, canGoOn }: Look): boolean {
    return notice !== undefined && canGoOn;
  }

  it('for the largest file is refused before the start, with both numbers', async () => {
    const { page } = session;
    await openWith(20_000_000);
    await page.getByRole('button', { name: 'Download the files' }).click();
    await expect(pressStart(page, false)).rejects.toThrow('this does not fit');
    const notice = await page.getByTestId('destination').getByRole('alert').textContent();
    expect(notice).toMatch(/^model\.safetensors needs 25\.2 MB, and the browser’s storage has 1\d(\.\d)? MB free\.$/);
    // In smaller files it can be started.
    await setOptions(page, { maxShardSize: '8 MB' });
    await page.getByRole('button', { name: 'Start', disabled: false }).waitFor();
  });

  it('for all files at once lets the run wait until the first are saved', async () => {
    const { page, browser } = session;
    await openWith(16_000_000);
    await setOptions(page, { maxShardSize: '4.2 MB' });
    const before = browser.finishedDownloads.length;
    await page.getByRole('button', { name: 'Download the files' }).click();
    await expect.poll(() => page.getByTestId('destination').textContent()).toContain('The run will wait in between');
    await pressStart(page, false);
    let waits = 0;
    for (;;) {
      const asked = await nextQuestion();
      if (!asked) break;
      waits += 1;
      expect(asked.notice).toMatch(/needs 4\.\d+ MB, and [\d.]+ (MB|kB|bytes) are free/);
      await expect.poll(() => browser.finishedDownloads.length - before, SAVED).toBeGreaterThanOrEqual(asked.given);
      const goOn = page.getByRole('button', { name: 'They are saved: go on', disabled: false });
      if (!(await inTime(goOn.click({ timeout: 10_000 })))) continue;
      // The run goes on, or asks once more for what was given since.
      const isAnswered = (now: Look): boolean => !isAsking(now) || now.given > asked.given;
      await expect.poll(async () => isAnswered(await look()), SAVED).toBe(true);
    }
    // First what a run that has failed says.
    const report = await readReport(page);
    expect(waits).toBeGreaterThan(0);
    await allSaved(report, before);
    const shards = report.files.filter(({ path }) => path.endsWith('.safetensors'));
    expect(shards).toHaveLength(6);
    const found = shards.flatMap(({ path }) => [
      ...readSafetensors(readFileSync(join(browser.downloads, path))).tensors,
    ]);
    expect(Object.fromEntries(found)).toEqual(expectedIn(written, 'F32').tensors);
  });
});
