/**
 * The folders that a command reads.
 *
 * @module
 */

import { realpath } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { type FileTree, mergeTrees, openFolder, UnshardError } from '../node.js';
import type { Common } from './arguments.js';

/** A checkpoint to read, and the tag where that is known already. */
export interface OpenCheckpoint {
  readonly tree: FileTree;
  readonly tag: { readonly tag?: string };
}

/** Opens the folders to read as one. */
export async function openCheckpoint(command: { readonly checkpoint: string } & Common): Promise<OpenCheckpoint> {
  const { tree, tag } = await openOuterFolder(command.checkpoint, command.tag);
  if (command.also.length === 0) return { tree, tag };
  return { tree: mergeTrees([tree, ...(await Promise.all(command.also.map(openFolder)))]), tag };
}

/**
 * Opens the folder to read. For a tag folder that is the folder around it, where the configuration lies, with the tag
 * chosen.
 */
async function openOuterFolder(path: string, tag: string | undefined): Promise<OpenCheckpoint> {
  const tree = await openFolder(path);
  if (tag !== undefined) return { tree, tag: { tag } };
  const entries = await tree.list('');
  const holdsShards = entries.some((entry) => entry.kind === 'file' && entry.name.endsWith('_states.pt'));
  const folder = resolve(path);
  if (!holdsShards || dirname(folder) === folder) return { tree, tag: {} };
  return { tree: await openFolder(dirname(folder)), tag: { tag: basename(folder) } };
}

/**
 * Writing into the checkpoint could replace its own files.
 *
 * @throws UnshardError `output-is-input` of kind `usage`.
 */
export async function refuseInput(checkpoint: string, out: string): Promise<void> {
  const [input, output] = await Promise.all([
    realpath(checkpoint).catch(() => undefined),
    realpath(out).catch(() => undefined),
  ]);
  if (input === undefined || output === undefined || (output !== input && output !== dirname(input))) return;
  throw new UnshardError({
    kind: 'usage',
    code: 'output-is-input',
    message: `${out} is the checkpoint's own folder.`,
    advice: 'Choose another folder to write to. One inside the checkpoint will do.',
    facts: { file: out },
  });
}
