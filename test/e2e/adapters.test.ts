import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright';
import { createServer, type ViteDevServer } from 'vite';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { readPss } from '../helpers/memory.js';
import { dropFolders, launchBrowser, type TestBrowser } from '../helpers/page.js';
import { firstDifference, patternBytes } from '../helpers/pattern.js';
import type {} from './adapters.page.js';

let server: ViteDevServer;
let browser: TestBrowser;
let page: Page;
let origin: string;

beforeAll(async () => {
  server = await createServer({
    root: fileURLToPath(new URL('../..', import.meta.url)),
    configFile: false,
    logLevel: 'error',
    server: { host: 'localhost', port: 0, hmr: false, watch: null },
    // Found in the middle of a test it would reload the page.
    optimizeDeps: { include: ['comlink'], noDiscovery: true },
  });
  await server.listen();
  origin = new URL(server.resolvedUrls?.local[0] ?? '').origin;
  browser = await launchBrowser({ gpu: false });
  page = browser.page;
});

afterAll(async () => {
  await browser?.close();
  await server?.close();
});

beforeEach(async () => {
  await page.goto(`${origin}/test/e2e/adapters.html`);
});

/** Two folders of the local disk, of which the input holds `step/a.pt`. */
function makeFolders(length: number): { input: string; output: string } {
  const root = mkdtempSync(join(tmpdir(), 'unshard-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const [input, output] = [join(root, 'input'), join(root, 'output')];
  mkdirSync(join(input, 'step'), { recursive: true });
  mkdirSync(output);
  writeFileSync(join(input, 'step', 'a.pt'), patternBytes(0, length));
  return { input, output };
}

async function dropTwoFolders(length: number): Promise<{ input: string; output: string }> {
  const folders = makeFolders(length);
  await dropFolders(page, '#drop', [folders.input, folders.output]);
  return folders;
}

describe('folders of the local disk that are dropped on a page', () => {
  test('are read and written', async () => {
    const length = 20_000_003;
    const { output } = await dropTwoFolders(length);
    const seen = await page.evaluate(async () => {
      const { input, output } = await window.adapters.dropped;
      const source = await input.open('step/a.pt');
      const bytes = new Uint8Array(source.size);
      await source.read(0, bytes);
      const sink = await output.create('new/b.bin', bytes.length);
      await sink.write(9_000_000, bytes.subarray(9_000_000));
      await sink.write(0, bytes.subarray(0, 9_000_000));
      await sink.close();
      return { names: [input.name, output.name], entries: await input.list('step'), size: source.size };
    });
    expect(seen).toEqual({ names: ['input', 'output'], entries: [{ name: 'a.pt', kind: 'file' }], size: length });
    expect(readdirSync(join(output, 'new'))).toEqual(['b.bin']);
    expect(firstDifference(readFileSync(join(output, 'new', 'b.bin')), patternBytes(0, length))).toBeUndefined();
  });

  test('show an empty file while one is written, and nothing of one that is dropped', async () => {
    const { output } = await dropTwoFolders(1);
    const sink = await page.evaluateHandle(async () => {
      const sink = await (await window.adapters.dropped).output.create('b.bin', 100_000);
      await sink.write(0, new Uint8Array(100_000).fill(7));
      return sink;
    });
    expect(readFileSync(join(output, 'b.bin'))).toHaveLength(0);
    await sink.evaluate((sink) => sink.abort());
    expect(readdirSync(output)).toEqual([]);
  });

  test('keep an older file until the new one is closed, and allow one writer only', async () => {
    const { output } = await dropTwoFolders(1);
    const path = join(output, 'b.bin');
    writeFileSync(path, 'old');
    const sink = await page.evaluateHandle(async () => (await window.adapters.dropped).output.create('b.bin', 3));
    const second = await page.evaluate(async () =>
      window.adapters.failureOf((await window.adapters.dropped).output.create('b.bin', 3)),
    );
    expect(second).toBe('sink-locked');
    await sink.evaluate((sink) => sink.write(0, new Uint8Array([110, 101, 119])));
    expect(readFileSync(path, 'utf8')).toBe('old');
    await sink.evaluate((sink) => sink.close());
    expect(readFileSync(path, 'utf8')).toBe('new');
  });

  test('refuse a file that changed or went after it was opened', async () => {
    const { input } = await dropTwoFolders(5_000_000);
    const source = await page.evaluateHandle(async () => (await window.adapters.dropped).input.open('step/a.pt'));
    const read = () =>
      source.evaluate((source) => window.adapters.failureOf(source.read(0, new Uint8Array(source.size))));
    expect(await read()).toBeUndefined();
    appendFileSync(join(input, 'step', 'a.pt'), 'x');
    expect(await read()).toBe('source-changed');
    rmSync(join(input, 'step', 'a.pt'));
    expect(await read()).toMatch(/^source-(missing|changed)$/);
  });

  test('refuse names that Chromium does not allow', async () => {
    await dropTwoFolders(1);
    const code = await page.evaluate(async () =>
      window.adapters.failureOf((await window.adapters.dropped).output.create('b.lnk', 1)),
    );
    expect(code).toBe('sink-bad-name');
  });
});

test('a picked folder is read', async () => {
  const { input } = makeFolders(100_000);
  await page.setInputFiles('#pick', input);
  const seen = await page.evaluate(async () => {
    const tree = window.adapters.picked();
    const source = await tree.open('step/a.pt');
    const bytes = new Uint8Array(10);
    await source.read(99_990, bytes);
    return { name: tree.name, entries: await tree.list(''), bytes: [...bytes], modified: source.modified };
  });
  expect(seen.name).toBe('input');
  expect(seen.entries).toEqual([{ name: 'step', kind: 'directory' }]);
  expect(seen.bytes).toEqual([...patternBytes(99_990, 10)]);
  expect(Math.abs(seen.modified - Date.now())).toBeLessThan(3_600_000);
});

describe("the browser's own storage", () => {
  test('gives its files as downloads', async () => {
    await page.evaluate(async () => {
      const { opfs } = window.adapters;
      const value = <T>(answer: { value: T } | object): T => {
        if ('value' in answer) return answer.value;
        throw new Error(JSON.stringify(answer));
      };
      const output = value(await opfs.openOutput('downloads'));
      const sink = value(await opfs.create(output, 'model.bin', 3));
      value(await opfs.write(sink, 0, new Uint8Array([1, 2, 3])));
      value(await opfs.closeSink(sink));
      const link = document.createElement('a');
      link.href = URL.createObjectURL(value(await opfs.file(output, 'model.bin')));
      link.download = 'model.bin';
      link.click();
    });
    await expect.poll(() => browser.finishedDownloads).toEqual([{ name: 'model.bin', state: 'completed' }]);
    expect([...readFileSync(join(browser.downloads, 'model.bin'))]).toEqual([1, 2, 3]);
  });

  test('tells when it is full, and how much was needed', async () => {
    const session = await page.context().newCDPSession(page);
    await session.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: 2_000_000 });
    const answer = await page.evaluate(async () => {
      const { opfs } = window.adapters;
      const output = await opfs.openOutput('full');
      return 'value' in output ? opfs.create(output.value, 'a.bin', 100_000_000) : output;
    });
    await session.send('Storage.overrideQuotaForOrigin', { origin });
    expect(answer).toMatchObject({ detail: { code: 'sink-no-space', facts: { file: 'a.bin', needed: 100_000_000 } } });
    const left = await page.evaluate(async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('full');
      const names = [];
      for await (const name of folder.keys()) names.push(name);
      return names;
    });
    expect(left).toEqual([]);
  });
});

test('memory is counted over all processes of the browser', async () => {
  const before = readPss(browser.pid);
  // Chromium does not run in less than 100 MB.
  expect(before).toBeGreaterThan(100e6);
  await page.evaluate(() => Object.assign(window, { kept: new Uint8Array(400e6).fill(1) }));
  // What the browser had not given back by then may be gone now.
  expect(readPss(browser.pid) - before).toBeGreaterThan(300e6);
  expect(existsSync(`/proc/${browser.pid}/smaps_rollup`)).toBe(true);
});
