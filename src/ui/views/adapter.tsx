import type { JSX } from 'preact';
import type { OutputKind } from '../../index.js';
import { type Choices, loraOf } from '../choices.js';
import type { PlanState } from '../state.js';
import { Check, Field, Segments, Select } from './controls.js';

const OUTPUTS: readonly (readonly [OutputKind, string])[] = [
  ['model', 'All tensors'],
  ['adapter', 'Adapter only'],
  ['merged', 'Merged'],
];

type Props = { readonly state: PlanState; readonly choose: (choices: Partial<Choices>) => void };

/** What to make of a LoRA run. */
export function Adapter(props: Props): JSX.Element | null {
  const { choices, checkpoint } = props.state;
  const { adapters } = checkpoint;
  if (adapters.length === 0) return null;
  return (
    <>
      <Segments
        legend="LoRA run"
        name="output"
        options={OUTPUTS}
        value={choices.output}
        choose={(output) => props.choose({ output })}
      />
      {adapters.length > 1 && choices.output !== 'model' && (
        <Field label="Adapter" id="adapter-name">
          <Select
            id="adapter-name"
            name="adapter-name"
            options={adapters.map((name) => [name, name])}
            value={choices.adapterName}
            choose={(adapterName) => props.choose({ adapterName })}
          />
        </Field>
      )}
      {asksScale(props.state) && <Scale {...props} />}
    </>
  );
}

/** What adapter_config.json would tell. */
function Scale({ state, choose }: Props): JSX.Element {
  const { choices } = state;
  const lora = loraOf(choices);
  return (
    <>
      <Field label="lora_alpha of the run" id="lora-alpha" hint="adapter_config.json, which tells it, is not there.">
        <input
          type="text"
          inputMode="decimal"
          id="lora-alpha"
          name="lora-alpha"
          autocomplete="off"
          aria-invalid={Number.isNaN(lora?.alpha)}
          value={choices.loraAlpha ?? ''}
          onInput={({ currentTarget }) => choose({ loraAlpha: currentTarget.value })}
        />
      </Field>
      <Field label="Rank that every layer must have" id="lora-r">
        <input
          type="text"
          inputMode="numeric"
          id="lora-r"
          name="lora-r"
          autocomplete="off"
          placeholder="as its matrices show"
          aria-invalid={Number.isNaN(lora?.r)}
          value={choices.loraR}
          onInput={({ currentTarget }) => choose({ loraR: currentTarget.value })}
        />
      </Field>
      <Check name="lora-rslora" checked={choices.loraRslora} choose={(loraRslora) => choose({ loraRslora })}>
        use_rslora: divided by the root of the rank
      </Check>
    </>
  );
}

/** True where the plan needs the scale of the adapter, or was given it. */
function asksScale({ choices, planning }: PlanState): boolean {
  if (choices.output !== 'merged') return false;
  const isRefused = planning.kind === 'refused' && planning.failure.code === 'adapter-config-missing';
  return choices.loraAlpha !== undefined || isRefused;
}
