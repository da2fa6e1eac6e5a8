import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ConvertProgress } from '../../worker/protocol.js';
import { checkSeconds, checkSecondsLeft, isReadingBack, runSecondsLeft } from '../closing.js';
import { formatAbout, formatBytes, formatNames, formatRate, plural } from '../format.js';
import type { Paces } from '../paces.js';
import { rateOf } from '../speed.js';
import type { RunningState, Send } from '../state.js';
import { Facts, NoticeBox, StageHeading } from './parts.js';

/** The conversion while it goes. */
export function Running(props: {
  readonly state: RunningState;
  readonly send: Send;
  readonly paces: Paces;
  readonly letGo: (paths: readonly string[]) => void;
}): JSX.Element {
  const { state, send, paces, letGo } = props;
  const { plan, progress, samples, destination, readingSince, cancelling } = state;
  const total = plan.totals.outputBytes;
  const written = progress?.written ?? 0;
  const wait = progress?.wait;
  const rate = rateOf(samples);
  const isDownload = destination.ref.kind === 'download';
  const perGigabyte = isDownload ? 0 : (progress?.secondsPerGigabyte ?? paces.paces.one.close);
  const closing = isDownload ? [] : (progress?.closing ?? []);
  const now = useNow(closing.length > 0 || readingSince !== undefined);
  const { verify, sha256 } = state.from.choices;
  // What is verified of downloads is read back while they are written.
  const isReadAgain = sha256 || (verify && !isDownload);
  const readBack = isReadAgain ? paces.paces[isDownload ? 'download' : 'one'].read : 0;
  const read = readingSince === undefined ? 0 : (performance.now() - readingSince) / 1000;
  const left =
    progress &&
    !wait &&
    runSecondsLeft({ plan, progress: { written, closing }, samples, check: perGigabyte, readBack, read, now });
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, []);
  return (
    <section class="card job">
      <StageHeading>{isDownload ? 'Making the downloads' : `Writing to ${destination.name}`}</StageHeading>
      <progress aria-label="Bytes written" value={written} max={total} />
      {/* Announced when the phase or the file changes, not with every byte. */}
      <p class="status tall" aria-live="polite">
        {cancelling ? 'Cancelling. The files of this run are removed.' : <Phase state={state} paces={paces} />}
      </p>
      {wait && (
        <NoticeBox tone="problem" label="The browser’s storage is full.">
          <p>
            <code>{wait.path}</code> needs {formatBytes(wait.needed)}, and {formatBytes(wait.free)} are free. When the
            browser has saved {formatNames(wait.kept) || 'the files before it'}, their copies here can go.
          </p>
          <button type="button" disabled={!canLetGo(state, wait.kept)} onClick={() => letGo(wait.kept)}>
            They are saved: go on
          </button>
        </NoticeBox>
      )}
      <Facts
        facts={[
          ['Written', `${formatBytes(written)} of ${formatBytes(total)}`],
          ['Speed', rate === undefined ? '–' : formatRate(rate)],
          ['Time left', typeof left === 'number' ? formatAbout(left) : '–'],
          [isDownload ? 'Files given to the browser' : 'Files finished', `${filesDone(state)} of ${plan.files.length}`],
          [
            'Check of the browser',
            closing.length > 0 ? checkText(checkSecondsLeft(closing, perGigabyte, now)) : undefined,
          ],
        ]}
      />
      <p class="hint">
        Keep this page open. {isDownload ? 'Each file is saved' : 'A file appears at the destination'} only when it is
        complete.
      </p>
      <button type="button" disabled={cancelling} onClick={() => send({ type: 'cancelling' })}>
        Cancel
      </button>
    </section>
  );
}

/** False while there are none, or the browser was not yet given all of them. */
function canLetGo({ downloads }: RunningState, kept: readonly string[]): boolean {
  const given = new Set(downloads.map(({ path }) => path));
  return kept.length > 0 && kept.every((path) => given.has(path));
}

function filesDone({ destination, saved, progress }: RunningState): number {
  return destination.ref.kind === 'download' ? saved.length : (progress?.filesDone ?? 0);
}

function checkText(left: number): string {
  return left === 0 ? 'takes longer than expected' : `${formatAbout(left)} left`;
}

/** What is going on, in sentences. */
function Phase(props: { readonly state: RunningState; readonly paces: Paces }): JSX.Element {
  const { progress, plan, destination } = props.state;
  if (progress?.wait) return <>Waiting for space in the browser’s storage.</>;
  if (!progress?.file) return <>Opening files.</>;
  const isWriting = progress.written < plan.totals.outputBytes;
  const isChecking = destination.ref.kind === 'directory' && progress.closing.length > 0;
  return (
    <>
      {isWriting && (
        <>
          Writing <code>{progress.file}</code>.{' '}
        </>
      )}
      {isChecking && <BrowserCheck progress={progress} paces={props.paces} />}
      {isReadingBack(progress) && (
        <>
          Reading <code>{progress.file}</code> back.
        </>
      )}
      {!isWriting && !isChecking && !isReadingBack(progress) && 'Finishing.'}
    </>
  );
}

/** What the browser does with a finished file, and how long that takes by what is known. */
function BrowserCheck(props: { readonly progress: ConvertProgress; readonly paces: Paces }): JSX.Element | null {
  const { progress, paces } = props;
  const [checked, ...more] = progress.closing;
  if (!checked) return null;
  const { secondsPerGigabyte = paces.paces.one.close } = progress;
  const seconds = formatAbout(checkSeconds(checked, secondsPerGigabyte));
  const before = paces.measured.includes('one') ? 'by what it took before' : 'by an estimate';
  return (
    <>
      The browser is checking <code>{checked.path}</code>
      {more.length > 0 && ` and ${plural(more.length, 'more file')}`} before it appears. For its{' '}
      {formatBytes(checked.byteLength)} this takes {seconds},{' '}
      {progress.secondsPerGigabyte === undefined ? before : 'by what it took so far'}.
    </>
  );
}

/** The time in milliseconds since 1970, which goes on while `ticking`. */
function useNow(ticking: boolean): number {
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!ticking) return;
    const timer = setInterval(() => setTick((tick) => tick + 1), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return Date.now();
}
