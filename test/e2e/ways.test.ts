import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ESTIMATES, type Paces } from '../../src/ui/paces.js';
import { checkpointPath } from '../helpers/fixtures.js';
import { chooseDestination, openCheckpoint, openPage, pressStart, readReport, setOptions } from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession({ gpu: false });

/** A machine that needs minutes to check a hundred kilobytes. */
const SLOW: Paces = {
  paces: { ...ESTIMATES.paces, one: { read: 1, write: 1, close: 2_000_000 } },
  measured: ['one', 'download'],
};

async function openWith(paces: Paces | undefined): Promise<void> {
  const { page, url } = session;
  await openPage(page, url);
  await page.evaluate((text) => {
    if (text === undefined) localStorage.clear();
    else localStorage.setItem('unshard-paces', text);
  }, paces && JSON.stringify(paces));
  await openPage(page, url);
  await openCheckpoint(page, checkpointPath('gpt2-zero1-fp16-w2'));
}

/** The ways with their times, the chosen one marked. */
async function ways(): Promise<string[]> {
  const { page } = session;
  await page.getByTestId('ways').waitFor();
  return page.getByTestId('ways').locator('div').allTextContents();
}

const text = () => session.page.getByTestId('destination').textContent();
const advice = () => session.page.getByTestId('destination').getByRole('status');

describe('the ways to write', () => {
  it('show their times, which are called estimates until they were measured', async () => {
    await openWith(undefined);
    await expect.poll(ways).toEqual(['One file (chosen)under 2 s', 'Downloadunder 2 s']);
    expect(await text()).toContain('These are estimates');
    expect(await advice().textContent()).toBe('');
    await setOptions(session.page, { maxShardSize: '20 kB' });
    await expect.poll(ways).toContain('Files of 20 kB (chosen)under 2 s');
  });

  it('that are far faster are offered before the start, and taken by keyboard', async () => {
    const { page, browser } = session;
    await openWith(SLOW);
    const [one = '', download] = await ways();
    expect(one).toMatch(/^One file \(chosen\)about \d+(\.5)? min$/);
    expect(download).toBe('Downloadunder 2 s');
    expect(await text()).toContain('By what this machine needed before.');
    expect(await advice().textContent()).toContain('This can be much faster.');
    await page.getByRole('button', { name: 'Save as a download: under 2 s' }).focus();
    await page.keyboard.press('Enter');
    await expect.poll(ways).toContain('Download (chosen)under 2 s');
    await expect.poll(() => advice().textContent()).toBe('');
    const before = browser.finishedDownloads.length;
    await pressStart(page, false);
    const { files } = await readReport(page);
    await expect.poll(() => browser.finishedDownloads.length - before).toBe(files.length);
  });

  it('stay open to the user, whatever is faster', async () => {
    const { page } = session;
    const output = emptyFolder();
    await openWith(SLOW);
    await chooseDestination(page, output);
    await pressStart(page, false);
    await readReport(page);
    expect(readdirSync(output)).toContain('model.safetensors');
    // So small a run says nothing of how long a gigabyte takes.
    expect(await page.evaluate(() => localStorage.getItem('unshard-paces'))).toBe(JSON.stringify(SLOW));
  });
});
