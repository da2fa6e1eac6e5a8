import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { formatBytes, formatRate, formatSeconds } from '../format.js';
import { rateOf, secondsLeft } from '../speed.js';
import type { RunningState, Send } from '../state.js';
import { Facts, StageHeading } from './parts.js';

/** The conversion while it goes. */
export function Running({ state, send }: { readonly state: RunningState; readonly send: Send }): JSX.Element {
  const { plan, progress, samples, destination, cancelling } = state;
  const total = plan.totals.outputBytes;
  const written = progress?.written ?? 0;
  const rate = rateOf(samples);
  const left = secondsLeft(samples, total - written);
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, []);
  return (
    <section class="card job">
      <StageHeading>
        Writing to {destination.ref.kind === 'download' ? 'the browser’s storage' : destination.name}
      </StageHeading>
      <progress aria-label="Bytes written" value={written} max={total} />
      {/* Announced when the phase or the file changes, not with every byte. */}
      <p class="status" aria-live="polite">
        {cancelling ? 'Cancelling. Unfinished files are removed.' : phaseOf(state)}
      </p>
      <Facts
        facts={[
          ['Written', `${formatBytes(written)} of ${formatBytes(total)}`],
          ['Speed', rate === undefined ? '–' : formatRate(rate)],
          ['Time left', left === undefined || written === total ? '–' : formatSeconds(left)],
          ['Files finished', `${progress?.filesDone ?? 0} of ${plan.files.length}`],
        ]}
      />
      <p class="hint">Keep this page open. A file appears at the destination only when it is complete.</p>
      <button type="button" disabled={cancelling} onClick={() => send({ type: 'cancelling' })}>
        Cancel
      </button>
    </section>
  );
}

/** What is going on, in a sentence. */
function phaseOf({ progress, destination }: RunningState): JSX.Element | string {
  if (!progress) return 'Opening files';
  const closing = progress.closing.at(-1);
  if (closing === undefined || destination.ref.kind === 'download') {
    return (
      <>
        Writing <code>{progress.file}</code>
      </>
    );
  }
  const { secondsPerGigabyte } = progress;
  return (
    <>
      The browser is checking <code>{closing}</code> before it appears.
      {secondsPerGigabyte !== undefined && ` So far this took ${formatSeconds(secondsPerGigabyte)} for each GB.`}
    </>
  );
}
