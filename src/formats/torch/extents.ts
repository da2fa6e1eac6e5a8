/**
 * Where the bytes of a tensor lie in its file.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { Extent, Repeat } from '../../base/extent.js';
import { unsupportedTorch } from './fault.js';
import type { StorageRecord, TorchTensor } from './tensor.js';

/** A view may be this many times as large as its storage: more than honest views, which broadcast over heads or rows. */
const MAX_EXPANSION = 1024;

/** Views of at most this many bytes may be broadcast from as little as they like: a mask of 16,384 by 16,384. */
const FREE_EXPANSION_BYTES = 256 * 2 ** 20;

/** One dimension of a view, in bytes. */
interface Loop {
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/**
 * The bytes of `tensor` in row-major order, each once: a single run where the view is contiguous, else one run that is
 * repeated. Empty for a tensor without elements. `record` is where its storage lies in source number `source`.
 *
 * @throws UnshardError of kind `unsupported` for a view that repeats few stored bytes over and over: a small file must
 * not become a huge one.
 */
export function tensorExtents(tensor: TorchTensor, record: StorageRecord, source: number): Extent[] {
  const itemBytes = bytesOf(tensor.dtype);
  const byteLength = tensor.numel * itemBytes;
  if (byteLength === 0) return [];
  checkExpansion(tensor, byteLength);
  const loops = mergeLoops(loopsOf(tensor, itemBytes));
  const inner = loops.at(-1);
  const isRun = inner !== undefined && inner.from === itemBytes;
  const length = isRun ? inner.count * itemBytes : itemBytes;
  const repeat: readonly Repeat[] = isRun ? loops.slice(0, -1) : loops;
  const extent = { source, offset: record.offset + tensor.offset * itemBytes, length, at: 0 };
  return [repeat.length === 0 ? extent : { ...extent, repeat }];
}

/** The dimensions that have more than one step, outermost first. */
function loopsOf({ shape, stride }: TorchTensor, itemBytes: number): Loop[] {
  const loops: Loop[] = [];
  let to = itemBytes;
  for (let i = shape.length - 1; i >= 0; i--) {
    const count = shape[i] ?? 1;
    if (count > 1) loops.unshift({ count, from: (stride[i] ?? 0) * itemBytes, to });
    to *= count;
  }
  return loops;
}

/** Joins neighbouring dimensions that step through the storage as one does. */
function mergeLoops(loops: readonly Loop[]): Loop[] {
  const merged: Loop[] = [];
  for (const loop of loops) {
    const outer = merged.at(-1);
    if (outer && outer.from === loop.from * loop.count) {
      merged[merged.length - 1] = { ...loop, count: outer.count * loop.count };
    } else {
      merged.push(loop);
    }
  }
  return merged;
}

function checkExpansion({ shape, storage }: TorchTensor, byteLength: number): void {
  if (byteLength <= FREE_EXPANSION_BYTES || byteLength <= storage.byteLength * MAX_EXPANSION) return;
  const what = `a tensor of shape [${shape.join(', ')}] repeats the ${storage.byteLength} bytes of storage ${storage.key} to ${byteLength}`;
  throw unsupportedTorch(storage.file, 'tensor-expansion', what, {
    storage: storage.key,
    limit: Math.max(FREE_EXPANSION_BYTES, storage.byteLength * MAX_EXPANSION),
    found: byteLength,
  });
}
