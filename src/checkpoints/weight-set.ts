/**
 * Finds the files of finished weights in a folder: one file, or shards that an index names.
 *
 * @module
 */

import { mapBounded } from '../base/concurrent.js';
import { UnshardError } from '../base/errors.js';
import { readBytes } from '../io/read.js';
import type { FileTree } from '../io/types.js';
import type { RecordedCrc, SourceFile } from './inventory.js';
import { readWeightFile, type StoredTensor } from './weights.js';

/** Largest index that is read: a million names of a hundred characters each (256 MiB). */
const INDEX_LIMIT = 2 ** 28;

/** Files opened at once. */
const OPEN_LANES = 4;

const INDEX = /\.(?:safetensors|bin)\.index\.json$/;
const SAFETENSORS = /\.safetensors$/;
/** Other `.bin` files lie beside weights: arguments, optimizer and scheduler states. */
const TORCH = /^(?:pytorch_model|adapter_model|diffusion_pytorch_model)[^/]*\.bin$/;

/** Finished weights of a folder. */
export interface WeightSet {
  readonly files: readonly SourceFile[];
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly crcs: readonly RecordedCrc[];
}

/**
 * Opens the weights of a folder and reads their headers. Of several sets of files `wanted` names one: the file itself, or
 * the index. `firstSource` is the number of the first file among the sources of who asks.
 *
 * @throws UnshardError of kind `usage` where there are none or several, of kind `bad-file` where they contradict their index.
 */
export async function readWeightSet(
  tree: FileTree,
  wanted: string | undefined,
  firstSource: number,
  signal?: AbortSignal,
): Promise<WeightSet> {
  const name = wanted ?? (await findOne(tree));
  const index = INDEX.test(name) ? await readIndex(tree, name, signal) : undefined;
  const paths = index ? [...new Set(index.values())].sort() : [name];
  const opened = await mapBounded(paths, OPEN_LANES, async (path, i) => {
    const source = await tree.open(path);
    try {
      const read = await readWeightFile(source, firstSource + i, signal);
      return { file: { path, size: source.size, modified: source.modified }, ...read };
    } finally {
      await source.close();
    }
  });
  const tensors = new Map<string, StoredTensor>();
  for (const { file, tensors: found } of opened) {
    for (const [tensor, bits] of found) {
      const home = index?.get(tensor);
      if (index && home !== file.path) throw misplaced(name, tensor, home ?? 'no file', file.path);
      tensors.set(tensor, bits);
    }
  }
  for (const [tensor, path] of index ?? []) {
    if (!tensors.has(tensor)) throw misplaced(name, tensor, path, 'no file');
  }
  return { files: opened.map(({ file }) => file), tensors, crcs: opened.flatMap(({ crcs }) => crcs) };
}

/** The one set of weights of a folder: an index, else a safetensors file, else a torch file. */
async function findOne(tree: FileTree): Promise<string> {
  const names = (await tree.list('')).filter(({ kind }) => kind === 'file').map((entry) => entry.name);
  for (const pattern of [INDEX, SAFETENSORS, TORCH]) {
    const [first, ...others] = names.filter((name) => pattern.test(name)).sort();
    if (first !== undefined && others.length === 0) return first;
    if (first !== undefined) throw several(tree.name, [first, ...others]);
  }
  throw new UnshardError({
    kind: 'usage',
    code: 'weights-missing',
    message: `${tree.name} holds no weights: no .safetensors file, no pytorch_model.bin and no index of one.`,
    advice: 'Name the file, or the folder that holds it.',
    facts: { file: tree.name },
  });
}

/** The `weight_map` of an index: file by name of the tensor. */
async function readIndex(
  tree: FileTree,
  path: string,
  signal: AbortSignal | undefined,
): Promise<ReadonlyMap<string, string>> {
  const source = await tree.open(path);
  try {
    if (source.size > INDEX_LIMIT) throw badIndex(path, `at most ${INDEX_LIMIT} bytes`, `${source.size} bytes`);
    const text = new TextDecoder().decode(await readBytes(source, 0, source.size, signal));
    return new Map(Object.entries(weightMapOf(path, text)));
  } finally {
    await source.close();
  }
}

function weightMapOf(path: string, text: string): Readonly<Record<string, string>> {
  let index: unknown;
  try {
    index = JSON.parse(text);
  } catch {
    throw badIndex(path, 'JSON', 'something else');
  }
  const map = isObject(index) ? index['weight_map'] : undefined;
  const isMap = isObject(map) && Object.values(map).every((file) => typeof file === 'string' && !file.includes('/'));
  if (!isMap) throw badIndex(path, 'a weight_map of names to files beside it', 'none');
  return map as Readonly<Record<string, string>>;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function several(folder: string, names: readonly string[]): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'weights-several',
    message: `${folder} holds ${names.length} sets of weights: ${names.slice(0, 5).join(', ')}.`,
    advice: 'Name the file or the index that is meant.',
    facts: { file: folder, found: names.length },
  });
}

function badIndex(file: string, expected: string, found: string): UnshardError {
  return new UnshardError({
    kind: 'bad-file',
    code: 'weights-index-bad',
    message: `${file} must hold ${expected}; it holds ${found}.`,
    advice: 'The index was damaged or edited: copy it again from where it was written.',
    facts: { file, expected, found },
  });
}

function misplaced(index: string, tensor: string, expected: string, found: string): UnshardError {
  return new UnshardError({
    kind: 'bad-file',
    code: 'weights-index-differs',
    message: `${tensor} should be in ${expected} by ${index}; it is in ${found}.`,
    advice: 'The files may be of different runs of a conversion. Convert again into an empty folder.',
    facts: { file: index, tensor, expected, found },
  });
}
