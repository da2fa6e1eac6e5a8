import type { JSX } from 'preact';
import { plural } from '../format.js';
import type { InspectingState, Send } from '../state.js';
import { StageHeading } from './parts.js';

/** The short wait while the structure of a checkpoint is read. */
export function Inspecting({ state, send }: { readonly state: InspectingState; readonly send: Send }): JSX.Element {
  const { progress } = state;
  return (
    <section class="card job">
      <StageHeading>Looking into {state.source.name}</StageHeading>
      <p>Only the structure is read, not the weights.</p>
      <progress aria-label="Files read" value={progress?.done} max={progress?.total} />
      <p class="status" aria-live="polite">
        {progress ? `${plural(progress.done, 'file')} of ${progress.total}` : 'Listing files'}
      </p>
      <p class="file">
        <code>{progress?.file ?? '\u00a0'}</code>
      </p>
      <button type="button" onClick={() => send({ type: 'cancelled' })}>
        Cancel
      </button>
    </section>
  );
}
