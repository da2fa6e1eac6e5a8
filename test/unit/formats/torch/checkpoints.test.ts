import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { classifyGlobal } from '../../../../src/formats/pickle/globals.js';
import type { PyValue } from '../../../../src/formats/pickle/values.js';
import { locateStorages, readTorchFile } from '../../../../src/formats/torch/read.js';
import { TorchStorage, TorchTensor } from '../../../../src/formats/torch/tensor.js';
import { checkpointPath, FIXTURE_NAMES } from '../../../helpers/fixtures.js';
import { bytesSource } from '../../../helpers/source.js';

/** Every storage that can be reached from a value. */
function storagesIn(value: PyValue): TorchStorage[] {
  const found = new Set<PyValue>();
  const open = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== 'object' || next === null || found.has(next)) continue;
    found.add(next);
    if (next instanceof TorchTensor) open.push(next.storage);
    else if (next instanceof Map) open.push(...next.values());
    else if (Array.isArray(next)) open.push(...next);
  }
  return [...found].filter((one) => one instanceof TorchStorage);
}

describe('torch files of real checkpoints', () => {
  it.each(FIXTURE_NAMES)('%s: all open without a warning, and every storage is found', async (name) => {
    const folder = checkpointPath(name);
    const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.pt'));
    for (const path of paths) {
      const source = bytesSource(new Uint8Array(readFileSync(`${folder}/${path}`)), path);
      const file = await readTorchFile(source);
      expect(file.warnings, path).toEqual([]);
      const storages = storagesIn(file.value);
      const records = await locateStorages(file, storages);
      expect([...records.values()].map(({ length }) => length)).toEqual(storages.map(({ byteLength }) => byteLength));
      const classes = new Set([...file.globals.values()].map(classifyGlobal));
      expect([...classes].filter((one) => one === 'unknown' || one === 'dangerous')).toEqual([]);
      if (file.container === 'zip') expect(path).toContain(`${file.rootName}.pt`);
    }
    expect(paths.length).toBeGreaterThan(0);
  });
});
