import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from 'playwright';
import { describe, expect, it } from 'vitest';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { dropFolders } from '../helpers/page.js';
import { convertInPage, openCheckpoint, openPage, PageFailure, reachStage, readReport, setOptions } from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession();

/** A folder with two checkpoints of different models, `first` and `second`; the latest is `second`. */
function twoTags(): string {
  const folder = emptyFolder();
  cpSync(join(checkpointPath('llama-tied-zero2-bf16-w3'), 'global_step3'), join(folder, 'first'), { recursive: true });
  cpSync(join(checkpointPath('gpt2-zero1-fp16-w2'), 'global_step3'), join(folder, 'second'), { recursive: true });
  writeFileSync(join(folder, 'latest'), 'second');
  return folder;
}

/** The focused element, as its tag and text. */
async function focused(): Promise<string> {
  return session.page.evaluate(() => `${document.activeElement?.tagName} ${document.activeElement?.textContent}`);
}

/** Presses Tab until the named button or link has the focus. */
async function tabTo(name: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    if ((await focused()).endsWith(` ${name}`)) return;
    await session.page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not lead to ${name}.`);
}

describe('the sample', () => {
  it('goes the whole road by keyboard, with the focus on each new heading', async () => {
    const { page, url } = session;
    await openPage(page, url);
    expect(await focused()).toBe('H1 Turn a DeepSpeed checkpoint into model weights');
    await tabTo('Try a sample');
    await page.keyboard.press('Enter');
    await reachStage(page, 'plan');
    expect(await focused()).toBe('H1 sample-llama-zero2');
    // The adapter of these tests is software: it is passed over unless it is asked for.
    await expect.poll(() => page.locator('.options').textContent()).toContain('The GPU adapter is software');
    await tabTo('Download instead');
    await page.keyboard.press('Space');
    await page.getByRole('button', { name: 'Start', disabled: false }).waitFor();
    await tabTo('Start');
    await page.keyboard.press('Enter');
    await reachStage(page, 'running', 'report');
    const report = await readReport(page);
    expect(await focused()).toBe('H1 Done');
    const { tensors } = expectedOf('llama-tied-zero2-bf16-w3');
    expect(report.tensors.map(({ name }) => name).sort()).toEqual(Object.keys(tensors).sort());
    await tabTo('Another folder');
    await page.keyboard.press('Enter');
    await reachStage(page, 'pick');
    expect(await focused()).toContain('H1 Turn');
  });

  it('comes from the page’s own origin, and its requests are seen by the watch of these tests', async () => {
    const { page, requests, url } = session;
    await openPage(page, url);
    await page.getByRole('button', { name: 'Try a sample' }).click();
    await reachStage(page, 'plan');
    expect(requests).toContain(`${url}sample/manifest.json`);
    expect(requests).toContain(`${url}sample/global_step3/mp_rank_00_model_states.pt`);
  });
});

describe('the Content-Security-Policy', () => {
  /** Waits until a violation was reported, and takes all that was said of it. */
  async function takeViolation(rule: string): Promise<void> {
    await expect.poll(() => session.takeComplaints().join('\n')).toContain(`violation of ${rule}`);
    // What the browser itself logs of it comes before the answer to this.
    await session.page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
    session.takeComplaints();
  }

  it('lets no other origin be reached, and violations are seen by the watch of these tests', async () => {
    const { page, url } = session;
    await openPage(page, url);
    const reached = await page.evaluate(() =>
      fetch('http://127.0.0.1:1/').then(
        () => 'reached',
        () => 'blocked',
      ),
    );
    expect(reached).toBe('blocked');
    await takeViolation('connect-src');
  });

  it('lets no inline script run', async () => {
    const { page } = session;
    const ran = await page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'globalThis.ran = true';
      document.head.append(script);
      return 'ran' in globalThis;
    });
    expect(ran).toBe(false);
    await takeViolation('script-src');
  });
});

describe('a folder with several tags', () => {
  it('opens the latest, shows the others, and keeps the choices when another is chosen', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await openCheckpoint(page, twoTags());
    expect(await page.locator('select[name="tag"]').inputValue()).toBe('second');
    await page.locator('input[name="search"]').fill('embed_tokens');
    expect(await page.locator('table').textContent()).not.toContain('model.embed_tokens.weight');
    await setOptions(page, { dtype: 'bf16', tag: 'first' });
    await page.locator('input[name="search"]').fill('embed_tokens');
    await expect.poll(() => page.locator('table').textContent()).toContain('model.embed_tokens.weight');
    expect(await page.locator('input[name="dtype"]:checked').inputValue()).toBe('bf16');
  });

  it('converts the tag that is asked for, and knows no other', async () => {
    const checkpoint = twoTags();
    const tag = { checkpoint, tag: 'first' };
    const report = await convertInPage(session.page, { ...tag, output: emptyFolder() });
    const { tensors } = expectedOf('llama-tied-zero2-bf16-w3');
    expect(report.tensors.map(({ name }) => name).sort()).toEqual(Object.keys(tensors).sort());
    const other = convertInPage(session.page, { checkpoint, output: emptyFolder(), tag: 'third' });
    await expect(other).rejects.toThrow(PageFailure);
  });
});

describe('the table of tensors', () => {
  it('finds tensors by name and says how many', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await openCheckpoint(page, checkpointPath('llama-tied-zero2-bf16-w3'));
    await page.locator('input[name="search"]').fill('layers.0 norm');
    await expect.poll(() => page.locator('.search [role="status"]').textContent()).toBe('2 of 20 tensors');
    expect(await page.locator('tbody tr').count()).toBe(2);
  });
});

describe('what is dropped', () => {
  it('and is a file is answered with a sentence', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await dropFolders(page, 'main', [join(checkpointPath('gpt2-zero1-fp16-w2'), 'latest')]);
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('That is a file.');
  });

  it('where the page has just moved stays with it: the browser would open it in place of the page', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await page.getByRole('button', { name: 'Try a sample' }).click();
    await reachStage(page, 'plan');
    await page.evaluate(() => {
      // After all listeners: the page renews its own, which may come behind this one.
      addEventListener('drop', (event) => {
        setTimeout(() => Reflect.set(globalThis, 'isKept', event.defaultPrevented));
      });
    });
    const devTools = await page.context().newCDPSession(page);
    const data = { items: [], files: [checkpointPath('llama-zero2-bf16-w1')], dragOperationsMask: 1 };
    // The heading is entered, and dropped on before anything could be dragged over it.
    for (const [type, element] of [
      ['dragEnter', 'header'],
      ['dragOver', 'h1'],
      ['drop', 'h1'],
    ] as const) {
      const box = await page.locator(element).first().boundingBox();
      if (!box) throw new Error(`${element} cannot be seen.`);
      const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
      await devTools.send('Input.dispatchDragEvent', { type, ...at, data });
    }
    await devTools.detach();
    await expect.poll(() => page.evaluate(() => Reflect.get(globalThis, 'isKept'))).toBe(true);
    expect(await page.locator('main').getAttribute('data-state')).toBe('plan');
  });

  it('and is more than one folder is answered with a sentence', async () => {
    const { page, url } = session;
    await openPage(page, url);
    const folder = emptyFolder();
    mkdirSync(join(folder, 'a'));
    mkdirSync(join(folder, 'b'));
    await dropFolders(page, 'main', [join(folder, 'a'), join(folder, 'b')]);
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('Drop one folder');
  });
});

/** Makes a folder of the sample in the browser's own storage, and lets the picker choose `name` of that storage. */
async function letPickerChoose(name: string, files: 'sample' | 'none'): Promise<void> {
  await session.page.evaluate(
    async ({ folder, paths }) => {
      const root = await navigator.storage.getDirectory();
      const chosen = await root.getDirectoryHandle(folder, { create: true });
      for (const path of paths) {
        const segments = path.split('/');
        const file = segments.pop() ?? '';
        let parent = chosen;
        for (const segment of segments) parent = await parent.getDirectoryHandle(segment, { create: true });
        const stream = await (await parent.getFileHandle(file, { create: true })).createWritable();
        await stream.write(await (await fetch(`./sample/${path}`)).blob());
        await stream.close();
      }
      Object.assign(globalThis, { showDirectoryPicker: async () => chosen });
    },
    { folder: name, paths: files === 'sample' ? SAMPLE_FILES : [] },
  );
}

const SAMPLE_FILES = [
  'latest',
  'config.json',
  'global_step3/mp_rank_00_model_states.pt',
  ...[0, 1, 2].map((rank) => `global_step3/bf16_zero_pp_rank_${rank}_mp_rank_00_optim_states.pt`),
];

describe('the folder picker', () => {
  it('opens the checkpoint and the destination that are chosen', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await letPickerChoose('my-run', 'sample');
    await page.getByRole('button', { name: 'Choose a folder' }).click();
    await reachStage(page, 'plan');
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('my-run');
    await letPickerChoose('my-model', 'none');
    await page.getByRole('button', { name: 'Choose where to write' }).click();
    await page.getByRole('button', { name: 'Start', disabled: false }).click();
    await reachStage(page, 'running', 'report');
    const { files } = await readReport(page);
    const sizes = await page.evaluate(
      async (names) => {
        const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('my-model');
        const sizeOf = async (name: string): Promise<number> =>
          (await (await folder.getFileHandle(name)).getFile()).size;
        return Promise.all(names.map(sizeOf));
      },
      files.map(({ path }) => path),
    );
    expect(sizes).toEqual(files.map(({ byteLength }) => byteLength));
  });

  it('changes nothing when the user leaves it, and says why when it fails', async () => {
    const { page, url } = session;
    await openPage(page, url);
    const throwing = (name: string): Promise<unknown> =>
      page.evaluate((errorName) => {
        const showDirectoryPicker = async (): Promise<never> => {
          throw new DOMException('It is a system folder.', errorName);
        };
        return void Object.assign(globalThis, { showDirectoryPicker });
      }, name);
    await throwing('AbortError');
    await page.getByRole('button', { name: 'Choose a folder' }).click();
    await throwing('SecurityError');
    expect(await page.getByRole('alert').count()).toBe(0);
    await page.getByRole('button', { name: 'Choose a folder' }).click();
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('It is a system folder.');
    await reachStage(page, 'pick');
  });
});

describe('folders that were opened', () => {
  /** Leaves the plan, and waits until the browser has stored that the folder was opened. */
  async function untilRemembered(name: string): Promise<Locator> {
    const { page } = session;
    await page.getByRole('button', { name: 'Another folder' }).click();
    const again = page.getByRole('region', { name: 'Recent folders' }).getByRole('button', { name }).first();
    await again.waitFor();
    return again;
  }

  it('are opened again with a click, and not where the browser refuses', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await letPickerChoose('my-run', 'sample');
    await page.getByRole('button', { name: 'Choose a folder' }).click();
    await reachStage(page, 'plan');
    const again = await untilRemembered('my-run');
    await openPage(page, url);
    await again.click();
    await reachStage(page, 'plan');
    await openPage(page, url);
    await page.evaluate(() => {
      const denied = { queryPermission: async () => 'prompt', requestPermission: async () => 'denied' };
      Object.assign(FileSystemHandle.prototype, denied);
    });
    await again.click();
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('may not read “my-run”');
  });

  it('are offered again after a reload, until the list is cleared', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await openCheckpoint(page, checkpointPath('gpt2-zero1-fp16-w2'));
    const again = await untilRemembered('checkpoint');
    await openPage(page, url);
    const recent = page.getByRole('region', { name: 'Recent folders' });
    await again.waitFor();
    await page.getByRole('button', { name: 'Clear list' }).click();
    await recent.waitFor({ state: 'detached' });
    await openPage(page, url);
    expect(await recent.count()).toBe(0);
  });
});
