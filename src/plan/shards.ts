/**
 * How tensors are split over files and named: the rules of `split_torch_state_dict_into_shards` of huggingface_hub 1.x.
 *
 * @module
 */

import type { ResolvedOptions } from './plan.js';

/** One weight file: its name and the tensors in it, as indices in the order in which they were given. */
export interface ShardFile {
  readonly path: string;
  readonly tensors: readonly number[];
}

/** The parts of a file name around the number of a shard. */
export interface FileNames {
  readonly stem: string;
  readonly extension: string;
}

/** File names as the Hub and transformers expect them, and PEFT those of an adapter. */
export function fileNames({ output, format }: Pick<ResolvedOptions, 'output' | 'format'>): FileNames {
  const extension = format === 'safetensors' ? '.safetensors' : '.bin';
  if (output === 'adapter') return { stem: 'adapter_model', extension };
  return { stem: format === 'safetensors' ? 'model' : 'pytorch_model', extension };
}

/**
 * Splits tensors of the given sizes (bytes) in order. A tensor that is larger than the limit has a file of its own, which comes before
 * the file that is being filled. Without a limit there is one file.
 */
export function splitIntoShards(
  sizes: readonly number[],
  { stem, extension }: FileNames,
  maxShardSize: number | undefined,
): ShardFile[] {
  const limit = maxShardSize ?? Number.POSITIVE_INFINITY;
  const shards: number[][] = [];
  let current: number[] = [];
  let currentSize = 0;
  for (const [index, size] of sizes.entries()) {
    if (size > limit) {
      shards.push([index]);
      continue;
    }
    if (currentSize + size > limit) {
      shards.push(current);
      current = [];
      currentSize = 0;
    }
    current.push(index);
    currentSize += size;
  }
  if (current.length > 0 || shards.length === 0) shards.push(current);
  return shards.map((tensors, i) => ({
    path:
      shards.length === 1 ? `${stem}${extension}` : `${stem}-${number(i + 1)}-of-${number(shards.length)}${extension}`,
    tensors,
  }));
}

/** Name of the index of a sharded model. */
export function indexName({ stem, extension }: FileNames): string {
  return `${stem}${extension}.index.json`;
}

/**
 * The text of the index, as `save_torch_state_dict` writes it: `json.dump(index, indent=2)` with Python's ASCII escapes.
 * `names` are the tensor names of each shard in order.
 */
export function indexText(
  shards: readonly { readonly path: string; readonly names: readonly string[] }[],
  totalSize: number,
  aliases: Readonly<Record<string, string>>,
): string {
  const weightMap = new Map(shards.flatMap(({ path, names }) => names.map((name) => [name, path] as const)));
  const metadata = new Map<string, string | number>([['total_size', totalSize], ...Object.entries(aliases)]);
  const lines = (entries: ReadonlyMap<string, string | number>) =>
    [...entries].map(([key, value]) => `    ${asciiJson(key)}: ${asciiJson(value)}`).join(',\n');
  return `{\n  "metadata": {\n${lines(metadata)}\n  },\n  "weight_map": {\n${lines(weightMap)}\n  }\n}`;
}

/** JSON as Python writes it by default: every character outside ASCII escaped. */
function asciiJson(value: string | number): string {
  return JSON.stringify(value).replaceAll(/[\u007f-\uffff]/g, (unit) =>
    unit === '\u007f' ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function number(value: number): string {
  return String(value).padStart(5, '0');
}
