/**
 * What files tell of their own identity: the name that they were saved under, the digest of their content, the device of
 * their tensors. Finds files that were renamed, copied over each other or put in another order.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import { numelOf } from '../../base/shape.js';
import { locateStorages, type TorchFile } from '../../formats/torch/read.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';
import { readBytes } from '../../io/read.js';
import type { CheckReport } from '../inventory.js';
import type { Draft } from './draft.js';
import { parseShardName, type ShardName } from './files.js';
import { duplicateShard, renamedShard } from './problems.js';
import type { GroupShapes, OptimStates, Shard } from './states.js';

/** Bytes of a tensor that tell whether it holds one value over and over (64 KiB, a multiple of every element). */
const SAMPLE_BYTES = 2 ** 16;

/**
 * torch puts the records of a file into a folder of the file's own name. A file whose folder bears the name of another
 * rank's file was renamed. Files that were saved to a stream have a folder `archive`, which says nothing.
 */
export function checkRootNames(draft: Draft, shards: readonly Shard[]): CheckReport {
  let named = 0;
  for (const shard of shards) {
    const saved = shard.file.rootName === undefined ? undefined : parseShardName(`${shard.file.rootName}.pt`);
    if (saved && rankOf(saved) !== rankOf(shard.name)) draft.problems.push(renamedShard(shard.path, saved.name));
    if (saved) named++;
  }
  return {
    id: 'root-names',
    status: named > 0 ? 'passed' : 'not-checkable',
    detail:
      `Files that record the name that they were saved under: ${named} of ${shards.length}.` +
      (named > 0 ? ' Each bears it.' : ''),
  };
}

/** What a name says, apart from how it is written. */
function rankOf(name: ShardName): string {
  return name.kind === 'model' || name.kind === 'optim' ? `${name.kind} ${name.dp ?? ''} ${name.mp}` : name.name;
}

/**
 * No two ranks that hold weights have files of one content. Ranks that hold padding alone may have, and so may ranks whose
 * weights are all alike, as those of norms are before the first step.
 */
export async function checkDuplicates(
  draft: Draft,
  stage: number,
  optims: readonly OptimStates[],
  groups: GroupShapes,
  signal: AbortSignal | undefined,
): Promise<CheckReport> {
  const seen = new Map<string, OptimStates['shard']>();
  const owns = ownersOf(stage, optims, groups);
  const owners = optims.filter(({ shard }, rank) => !shard.isLost && owns[rank]);
  for (const { shard, flatGroups } of owners) {
    const content = contentOf(shard.file);
    if (content === undefined) continue;
    const other = seen.get(content);
    if (other === undefined) seen.set(content, shard);
    else if (other.name.dp === shard.name.dp || (await areUniform(shard.file, flatGroups, signal))) continue;
    else draft.problems.push(duplicateShard(shard.path, other.path));
  }
  return {
    id: 'duplicate-shards',
    status: seen.size > 1 ? 'passed' : 'not-checkable',
    detail:
      seen.size > 1
        ? `The contents of ${seen.size} optimizer files are all different.`
        : `${seen.size} of ${optims.length} optimizer files hold weights and record digests of their content, so there is nothing to compare.`,
  };
}

/** True where each tensor holds one value over and over, as far as its first bytes tell. */
export async function areUniform(
  file: TorchFile,
  tensors: readonly TorchTensor[],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const filled = tensors.filter(({ numel }) => numel > 0);
  const records = await locateStorages(
    file,
    filled.map(({ storage }) => storage),
    signal,
  );
  for (const { storage, offset, numel, dtype } of filled) {
    const size = bytesOf(dtype);
    const start = (records.get(storage)?.offset ?? 0) + offset * size;
    const bytes = await readBytes(file.source, start, Math.min(numel * size, SAMPLE_BYTES), signal);
    if (bytes.some((byte, i) => byte !== bytes[i % size])) return false;
  }
  return true;
}

/**
 * The digest that torch stores of a file, or the CRC-32s of its storages. Undefined where no CRC-32s were taken: the digest
 * is of them and the names of the records, which then are those of any rank.
 */
export function contentOf(file: TorchFile): string | undefined {
  if (file.container === 'legacy' || !file.archive.hasCrcs) return undefined;
  if (file.serializationId !== undefined) return `id ${file.serializationId}`;
  const storages = [...file.archive.entries.values()].filter(({ name }) => /\/data\/\d+$/.test(name));
  return storages.map(({ size, crc32 }) => `${size} ${crc32}`).join();
}

/** For each rank, whether its file holds at least one element of a parameter: not padding alone, and not all in swap files. */
function ownersOf(stage: number, optims: readonly OptimStates[], groups: GroupShapes): boolean[] {
  const owns = optims.map(() => false);
  for (const [g, shapes] of groups.entries()) {
    const sizes = shapes.map(([, shape]) => numelOf(shape));
    // At stage 3 the parameter that is cut over the most ranks tells; before, how far all of them reach.
    const most = sizes.reduce(
      (ranks, size) => Math.max(ranks, size === 0 ? 0 : Math.ceil(size / Math.ceil(size / optims.length))),
      0,
    );
    const needed = sizes.reduce((sum, size) => sum + size, 0);
    let before = 0;
    for (const [rank, { flatGroups }] of optims.entries()) {
      const numel = flatGroups[g]?.numel ?? 0;
      if (numel > 0 && (stage === 3 ? rank < most : before < needed)) owns[rank] = true;
      before += numel;
    }
  }
  return owns;
}

/** Devices of a node are counted up with the ranks. A hint: other orders are odd, not wrong. */
export function checkDevices(optims: readonly OptimStates[]): CheckReport {
  const id = 'device-order';
  const locations = optims.map(({ flatGroups: [first] }) => first?.storage.location ?? '');
  const devices = locations.map((location) => Number(/^\w+:(\d+)$/.exec(location)?.[1] ?? Number.NaN));
  const period = devices.findIndex((device, i) => i > 0 && !(device > (devices[i - 1] ?? 0)));
  const node = period < 0 ? devices : devices.slice(0, period);
  if (devices.length < 2 || devices.some(Number.isNaN) || node.length < 2) {
    return { id, status: 'not-checkable', detail: 'The devices of the optimizer files do not tell the ranks apart.' };
  }
  if (devices.every((device, i) => device === node[i % node.length])) {
    return { id, status: 'passed', detail: `Devices count up with the ranks, ${node.length} to a node.` };
  }
  const shown = locations.slice(0, 8).join(', ');
  const detail = `The devices do not count up with the ranks: ${shown}. That is odd, and no proof of a wrong order.`;
  return { id, status: 'not-checkable', detail };
}
