import type { ComponentChildren, JSX } from 'preact';
import type { Stage } from '../state.js';

/** The steps that the user sees, with the stages that belong to each. */
const STEPS: readonly { readonly label: string; readonly stages: readonly Stage[] }[] = [
  { label: 'Checkpoint', stages: ['pick', 'inspecting'] },
  { label: 'Plan', stages: ['plan'] },
  { label: 'Convert', stages: ['running'] },
  { label: 'Report', stages: ['report'] },
];

/** What surrounds every stage: the name, the steps, the promise. */
export function Shell(props: {
  readonly stage: Stage;
  readonly dragging: boolean;
  readonly children: ComponentChildren;
}): JSX.Element {
  const current = STEPS.findIndex((step) => step.stages.includes(props.stage));
  return (
    <div class={props.dragging ? 'shell dragging' : 'shell'}>
      <header>
        <p class="brand">
          <img src="./icon.svg" alt="" width="28" height="28" />
          Unshard
        </p>
        <ol class="steps" aria-label="Steps">
          {STEPS.map(({ label }, i) => (
            <li key={label} class={i < current ? 'past' : ''} aria-current={i === current ? 'step' : undefined}>
              {label}
            </li>
          ))}
        </ol>
      </header>
      <main data-state={props.stage}>{props.children}</main>
      <footer>
        <p>Unshard runs in this page. Your files are read and written on this machine; nothing is uploaded.</p>
      </footer>
    </div>
  );
}
