import { directoryOutput, type Plan } from '../index.js';
import type { Collisions, InputRef, OutputRef } from './protocol.js';

/** Looks up which files of a plan are there already, and which of those belong to the checkpoint. */
export async function findCollisions(plan: Plan, input: InputRef, output: OutputRef): Promise<Collisions> {
  if (output.kind !== 'directory') return { existing: [], sources: [] };
  const tree = directoryOutput(output.handle);
  const existing: string[] = [];
  for (const { path } of plan.files) if (await tree.has(path)) existing.push(path);
  const paths = plan.sources.map((source) => source.path);
  const inside = await pathsInside(input, output.handle);
  // Of several folders, one may have been laid over a folder of another: then its paths are the ends of whole ones.
  const isAt = (source: string, path: string) =>
    source === path || (input.kind === 'several' && source.endsWith(`/${path}`));
  const isSource = (path: string) => inside.some((folder) => paths.some((source) => isAt(source, folder + path)));
  return { existing, sources: existing.filter(isSource) };
}

/** The path, with a closing slash, of a folder in each of the input's folders that it lies in. */
async function pathsInside(input: InputRef, folder: FileSystemDirectoryHandle): Promise<string[]> {
  if (input.kind === 'several') {
    return (await Promise.all(input.parts.map((part) => pathsInside(part, folder)))).flat();
  }
  if (input.kind !== 'directory') return [];
  const segments = await input.handle.resolve(folder);
  return segments ? [segments.map((segment) => `${segment}/`).join('')] : [];
}
