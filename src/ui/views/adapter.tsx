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
      <NumberField
        id="lora-alpha"
        label="lora_alpha of the run"
        hint="adapter_config.json, which tells it, is not there."
        isBad={Number.isNaN(lora?.alpha)}
        value={choices.loraAlpha ?? ''}
        choose={(loraAlpha) => choose({ loraAlpha })}
      />
      <NumberField
        id="lora-r"
        label="Rank that every layer must have"
        placeholder="as its matrices show"
        isBad={Number.isNaN(lora?.r)}
        value={choices.loraR}
        choose={(loraR) => choose({ loraR })}
      />
      <Check name="lora-rslora" checked={choices.loraRslora} choose={(loraRslora) => choose({ loraRslora })}>
        use_rslora: divided by the root of the rank
      </Check>
    </>
  );
}

function NumberField(props: {
  readonly id: string;
  readonly label: string;
  readonly hint?: string;
  readonly placeholder?: string;
  /** What was typed is no such number. */
  readonly isBad: boolean;
  readonly value: string;
  readonly choose: (typed: string) => void;
}): JSX.Element {
  return (
    <Field label={props.label} id={props.id} hint={props.hint}>
      <input
        type="text"
        inputMode="decimal"
        id={props.id}
        name={props.id}
        autocomplete="off"
        placeholder={props.placeholder}
        aria-invalid={props.isBad}
        value={props.value}
        onInput={({ currentTarget }) => props.choose(currentTarget.value)}
      />
    </Field>
  );
}

/** True where the plan needs the scale of the adapter, or was given it. */
function asksScale({ choices, planning }: PlanState): boolean {
  if (choices.output !== 'merged') return false;
  const isRefused = planning.kind === 'refused' && planning.failure.code === 'adapter-config-missing';
  return choices.loraAlpha !== undefined || isRefused;
}
