import type { JSX } from 'preact';
import type { CheckReport, Origin } from '../../index.js';
import type { CheckpointView } from '../../worker/protocol.js';
import type { Picked } from '../folders.js';
import { formatBytes, formatCount, formatMagnitude, plural } from '../format.js';
import { dtypeLabel, LAYOUTS, ORIGINS } from '../labels.js';
import { isOfRanks } from '../reading.js';
import { folderCount, lacksShards, offersPartial, type PlanState, type Send, type Source } from '../state.js';
import { Check } from './controls.js';
import { OpenFolder } from './open-folder.js';
import { CheckList, Facts, Fold, NoticeBox, Warnings } from './parts.js';
import { TensorParallel } from './tensor-parallel.js';

/** What the checkpoint is, and everything that is wrong or odd about it. */
export function Found(props: {
  readonly state: PlanState;
  readonly send: Send;
  readonly add: (picking: Promise<Picked<Source>>) => void;
}): JSX.Element {
  const { state, send } = props;
  const { checkpoint, notice, reading, source } = state;
  const { facts, problems, warnings } = checkpoint;
  const folders = folderCount(source);
  return (
    <section
      class="card"
      aria-label="Checkpoint"
      data-folders={folders}
      data-tp-rules={reading.tpRules.length}
      data-tp-rank={reading.tpRank}
    >
      <Facts
        facts={[
          ['Layout', LAYOUTS[checkpoint.layout]],
          ['Tag', <Tag key="tag" checkpoint={checkpoint} send={send} />],
          ['Ranks', formatCount(facts.ranks)],
          ['Pipeline stages', facts.pipelineStages && formatCount(facts.pipelineStages)],
          ['Tensor-parallel ranks', facts.tensorParallel && formatCount(facts.tensorParallel)],
          ['Expert-parallel ranks', facts.expertParallel && formatCount(facts.expertParallel)],
          ['Parameters', facts.elements > 0 ? formatMagnitude(facts.elements) : undefined],
          ['Trained in', facts.modelDtype && dtypeLabel(facts.modelDtype)],
          ['Master weights', facts.masterDtype && dtypeLabel(facts.masterDtype)],
          ['Steps', facts.globalSteps === undefined ? undefined : formatCount(facts.globalSteps)],
          ['DeepSpeed', facts.deepspeedVersion],
          ['Tensors', tensorCounts(checkpoint), 'wide'],
          ['LoRA adapters', checkpoint.adapters.length > 0 ? checkpoint.adapters.join(', ') : undefined],
          ['Folders', folders > 1 ? formatCount(folders) : undefined],
          ['On disk', `${plural(checkpoint.sourceFiles, 'file')}, ${formatBytes(checkpoint.sourceBytes)}`],
        ]}
      />
      {problems.map((problem, i) => (
        // Two files may have the same defect.
        <NoticeBox
          key={`${i} ${problem.code}`}
          tone="problem"
          label={problem.concerns ? 'Frozen parameters.' : 'Problem.'}
        >
          <span data-testid="problem">{problem.message}</span> {problem.advice}{' '}
          <span class="code">({problem.code})</span>
        </NoticeBox>
      ))}
      {lacksShards(checkpoint) && (
        <div class="add-folder">
          {notice && <NoticeBox tone="problem">{notice}</NoticeBox>}
          <div class="actions">
            <OpenFolder open={props.add}>Add another folder</OpenFolder>
            <p class="hint">
              or drop it on this page. It may be the copy of another disk or node; what was found stays.
            </p>
          </div>
        </div>
      )}
      <TensorParallel key={checkpoint.tag.path} state={state} send={send} />
      {offersPartial(state) && (
        <Check
          name="partial"
          checked={reading.partial}
          choose={(partial) => send({ type: 'read', reading: { ...reading, partial, lost: [] } })}
        >
          Write what can still be had: what was in lost files is taken from the copies in the model file, or left out
        </Check>
      )}
      <Warnings warnings={warnings.filter((warning) => !isOfRanks(warning))} />
      {checkpoint.checks.length > 0 && (
        <Fold summary={checksText(checkpoint.checks)}>
          <CheckList checks={checkpoint.checks} />
        </Fold>
      )}
    </section>
  );
}

/** `5 checks passed, 1 failed, 2 not checkable`, without what there is none of. */
function checksText(checks: CheckpointView['checks']): string {
  const count = (status: CheckReport['status']): number => checks.filter((check) => check.status === status).length;
  const more = [
    [count('failed'), 'failed'],
    [count('not-checkable'), 'not checkable'],
  ] as const;
  const rest = more.filter(([number]) => number > 0).map(([number, what]) => `${formatCount(number)} ${what}`);
  return [`${plural(count('passed'), 'check')} passed`, ...rest].join(', ');
}

/** The tag, and the choice of another where there are several. */
function Tag({ checkpoint, send }: { readonly checkpoint: CheckpointView; readonly send: Send }): JSX.Element {
  const { tag, tags } = checkpoint;
  if (tags.length < 2) return <span data-testid="only-tag">{tag.tag}</span>;
  return (
    <select
      name="tag"
      aria-label="Tag"
      value={tag.path}
      data-value={tag.path}
      onChange={({ currentTarget }) => send({ type: 'tag', tag: currentTarget.value })}
    >
      {tags.map((choice) => (
        <option key={choice.path} value={choice.path} data-tag={choice.tag}>
          {choice.latest ? `${choice.tag} (latest)` : choice.tag}
        </option>
      ))}
    </select>
  );
}

/** `140 (112 master, 28 buffer, 1 tied)`, without what there is none of; undefined where there are none at all. */
function tensorCounts({ tensors, aliases }: CheckpointView): string | undefined {
  const counts = new Map<Origin, number>();
  for (const { origin } of tensors) counts.set(origin, (counts.get(origin) ?? 0) + 1);
  const parts = [...counts].map(([origin, count]) => `${formatCount(count)} ${ORIGINS[origin]}`);
  const tied = Object.keys(aliases).length;
  if (tied > 0) parts.push(`${formatCount(tied)} tied`);
  return parts.length === 0 ? undefined : `${formatCount(tensors.length)} (${parts.join(', ')})`;
}
