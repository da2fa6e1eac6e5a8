/**
 * Parameters of a universal checkpoint whose masters are the same, bit for bit: nothing in such a file names its
 * parameter, so one may have been copied over the other.
 *
 * @module
 */

import { readTorchFile, type TorchFile } from '../../formats/torch/read.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';
import type { FileTree } from '../../io/types.js';
import type { Draft } from './draft.js';
import { areUniform, contentOf } from './identity.js';

/** A file with the master of one parameter. */
export interface MasterFile {
  /** Name of the parameter. */
  readonly name: string;
  readonly path: string;
  readonly file: TorchFile;
}

/**
 * Warns of masters that are equal, unless they hold one value over and over, as those of norms do before the first step.
 *
 * @param tensorOf finds the master in a file.
 */
export async function warnOfCopies(
  draft: Draft,
  tree: FileTree,
  masters: readonly MasterFile[],
  tensorOf: (path: string, file: TorchFile) => TorchTensor,
  signal: AbortSignal | undefined,
): Promise<void> {
  const byContent = new Map<string, MasterFile[]>();
  for (const master of masters) {
    const content = contentOf(master.file);
    if (content !== undefined) byContent.set(content, [...(byContent.get(content) ?? []), master]);
  }
  for (const [first, ...others] of byContent.values()) {
    if (!first || others.length === 0) continue;
    if (await isUniform(tree, first.path, tensorOf, signal)) continue;
    const names = [first, ...others].map(({ name }) => name);
    const message = `The masters of ${names.length} parameters are the same, bit for bit, as after a file was copied over another one: ${names.slice(0, 4).join(', ')}${names.length > 4 ? ', …' : ''}.`;
    draft.warnings.push({ code: 'masters-equal', message, tensors: names });
  }
}

async function isUniform(
  tree: FileTree,
  path: string,
  tensorOf: (path: string, file: TorchFile) => TorchTensor,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const source = await tree.open(path);
  try {
    const file = await readTorchFile(source, signal);
    return await areUniform(file, [tensorOf(path, file)], signal);
  } finally {
    await source.close();
  }
}
