import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openBlockingSink, openBlockingSource } from '../../../src/io/node-blocking.js';
import { rejectionOf } from '../../helpers/errors.js';
import { patternBytes } from '../../helpers/pattern.js';

const BYTES = patternBytes(3, 10_000);

function fileOf(bytes: Uint8Array = BYTES): string {
  const folder = mkdtempSync(join(tmpdir(), 'unshard-blocking-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'rank0.pt');
  writeFileSync(file, bytes);
  return file;
}

describe('a source', () => {
  test('gives the bytes of any range', async () => {
    const source = await openBlockingSource('rank0.pt', fileOf());
    const into = new Uint8Array(1234);
    await source.read(567, into);
    expect(into).toEqual(BYTES.subarray(567, 567 + 1234));
    expect(source.size).toBe(BYTES.length);
    await source.close();
  });

  test('that is not there is told', async () => {
    const failure = await rejectionOf(openBlockingSource('rank0.pt', `${fileOf()}.gone`));
    expect(failure).toMatchObject({ kind: 'source', code: 'source-missing', facts: { file: 'rank0.pt' } });
  });

  test('that changed since it was opened hands out no byte', async () => {
    const file = fileOf();
    const source = await openBlockingSource('rank0.pt', file);
    appendFileSync(file, 'more');
    const failure = await rejectionOf(source.read(0, new Uint8Array(10)));
    expect(failure).toMatchObject({ kind: 'source', code: 'source-changed', facts: { file: 'rank0.pt' } });
    await source.close();
  });

  test('that became shorter is told with both numbers', async () => {
    const file = fileOf();
    const source = await openBlockingSource('rank0.pt', file);
    writeFileSync(file, BYTES.subarray(0, 100));
    const failure = await rejectionOf(source.read(50, new Uint8Array(200)));
    expect(failure).toMatchObject({ kind: 'source', facts: { file: 'rank0.pt' } });
    await source.close();
  });

  test('stops with the signal', async () => {
    const source = await openBlockingSource('rank0.pt', fileOf());
    const stopped = source.read(0, new Uint8Array(10), AbortSignal.abort(new Error('enough')));
    await expect(stopped).rejects.toThrow('enough');
    await source.close();
  });
});

describe('a sink', () => {
  test('writes any range and reads it back, and other bytes stay', async () => {
    const file = fileOf();
    const sink = await openBlockingSink('model.safetensors', file, BYTES.length);
    const part = patternBytes(9, 777);
    await sink.write(4321, part);
    const back = new Uint8Array(part.length);
    await sink.read?.(4321, back);
    await sink.release();
    expect(back).toEqual(part);
    const expected = BYTES.slice();
    expected.set(part, 4321);
    expect(new Uint8Array(readFileSync(file))).toEqual(expected);
  });

  test('that is not there is told with the size of the file', async () => {
    const failure = await rejectionOf(openBlockingSink('model.safetensors', `${fileOf()}.gone`, 5000));
    expect(failure).toMatchObject({ kind: 'sink', code: 'sink-gone', facts: { file: 'model.safetensors' } });
  });

  test('of which less is read back than was written is told', async () => {
    const sink = await openBlockingSink('model.safetensors', fileOf(), BYTES.length);
    const failure = await rejectionOf(Promise.resolve(sink.read?.(BYTES.length - 5, new Uint8Array(10))));
    expect(failure).toMatchObject({ kind: 'sink', facts: { file: 'model.safetensors' } });
    await sink.release();
  });

  test('on a full disk is told', async () => {
    const sink = await openBlockingSink('model.safetensors', '/dev/full', BYTES.length);
    const failure = await rejectionOf(sink.write(0, BYTES));
    expect(failure).toMatchObject({ kind: 'sink', code: 'sink-no-space' });
    await sink.release();
  });
});
