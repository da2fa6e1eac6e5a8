/**
 * Universal checkpoints, as `ds_to_universal.py` makes them: a folder `zero` with a folder for each parameter, whose
 * `fp32.pt` holds the master, joined over all ranks. Frozen parameters and buffers are in the model files alone.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { bytesOf } from '../../base/dtype.js';
import { UnshardError } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import { readTorchFile, type TorchFile } from '../../formats/torch/read.js';
import { TorchTensor } from '../../formats/torch/tensor.js';
import type { FileTree, TreeEntry } from '../../io/types.js';
import type { SourceFile, StoredBits, TensorEntry } from '../inventory.js';
import type { InspectOptions } from '../options.js';
import { warnOfCopies } from './copied-masters.js';
import { bitsOf, type Draft, locate } from './draft.js';
import { asTensor, dig, type Field, fieldOf } from './fields.js';
import { joinPath, type ShardName, UNIVERSAL_FOLDER } from './files.js';
import { missingParams, unlistedParam } from './parallel-problems.js';
import { renamedShard, shapeDiffers } from './problems.js';
import { spreadPieces } from './spread.js';
import type { ModelStates } from './states.js';

/** Parameters opened at once. Each has its own file, which is closed again. */
const LANES = 8;

/** Folders in each other that are looked into. More slashes are in no name of a module. */
const MAX_FOLDERS = 8;

/** File of a master. */
const MASTER_FILE = 'fp32.pt';

/** Files beside a master, by the name that torch records in them: of the same size, and no weights. */
const OPTIMIZER_STATE = /^(exp_avg|exp_avg_sq|max_exp_avg_sq|momentum_buffer|step)$/;

/** A parameter of a universal checkpoint. */
interface UniversalParam {
  readonly file: string;
  readonly stored: StoredBits;
  readonly numel: number;
  /** Undefined at stage 3, where the file holds a flat tensor. */
  readonly shape: readonly number[] | undefined;
  /** True where rows that pad the vocabulary may have been left out. */
  readonly isVocabulary: boolean;
}

/** What the folder of a universal checkpoint holds. */
export interface Universal {
  readonly params: ReadonlyMap<string, UniversalParam>;
  /** The files of the parameters, which are closed. */
  readonly files: readonly TorchFile[];
}

/** The names of the parameters of a universal checkpoint; undefined for a folder that is none. */
export async function findUniversal(
  tree: FileTree,
  folder: string,
  entries: readonly TreeEntry[],
  names: readonly ShardName[],
): Promise<string[] | undefined> {
  const has = entries.some(({ kind, name }) => kind === 'directory' && name === UNIVERSAL_FOLDER);
  // Where the conversion was written into the checkpoint itself, its own shards are read.
  if (!has || names.some(({ kind }) => kind === 'optim')) return undefined;
  const inside = await tree.list(joinPath(folder, UNIVERSAL_FOLDER));
  return inside.flatMap(({ kind, name }) => (kind === 'directory' ? [name] : [])).sort();
}

/** Opens the masters of all parameters, and adds their files to `sources`. Nothing else in the folders is read. */
export async function readUniversal(
  draft: Draft,
  tree: FileTree,
  folder: string,
  names: readonly string[],
  sources: SourceFile[],
  options: InspectOptions,
): Promise<Universal> {
  const first = sources.length;
  const found = await mapBounded(names, LANES, (name) => mastersIn(tree, folder, name));
  const there = found.flat();
  const missing = names.filter((_, i) => found[i]?.length === 0);
  if (missing.length > 0) draft.problems.push(missingParams(folder, missing, names.length));
  const total = first + there.length;
  let done = first;
  const read = await mapBounded(there, LANES, async ({ name, path }, i) => {
    const source = await tree.open(path);
    try {
      sources[first + i] = { path, size: source.size, modified: source.modified };
      const file = await readTorchFile(source, options.signal);
      const { rootName = '' } = file;
      if (OPTIMIZER_STATE.test(rootName)) draft.problems.push(renamedShard(path, `${rootName}.pt`));
      const param = await readParam(draft, path, file, first + i, options.signal);
      options.onProgress?.({ done: ++done, total, file: path });
      return { name, path, file, param };
    } finally {
      draft.files.delete(first + i);
      await source.close();
    }
  });
  await warnOfCopies(draft, tree, read, masterIn, options.signal);
  return { params: new Map(read.map(({ name, param }) => [name, param])), files: read.map(({ file }) => file) };
}

/** The masters in the folder of a name. A name with a slash in it has made a folder in a folder. */
async function mastersIn(
  tree: FileTree,
  folder: string,
  name: string,
  depth = 1,
): Promise<{ readonly name: string; readonly path: string }[]> {
  const place = joinPath(folder, `${UNIVERSAL_FOLDER}/${name}`);
  const entries = await tree.list(place);
  const own = entries.flatMap((entry) =>
    entry.kind === 'file' && entry.name === MASTER_FILE ? [{ name, path: `${place}/${MASTER_FILE}` }] : [],
  );
  const inner = entries.flatMap((entry) => (entry.kind === 'directory' ? [`${name}/${entry.name}`] : []));
  if (depth === MAX_FOLDERS) return own;
  return [...own, ...(await mapBounded(inner, LANES, (each) => mastersIn(tree, folder, each, depth + 1))).flat()];
}

/** Stage 1 and 2: a dict with the whole parameter. Stage 3: its elements in a row. */
function masterIn(path: string, file: TorchFile): TorchTensor {
  const root: Field = { file: path, path: '', value: file.value };
  return asTensor(file.value instanceof TorchTensor ? root : fieldOf(root, 'param'));
}

async function readParam(
  draft: Draft,
  path: string,
  file: TorchFile,
  source: number,
  signal: AbortSignal | undefined,
): Promise<UniversalParam> {
  const isFlat = file.value instanceof TorchTensor;
  const tensor = masterIn(path, file);
  await locate(draft, [{ shard: { file, source }, tensors: [tensor] }], signal);
  const { numel, shape } = tensor;
  const isVocabulary = dig(file.value, 'vocab_tensor') === true;
  return { file: path, stored: bitsOf(draft, tensor), numel, shape: isFlat ? undefined : shape, isVocabulary };
}

/** Puts the masters in the place of the 16-bit weights that the model files gave, which become their copies. */
export function takeMasters(draft: Draft, folder: string, { params }: Universal, models: readonly ModelStates[]): void {
  const listed = new Map(models.flatMap(({ paramShapes = [] }) => paramShapes.flat()));
  const missing = [...listed.keys()].filter((name) => !params.has(name) && !draft.aliases.has(name));
  if (missing.length > 0) draft.problems.push(missingParams(folder, missing, listed.size));
  for (const [name, param] of params) {
    const shape = param.shape ?? listed.get(name);
    if (!shape) draft.problems.push(unlistedParam(param.file, name));
    else if (numelOf(shape) !== param.numel) {
      draft.problems.push(shapeDiffers(param.file, name, shape, [param.numel]));
    } else draft.tensors.set(name, masterOf(draft, name, shape, param));
  }
  if (!models.some(({ config }) => dig(config, 'zero_optimization', 'round_robin_gradients') === true)) return;
  const message =
    'The run used round_robin_gradients. The conversion to a universal checkpoint mixes up the parameters of such runs, so that weights may be in the wrong place. Convert the original checkpoint instead.';
  draft.warnings.push({ code: 'universal-round-robin', message });
}

function masterOf(draft: Draft, name: string, shape: readonly number[], param: UniversalParam): TensorEntry {
  const { stored, isVocabulary, file } = param;
  const entry = draft.tensors.get(name);
  const isSame = String(entry?.shape) === String(shape);
  const copy = entry && !entry.meanOf ? (isSame ? entry.stored : headOf(draft, entry, shape)) : undefined;
  if (entry && !isSame && !(isVocabulary && copy)) {
    draft.problems.push(shapeDiffers(file, name, entry.shape, shape));
  }
  const proofs = isSame ? entry?.proofs : undefined;
  return { name, shape, origin: 'master', stored, ...(copy ? { copy } : {}), ...(proofs ? { proofs } : {}) };
}

/** The first rows of a weight whose vocabulary was padded. */
function headOf(draft: Draft, { stored, shape }: TensorEntry, kept: readonly number[]): StoredBits | undefined {
  const isHead = (kept[0] ?? 0) <= (shape[0] ?? 0) && String(kept.slice(1)) === String(shape.slice(1));
  if (!isHead || shape.length === 0) return undefined;
  const size = bytesOf(stored.dtype);
  const length = numelOf(shape) * size;
  const band = { from: 0, length: numelOf(kept) * size, to: 0 };
  const pieces = spreadPieces(stored.pieces, draft.partitions, { count: 1, shard: length, whole: length }, [band]);
  return pieces && { ...stored, pieces };
}

/** The masters of a universal checkpoint are whole: there are no shards of one rank. */
export function ranksAreJoined(folder: string): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'tp-rank-universal',
    message: `${folder} is a universal checkpoint, in which the shards of all tensor-parallel ranks are joined already.`,
    advice: 'Leave the option out.',
    facts: { file: folder },
  });
}
