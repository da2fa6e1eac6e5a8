import type { JSX } from 'preact';
import type { Notice } from '../../checkpoints/inventory.js';
import type { CheckpointView, PlanView } from '../../worker/protocol.js';
import { formatBytes, plural } from '../format.js';
import { lastPlan, obstacle, type PlanState, type Send } from '../state.js';
import { DestinationZone } from './destination.js';
import { Found } from './found.js';
import { Options } from './options.js';
import { AliasesFold, NoticeBox, SkippedFold, StageHeading, Warnings } from './parts.js';
import { TensorTable } from './tensors.js';

/** What was found, the choices, and exactly what will be written. */
export function Plan({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element {
  const { checkpoint, planning } = state;
  const plan = lastPlan(state);
  const usable = checkpoint.problems.length === 0;
  return (
    <>
      <div class="title-row">
        <StageHeading>{checkpoint.folder}</StageHeading>
        <button type="button" class="quiet" onClick={() => send({ type: 'restart' })}>
          Another folder
        </button>
      </div>
      <Found checkpoint={checkpoint} send={send} />
      <div class={usable ? 'plan-columns' : ''}>
        {usable && (
          <section class="card output" aria-labelledby="output" aria-busy={planning.kind === 'working'}>
            <h2 id="output">Output</h2>
            <Options state={state} send={send} />
            {planning.kind === 'refused' && (
              <NoticeBox tone="problem">
                <p>{planning.failure.message}</p>
                <p>{planning.failure.advice}</p>
              </NoticeBox>
            )}
            {plan && <Warnings warnings={ofPlanAlone(plan, checkpoint)} />}
            {plan && <Files files={plan.files} total={plan.totals.outputBytes} />}
            <DestinationZone state={state} send={send} />
            <StartButton state={state} send={send} />
          </section>
        )}
        <section class="card tensor-card" aria-labelledby="tensors">
          <h2 id="tensors">Tensors</h2>
          <TensorTable tensors={plan?.tensors ?? checkpoint.tensors} />
          <AliasesFold aliases={plan?.aliases ?? checkpoint.aliases} />
          <SkippedFold skipped={plan?.skipped ?? checkpoint.skipped} />
        </section>
      </div>
    </>
  );
}

/** The warnings that come from the choices; those of the checkpoint stand above. */
function ofPlanAlone(plan: PlanView, { warnings }: CheckpointView): readonly Notice[] {
  const shown = new Set(warnings.map(({ message }) => message));
  return plan.warnings.filter(({ message }) => !shown.has(message));
}

/** The exact files that will be written. */
function Files(props: {
  readonly files: readonly { readonly path: string; readonly byteLength: number }[];
  readonly total: number;
}): JSX.Element {
  return (
    <div>
      <h3>
        {plural(props.files.length, 'file')}, {formatBytes(props.total)}
      </h3>
      <ul class="files" data-testid="planned-files">
        {props.files.map(({ path, byteLength }) => (
          <li key={path}>
            <code>{path}</code>
            <span class="size">{formatBytes(byteLength)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function StartButton({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element {
  const reason = obstacle(state);
  return (
    <div class="start">
      <button
        type="button"
        class="primary"
        disabled={reason !== undefined}
        aria-describedby="obstacle"
        onClick={() => send({ type: 'started', now: performance.now() })}
      >
        Start
      </button>
      <p id="obstacle" class="hint">
        {reason ?? ''}
      </p>
    </div>
  );
}
