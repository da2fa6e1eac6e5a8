import type { JSX } from 'preact';
import { parseSize } from '../../base/size.js';
import type { OutputFormat, OverflowPolicy } from '../../index.js';
import type { BackendChoice, Converter } from '../../worker/protocol.js';
import { type Choices, SHARD_SIZES } from '../choices.js';
import { formatBytes } from '../format.js';
import { BACKENDS, PRECISIONS } from '../labels.js';
import { lastPlan, type PlanState, type Send } from '../state.js';
import { Adapter } from './adapter.js';
import { Check, Field, Segments, Select } from './controls.js';
import { MoreOptions } from './more-options.js';

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
  const choose = (chosen: Partial<Choices>): void => send({ type: 'chose', choices: chosen });
  return (
    <form class="options" onSubmit={(event) => event.preventDefault()}>
      <Adapter state={state} choose={choose} />
      <Segments
        legend="Precision"
        name="dtype"
        options={PRECISIONS}
        value={choices.dtype}
        choose={(dtype) => choose({ dtype })}
      />
      <Segments
        legend="Format"
        name="format"
        options={FORMATS}
        value={choices.format}
        choose={(format) => choose({ format })}
      />
      {choices.output !== 'adapter' && <ShardSize state={state} send={send} />}
      <Check
        name="exclude-frozen"
        checked={choices.excludeFrozen}
        choose={(excludeFrozen) => choose({ excludeFrozen })}
      >
        Leave out frozen parameters
      </Check>
      <Check
        name="duplicate-tied"
        checked={choices.duplicateTied}
        choose={(duplicateTied) => choose({ duplicateTied })}
      >
        Write a copy for each tied name
      </Check>
      {canTrim(state) && (
        <Check name="trim-vocab" checked={choices.trimVocab} choose={(trimVocab) => choose({ trimVocab })}>
          Trim embeddings to the vocabulary of config.json
        </Check>
      )}
      <Field label="Values too large for the precision" id="overflow">
        <Select
          id="overflow"
          name="overflow"
          options={OVERFLOWS}
          value={choices.overflow}
          choose={(overflow) => choose({ overflow })}
        />
      </Field>
      <BackendField state={state} send={send} />
      <MoreOptions state={state} choose={choose} />
    </form>
  );
}

/** True where the plan tells of rows beyond the vocabulary, or did so until they were trimmed. */
function canTrim(state: PlanState): boolean {
  if (state.choices.output === 'adapter') return false;
  return state.choices.trimVocab || (lastPlan(state)?.warnings.some(({ code }) => code === 'vocab-size') ?? false);
}

function ShardSize({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element {
  const { choices } = state;
  return (
    <Field label="Largest file" id="max-shard-size">
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
          aria-invalid={parseSize(choices.customSize) === undefined}
          value={choices.customSize}
          onInput={({ currentTarget }) => send({ type: 'chose', choices: { customSize: currentTarget.value } })}
        />
      )}
    </Field>
  );
}

function BackendField({ state, send }: { readonly state: PlanState; readonly send: Send }): JSX.Element {
  const { choices, converters } = state;
  const hint = converterText(converters[choices.backend]);
  return (
    <Field label="Converter" id="backend" hint={hint}>
      <Select
        id="backend"
        name="backend"
        options={BACKEND_CHOICES.map((choice) => [choice, BACKENDS[choice]])}
        value={choices.backend}
        choose={(backend) => send({ type: 'chose', choices: { backend } })}
      />
    </Field>
  );
}

/** What a choice of backend comes to, and why; undefined is not known yet, null cannot be had. */
function converterText(converter: Converter | null | undefined): string {
  if (converter === undefined) return 'Looking for a GPU.';
  if (converter === null) return 'No GPU can be used in this browser.';
  return `${converter.name === 'gpu' ? 'GPU' : 'CPU'}: ${converter.description}. ${converter.choice.reason}`;
}

const BACKEND_CHOICES: readonly BackendChoice[] = ['auto', 'gpu', 'cpu'];
