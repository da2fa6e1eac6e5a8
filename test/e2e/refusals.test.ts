import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { damageMasters } from '../helpers/damage.js';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { readSafetensors } from '../helpers/safetensors.js';
import {
  chooseDestination,
  convertInPage,
  dropOnDestination,
  openCheckpoint,
  PageFailure,
  pressStart,
  reachStage,
  readReport,
  setOptions,
} from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession();

const NAME = 'llama-tied-zero2-bf16-w3';
const MODEL = 'mp_rank_00_model_states.pt';
const RANK_1 = 'bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt';

/** A copy of a checkpoint that may be damaged. */
function copyOf(name: string): string {
  const folder = emptyFolder();
  cpSync(checkpointPath(name), folder, { recursive: true });
  return folder;
}

async function failure(promise: Promise<unknown>): Promise<PageFailure> {
  const error = await promise.then(
    () => new Error('the page went on'),
    (thrown: unknown) => thrown,
  );
  if (error instanceof PageFailure) return error;
  throw error;
}

async function startAnew(): Promise<void> {
  await session.page.reload();
  await reachStage(session.page, 'pick');
}

describe('a damaged checkpoint', () => {
  it('with a missing rank is shown with its problem and cannot be started', async () => {
    const checkpoint = copyOf(NAME);
    rmSync(join(checkpoint, 'global_step3', RANK_1));
    await startAnew();
    const { code, message } = await failure(openCheckpoint(session.page, checkpoint));
    expect(code).toBe('problem');
    expect(message).toMatch(/rank/i);
    expect(await session.page.getByRole('button', { name: 'Start' }).count()).toBe(0);
  });

  it('with a truncated shard names the file, and the way back leads to the start', async () => {
    const checkpoint = copyOf(NAME);
    truncateSync(join(checkpoint, 'global_step3', RANK_1), 40_000);
    await startAnew();
    const { message } = await failure(openCheckpoint(session.page, checkpoint));
    expect(message).toContain(RANK_1);
    if ((await session.page.locator('main').getAttribute('data-state')) === 'failed') {
      await session.page.getByRole('button', { name: 'Choose another folder' }).click();
      await reachStage(session.page, 'pick');
    }
  });

  it.each([
    ['missing', (file: string) => rmSync(file)],
    ['truncated', (file: string) => truncateSync(file, 40_000)],
  ])('with a %s rank gives the copies of the model file where that is asked for, and says so', async (_, damage) => {
    const checkpoint = copyOf(NAME);
    damage(join(checkpoint, 'global_step3', RANK_1));
    const output = emptyFolder();
    const report = await convertInPage(session.page, { checkpoint, output, dtype: 'bf16', partial: true });
    const { tensors } = readSafetensors(readFileSync(join(output, 'model.safetensors')));
    const expected = Object.entries(expectedOf(NAME).tensors).map(([name, { sha256 }]) => [name, sha256.bf16]);
    expect([...tensors].map(([name, { sha256 }]) => [name, sha256]).sort()).toEqual(expected.sort());
    expect(report.warnings.map(({ code }) => code)).toContain('partial');
    expect(await session.page.locator('h1').textContent()).toBe('Written, but 2 checks failed');
  });

  it('with a flipped bit fails in the run, leaves no file, and keeps the choices', async () => {
    const checkpoint = copyOf(NAME);
    const file = join(checkpoint, 'global_step3', MODEL);
    const bytes = readFileSync(file);
    // Most of the file is weights in bf16, which have hardly a zero byte; headers and padding have many.
    const at = bytes.findIndex((_, i) => i > 20_000 && bytes.subarray(i, i + 64).every((byte) => byte !== 0));
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    const output = emptyFolder();
    const { page } = session;
    const { message } = await failure(convertInPage(page, { checkpoint, output, dtype: 'bf16', format: 'bin' }));
    expect(message).toContain(MODEL);
    expect(readdirSync(output)).toEqual([]);
    await page.getByRole('button', { name: 'Back to the plan' }).click();
    await reachStage(page, 'plan');
    expect(await page.locator('input[name="format"]:checked').inputValue()).toBe('bin');
  });

  it('with a flipped bit in an optimizer file can be converted without that file', async () => {
    const checkpoint = copyOf(NAME);
    await damageMasters(checkpoint, `global_step3/${RANK_1}`);
    const output = emptyFolder();
    const { page } = session;
    const { message } = await failure(convertInPage(page, { checkpoint, output, dtype: 'fp32' }));
    expect(message).toContain(RANK_1);
    await page.getByRole('button', { name: 'Try without this file' }).click();
    await reachStage(page, 'plan');
    await pressStart(page, false);
    const report = await readReport(page);
    const { tensors } = readSafetensors(readFileSync(join(output, 'model.safetensors')));
    const copied = report.warnings.find(({ code }) => code === 'copies-taken')?.tensors ?? [];
    const kept = Object.entries(expectedOf(NAME).tensors).filter(([name]) => !copied.includes(name));
    expect([copied.length > 0, kept.length > 0]).toEqual([true, true]);
    for (const [name, { sha256 }] of kept) expect(tensors.get(name)?.sha256).toBe(sha256.fp32);
  });

  it('that is no checkpoint at all says so', async () => {
    const folder = emptyFolder();
    writeFileSync(join(folder, 'notes.txt'), 'no checkpoint');
    await startAnew();
    const { message } = await failure(openCheckpoint(session.page, folder));
    expect(message).toContain(folder.split('/').at(-1));
    await reachStage(session.page, 'failed');
  });

  it('and the same checkpoint undamaged is converted', async () => {
    const output = emptyFolder();
    await convertInPage(session.page, { checkpoint: copyOf(NAME), output });
    expect(readdirSync(output)).toContain('model.safetensors');
  });
});

/** Lets the worker of the page open so many more files for writing; the next ones wait until the function is called. */
async function holdWrites(allowed: number): Promise<() => Promise<void>> {
  const engine = session.page.workers().find((worker) => worker.url().includes('engine.worker'));
  if (!engine) throw new Error('The page has no engine worker.');
  await engine.evaluate((count) => {
    const { prototype } = FileSystemFileHandle;
    const { createWritable } = prototype;
    let opened = 0;
    const released = new Promise<void>((resolve) => Object.assign(globalThis, { releaseWrites: resolve }));
    prototype.createWritable = async function (options) {
      opened += 1;
      if (opened > count) await released;
      return createWritable.call(this, options);
    };
  }, allowed);
  return () => engine.evaluate(() => Reflect.get(globalThis, 'releaseWrites')());
}

describe('a cancel', () => {
  it('in the middle of a run removes finished and unfinished files and leads back to the plan', async () => {
    const output = emptyFolder();
    const { page } = session;
    await startAnew();
    await openCheckpoint(page, checkpointPath('hf-trainer-t5-zero3-fp16-w2'));
    await setOptions(page, { maxShardSize: '1 kB', dtype: 'bf16' });
    await chooseDestination(page, output);
    const release = await holdWrites(8);
    await pressStart(page, false);
    const shards = (): number => readdirSync(output).filter((name) => name.startsWith('model-')).length;
    await expect.poll(shards).toBeGreaterThan(1);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Cancelling.').waitFor();
    await release();
    await reachStage(page, 'plan');
    expect(readdirSync(output)).toEqual([]);
    await page.getByText('Cancelled. Nothing of that run is left.').waitFor();
    expect(await page.locator('input[name="dtype"]:checked').inputValue()).toBe('bf16');

    // The same run goes through when it is left alone, to more files than had appeared.
    await pressStart(page, false);
    expect((await readReport(page)).files.length).toBeGreaterThan(20);
  });
});

describe('a destination', () => {
  it('that holds a file of the same name is asked about, and the file is replaced only then', async () => {
    const output = emptyFolder();
    const model = join(output, 'model.safetensors');
    writeFileSync(model, 'precious');
    const conversion = { checkpoint: checkpointPath(NAME), output };
    const { message } = await failure(convertInPage(session.page, conversion));
    expect(message).toContain('model.safetensors');
    expect(readFileSync(model, 'utf8')).toBe('precious');
    await convertInPage(session.page, { ...conversion, overwrite: true });
    expect(readFileSync(model).length).toBeGreaterThan(10_000);
  });

  it('where a file of the checkpoint would be replaced is refused', async () => {
    const checkpoint = copyOf(NAME);
    const before = readFileSync(join(checkpoint, 'config.json'), 'utf8');
    const conversion = { checkpoint, output: checkpoint, overwrite: true };
    const { message } = await failure(convertInPage(session.page, conversion));
    expect(message).toContain('config.json in this folder belongs to the checkpoint');
    expect(readFileSync(join(checkpoint, 'config.json'), 'utf8')).toBe(before);
  });

  it('that is a file is refused with a sentence', async () => {
    await startAnew();
    await openCheckpoint(session.page, checkpointPath(NAME));
    const file = join(emptyFolder(), 'file');
    writeFileSync(file, '');
    const answer = session.page.locator('.destination .notice.problem, [data-testid="chosen-destination"]');
    await dropOnDestination(session.page, file, answer);
    expect(await answer.allTextContents()).toEqual([expect.stringContaining('That is a file.')]);
  });
});

describe('options that cannot be carried out', () => {
  it('keep the start button shut until they are mended', async () => {
    const { page } = session;
    await startAnew();
    await openCheckpoint(page, checkpointPath(NAME));
    await chooseDestination(page, emptyFolder());
    await setOptions(page, { maxShardSize: 'four' });
    expect((await failure(pressStart(page, false))).message).toContain('Type a size');
    await setOptions(page, { maxShardSize: '4 GB' });
    await pressStart(page, false);
    await readReport(page);
  });
});
