import { readFileSync } from 'node:fs';
import { afterEach, expect, it, vi } from 'vitest';
import { inspect } from '../../../src/index.js';
import { fetchSample } from '../../../src/worker/sample.js';
import { rejectionOf } from '../../helpers/errors.js';
import { expectedOf } from '../../helpers/fixtures.js';

const URL_OF_SAMPLE = 'https://example.org/unshard/sample/';
const FOLDER = new URL('../../../public/sample/', import.meta.url);

/** Answers requests for the sample from the files that are served with the page. */
function serveSample(...missing: string[]): void {
  vi.stubGlobal('fetch', async (url: URL, { signal }: { signal: AbortSignal }) => {
    signal.throwIfAborted();
    const path = url.href.slice(URL_OF_SAMPLE.length);
    return missing.includes(path)
      ? new Response('', { status: 404 })
      : new Response(readFileSync(new URL(path, FOLDER)));
  });
}

afterEach(() => {
  vi.unstubAllGlobals();
});

it('opens the sample of the page as a checkpoint', async () => {
  serveSample();
  const tree = await fetchSample(URL_OF_SAMPLE, new AbortController().signal);
  const inventory = await inspect(tree);
  expect(inventory).toMatchObject({ folder: 'sample-llama-zero2', layout: 'deepspeed-zero2', problems: [] });
  const { tensors } = expectedOf('llama-tied-zero2-bf16-w3');
  expect(inventory.tensors.map(({ name }) => name).sort()).toEqual(Object.keys(tensors).sort());
});

it('names the file that is not served', async () => {
  serveSample('latest');
  expect(await rejectionOf(fetchSample(URL_OF_SAMPLE, new AbortController().signal))).toMatchObject({
    kind: 'source',
    code: 'sample-unavailable',
    facts: { file: '/unshard/sample/latest' },
  });
});

it('says the same where nothing answers', async () => {
  vi.stubGlobal('fetch', async () => {
    throw new TypeError('Failed to fetch');
  });
  expect(await rejectionOf(fetchSample(URL_OF_SAMPLE, new AbortController().signal))).toMatchObject({
    code: 'sample-unavailable',
  });
});

it('is cancelled with the reason of the signal', async () => {
  serveSample();
  const reason = new DOMException('Cancelled.', 'AbortError');
  await expect(fetchSample(URL_OF_SAMPLE, AbortSignal.abort(reason))).rejects.toBe(reason);
});
