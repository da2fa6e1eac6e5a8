/** Writes universal checkpoints as `ds_to_universal.py` makes them, in memory. */

import { encodeFloats } from '../naive-floats.js';
import { joinedOf } from './cuts.js';
import { GRID_FOLDER, type GridSpec, gridExpected, modelRoots, type WrittenGrid } from './grid.js';
import { type Py, type PyMap, tensorOf } from './python.js';
import { sizeOf } from './spec.js';
import { saveZip } from './torch-save.js';

/** Folder of the files. */
export const UNIVERSAL = `${GRID_FOLDER}_universal`;

/** Path of the master of a parameter. */
export function masterFile(name: string): string {
  return `${UNIVERSAL}/zero/${name}/fp32.pt`;
}

/** Writes the universal checkpoint of a run. Files that are no use are no torch files, so that none is opened. */
export function writeUniversal(spec: GridSpec): WrittenGrid {
  const files: Record<string, Uint8Array> = {
    latest_universal: new TextEncoder().encode(UNIVERSAL),
    [`${UNIVERSAL}/zero/optimizer_state.pt`]: NO_FILE,
  };
  for (const [name, root] of modelRoots(spec)) {
    spec.edit?.(name, root);
    // The conversion takes the model files along, and leaves those of layers.
    if (!name.startsWith('layer_')) files[`${UNIVERSAL}/${name}`] = saveZip(root).bytes;
  }
  for (const param of spec.params) {
    if (param.isFrozen) continue;
    const { name, shape, master } = joinedOf(param, param.cut, spec.tp, param.rows);
    const isFlat = spec.stage === 3 && spec.tp === 1;
    const tensor = tensorOf('F32', isFlat ? [sizeOf({ shape })] : shape, master, 'weights');
    const root: PyMap = new Map<string, Py>([
      ['cat_dim', 0],
      ['param', tensor],
    ]);
    if (param.rows !== undefined) root.set('vocab_tensor', true);
    spec.edit?.(name, root);
    files[masterFile(name)] = saveZip(isFlat ? tensor : root).bytes;
    for (const other of ['exp_avg', 'exp_avg_sq', 'step']) files[`${UNIVERSAL}/zero/${name}/${other}.pt`] = NO_FILE;
  }
  return { files, expected: gridExpected(spec), aliases: Object.fromEntries(spec.tied ?? []) };
}

const NO_FILE = encodeFloats('F32', [1, 2, 3]);
