import { directoryOutput, type Plan } from '../index.js';
import type { Collisions, InputRef, OutputRef } from './protocol.js';

/** Looks up which files of a plan are there already, and which of those belong to the checkpoint. */
export async function findCollisions(plan: Plan, input: InputRef, output: OutputRef): Promise<Collisions> {
  if (output.kind !== 'directory') return { existing: [], sources: [] };
  const tree = directoryOutput(output.handle);
  const existing: string[] = [];
  for (const { path } of plan.files) if (await tree.has(path)) existing.push(path);
  const inside = await pathInside(input, output.handle);
  const taken = new Set(plan.sources.map(({ path }) => path));
  return { existing, sources: inside === undefined ? [] : existing.filter((path) => taken.has(inside + path)) };
}

/** The path, with a closing slash, of a folder that lies in the checkpoint; undefined where it lies elsewhere. */
async function pathInside(input: InputRef, folder: FileSystemDirectoryHandle): Promise<string | undefined> {
  if (input.kind !== 'directory') return undefined;
  const segments = await input.handle.resolve(folder);
  return segments?.map((segment) => `${segment}/`).join('');
}
