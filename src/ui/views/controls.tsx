/**
 * Form controls of the plan stage.
 *
 * @module
 */

import type { ComponentChildren, JSX } from 'preact';

/** A labelled control, with a hint below it where there is one. */
export function Field(props: {
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

/** A box to tick. */
export function Check(props: {
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
export function Segments<T extends string>(props: {
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

/** A list to choose one of. */
export function Select<T extends string>(props: {
  readonly name: string;
  readonly id?: string;
  readonly label?: string;
  readonly options: readonly (readonly [T, string])[];
  readonly value: T;
  readonly choose: (value: T) => void;
}): JSX.Element {
  return (
    <select
      id={props.id}
      name={props.name}
      aria-label={props.label}
      value={props.value}
      onChange={({ currentTarget }) => {
        const chosen = props.options.find(([value]) => value === currentTarget.value)?.[0];
        if (chosen !== undefined) props.choose(chosen);
      }}
    >
      {props.options.map(([value, label]) => (
        <option key={value} value={value}>
          {label}
        </option>
      ))}
    </select>
  );
}
