import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import {
  finishedRules,
  isAboutRanks,
  isOfRanks,
  MERGES,
  type MergeChoice,
  type RuleDraft,
  ruleDrafts,
} from '../reading.js';
import type { PlanState, Send } from '../state.js';
import { Field, Select } from './controls.js';
import { Fold, NoticeBox, Warnings } from './parts.js';

/** How the shards of tensor-parallel ranks make up the model. In sight where it matters, else in a fold. */
export function TensorParallel({
  state,
  send,
}: {
  readonly state: PlanState;
  readonly send: Send;
}): JSX.Element | null {
  const { checkpoint, reading } = state;
  const ranks = checkpoint.facts.tensorParallel ?? 1;
  if (ranks < 2) return null;
  const form = <Form key={JSON.stringify(reading)} state={state} send={send} ranks={ranks} />;
  const isAsked = reading.tpRules.length > 0 || reading.tpRank !== undefined;
  if (!isAsked && !checkpoint.problems.some(isAboutRanks)) return <Fold summary="Tensor-parallel shards">{form}</Fold>;
  return (
    <section class="inset" aria-labelledby="tensor-parallel">
      <h3 id="tensor-parallel">Tensor-parallel shards</h3>
      <Warnings warnings={checkpoint.warnings.filter(isOfRanks)} />
      {form}
    </section>
  );
}

/** The choices until they are put in force: reading again takes a moment, and must not go on with every letter. */
function Form(props: { readonly state: PlanState; readonly send: Send; readonly ranks: number }): JSX.Element {
  const { state, send, ranks } = props;
  const { checkpoint, reading } = state;
  const [drafts, setDrafts] = useState(() => ruleDrafts(reading.tpRules, checkpoint.problems));
  const [rank, setRank] = useState(reading.tpRank === undefined ? '' : String(reading.tpRank));
  const [tried, setTried] = useState(false);
  const isJoined = checkpoint.layout === 'deepspeed-universal';
  const rules = finishedRules(drafts);
  const choices = [...Array(ranks).keys()].map((own) => [String(own), `Rank ${own} alone, as it is`] as const);

  function readAgain(): void {
    setTried(true);
    if (rank !== '') send({ type: 'read', reading: { ...reading, tpRank: Number(rank) } });
    else if (rules) send({ type: 'read', reading: { partial: reading.partial, lost: reading.lost, tpRules: rules } });
  }

  return (
    <form
      class="tensor-parallel"
      onSubmit={(event) => {
        event.preventDefault();
        readAgain();
      }}
    >
      {!isJoined && (
        <Field label="Shards to take" id="tp-rank">
          <Select
            id="tp-rank"
            name="tp-rank"
            options={[['', `All ${ranks} ranks, joined`], ...choices]}
            value={rank}
            choose={setRank}
          />
        </Field>
      )}
      {rank === '' && <Rules drafts={drafts} change={setDrafts} />}
      {rank === '' && tried && !rules && (
        <NoticeBox tone="problem">A rule has no name. Type one; * stands for any characters.</NoticeBox>
      )}
      <button type="submit">Read again</button>
    </form>
  );
}

/** A line for each rule, and an empty one below for the next. */
function Rules(props: {
  readonly drafts: readonly RuleDraft[];
  readonly change: (drafts: readonly RuleDraft[]) => void;
}): JSX.Element {
  const used = props.drafts.findLastIndex(({ pattern, how }) => pattern !== '' || how !== '') + 1;
  const shown = [...props.drafts.slice(0, used), { pattern: '', how: '' } as const];
  const set = (at: number, draft: Partial<RuleDraft>): void =>
    props.change(shown.map((old, i) => (i === at ? { ...old, ...draft } : old)));
  return (
    <fieldset class="field">
      <legend>How shards are joined</legend>
      {shown.map(({ pattern, how }, i) => (
        // A rule has no other identity than its place: the first that matches decides.
        <div class="rule wide" key={String(i)}>
          <input
            type="text"
            name="tp-rule-pattern"
            aria-label={`Names of rule ${i + 1}`}
            aria-invalid={how !== '' && pattern.trim() === ''}
            placeholder="*.down_proj.weight"
            spellcheck={false}
            value={pattern}
            onInput={({ currentTarget }) => set(i, { pattern: currentTarget.value })}
          />
          <Select<MergeChoice | ''>
            name="tp-rule-how"
            label={`How rule ${i + 1} joins`}
            options={[['', 'Choose how'], ...MERGES]}
            value={how}
            choose={(chosen) => set(i, { how: chosen })}
          />
        </div>
      ))}
      <p class="hint">
        * stands for any characters. The first rule that matches decides, before what the checkpoint says itself.
      </p>
    </fieldset>
  );
}
