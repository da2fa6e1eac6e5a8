import type { ComponentChildren, JSX } from 'preact';
import type { Origin } from '../../index.js';
import type { CheckpointView } from '../../worker/protocol.js';
import { formatBytes, formatCount, formatMagnitude, plural } from '../format.js';
import { dtypeLabel, LAYOUTS, ORIGINS } from '../labels.js';
import type { Send } from '../state.js';
import { Facts, NoticeBox, Warnings } from './parts.js';

/** What the checkpoint is, and everything that is wrong or odd about it. */
export function Found(props: { readonly checkpoint: CheckpointView; readonly send: Send }): JSX.Element {
  const { checkpoint, send } = props;
  const { facts, problems, warnings } = checkpoint;
  return (
    <section class="card" aria-label="Checkpoint">
      <Facts
        facts={[
          ['Layout', LAYOUTS[checkpoint.layout]],
          ['Tag', <Tag key="tag" checkpoint={checkpoint} send={send} />],
          ['Ranks', formatCount(facts.ranks)],
          ['Parameters', formatMagnitude(facts.elements)],
          ['Trained in', facts.modelDtype && dtypeLabel(facts.modelDtype)],
          ['Master weights', facts.masterDtype && dtypeLabel(facts.masterDtype)],
          ['Steps', facts.globalSteps === undefined ? undefined : formatCount(facts.globalSteps)],
          ['DeepSpeed', facts.deepspeedVersion],
          ['Tensors', tensorCounts(checkpoint), 'wide'],
          ['On disk', `${plural(checkpoint.sourceFiles, 'file')}, ${formatBytes(checkpoint.sourceBytes)}`],
        ]}
      />
      {problems.map((problem, i) => (
        // Two files may have the same defect.
        <NoticeBox key={`${i} ${problem.code}`} tone="problem" label="Problem.">
          <span data-testid="problem">{problem.message}</span> {problem.advice}{' '}
          <span class="code">({problem.code})</span>
        </NoticeBox>
      ))}
      <Warnings warnings={warnings} />
    </section>
  );
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

/** `140 (112 master, 28 buffer, 1 tied)`, without what there is none of. */
function tensorCounts({ tensors, aliases }: CheckpointView): ComponentChildren {
  const counts = new Map<Origin, number>();
  for (const { origin } of tensors) counts.set(origin, (counts.get(origin) ?? 0) + 1);
  const parts = [...counts].map(([origin, count]) => `${formatCount(count)} ${ORIGINS[origin]}`);
  const tied = Object.keys(aliases).length;
  if (tied > 0) parts.push(`${formatCount(tied)} tied`);
  return `${formatCount(tensors.length)} (${parts.join(', ')})`;
}
