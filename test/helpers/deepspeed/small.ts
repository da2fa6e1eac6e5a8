import type { CheckpointSpec, Param } from './spec.js';

/** Two groups of 19 and 20 elements: both need padding on three ranks, and a parameter lies across ranks. */
export const GROUPS: readonly (readonly Param[])[] = [
  [
    { name: 'embed.weight', shape: [5, 3] },
    { name: 'norm.weight', shape: [4] },
  ],
  [
    { name: 'head.weight', shape: [3, 5] },
    { name: 'head.bias', shape: [5] },
  ],
];

/** A small run in bf16 on three ranks. */
export function small(stage: CheckpointSpec['stage'], more: Partial<CheckpointSpec> = {}): CheckpointSpec {
  return { stage, ranks: 3, version: '0.17.0', modelDtype: 'BF16', groups: GROUPS, ...more };
}

/** Paths of the files of `small`. */
export const MODEL = 'global_step7/mp_rank_00_model_states.pt';

/** Path of the model file of a rank at stage 3. */
export function modelOf(rank: number): string {
  return `global_step7/zero_pp_rank_${rank}_mp_rank_00_model_states.pt`;
}

/** Path of the optimizer file of a rank. */
export function optimOf(rank: number): string {
  return `global_step7/bf16_zero_pp_rank_${rank}_mp_rank_00_optim_states.pt`;
}
