import type { JSX } from 'preact';
import { blockingProblems } from '../../checkpoints/inventory.js';
import type { Notice } from '../../index.js';
import type { CheckpointView, PlanView } from '../../worker/protocol.js';
import type { Picked } from '../folders.js';
import { formatBytes, plural } from '../format.js';
import { obstacle } from '../obstacle.js';
import type { Paces } from '../paces.js';
import { lastPlan, type PlanState, type Send, type Source } from '../state.js';
import { DestinationZone } from './destination.js';
import { Found } from './found.js';
import { Options } from './options.js';
import { AliasesFold, FileList, NoticeBox, SkippedFold, StageHeading, Warnings } from './parts.js';
import { TensorTable } from './tensors.js';

/** What was found, the choices, and exactly what will be written. */
export function Plan(props: {
  readonly state: PlanState;
  readonly send: Send;
  readonly paces: Paces;
  readonly add: (picking: Promise<Picked<Source>>) => void;
}): JSX.Element {
  const { state, send, paces, add } = props;
  const { checkpoint, planning } = state;
  const plan = lastPlan(state);
  const tensors = plan?.tensors ?? checkpoint.tensors;
  const usable = blockingProblems(checkpoint).length === 0;
  return (
    <>
      <div class="title-row">
        <StageHeading>{checkpoint.folder}</StageHeading>
        <button type="button" class="quiet" onClick={() => send({ type: 'restart' })}>
          Another folder
        </button>
      </div>
      <Found state={state} send={send} add={add} />
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
            {plan && (
              <>
                <h3>
                  {plural(plan.files.length, 'file')}, {formatBytes(plan.totals.outputBytes)}
                </h3>
                <FileList files={plan.files} testId="planned-files" />
              </>
            )}
            <DestinationZone state={state} send={send} paces={paces} />
            <StartButton state={state} send={send} />
          </section>
        )}
        {tensors.length > 0 && (
          <section class="card tensor-card" aria-labelledby="tensors">
            <h2 id="tensors">Tensors</h2>
            <TensorTable tensors={tensors} />
            <AliasesFold aliases={plan?.aliases ?? checkpoint.aliases} />
            <SkippedFold skipped={plan?.skipped ?? checkpoint.skipped} />
          </section>
        )}
      </div>
    </>
  );
}

/** The warnings that come from the choices; those of the checkpoint stand above. */
function ofPlanAlone(plan: PlanView, { warnings }: CheckpointView): readonly Notice[] {
  const shown = new Set(warnings.map(({ message }) => message));
  return plan.warnings.filter(({ message }) => !shown.has(message));
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
