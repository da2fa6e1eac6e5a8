import { expect, it } from 'vitest';
import { reachStage } from './drive.js';
import { useSession } from './session.js';

const session = useSession({ gpu: false, plainHttp: true });

it('a page that was opened over plain http says what it lacks, and does all but write', async () => {
  const { page } = session;
  expect(await page.evaluate(() => isSecureContext)).toBe(false);
  await expect.poll(() => page.getByRole('alert').textContent()).toContain('plain http');
  await page.getByRole('button', { name: 'Try a sample' }).click();
  await reachStage(page, 'plan');
  await page.getByRole('button', { name: 'Download the files' }).click();
  await reachStage(page, 'failed');
  const failed = await page.locator('main').textContent();
  expect(failed).toContain('The browser gives this page no storage of its own');
  expect(failed).toContain('storage-missing');
  await page.getByRole('button', { name: 'Back to the plan' }).click();
  await reachStage(page, 'plan');
});
