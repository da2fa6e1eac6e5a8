import type { JSX } from 'preact';
import type { Choices, PrecisionRule } from '../choices.js';
import { formatCount } from '../format.js';
import { PRECISIONS } from '../labels.js';
import { previewPrefix } from '../prefix.js';
import type { PlanState } from '../state.js';
import { Check, Field, Select } from './controls.js';
import { Fold } from './parts.js';

type Props = { readonly state: PlanState; readonly choose: (choices: Partial<Choices>) => void };

/** What few users need: tensors and precisions by name, prefixes, checks. */
export function MoreOptions({ state, choose }: Props): JSX.Element {
  const { choices } = state;
  return (
    <Fold summary="More options" class="more-options">
      <Check
        name="trainable-only"
        checked={choices.trainableOnly}
        choose={(trainableOnly) => choose({ trainableOnly })}
      >
        Only what was trained: no frozen parameters, no buffers
      </Check>
      <Check name="verify" checked={choices.verify} choose={(verify) => choose({ verify })}>
        Compare checksums and copies, and read the output back
      </Check>
      <Check name="sha256" checked={choices.sha256} choose={(sha256) => choose({ sha256 })}>
        SHA-256 of the files
      </Check>
      <Patterns
        label="Only these tensors"
        name="include"
        value={choices.include}
        choose={(include) => choose({ include })}
      />
      <Patterns
        label="Without these tensors"
        name="exclude"
        value={choices.exclude}
        choose={(exclude) => choose({ exclude })}
        hint="A name of the output a line. * stands for any characters: *.bias"
      />
      <PrecisionRules rules={choices.dtypeFor} choose={(dtypeFor) => choose({ dtypeFor })} />
      <Prefix state={state} choose={choose} />
    </Fold>
  );
}

function Patterns(props: {
  readonly label: string;
  readonly name: string;
  readonly value: string;
  readonly choose: (value: string) => void;
  readonly hint?: string;
}): JSX.Element {
  return (
    <Field label={props.label} id={props.name} hint={props.hint}>
      <textarea
        id={props.name}
        name={props.name}
        rows={2}
        spellcheck={false}
        value={props.value}
        onInput={({ currentTarget }) => props.choose(currentTarget.value)}
      />
    </Field>
  );
}

/** A line for each rule, and an empty one below for the next. */
function PrecisionRules(props: {
  readonly rules: readonly PrecisionRule[];
  readonly choose: (rules: readonly PrecisionRule[]) => void;
}): JSX.Element {
  const used = props.rules.findLastIndex(({ pattern }) => pattern !== '') + 1;
  const next: PrecisionRule = props.rules[used] ?? { pattern: '', dtype: 'fp32' };
  const shown = [...props.rules.slice(0, used), next];
  const change = (at: number, rule: Partial<PrecisionRule>): void =>
    props.choose(shown.map((old, i) => (i === at ? { ...old, ...rule } : old)));
  return (
    <fieldset class="field">
      <legend>Precision by name</legend>
      {shown.map(({ pattern, dtype }, i) => (
        // A rule has no other identity than its place: the first that matches decides.
        <div class="rule" key={String(i)}>
          <input
            type="text"
            name="dtype-for-pattern"
            aria-label={`Names of rule ${i + 1}`}
            placeholder="*norm*"
            spellcheck={false}
            value={pattern}
            onInput={({ currentTarget }) => change(i, { pattern: currentTarget.value })}
          />
          <Select
            name="dtype-for-dtype"
            label={`Precision of rule ${i + 1}`}
            options={PRECISIONS}
            value={dtype}
            choose={(chosen) => change(i, { dtype: chosen })}
          />
        </div>
      ))}
    </fieldset>
  );
}

/** The prefix to take off, and what that makes of a name. */
function Prefix({ state, choose }: Props): JSX.Element {
  const { choices, checkpoint } = state;
  const offer = checkpoint.prefix;
  const preview = previewPrefix(checkpoint.tensors, choices.stripPrefix);
  return (
    <Field label="Take off the start of names" id="strip-prefix">
      <input
        type="text"
        id="strip-prefix"
        name="strip-prefix"
        placeholder={offer?.prefix ?? 'module.'}
        spellcheck={false}
        value={choices.stripPrefix}
        onInput={({ currentTarget }) => choose({ stripPrefix: currentTarget.value.trim() })}
      />
      {preview && (
        <p class="hint" data-testid="prefix-preview">
          <code>{preview.before}</code> becomes <code>{preview.after}</code>: {formatCount(preview.count)} of{' '}
          {formatCount(checkpoint.tensors.length)} names.
        </p>
      )}
      {offer && choices.stripPrefix === '' && (
        <p class="hint">
          All names start with <code>{offer.prefix}</code>{' '}
          <button type="button" class="quiet" onClick={() => choose({ stripPrefix: offer.prefix })}>
            Take it off
          </button>
        </p>
      )}
    </Field>
  );
}
