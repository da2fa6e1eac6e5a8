import type { JSX } from 'preact';
import { canOpenFolders } from '../folders.js';
import { formatAbout, formatBytes } from '../format.js';
import type { Paces } from '../paces.js';
import { DOWNLOAD, lastPlan, type PlanState, type Send } from '../state.js';
import { fasterWays, type Way, waysOf } from '../ways.js';
import { NoticeBox } from './parts.js';

type Props = { readonly state: PlanState; readonly send: Send; readonly paces: Paces };

/** How long each way to write takes, and where another one is far faster, what to do about it. */
export function Ways({ state, send, paces }: Props): JSX.Element | null {
  const plan = lastPlan(state);
  if (!plan) return null;
  const ways = waysOf({
    plan,
    checks: state.choices,
    to: state.destination?.ref.kind === 'download' ? 'download' : 'folder',
    folders: canOpenFolders(),
    paces,
  });
  return (
    <>
      <h4 id="ways">How long it takes</h4>
      <dl class="ways" aria-labelledby="ways" data-testid="ways">
        {ways.map((way) => (
          <div key={way.kind} class={way.chosen ? 'current' : ''} data-way={way.kind}>
            <dt>
              {wayText(way, plan.options.maxShardSize)}
              {way.chosen && <span class="visually-hidden"> (chosen)</span>}
            </dt>
            <dd>{formatAbout(way.seconds)}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">{sourceText(ways, plan.options.maxShardSize)}</p>
      <Faster ways={ways} send={send} />
    </>
  );
}

/** A word before the start where it can save long waiting. */
function Faster(props: { readonly ways: readonly Way[]; readonly send: Send }): JSX.Element {
  const faster = fasterWays(props.ways);
  return (
    // In the document before there is something to say, so that a screen reader tells of it.
    <div role="status">
      {faster.length > 0 && (
        <NoticeBox tone="warning" label="This can be much faster.">
          <p>
            The browser checks each finished file of a folder before it appears. Smaller files are checked side by side;
            downloads need no such check.
          </p>
          <div class="actions">
            {faster.map((way) => (
              <button key={way.kind} type="button" onClick={() => take(way, props.send)}>
                {switchText(way)}: {formatAbout(way.seconds)}
              </button>
            ))}
          </div>
        </NoticeBox>
      )}
    </div>
  );
}

function take({ kind, shardSize }: Way, send: Send): void {
  if (kind === 'download') send({ type: 'destination', destination: DOWNLOAD });
  else send({ type: 'chose', choices: { shardSize: shardSize === undefined ? 'none' : String(shardSize) } });
}

/** Where the times come from. */
function sourceText(ways: readonly Way[], chosenSize: number | undefined): string {
  const measured = ways.filter((way) => way.measured);
  const estimates = 'by the figures of another machine, until a large conversion was measured on this one.';
  if (measured.length === 0) return `These are estimates, ${estimates}`;
  const saving = measured.some(({ kind }) => kind === 'download')
    ? ' How fast the browser saves a download is always an estimate.'
    : '';
  if (measured.length === ways.length) return `By what this machine needed before.${saving}`;
  const names = measured.map((way) => wayText(way, chosenSize)).join(', ');
  return `Measured on this machine: ${names}. Else estimates, ${estimates}${saving}`;
}

function wayText({ kind, shardSize }: Way, chosenSize: number | undefined): string {
  if (kind === 'download') return 'Download';
  return kind === 'one' ? 'One file' : `Files of ${formatBytes(shardSize ?? chosenSize ?? 0)}`;
}

function switchText({ kind, shardSize }: Way): string {
  return kind === 'download' ? 'Save as a download' : `Write files of ${formatBytes(shardSize ?? 0)}`;
}
