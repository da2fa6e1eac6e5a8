/**
 * The ways to get a model written, each with the time that it takes, and whether another one is far faster.
 *
 * @module
 */

import { FILES_IN_FLIGHT, type PlanView } from '../worker/protocol.js';
import { SHARD_SIZES } from './choices.js';
import { type Job, type Paces, secondsOf } from './paces.js';

/** A way to write. */
export interface Way {
  readonly kind: 'one' | 'shards' | 'download';
  readonly seconds: number;
  /** Largest file, in bytes, of shards that are not those of the plan. */
  readonly shardSize?: number;
  /** True for the one that is chosen. */
  readonly chosen: boolean;
  /** True where every figure was seen on this machine. */
  readonly measured: boolean;
}

/** What decides about the ways. */
export interface WaysOptions {
  readonly plan: Pick<PlanView, 'files' | 'totals' | 'options'>;
  readonly checks: Pick<Job, 'verify' | 'sha256'>;
  /** Where the files go; a folder where that is not chosen yet. */
  readonly to: 'folder' | 'download';
  /** False in browsers that cannot write to a folder. */
  readonly folders: boolean;
  readonly paces: Paces;
}

/** A way is far faster when it saves half of the time, and at least this many seconds. */
const FAR_FASTER_SECONDS = 20;

/** The ways that there are for a plan. */
export function waysOf({ plan, checks, to, folders, paces }: WaysOptions): readonly Way[] {
  const job: Job = { inputBytes: plan.totals.inputBytes, files: plan.files, ...checks };
  const size = plan.files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const isSharded = plan.options.maxShardSize !== undefined;
  const isSeen = (...roads: Paces['measured']): boolean => roads.every((road) => paces.measured.includes(road));
  const one: Way = {
    kind: 'one',
    seconds: secondsOf(isSharded ? { ...job, files: [{ byteLength: size }] } : job, 'folder', paces),
    chosen: to === 'folder' && !isSharded,
    measured: isSeen('one'),
  };
  const shardSize = SHARD_SIZES.findLast((each) => size >= FILES_IN_FLIGHT * each) ?? SHARD_SIZES[0];
  const shards: Way = {
    kind: 'shards',
    seconds: secondsOf(isSharded ? job : { ...job, files: shardsOf(size, shardSize) }, 'folder', paces),
    chosen: to === 'folder' && isSharded,
    measured: isSeen('one', 'several'),
    ...(isSharded ? {} : { shardSize }),
  };
  const download: Way = {
    kind: 'download',
    seconds: secondsOf(job, 'download', paces),
    chosen: to === 'download',
    measured: isSeen('download'),
  };
  const isCut = isSharded || (plan.options.output !== 'adapter' && size > shardSize);
  return [...(folders ? [one, ...(isCut ? [shards] : [])] : []), download];
}

/** The ways that are far faster than a chosen one into a folder, the fastest first. */
export function fasterWays(ways: readonly Way[]): readonly Way[] {
  const chosen = ways.find((way) => way.chosen);
  if (!chosen || chosen.kind === 'download') return [];
  return ways
    .filter(({ seconds }) => chosen.seconds > 2 * seconds && chosen.seconds - seconds > FAR_FASTER_SECONDS)
    .toSorted((a, b) => a.seconds - b.seconds);
}

function shardsOf(size: number, shardSize: number): { readonly byteLength: number }[] {
  const count = Math.ceil(size / shardSize);
  return Array.from({ length: count }, (_, i) => ({ byteLength: Math.min(shardSize, size - i * shardSize) }));
}
