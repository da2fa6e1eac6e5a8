import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { canOpenFolders, droppedDestination, type Picked, pickDestination } from '../folders.js';
import { formatNames } from '../format.js';
import type { Paces } from '../paces.js';
import { fitOf } from '../space.js';
import { type Destination, DOWNLOAD, lastPlan, type PlanState, type Send } from '../state.js';
import { NoticeBox } from './parts.js';
import { Ways } from './ways.js';

/** Where to write: a folder by picker or drop, or downloads. */
export function DestinationZone(props: {
  readonly state: PlanState;
  readonly send: Send;
  readonly paces: Paces;
}): JSX.Element {
  const { state, send, paces } = props;
  const { source, destination, notice } = state;
  const [dragging, setDragging] = useState(false);

  async function choose(picking: Promise<Picked<Destination>>): Promise<void> {
    const picked = await picking;
    if (picked === undefined) return;
    send(
      typeof picked === 'string' ? { type: 'notice', message: picked } : { type: 'destination', destination: picked },
    );
  }

  const download = (
    <button type="button" onClick={() => send({ type: 'destination', destination: DOWNLOAD })}>
      {canOpenFolders() ? 'Download instead' : 'Download the files'}
    </button>
  );
  return (
    <section
      class={dragging ? 'destination dragging' : 'destination'}
      aria-labelledby="destination"
      data-testid="destination"
      onDragEnter={() => setDragging(true)}
      onDragLeave={(event) => {
        const inside = event.relatedTarget instanceof Node && event.currentTarget.contains(event.relatedTarget);
        if (!inside) setDragging(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        setDragging(false);
        if (event.dataTransfer) void choose(droppedDestination(event.dataTransfer));
      }}
    >
      <h3 id="destination">Destination</h3>
      {destination && (
        <p class="chosen" data-testid="chosen-destination">
          {destination.ref.kind === 'download' ? 'The browser’s downloads' : 'The folder '}
          {destination.ref.kind === 'directory' && <strong>{destination.name}</strong>}
        </p>
      )}
      {destination?.ref.kind === 'download' && (
        <p class="hint">
          Each file is made in the browser’s own storage first, and saved when it is complete. This needs its space
          twice. The browser may ask whether this page may download several files.
        </p>
      )}
      <div class="actions">
        {canOpenFolders() && (
          <button type="button" onClick={() => void choose(pickDestination(source))}>
            {destination ? 'Choose another' : 'Choose where to write'}
          </button>
        )}
        {destination?.ref.kind !== 'download' && download}
      </div>
      {canOpenFolders() && !destination && <p class="hint">or drop a folder here</p>}
      {state.cancelled && !notice && <NoticeBox tone="plain">Cancelled. Nothing of that run is left.</NoticeBox>}
      {notice && <NoticeBox tone="problem">{notice}</NoticeBox>}
      <Ways state={state} send={send} paces={paces} />
      <SpaceNotice state={state} />
      <CollisionNotice state={state} send={send} />
    </section>
  );
}

/** Whether the downloads fit in the browser's storage. */
function SpaceNotice({ state }: { readonly state: PlanState }): JSX.Element | null {
  const plan = lastPlan(state);
  if (!plan || state.destination?.ref.kind !== 'download' || state.space === undefined) return null;
  const fit = fitOf(plan.files, state.space ?? undefined);
  if (fit.kind === 'fits') return null;
  return <NoticeBox tone={fit.kind === 'too-large' ? 'problem' : 'warning'}>{fit.text}</NoticeBox>;
}

/** Names that are taken: what belongs to the checkpoint is refused, the rest is asked about. */
function CollisionNotice({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element | null {
  const { collisions, overwrite } = state;
  if (!collisions) return null;
  if (collisions.sources.length > 0) {
    return (
      <NoticeBox tone="problem">
        {formatNames(collisions.sources)} in this folder belongs to the checkpoint. Choose another folder.
      </NoticeBox>
    );
  }
  if (collisions.existing.length === 0) return null;
  return (
    <label class="check notice warning">
      <input
        type="checkbox"
        name="overwrite"
        checked={overwrite}
        onChange={({ currentTarget }) => send({ type: 'overwrite', overwrite: currentTarget.checked })}
      />
      <span>Replace the existing files: {formatNames(collisions.existing)}</span>
    </label>
  );
}
