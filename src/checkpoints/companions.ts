/**
 * What lies beside the tag folder: configuration and tokenizer files that belong to the weights, and weight files that
 * look whole and are hollow.
 *
 * @module
 */

import { mapBounded } from '../base/concurrent.js';
import { isUnshardError } from '../base/errors.js';
import { readSafetensorsHeader } from '../formats/safetensors/read.js';
import { readTorchFile } from '../formats/torch/read.js';
import { TorchTensor } from '../formats/torch/tensor.js';
import { readBytes } from '../io/read.js';
import type { FileTree } from '../io/types.js';
import { joinPath } from './deepspeed/files.js';
import type { Notice } from './inventory.js';

/** Files that `from_pretrained` reads beside the weights, by the names that transformers gives them. */
const COMPANIONS: readonly RegExp[] = [
  /^(?:config|generation_config|preprocessor_config|processor_config|video_preprocessor_config)\.json$/,
  /^(?:tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|chat_template)\.json$/,
  /^(?:vocab\.txt|merges\.txt|chat_template\.jinja|.*\.tiktoken)$/,
  /^(?:tokenizer|spiece|sentencepiece|source|target).*\.(?:model|spm)$/,
];

const WEIGHTS = /^(?:model|pytorch_model)(?:-\d{5}-of-\d{5})?\.(?:safetensors|bin)$/;

/** A companion that is rewritten is read whole: config.json is some kilobytes. */
const CONFIG_LIMIT = 4 * 2 ** 20;

/** Files opened at once. */
const LANES = 4;

/** A companion file before it has a number among the sources. */
export interface FoundCompanion {
  readonly path: string;
  readonly name: string;
  readonly size: number;
  readonly modified: number;
  readonly text?: string;
}

/** Finds the companions in a folder; config.json comes with its text. */
export async function findCompanions(tree: FileTree, folder: string, signal?: AbortSignal): Promise<FoundCompanion[]> {
  const names = await filesIn(tree, folder);
  const wanted = names.filter((name) => COMPANIONS.some((pattern) => pattern.test(name))).sort();
  return mapBounded(wanted, LANES, async (name) => {
    const path = joinPath(folder, name);
    const source = await tree.open(path);
    try {
      const found = { path, name, size: source.size, modified: source.modified };
      if (name !== 'config.json' || source.size > CONFIG_LIMIT) return found;
      return { ...found, text: new TextDecoder().decode(await readBytes(source, 0, source.size, signal)) };
    } finally {
      await source.close();
    }
  });
}

/**
 * Looks at the weight files beside the tag folder. ZeRO-3 runs leave files there whose tensors are empty: they load
 * without an error and hold nothing.
 */
export async function findHollowWeights(tree: FileTree, folder: string, signal?: AbortSignal): Promise<Notice[]> {
  const names = (await filesIn(tree, folder)).filter((name) => WEIGHTS.test(name)).sort();
  const notices = await mapBounded(names, LANES, async (name): Promise<Notice[]> => {
    const path = joinPath(folder, name);
    const hollow = await countHollow(tree, path, signal);
    if (hollow === 0) return [];
    const message = `${path} is hollow: ${hollow} of its tensors hold no elements. The real weights are in the ZeRO shards.`;
    return [{ code: 'hollow-weights', message }];
  });
  return notices.flat();
}

/** Number of empty tensors of a weight file. A file that cannot be read is no input of ours and is passed over. */
async function countHollow(tree: FileTree, path: string, signal: AbortSignal | undefined): Promise<number> {
  const source = await tree.open(path);
  try {
    const shapes = path.endsWith('.safetensors')
      ? (await readSafetensorsHeader(source, signal)).entries.map((entry) => entry.shape)
      : torchShapes((await readTorchFile(source, signal)).value);
    return shapes.filter((shape) => shape.includes(0)).length;
  } catch (error) {
    if (isUnshardError(error, 'bad-file', 'unsupported')) return 0;
    throw error;
  } finally {
    await source.close();
  }
}

function torchShapes(value: unknown): (readonly number[])[] {
  if (!(value instanceof Map)) return [];
  return [...value.values()].flatMap((tensor) => (tensor instanceof TorchTensor ? [tensor.shape] : []));
}

async function filesIn(tree: FileTree, folder: string): Promise<string[]> {
  return (await tree.list(folder)).filter((entry) => entry.kind === 'file').map((entry) => entry.name);
}
