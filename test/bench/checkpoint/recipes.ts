/**
 * The checkpoints that are generated, by name, and what each takes on the disk. Pure.
 *
 * @module
 */

import type { CheckpointOptions } from './deepspeed.js';
import {
  evenParameters,
  giantAndTinyParameters,
  llamaParameters,
  oneParameter,
  type Parameter,
  smallParameters,
  wideParameters,
} from './shapes.js';

/** A checkpoint that can be generated. */
export type RecipeName =
  | 'zero3'
  | 'zero2'
  | 'small'
  | 'giant'
  | 'plain'
  | 'plain-small'
  | 'many-ranks'
  | 'small-tensors'
  | 'row-parallel'
  | 'one-tensor';

/** A checkpoint before it is written. */
export interface Recipe {
  /** What rows call it. */
  readonly label: string;
  readonly options: CheckpointOptions;
}

/** Elements to ask for; rounded down to whole layers they give 478 M. */
export const LARGE_ELEMENTS = 480e6;

/** How many times the large checkpoint is as large as the small one. At 480e6 it gives 101 M. */
const LARGE_TO_SMALL = 4.7;

/** How many times the giant checkpoint is as large as the large one. At 480e6 it gives 3.2 G, in matrices of 2 GB. */
const GIANT_TO_LARGE = 6.25;

/** Tensors of 4 KB in the checkpoint that has nothing else. */
const SMALL_TENSORS = 10_000;

/** Holes in place of moments, for shapes that are converted and not kept as whole checkpoints of a training. */
const HOLLOW = { moments: 'zeros' } as const;

const RECIPES: Readonly<Record<RecipeName, (elements: number) => Recipe>> = {
  zero3: (elements) => ({ label: 'ZeRO-3', options: { stage: 3, parameters: llamaParameters(elements) } }),
  zero2: (elements) => ({ label: 'ZeRO-2', options: { stage: 2, parameters: llamaParameters(elements) } }),
  small: (elements) => {
    return {
      label: 'ZeRO-3',
      options: { stage: 3, parameters: llamaParameters(Math.round(elements / LARGE_TO_SMALL)) },
    };
  },
  giant: (elements) => {
    const parameters = giantAndTinyParameters(elements * GIANT_TO_LARGE);
    return { label: 'tensors of 2 GB and of 40 bytes', options: { stage: 3, parameters, weights: 'zeros', ...HOLLOW } };
  },
  plain: (elements) => {
    return { label: 'plain', options: { stage: 3, parameters: evenParameters(elements), ...HOLLOW } };
  },
  'plain-small': () => {
    const elements = elementsOf({ parameters: smallParameters(SMALL_TENSORS) });
    return { label: 'plain', options: { stage: 3, parameters: evenParameters(elements), ...HOLLOW } };
  },
  'many-ranks': (elements) => {
    const parameters = evenParameters(elements);
    return { label: '1,000 ranks', options: { stage: 3, ranks: 1000, parameters, ...HOLLOW } };
  },
  'small-tensors': () => {
    const parameters = smallParameters(SMALL_TENSORS);
    return { label: '10,000 tensors of 4 KB', options: { stage: 3, parameters, ...HOLLOW } };
  },
  'row-parallel': (elements) => {
    const parameters = wideParameters(elements);
    const options = { stage: 2, ranks: 1, tensorParallel: 8, parameters, ...HOLLOW } as const;
    return { label: 'row-parallel merge of 8 ways', options };
  },
  'one-tensor': (elements) => {
    return { label: 'one tensor', options: { stage: 3, parameters: oneParameter(elements), ...HOLLOW } };
  },
};

/** How to make a checkpoint, where the large ones have about `elements` elements. */
export function recipe(name: RecipeName, elements: number): Recipe {
  return RECIPES[name](elements);
}

/**
 * Bytes of a shard where the large checkpoints have about `elements` elements: 500 MB at `LARGE_ELEMENTS`, and the same
 * number of shards at others.
 */
export function shardBytes(elements: number): number {
  return Math.ceil((500e6 * elements) / LARGE_ELEMENTS);
}

/** Elements of a checkpoint's model. */
export function elementsOf({ parameters }: { readonly parameters: readonly Parameter[] }): number {
  return parameters.reduce((sum, parameter) => sum + parameter.elements, 0);
}

/** About what a checkpoint takes on the disk, in bytes: what is zero takes nothing. */
export function diskBytes({ stage, weights, moments, ...options }: CheckpointOptions): number {
  const ofWeights = weights === 'zeros' ? 0 : stage === 2 ? 6 : 4;
  const ofMoments = moments === 'zeros' ? 0 : 8;
  return elementsOf(options) * (ofWeights + ofMoments);
}

/**
 * About what outputs of a checkpoint take on the disk at once, in bytes: four of fp32, with what a browser keeps beside
 * them; three of bf16 for the giant one, which is not written in fp32.
 */
export function outputBytes(name: RecipeName, elements: number): number {
  const { options } = recipe(name, elements);
  return elementsOf(options) * (name === 'giant' ? 3 * 2 : 4 * 4);
}
