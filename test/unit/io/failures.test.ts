import { describe, expect, test } from 'vitest';
import { UnshardError } from '../../../src/base/errors.js';
import { domSinkFailure, domSourceFailure } from '../../../src/io/dom-failures.js';
import { shortRead } from '../../../src/io/failures.js';
import { nodeSinkFailure, nodeSourceFailure } from '../../../src/io/node-failures.js';

const system = (code: string) => Object.assign(new Error(`${code}: it failed`), { code });
const dom = (name: string) => new DOMException('it failed', name);

describe('what the system says when a file is read', () => {
  test.each([
    ['ENOENT', 'source-missing'],
    ['ENOTDIR', 'source-missing'],
    ['EACCES', 'source-not-allowed'],
    ['EPERM', 'source-not-allowed'],
    ['EIO', 'source-failed'],
    ['EMFILE', 'source-too-many-open'],
    ['ENFILE', 'source-too-many-open'],
    ['constructor', 'source-failed'],
  ])('%s is %s', (errno, code) => {
    const cause = system(errno);
    const failure = nodeSourceFailure('a.pt', cause);
    expect(failure.detail).toMatchObject({ kind: 'source', code, facts: { file: 'a.pt' } });
    expect(failure.cause).toBe(cause);
  });
});

describe('what the system says when a file is written', () => {
  test.each([
    ['EACCES', 'sink-not-allowed'],
    ['EROFS', 'sink-not-allowed'],
    ['ENOSPC', 'sink-no-space'],
    ['EDQUOT', 'sink-no-space'],
    ['EBUSY', 'sink-locked'],
    ['ENOENT', 'sink-gone'],
    ['EISDIR', 'sink-name-taken'],
    ['EEXIST', 'sink-name-taken'],
    ['ENAMETOOLONG', 'sink-bad-name'],
    ['EFBIG', 'sink-too-large'],
    ['EIO', 'sink-failed'],
  ])('%s is %s', (errno, code) => {
    const failure = nodeSinkFailure('a.bin', system(errno), 77);
    expect(failure.detail).toMatchObject({ kind: 'sink', code, facts: { file: 'a.bin', needed: 77 } });
  });
});

describe('what a browser says when a file is read', () => {
  test.each([
    ['NotReadableError', 'source-changed'],
    ['NotFoundError', 'source-missing'],
    ['NotAllowedError', 'source-not-allowed'],
    ['EncodingError', 'source-failed'],
  ])('%s is %s', (name, code) => {
    const failure = domSourceFailure('a.pt', dom(name));
    expect(failure.detail).toMatchObject({ kind: 'source', code, facts: { file: 'a.pt' } });
  });
});

describe('what a browser says when a file is written', () => {
  test.each([
    ['NotAllowedError', 'sink-not-allowed'],
    ['QuotaExceededError', 'sink-no-space'],
    ['NoModificationAllowedError', 'sink-locked'],
    ['InvalidStateError', 'sink-locked'],
    ['AbortError', 'sink-blocked'],
    ['NotFoundError', 'sink-gone'],
    ['TypeMismatchError', 'sink-name-taken'],
    ['UnknownError', 'sink-failed'],
  ])('%s is %s', (name, code) => {
    const failure = domSinkFailure('a.bin', dom(name), 77);
    expect(failure.detail).toMatchObject({ kind: 'sink', code, facts: { file: 'a.bin', needed: 77 } });
  });
});

test('an error that is explained already stays as it is', () => {
  const explained = shortRead('a.pt', 10, 20, 5);
  for (const explain of [domSourceFailure, domSinkFailure, nodeSourceFailure, nodeSinkFailure]) {
    expect(explain('b.pt', explained)).toBe(explained);
  }
});

test('the message names the file and the numbers, and ends with the advice', () => {
  expect(shortRead('a.pt', 10, 20, 5).message).toBe(
    'a.pt holds 5 of the 20 bytes expected at offset 10. The file is probably a cut copy: copy it again.',
  );
  const full = nodeSinkFailure('a.bin', system('ENOSPC'), 77);
  expect(full).toBeInstanceOf(UnshardError);
  expect(full.message).toBe(
    'a.bin (77 bytes) does not fit on the disk. Free some space or choose a folder on another disk, then start again.',
  );
});
