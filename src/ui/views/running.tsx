import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { CHECK_SECONDS_PER_GB } from '../checking.js';
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
      <p class="status tall" aria-live="polite">
        {cancelling ? 'Cancelling. The files of this run are removed.' : <Phase {...state} />}
      </p>
      <Facts
        facts={[
          ['Written', `${formatBytes(written)} of ${formatBytes(total)}`],
          ['Speed', rate === undefined ? '–' : formatRate(rate)],
          ['Left to write', left === undefined || written === total ? '–' : formatSeconds(left)],
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

/** What is going on, in sentences. */
function Phase({ progress, plan, destination }: RunningState): JSX.Element {
  if (!progress) return <>Opening files.</>;
  const checked = destination.ref.kind === 'directory' ? progress.closing[0] : undefined;
  return (
    <>
      {progress.written < plan.totals.outputBytes && (
        <>
          Writing <code>{progress.file}</code>.{' '}
        </>
      )}
      {checked && (
        <>
          The browser is checking <code>{checked}</code> before it appears.{' '}
          {progress.secondsPerGigabyte === undefined
            ? `Expect about ${CHECK_SECONDS_PER_GB} s for each GB.`
            : `So far this took ${formatSeconds(progress.secondsPerGigabyte)} for each GB.`}
        </>
      )}
    </>
  );
}
