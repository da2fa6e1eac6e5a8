import type { ComponentChildren, JSX } from 'preact';
import type { OutputFormat, OverflowPolicy, Precision } from '../../index.js';
import type { BackendChoice, Converter } from '../../worker/protocol.js';
import { checkingHint } from '../checking.js';
import { SHARD_SIZES } from '../choices.js';
import { formatBytes } from '../format.js';
import { BACKENDS } from '../labels.js';
import { lastPlan, type PlanState, type Send } from '../state.js';

const PRECISIONS: readonly (readonly [Precision, string])[] = [
  ['fp32', 'fp32'],
  ['fp16', 'fp16'],
  ['bf16', 'bf16'],
  ['keep', 'as stored'],
];

const FORMATS: readonly (readonly [OutputFormat, string])[] = [
  ['safetensors', 'safetensors'],
  ['bin', 'pytorch_model.bin'],
];

const OVERFLOWS: readonly (readonly [OverflowPolicy, string])[] = [
  ['error', 'Stop and name the tensor'],
  ['inf', 'Write infinity, as PyTorch does'],
  ['clamp', 'Write the largest value that fits'],
];

/** The controls of the output. */
export function Options({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element {
  const { choices } = state;
  return (
    <form class="options" onSubmit={(event) => event.preventDefault()}>
      <Segments
        legend="Precision"
        name="dtype"
        options={PRECISIONS}
        value={choices.dtype}
        choose={(dtype) => send({ type: 'chose', choices: { dtype } })}
      />
      <Segments
        legend="Format"
        name="format"
        options={FORMATS}
        value={choices.format}
        choose={(format) => send({ type: 'chose', choices: { format } })}
      />
      <ShardSize state={state} send={send} />
      <Check
        name="exclude-frozen"
        checked={choices.excludeFrozen}
        choose={(excludeFrozen) => send({ type: 'chose', choices: { excludeFrozen } })}
      >
        Leave out frozen parameters
      </Check>
      <Check
        name="duplicate-tied"
        checked={choices.duplicateTied}
        choose={(duplicateTied) => send({ type: 'chose', choices: { duplicateTied } })}
      >
        Write a copy for each tied name
      </Check>
      <Field label="Values too large for the precision" id="overflow">
        <select
          id="overflow"
          name="overflow"
          value={choices.overflow}
          onChange={({ currentTarget }) => {
            const overflow = OVERFLOWS.find(([policy]) => policy === currentTarget.value)?.[0];
            if (overflow) send({ type: 'chose', choices: { overflow } });
          }}
        >
          {OVERFLOWS.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </Field>
      <BackendField state={state} send={send} />
    </form>
  );
}

function ShardSize({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element {
  const { choices } = state;
  return (
    <Field label="Largest file" id="max-shard-size" hint={cost(state)}>
      <select
        id="max-shard-size"
        name="max-shard-size"
        value={choices.shardSize}
        onChange={({ currentTarget }) => send({ type: 'chose', choices: { shardSize: currentTarget.value } })}
      >
        <option value="none">One file, whatever its size</option>
        {SHARD_SIZES.map((size) => (
          <option key={size} value={String(size)}>
            {formatBytes(size)}
          </option>
        ))}
        <option value="custom">Another size</option>
      </select>
      {choices.shardSize === 'custom' && (
        <input
          type="text"
          class="more"
          name="custom-shard-size"
          aria-label="Size of the largest file, such as 4 GB"
          aria-invalid={state.planning.kind === 'incomplete'}
          value={choices.customSize}
          onInput={({ currentTarget }) => send({ type: 'chose', choices: { customSize: currentTarget.value } })}
        />
      )}
    </Field>
  );
}

/** What the sizes of the files cost in time, where they go to a folder. */
function cost(state: PlanState): string | undefined {
  const plan = lastPlan(state);
  return plan && state.destination?.ref.kind !== 'download' ? checkingHint(plan.files) : undefined;
}

function BackendField({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element {
  const { choices, converters } = state;
  const hint = converterText(choices.backend, converters[choices.backend]);
  return (
    <Field label="Converter" id="backend" hint={hint}>
      <select
        id="backend"
        name="backend"
        value={choices.backend}
        onChange={({ currentTarget }) => {
          const backend = BACKEND_CHOICES.find((choice) => choice === currentTarget.value);
          if (backend) send({ type: 'chose', choices: { backend } });
        }}
      >
        {BACKEND_CHOICES.map((choice) => (
          <option key={choice} value={choice}>
            {BACKENDS[choice]}
          </option>
        ))}
      </select>
    </Field>
  );
}

/** What a choice of backend comes to, in words; undefined is not known yet, null cannot be had. */
function converterText(choice: BackendChoice, converter: Converter | null | undefined): string {
  if (converter === undefined) return 'Looking for a GPU.';
  if (converter === null) return 'No GPU can be used in this browser.';
  if (converter.name === 'gpu') return `GPU: ${converter.description}`;
  return choice === 'auto' ? `No hardware GPU. CPU: ${converter.description}` : `CPU: ${converter.description}`;
}

const BACKEND_CHOICES: readonly BackendChoice[] = ['auto', 'gpu', 'cpu'];

function Field(props: {
  readonly label: string;
  readonly id: string;
  readonly hint?: string | undefined;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div class="field">
      <label for={props.id}>{props.label}</label>
      {props.children}
      {props.hint && <p class="hint">{props.hint}</p>}
    </div>
  );
}

function Check(props: {
  readonly name: string;
  readonly checked: boolean;
  readonly choose: (checked: boolean) => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        name={props.name}
        checked={props.checked}
        onChange={({ currentTarget }) => props.choose(currentTarget.checked)}
      />
      {props.children}
    </label>
  );
}

/** Radio buttons side by side. */
function Segments<T extends string>(props: {
  readonly legend: string;
  readonly name: string;
  readonly options: readonly (readonly [T, string])[];
  readonly value: T;
  readonly choose: (value: T) => void;
}): JSX.Element {
  return (
    <fieldset class="field">
      <legend>{props.legend}</legend>
      <div class="segments">
        {props.options.map(([value, label]) => (
          <label key={value}>
            <input
              type="radio"
              name={props.name}
              value={value}
              checked={value === props.value}
              onChange={() => props.choose(value)}
            />
            <span class="segment">{label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
