import { describe, expect, it } from 'vitest';
import { pacesAfter } from '../../../src/ui/measured.js';
import { ESTIMATES } from '../../../src/ui/paces.js';
import { type Destination, DOWNLOAD } from '../../../src/ui/state.js';

const GB = 1e9;
const cost = { bytes: GB, seconds: 3 };
const costs = { read: cost, write: cost, close: cost };

/** Its handle is never used here. */
const FOLDER: Destination = { name: 'out', ref: { kind: 'directory', handle: {} as FileSystemDirectoryHandle } };

function ended(destination: Destination, ...sizes: number[]) {
  const files = sizes.map((size, i) => ({ path: `file-${i}`, byteLength: size * GB }));
  return { destination, plan: { files }, outcome: { costs } };
}

describe('a run that has ended', () => {
  it.each([
    ['one file', ended(FOLDER, 4), ['one']],
    ['several files', ended(FOLDER, 1, 1, 1, 1), ['several']],
    ['two files, of which nothing follows', ended(FOLDER, 1, 1), []],
    ['downloads of any number', ended(DOWNLOAD, 1, 1), ['download']],
  ] as const)('teaches the way that it went: %s', (_, run, measured) => {
    const { measured: seen, paces } = pacesAfter(ESTIMATES, run);
    expect(seen).toEqual(measured);
    for (const road of measured) expect(paces[road]).toMatchObject({ read: 3, write: 3 });
  });

  it('teaches nothing where it has waited for the user', () => {
    expect(pacesAfter(ESTIMATES, { ...ended(FOLDER, 4), outcome: {} })).toBe(ESTIMATES);
  });
});
