import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isUnshardError } from '../../src/base/errors.js';
import { locateEntries, readEntry, readZip } from '../../src/formats/zip/read.js';
import { bytesSource } from '../helpers/source.js';
import { buildZip, latin1 } from '../helpers/zip.js';

/** An archive that was changed anywhere means what it meant before, or is refused. It never means something else. */

const RECORDS = [
  { name: 'a/data.pkl', content: latin1('a pickle, say') },
  { name: 'a/data/0', content: Uint8Array.from({ length: 64 }, (_, i) => i * 3) },
  { name: 'a/data/1' },
  { name: 'a/version', content: latin1('3\n') },
];

/** Everything a reader takes from an archive: names, contents, and where data lies. `refused` where it takes nothing. */
async function meaning(bytes: Uint8Array): Promise<string> {
  try {
    const archive = await readZip(bytesSource(bytes));
    const stored = [...archive.entries.values()].filter((entry) => entry.method === 0);
    const offsets = await locateEntries(
      archive,
      stored.map((entry) => entry.name),
    );
    const contents = [...archive.entries.keys()].map(async (name) => {
      const content = await readEntry(archive, name, 1000);
      return `${name} at ${offsets.get(name)}: ${Buffer.from(content).toString('hex')}`;
    });
    return (await Promise.all(contents)).join('\n');
  } catch (error) {
    if (isUnshardError(error, 'bad-file', 'unsupported')) return 'refused';
    throw error;
  }
}

describe.each([
  ['an archive of torch', buildZip(RECORDS).bytes],
  [
    'an archive of other programs',
    buildZip(
      RECORDS.map((record) => ({ ...record, descriptor: 'none' as const })),
      { zip64: false },
    ).bytes,
  ],
  [
    'an archive with wide fields',
    buildZip(RECORDS.map((record) => ({ ...record, descriptor: 'none' as const, localZip64: true }))).bytes,
  ],
  [
    'an archive with a deflated pickle',
    buildZip(RECORDS.map((record, i) => (i === 0 ? { ...record, method: 8 as const } : record))).bytes,
  ],
])('%s', (_, bytes) => {
  it('survives or is refused with any one bit flipped', async () => {
    const before = await meaning(bytes);
    expect(before).not.toBe('refused');
    let refused = 0;
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const edited = Uint8Array.from(bytes);
      edited[bit >> 3] = (edited[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const after = await meaning(edited);
      if (after === 'refused') refused++;
      else expect(after, `bit ${bit & 7} of byte ${bit >> 3}`).toBe(before);
    }
    // Times, versions, attributes and padding may change.
    expect(refused).toBeGreaterThan(bytes.length * 8 * 0.3);
  });

  it('survives or is refused with runs of bytes overwritten, removed, repeated or moved', async () => {
    const before = await meaning(bytes);
    expect(before).not.toBe('refused');
    const place = fc.nat(bytes.length);
    const edit = fc.record({ from: place, to: place, into: place, cut: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 3 }), async (edits) => {
        let edited = Buffer.from(bytes);
        for (const { from, to, into, cut } of edits) {
          const run = edited.subarray(Math.min(from, to), Math.max(from, to));
          const rest = edited.subarray(into + (cut ? run.length : 0));
          edited = Buffer.concat([edited.subarray(0, into), run, rest]);
        }
        expect(['refused', before]).toContain(await meaning(Uint8Array.from(edited)));
      }),
      { numRuns: 500 },
    );
  });
});
