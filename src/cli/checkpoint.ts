/**
 * The folders that a command reads.
 *
 * @module
 */

import { realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { type FileTree, isUnshardError, mergeTrees, openFolder, type Plan, UnshardError } from '../node.js';
import type { Common, Planned } from './arguments.js';

/** A checkpoint to read, and the tag where that is known already. */
export interface OpenCheckpoint {
  readonly tree: FileTree;
  readonly tag: { readonly tag?: string };
  /** Absolute paths of the folders that the tree shows. */
  readonly folders: readonly string[];
}

/** Opens the folders to read as one. */
export function openCheckpoint(command: { readonly checkpoint: string } & Common): Promise<OpenCheckpoint> {
  return openFolders([command.checkpoint, ...command.also], command.tag);
}

/** Opens the folders that a plan was made from, where they are now. */
export async function openPlanned({ folders }: Planned, recorded: readonly string[]): Promise<OpenCheckpoint> {
  if (folders) return openFolders(folders, undefined);
  try {
    return await mergeFolders(recorded, {});
  } catch (error) {
    if (!isUnshardError(error, 'usage')) throw error;
    throw new UnshardError({ ...error.detail, advice: 'Say where the checkpoint is now with --checkpoint.' });
  }
}

/** Opens folders as they are given by a user, the first of which may be a tag folder. */
async function openFolders([first, ...others]: readonly [string, ...string[]], tag: string | undefined) {
  const outer = await outerFolder(first, tag);
  return mergeFolders([outer.folder, ...others.map((folder) => resolve(folder))], outer.tag);
}

async function mergeFolders(folders: readonly string[], tag: OpenCheckpoint['tag']): Promise<OpenCheckpoint> {
  const trees = await Promise.all(folders.map((folder) => openFolder(folder)));
  const [only, second] = trees;
  return { tree: only && !second ? only : mergeTrees(trees), tag, folders };
}

/**
 * The folder to read, and the tag that is asked for. For a tag folder that is the folder around it, where the configuration
 * lies, with the tag chosen.
 */
async function outerFolder(path: string, tag: string | undefined) {
  const tree = await openFolder(path);
  const folder = resolve(path);
  if (tag !== undefined) return { folder, tag: { tag } };
  const entries = await tree.list('');
  const holdsShards = entries.some((entry) => entry.kind === 'file' && entry.name.endsWith('_states.pt'));
  if (!holdsShards || dirname(folder) === folder) return { folder, tag: {} };
  return { folder: dirname(folder), tag: { tag: basename(folder) } };
}

/**
 * Writing into the checkpoint could replace its own files.
 *
 * @throws UnshardError `output-is-input` of kind `usage`.
 */
export async function refuseInput(checkpoint: string, out: string): Promise<void> {
  const input = await realOf(checkpoint);
  await refuseFolders(input === undefined ? [] : [input, dirname(input)], out);
}

/**
 * A folder below the one that was named may hold files that are read as well.
 *
 * @throws UnshardError `output-is-input` of kind `usage`.
 */
export async function refuseSources({ folders }: OpenCheckpoint, { sources }: Plan, out: string): Promise<void> {
  const paths = new Set(sources.map(({ path }) => dirname(path)));
  // Of several folders, one may have been laid over a folder of another: then its paths are the ends of whole ones.
  const below = folders.length > 1 ? new Set([...paths].flatMap(endsOf)) : paths;
  const real = await Promise.all(folders.flatMap((folder) => [...below].map((path) => realOf(join(folder, path)))));
  await refuseFolders(
    real.flatMap((path) => path ?? []),
    out,
  );
}

/** `a/b/c`, `b/c` and `c`. */
function endsOf(path: string): string[] {
  const segments = path.split('/');
  return segments.map((_, i) => segments.slice(i).join('/'));
}

function realOf(path: string): Promise<string | undefined> {
  return realpath(path).catch(() => undefined);
}

async function refuseFolders(real: readonly string[], out: string): Promise<void> {
  const output = await realOf(out);
  if (output === undefined || !real.includes(output)) return;
  throw new UnshardError({
    kind: 'usage',
    code: 'output-is-input',
    message: `${out} is a folder of the checkpoint's own files.`,
    advice: 'Choose another folder to write to. A new one inside the checkpoint will do.',
    facts: { file: out },
  });
}
