import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { takeDownloads } from '../../bench/downloads.js';

function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'unshard-downloads-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('downloads are moved to the output', () => {
  const [downloads, output] = [emptyFolder(), emptyFolder()];
  writeFileSync(join(downloads, 'model.safetensors'), 'weights');
  takeDownloads({ downloads, finishedDownloads: [{ name: 'model.safetensors', state: 'completed' }] }, output);
  expect(readFileSync(join(output, 'model.safetensors'), 'utf8')).toBe('weights');
  expect(existsSync(join(downloads, 'model.safetensors'))).toBe(false);
});

test('a download that was cut short is an error', () => {
  const [downloads, output] = [emptyFolder(), emptyFolder()];
  const finishedDownloads = [{ name: 'model.safetensors', state: 'canceled' }] as const;
  expect(() => takeDownloads({ downloads, finishedDownloads }, output)).toThrow('model.safetensors was canceled');
});
