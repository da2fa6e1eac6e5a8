import type { JSX } from 'preact';
import { savedText } from '../save.js';
import type { FailedState, Send } from '../state.js';
import { NoticeBox, StageHeading } from './parts.js';

/** What went wrong, what to do, and the way back. */
export function Failed({ state, send }: { readonly state: FailedState; readonly send: Send }): JSX.Element {
  const { failure, from, retry, saved } = state;
  return (
    <section class="card job">
      <StageHeading>{from.stage === 'plan' ? 'That did not work' : 'This folder could not be opened'}</StageHeading>
      <div class="notice problem" role="alert">
        <p data-testid="failure-message">{failure.message}</p>
        <p data-testid="failure-advice">{failure.advice}</p>
        <p class="code">
          Error code <code data-testid="failure-code">{failure.code}</code>
        </p>
      </div>
      {saved && <NoticeBox tone="warning">{savedText(saved)}</NoticeBox>}
      <div class="actions">
        <button type="button" class="primary" onClick={() => send({ type: 'back' })}>
          {from.stage === 'plan' ? 'Back to the plan' : 'Choose another folder'}
        </button>
        {retry && (
          <button type="button" onClick={() => send({ type: 'read', reading: retry.reading })}>
            Try without this file
          </button>
        )}
        {from.stage === 'plan' && (
          <button type="button" onClick={() => send({ type: 'restart' })}>
            Another folder
          </button>
        )}
      </div>
    </section>
  );
}
