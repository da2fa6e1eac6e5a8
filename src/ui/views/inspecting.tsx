import type { JSX } from 'preact';
import { formatCount, formatMagnitude, plural } from '../format.js';
import type { InspectingState, Send } from '../state.js';
import { Facts, StageHeading } from './parts.js';

/** The short wait while the structure of a checkpoint is read. */
export function Inspecting({ state, send }: { readonly state: InspectingState; readonly send: Send }): JSX.Element {
  const { progress } = state;
  const facts = progress?.facts;
  return (
    <section class="card job">
      <StageHeading>Looking into {state.source.name}</StageHeading>
      <p>Only the structure is read, not the weights.</p>
      <progress aria-label="Files read" value={progress?.done} max={progress?.total} />
      <p class="status" aria-live="polite">
        {progress ? `${formatCount(progress.done)} of ${plural(progress.total, 'file')}` : 'Listing files'}
      </p>
      <p class="file">
        <code>{progress?.file ?? '\u00a0'}</code>
      </p>
      {facts && (
        <Facts
          facts={[
            ['ZeRO stage', facts.stage === undefined ? undefined : formatCount(facts.stage)],
            ['Ranks', formatCount(facts.ranks)],
            ['Parameters', formatMagnitude(facts.elements)],
            ['Tensors', formatCount(facts.parameters)],
            ['Steps', facts.globalSteps === undefined ? undefined : formatCount(facts.globalSteps)],
            ['DeepSpeed', facts.deepspeedVersion],
          ]}
        />
      )}
      <button type="button" onClick={() => send({ type: 'cancelled' })}>
        Cancel
      </button>
    </section>
  );
}
