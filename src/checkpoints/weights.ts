/**
 * Files of finished weights, as `save_pretrained` and Unshard itself write them: where the bits of each tensor lie.
 *
 * @module
 */

import { readSafetensorsHeader } from '../formats/safetensors/read.js';
import { tensorExtents } from '../formats/torch/extents.js';
import { locateStorages, readTorchFile } from '../formats/torch/read.js';
import { TorchTensor } from '../formats/torch/tensor.js';
import type { ByteSource } from '../io/types.js';
import type { RecordedCrc, StoredBits } from './inventory.js';

/** A tensor of a weight file. */
export interface StoredTensor extends StoredBits {
  readonly shape: readonly number[];
}

/** What a weight file holds. */
export interface WeightFile {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly crcs: readonly RecordedCrc[];
}

/**
 * Reads the header of a safetensors file, or the dict of a torch file by any other name. `index` is the number of the
 * file among the sources of who asks. Values of a dict that are no tensors are passed over.
 *
 * @throws UnshardError of kind `bad-file` or `unsupported`.
 */
export async function readWeightFile(source: ByteSource, index: number, signal?: AbortSignal): Promise<WeightFile> {
  return source.name.endsWith('.safetensors')
    ? readSafetensors(source, index, signal)
    : readTorch(source, index, signal);
}

async function readSafetensors(source: ByteSource, index: number, signal?: AbortSignal): Promise<WeightFile> {
  const { entries, dataOffset } = await readSafetensorsHeader(source, signal);
  const tensors = entries.map(({ name, dtype, shape, begin, end }): [string, StoredTensor] => {
    const run = { source: index, offset: dataOffset + begin, length: end - begin, at: 0 };
    return [name, { dtype, shape, pieces: begin === end ? [] : [run] }];
  });
  return { tensors: new Map(tensors), crcs: [] };
}

async function readTorch(source: ByteSource, index: number, signal?: AbortSignal): Promise<WeightFile> {
  const file = await readTorchFile(source, signal);
  const named = file.value instanceof Map ? [...file.value] : [];
  const found = named.flatMap(([name, tensor]) =>
    typeof name === 'string' && tensor instanceof TorchTensor ? [{ name, tensor }] : [],
  );
  const filled = found.filter(({ tensor }) => tensor.numel > 0);
  const records = await locateStorages(
    file,
    filled.map(({ tensor }) => tensor.storage),
    signal,
  );
  const tensors = found.map(({ name, tensor }): [string, StoredTensor] => {
    const { dtype, shape, flip, storage } = tensor;
    const record = records.get(storage);
    const pieces = record ? tensorExtents(tensor, record, index) : [];
    return [name, { dtype, shape, pieces, ...(flip === undefined ? {} : { flip }) }];
  });
  const crcs = [...records.values()].flatMap(({ offset, length, crc32 }) =>
    crc32 === undefined || length === 0 ? [] : [{ source: index, offset, length, crc32 }],
  );
  return { tensors: new Map(tensors), crcs };
}
