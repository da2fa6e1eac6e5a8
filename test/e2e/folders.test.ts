import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { dropFolders } from '../helpers/page.js';
import { readSafetensors } from '../helpers/safetensors.js';
import { convertInPage, openCheckpoint, openPage, reachStage } from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession();

const NAME = 'llama-tied-zero3-bf16-w3';
const TAG = 'global_step3';

/** The checkpoint as the node of a rank has it. */
function node(rank: number): string {
  const folder = emptyFolder();
  cpSync(checkpointPath(NAME), folder, { recursive: true });
  for (const file of readdirSync(join(folder, TAG))) {
    if (!file.includes(`zero_pp_rank_${rank}_`)) rmSync(join(folder, TAG, file));
  }
  return folder;
}

describe('a checkpoint on several nodes', () => {
  it('is added folder by folder until the set is whole, and converted to every bit', async () => {
    const { page } = session;
    const output = emptyFolder();
    await convertInPage(page, { checkpoint: node(0), also: [join(node(1), TAG), node(2)], output });
    const { tensors } = readSafetensors(readFileSync(join(output, 'model.safetensors')));
    const expected = Object.entries(expectedOf(NAME).tensors).map(([name, { sha256 }]) => [name, sha256.fp32]);
    expect([...tensors].map(([name, { sha256 }]) => [name, sha256]).sort()).toEqual(expected.sort());
  });

  it('says which ranks are still missing, and asks for no folder where none is', async () => {
    const { page, url } = session;
    const add = page.getByRole('button', { name: 'Add another folder' });
    await openPage(page, url);
    const [first, second, third] = [node(0), node(1), node(2)];
    await expect(openCheckpoint(page, first)).rejects.toThrow('Missing: rank 1, 2.');
    expect(await add.count()).toBe(1);
    await openPage(page, url);
    await expect(openCheckpoint(page, first, [second])).rejects.toThrow('Missing: rank 2.');
    await dropFolders(page, 'main', [third]);
    await page.locator('[data-folders="3"]').waitFor();
    expect(await page.getByTestId('problem').count()).toBe(0);
    expect(await add.count()).toBe(0);
  });

  it('is whole where a tag folder of a name of its own is opened before the folder around it', async () => {
    const renamed = join(emptyFolder(), 'saved-by-node-0');
    cpSync(join(node(0), TAG), renamed, { recursive: true });
    const output = emptyFolder();
    await convertInPage(session.page, { checkpoint: renamed, also: [node(1), node(2)], output });
    const { tensors } = readSafetensors(readFileSync(join(output, 'model.safetensors')));
    expect([...tensors.keys()].sort()).toEqual(Object.keys(expectedOf(NAME).tensors).sort());
  });

  it('never replaces a file of any of the folders', async () => {
    const [checkpoint, second] = [node(0), node(1)];
    const also = [second, join(node(2), TAG)];
    const before = readFileSync(join(second, 'config.json'), 'utf8');
    const refused = convertInPage(session.page, { checkpoint, also, output: second, overwrite: true });
    await expect(refused).rejects.toThrow('config.json in this folder belongs to the checkpoint');
    expect(readFileSync(join(second, 'config.json'), 'utf8')).toBe(before);
  });

  it('goes back to what was found where an added folder contradicts it', async () => {
    const { page, url } = session;
    const [first, second] = [node(0), node(1)];
    writeFileSync(join(second, 'config.json'), '{"model_type": "other"}');
    await openPage(page, url);
    await expect(openCheckpoint(page, first, [second])).rejects.toMatchObject({ code: 'folders-differ' });
    await page.getByRole('button', { name: 'Back to the plan' }).click();
    await reachStage(page, 'plan');
    expect(await page.locator('[data-folders="1"]').count()).toBe(1);
    await dropFolders(page, 'main', [join(first, 'config.json')]);
    await expect.poll(() => page.locator('.add-folder .notice').textContent()).toContain('That is a file.');
  });
});
