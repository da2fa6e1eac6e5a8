import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { dropFolders } from '../helpers/page.js';
import { readSafetensors } from '../helpers/safetensors.js';
import { openPage, pressStart, reachStage, readReport, setOptions } from './drive.js';
import { useSession } from './session.js';

const session = useSession({ noPickers: true, gpu: false, isolation: true });

const NAME = 'hf-trainer-t5-zero3-bf16-w2';

/** Saves every file that the report offers, and waits until all are on the disk. */
async function saveAll(): Promise<string[]> {
  const { page, browser } = session;
  const links = page.getByTestId('downloads').getByRole('link');
  const before = browser.finishedDownloads.length;
  const names: string[] = [];
  for (const link of await links.all()) {
    await link.click();
    names.push((await link.getAttribute('download')) ?? '');
    await expect.poll(() => browser.finishedDownloads.length, { timeout: 30_000 }).toBe(before + names.length);
  }
  expect(browser.finishedDownloads.slice(before).every(({ state }) => state === 'completed')).toBe(true);
  return names;
}

function expectModel(file: string, precision: 'fp32' | 'bf16'): void {
  const { tensors } = readSafetensors(readFileSync(file));
  const expected = Object.entries(expectedOf(NAME).tensors).map(([name, { sha256 }]) => [name, sha256[precision]]);
  expect([...tensors].map(([name, { sha256 }]) => [name, sha256]).sort()).toEqual(expected.sort());
}

describe('a browser without folder pickers', () => {
  it('reads a folder by file input and gives the files as downloads', async () => {
    const { page, browser, url } = session;
    await openPage(page, url);
    expect(await page.evaluate(() => 'showDirectoryPicker' in globalThis)).toBe(false);
    await page.locator('input[type="file"][name="folder"]').setInputFiles(checkpointPath(NAME));
    await reachStage(page, 'plan');
    expect(await page.getByRole('button', { name: 'Choose where to write' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Download the files' }).click();
    await pressStart(page, false);
    const report = await readReport(page);
    expect(report.backend.name).toBe('cpu');
    expect((await saveAll()).sort()).toEqual(report.files.map(({ path }) => path).sort());
    expect(readdirSync(browser.downloads).sort()).toEqual(report.files.map(({ path }) => path).sort());
    expectModel(join(browser.downloads, 'model.safetensors'), 'fp32');
    expect(JSON.parse(readFileSync(join(browser.downloads, 'config.json'), 'utf8'))).toMatchObject({
      model_type: 't5',
    });
  });

  it('converts again with other choices, from the same folder', async () => {
    const { page, browser } = session;
    await page.getByRole('button', { name: 'Convert again' }).click();
    await reachStage(page, 'plan');
    await setOptions(page, { dtype: 'bf16' });
    await page.getByRole('button', { name: 'Download the files' }).click();
    await pressStart(page, false);
    await readReport(page);
    await saveAll();
    expectModel(join(browser.downloads, 'model.safetensors'), 'bf16');
  });

  it('keeps nothing in its own storage of tabs that are gone', async () => {
    const { page, url } = session;
    const folders = async (): Promise<string[]> =>
      page.evaluate(async () => {
        const names: string[] = [];
        for await (const name of (await navigator.storage.getDirectory()).keys()) names.push(name);
        return names;
      });
    const [left] = await folders();
    expect(left).toMatch(/^unshard-downloads-/);
    await openPage(page, url);
    await page.locator('input[type="file"][name="folder"]').setInputFiles(checkpointPath(NAME));
    await reachStage(page, 'plan');
    await page.getByRole('button', { name: 'Download the files' }).click();
    await pressStart(page, false);
    await readReport(page);
    const now = await folders();
    expect(now).toHaveLength(1);
    expect(now).not.toContain(left);
  });

  it('says that no GPU can be used, and does not start on one', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await page.locator('input[type="file"][name="folder"]').setInputFiles(checkpointPath(NAME));
    await reachStage(page, 'plan');
    await page.getByRole('button', { name: 'Download the files' }).click();
    await setOptions(page, { backend: 'gpu' });
    await expect(pressStart(page, false)).rejects.toThrow('This browser offers no GPU.');
  });
});

describe('the report', () => {
  it('can be saved as a file', async () => {
    const { page, browser, url } = session;
    await openPage(page, url);
    await page.getByRole('button', { name: 'Try a sample' }).click();
    await reachStage(page, 'plan');
    await page.getByRole('button', { name: 'Download the files' }).click();
    await pressStart(page, false);
    const report = await readReport(page);
    const before = browser.finishedDownloads.length;
    await page.getByRole('link', { name: 'Save report' }).click();
    await expect.poll(() => browser.finishedDownloads.length).toBe(before + 1);
    expect(JSON.parse(readFileSync(join(browser.downloads, 'unshard-report.json'), 'utf8'))).toEqual(report);
  });
});

describe('a folder that is dropped', () => {
  it('is read as well', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await dropFolders(page, 'main', [checkpointPath(NAME)]);
    await reachStage(page, 'plan');
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('checkpoint');
  });
});
