import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder, unshard } from '../helpers/cli.js';
import { checkpointPath, expectedOf, FIXTURE_NAMES, PRECISIONS } from '../helpers/fixtures.js';
import { readSafetensors, sha256 } from '../helpers/safetensors.js';

/** Files this small are converted without threads unless they are asked for. */
const THREADS = { fp32: '0', fp16: '1', bf16: '3' } as const;

describe.each(FIXTURE_NAMES)('%s', (name) => {
  test.each(PRECISIONS)('gives the expected tensors in %s', async (precision) => {
    const out = await temporaryFolder();
    const options = ['--dtype', precision, '--threads', THREADS[precision], '--overflow', 'inf'];
    const { code, stderr } = await unshard(checkpointPath(name), out, ...options);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });

    const expected = expectedOf(name);
    const bytes = await readFile(join(out, 'model.safetensors'));
    const { metadata, tensors } = readSafetensors(bytes);
    const found = Object.fromEntries([...tensors].map(([tensor, { shape, sha256 }]) => [tensor, { shape, sha256 }]));
    const wanted = Object.fromEntries(
      Object.entries(expected.tensors).map(([tensor, entry]) => [
        tensor,
        { shape: entry.shape, sha256: entry.sha256[precision] },
      ]),
    );
    expect(found).toEqual(wanted);
    expect(metadata).toEqual({ format: 'pt', ...expected.aliases });
    if (Object.keys(expected.aliases).length === 0) {
      expect(sha256(bytes)).toBe(expected.safetensors_sha256[precision]);
    }
  });
});
