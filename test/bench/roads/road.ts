import type { TpRule } from '../../../src/node.js';
import type { Precision } from '../checkpoint/expected.js';

/** How a checkpoint is converted. */
export interface Settings {
  readonly dtype: Precision;
  /** Default safetensors. */
  readonly format?: 'safetensors' | 'bin';
  /** Bytes. Default: one file. */
  readonly maxShardSize?: number;
  /** Default true: every check is on. */
  readonly verify?: boolean;
  readonly tpRules?: readonly TpRule[];
}

/** A way from a checkpoint to weights: the command line, the page. */
export interface Road {
  readonly name: string;
  /** What its memory is to stay below, in bytes. */
  readonly memoryTarget: number;
  /**
   * Converts `checkpoint` into `output`, an empty folder. Paths are absolute. `ready` is called when nothing is left to do
   * but to start: it brings disk and memory into the state that is measured, which does not last.
   */
  convert(checkpoint: string, output: string, settings: Settings, ready: () => Promise<void>): Promise<Conversion>;
}

/** What a conversion took. */
export interface Conversion {
  /** Wall time, from the start to the finished files. */
  readonly seconds: number;
  /** The most memory at a time, in bytes. */
  readonly peakMemory: number;
  /** Share of the run in which the GPU adapter had something to do. Absent where none converts. */
  readonly waited?: number;
}

/** The settings that differ from the default, as text: `bf16, shards, no checks`. */
export function settingsText({ dtype, format, maxShardSize, verify = true }: Settings): string {
  return [
    dtype,
    ...(format === 'bin' ? ['.bin'] : []),
    ...(maxShardSize === undefined ? [] : [`shards of ${Math.round(maxShardSize / 1e6)} MB`]),
    ...(verify ? [] : ['no checks']),
  ].join(', ');
}
