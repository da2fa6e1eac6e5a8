import { blockingProblems } from '../checkpoints/inventory.js';
import { loraOf } from './choices.js';
import { fitOf } from './space.js';
import type { PlanState } from './state.js';

/** What keeps the conversion from starting, as a sentence; undefined where nothing does. */
export function obstacle(state: PlanState): string | undefined {
  const { checkpoint, planning, choices, converters, destination, collisions } = state;
  if (blockingProblems(checkpoint).length > 0)
    return 'This checkpoint cannot be converted until its problems are solved.';
  if (planning.kind === 'refused') return 'These options cannot be carried out.';
  if (planning.kind === 'incomplete') {
    const lora = loraOf(choices);
    if (Number.isNaN(lora?.alpha)) return 'Type a number above zero as lora_alpha.';
    if (Number.isNaN(lora?.r)) return 'Type a whole number from 1 as the rank, or none.';
    return 'Type a size such as 4 GB.';
  }
  if (converters[choices.backend] === null) return 'This browser offers no GPU. Choose another converter.';
  if (!destination) return 'Choose where to write first.';
  if (destination.ref.kind === 'download' && planning.kind === 'made') {
    if (state.space === undefined) return 'Looking at the browser’s storage.';
    const fit = fitOf(planning.plan.files, state.space ?? undefined);
    if (fit.kind === 'too-large') return 'Choose a folder, or smaller files: this does not fit.';
  }
  if (planning.kind === 'working' || !collisions) return 'Looking at the destination.';
  if (!converters[choices.backend]) return 'Looking for a GPU.';
  if (collisions.sources.length > 0) return 'Choose another folder: files of the checkpoint are never replaced.';
  if (collisions.existing.length > 0 && !state.overwrite) return 'Agree to replace the existing files first.';
  return undefined;
}
