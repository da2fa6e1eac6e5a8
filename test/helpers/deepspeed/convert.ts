/** Whole conversions in memory, and their results as they can be compared. */

import type { DType } from '../../../src/base/dtype.js';
import { inspect } from '../../../src/checkpoints/inspect.js';
import type { InspectOptions } from '../../../src/checkpoints/options.js';
import { run } from '../../../src/engine/run.js';
import { tensorExtents } from '../../../src/formats/torch/extents.js';
import { locateStorages, readTorchFile } from '../../../src/formats/torch/read.js';
import { TorchTensor } from '../../../src/formats/torch/tensor.js';
import { memoryOutput, memorySource, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { decodeFloats, encodeFloats, type NaiveFloat } from '../naive-floats.js';
import { readSafetensors, sha256 } from '../safetensors.js';
import { gather } from '../torch.js';
import type { WrittenCheckpoint } from './write.js';

/** A tensor by its dtype, shape and content. */
export interface TensorSummary {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sha256: string;
}

/** Tensors and tied names of an output. */
export interface Converted {
  readonly tensors: Readonly<Record<string, TensorSummary>>;
  /** Alias to owner. */
  readonly aliases: Readonly<Record<string, string>>;
}

/** Converts a checkpoint to one file of safetensors and reads that back. */
export async function toSafetensors(
  files: Readonly<Record<string, Uint8Array>>,
  options: PlanOptions = {},
  reading: InspectOptions = {},
): Promise<Converted> {
  const bytes = await convert(files, { ...options, format: 'safetensors' }, 'model.safetensors', reading);
  const { metadata, tensors } = readSafetensors(Buffer.from(bytes));
  const { format: _, ...aliases } = metadata;
  return { tensors: Object.fromEntries(tensors), aliases };
}

/** Converts a checkpoint to one torch file and reads that back. Names of one storage are tied to the first of them. */
export async function toBin(
  files: Readonly<Record<string, Uint8Array>>,
  options: PlanOptions = {},
): Promise<Converted> {
  const bytes = await convert(files, { ...options, format: 'bin' }, 'pytorch_model.bin');
  const file = await readTorchFile(memorySource('pytorch_model.bin', bytes));
  if (!(file.value instanceof Map)) throw new Error('the file holds no dict');
  const tensors: Record<string, TensorSummary> = {};
  const aliases: Record<string, string> = {};
  const owners = new Map<unknown, string>();
  for (const [name, tensor] of file.value) {
    if (typeof name !== 'string' || !(tensor instanceof TorchTensor)) throw new Error('the dict holds no tensors');
    const owner = owners.get(tensor.storage);
    if (owner !== undefined) {
      aliases[name] = owner;
      continue;
    }
    owners.set(tensor.storage, name);
    const record = (await locateStorages(file, [tensor.storage])).get(tensor.storage);
    const data = record ? gather(bytes, tensorExtents(tensor, record, 0)) : new Uint8Array();
    tensors[name] = { dtype: tensor.dtype, shape: tensor.shape, sha256: sha256(data) };
  }
  return { tensors, aliases };
}

/** What must come out: every tensor that is stored, floating-point ones at `dtype`. */
export function expectedOf(
  written: Pick<WrittenCheckpoint, 'expected' | 'aliases'>,
  dtype: NaiveFloat | 'keep',
): Converted {
  const tensors = [...written.expected].map(([name, tensor]): [string, TensorSummary] => {
    const converts = dtype !== 'keep' && (isFloat(tensor.dtype) || tensor.dtype === 'F64');
    const to = converts ? dtype : tensor.dtype;
    return [name, { dtype: to, shape: tensor.shape, sha256: sha256(at(tensor, to)) }];
  });
  return { tensors: Object.fromEntries(tensors), aliases: written.aliases };
}

async function convert(
  files: Readonly<Record<string, Uint8Array>>,
  options: PlanOptions,
  path: string,
  reading: InspectOptions = {},
) {
  const input = memoryTree(files);
  const output = memoryOutput();
  await run(plan(await inspect(input, reading), { overflow: 'inf', ...options }), { input, output });
  const bytes = output.files.get(path);
  if (!bytes) throw new Error(`${path} was not written`);
  return bytes;
}

function at({ dtype, bytes }: { readonly dtype: DType; readonly bytes: Uint8Array }, to: DType): Uint8Array {
  if (dtype === to || !isFloat(to)) return bytes;
  if (dtype === 'F64') return encodeFloats(to, [...new Float64Array(bytes.slice().buffer)]);
  return isFloat(dtype) ? encodeFloats(to, decodeFloats(dtype, bytes)) : bytes;
}

function isFloat(dtype: DType): dtype is NaiveFloat {
  return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16';
}
