import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { expectedOf } from '../helpers/deepspeed/convert.js';
import { type GridParam, writeGrid } from '../helpers/deepspeed/grid.js';
import { checkpointPath } from '../helpers/fixtures.js';
import { readSafetensors } from '../helpers/safetensors.js';
import { convertInPage, joinRanks, openCheckpoint, openPage } from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession();

const PARAMS: readonly GridParam[] = [
  { name: 'layers.0.up.weight', shape: [7, 4], cut: { kind: 'parts', dim: 0, widths: [[4, 3]] } },
  { name: 'layers.0.down.weight', shape: [4, 7], cut: { kind: 'parts', dim: 1, widths: [[4, 3]] } },
  { name: 'layers.0.norm.weight', shape: [4], cut: { kind: 'whole' } },
];

/** A run over two tensor-parallel ranks that says nothing of how they are joined. */
const WRITTEN = writeGrid({ version: '0.19.6', stage: 1, modelDtype: 'BF16', ranks: 2, tp: 2, params: PARAMS });

function ruleless(): string {
  const folder = emptyFolder();
  for (const [path, bytes] of Object.entries(WRITTEN.files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  }
  return folder;
}

function tensorsIn(output: string) {
  return Object.fromEntries(readSafetensors(readFileSync(join(output, 'model.safetensors'))).tensors);
}

const names = () => session.page.locator('input[name="tp-rule-pattern"]');
const ways = () => session.page.locator('select[name="tp-rule-how"]');

describe('a tensor-parallel checkpoint that does not say how its shards are joined', () => {
  it('asks for a rule for each kind of tensors, and is converted by the rules that are chosen', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await expect(openCheckpoint(page, ruleless())).rejects.toThrow('how 3 of its tensors are to be joined');
    expect(await names().evaluateAll((all) => all.map((one) => (one as HTMLInputElement).value))).toEqual([
      'layers.*.up.weight',
      'layers.*.norm.weight',
      'layers.*.down.weight',
      '',
    ]);
    const output = emptyFolder();
    const tpRules = ['*.norm.*=replicated', '*.down.*=1', '*=0'];
    await convertInPage(page, { checkpoint: ruleless(), tpRules, output, overflow: 'inf' });
    expect(tensorsIn(output)).toEqual(expectedOf(WRITTEN, 'F32').tensors);
  });

  it('gives the shards of one rank, and says that they are not the whole', async () => {
    const output = emptyFolder();
    const report = await convertInPage(session.page, {
      checkpoint: ruleless(),
      tpRank: '1',
      output,
      overflow: 'inf',
    });
    expect(report.warnings.map(({ code }) => code)).toContain('tp-rank-alone');
    const shapes = Object.entries(tensorsIn(output)).map(([name, { shape }]) => [name, shape]);
    expect(Object.fromEntries(shapes)).toEqual({
      'layers.0.up.weight': [3, 4],
      'layers.0.down.weight': [4, 3],
      'layers.0.norm.weight': [4],
    });
  });

  it('shows at the rules what is wrong with them, and they can be mended', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await expect(openCheckpoint(page, ruleless())).rejects.toThrow('joined');
    const section = page.getByRole('region', { name: 'Tensor-parallel shards' });
    for (const [i, how] of ['0', 'replicated', '0'].entries()) await ways().nth(i).selectOption(how);
    await names().nth(1).fill('');
    await page.getByRole('button', { name: 'Read again' }).click();
    expect(await section.getByRole('alert').textContent()).toContain('A rule has no name.');
    await names().nth(1).fill('*.norm.*');
    await page.getByRole('button', { name: 'Read again' }).click();
    await page.locator('[data-tp-rules="3"]').waitFor();
    expect(await page.getByTestId('problem').textContent()).toContain('cannot be joined along dimension 0');
    await ways().nth(2).selectOption('1');
    await names().nth(3).fill('none');
    await ways().nth(3).selectOption('average');
    await page.getByRole('button', { name: 'Read again' }).click();
    await page.locator('[data-tp-rules="4"]').waitFor();
    expect(await page.getByTestId('problem').count()).toBe(0);
    expect(await section.textContent()).toContain('The rule for none decides about no tensor.');
  });

  it('can be read in one way after another', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await expect(openCheckpoint(page, ruleless())).rejects.toThrow('joined');
    await joinRanks(page, ['*.norm.*=average', '*.down.*=1', '*=0']);
    await joinRanks(page, [], '0');
    await page.locator('[data-tp-rank="0"]').waitFor();
    expect(await page.getByTestId('problem').count()).toBe(0);
  });
});

it('a checkpoint that says how its shards are joined has the choice in a fold', async () => {
  const { page, url } = session;
  await openPage(page, url);
  await openCheckpoint(page, checkpointPath('universal-llama-autotp2-zero1-bf16'));
  const fold = page.locator('details', { hasText: 'Tensor-parallel shards' });
  expect(await fold.getAttribute('open')).toBeNull();
  // A universal checkpoint has no shards of single ranks.
  await fold.locator('summary').click();
  expect([await names().count(), await page.locator('select[name="tp-rank"]').count()]).toEqual([1, 0]);
});
