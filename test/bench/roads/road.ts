import type { Precision } from '../checkpoint/expected.js';

/** A way from a checkpoint to weights: the command line, the page. */
export interface Road {
  readonly name: string;
  /** What its memory must stay below, in bytes. */
  readonly memoryLimit: number;
  /** Converts `checkpoint` to `output`/model.safetensors. `output` is an empty folder. Paths are absolute. */
  convert(checkpoint: string, output: string, precision: Precision): Promise<Conversion>;
}

/** What a conversion took. */
export interface Conversion {
  /** Wall time, from the start to the finished file. */
  readonly seconds: number;
  /** The most memory at a time, in bytes. */
  readonly peakMemory: number;
}

/** Name of the file that a road writes. */
export const OUTPUT_NAME = 'model.safetensors';
