/**
 * What lies beside the tag folder: configuration and tokenizer files that belong to the weights, and weight files that
 * look whole and are hollow.
 *
 * @module
 */

import { mapBounded } from '../base/concurrent.js';
import { readBytes } from '../io/read.js';
import type { FileTree, TreeEntry } from '../io/types.js';
import { joinPath } from './deepspeed/files.js';
import type { Companion } from './inventory.js';

/** Files that `from_pretrained` reads beside the weights, by the names that transformers gives them. */
const COMPANIONS: readonly RegExp[] = [
  /^(?:config|generation_config|preprocessor_config|processor_config|video_preprocessor_config)\.json$/,
  /^(?:tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|chat_template)\.json$/,
  /^(?:vocab\.txt|merges\.txt|chat_template\.jinja|.*\.tiktoken)$/,
  /^(?:tokenizer|spiece|sentencepiece|source|target).*\.(?:model|spm)$/,
];

/** A companion whose text is wanted is read whole: configurations are some kilobytes. */
const CONFIG_LIMIT = 4 * 2 ** 20;

/** Files opened at once. */
const LANES = 4;

/** The configuration of an adapter, as PEFT names it. */
const ADAPTER_CONFIG = 'adapter_config.json';

/** The adapter whose configuration PEFT saves into the folder itself; others have a folder of their own name in it. */
const DEFAULT_ADAPTER = 'default';

/** A companion file before it has a number among the sources. */
export interface FoundCompanion extends Omit<Companion, 'source'> {
  readonly path: string;
  readonly size: number;
  readonly modified: number;
}

/**
 * Finds the companions in a folder; config.json comes with its text, and so do the configurations of adapters.
 * `adapters` are the adapters whose weights the checkpoint holds.
 */
export async function findCompanions(
  tree: FileTree,
  folder: string,
  adapters: readonly string[],
  signal?: AbortSignal,
): Promise<FoundCompanion[]> {
  const wanted = (await filesIn(tree, folder)).filter((name) => COMPANIONS.some((pattern) => pattern.test(name)));
  const found = await mapBounded(wanted.sort(), LANES, (name) =>
    openCompanion(tree, folder, name, name === 'config.json', signal),
  );
  const configs = await mapBounded(await adapterFolders(tree, folder, adapters), LANES, async ({ adapter, path }) => {
    if (!(await filesIn(tree, path)).includes(ADAPTER_CONFIG)) return [];
    return [{ ...(await openCompanion(tree, path, ADAPTER_CONFIG, true, signal)), adapter }];
  });
  return [...found, ...configs.flat()];
}

/** The folder of each adapter. */
async function adapterFolders(
  tree: FileTree,
  folder: string,
  adapters: readonly string[],
): Promise<{ adapter: string; path: string }[]> {
  const named = namesOf(await tree.list(folder), 'directory').filter((name) => adapters.includes(name));
  const below = named.sort().map((adapter) => ({ adapter, path: joinPath(folder, adapter) }));
  return [{ adapter: DEFAULT_ADAPTER, path: folder }, ...below.filter(({ adapter }) => adapter !== DEFAULT_ADAPTER)];
}

async function openCompanion(
  tree: FileTree,
  folder: string,
  name: string,
  withText: boolean,
  signal: AbortSignal | undefined,
): Promise<FoundCompanion> {
  const path = joinPath(folder, name);
  const source = await tree.open(path);
  try {
    const found = { path, name, size: source.size, modified: source.modified };
    if (!withText || source.size > CONFIG_LIMIT) return found;
    return { ...found, text: new TextDecoder().decode(await readBytes(source, 0, source.size, signal)) };
  } finally {
    await source.close();
  }
}

async function filesIn(tree: FileTree, folder: string): Promise<string[]> {
  return namesOf(await tree.list(folder), 'file');
}

function namesOf(entries: readonly TreeEntry[], kind: TreeEntry['kind']): string[] {
  return entries.filter((entry) => entry.kind === kind).map((entry) => entry.name);
}
